//! `weir bench`: what functions cost, and how that depends on what.

mod bare;
mod callgrind;
mod children;
mod chunks;
mod cpp;
mod dut;
mod echo;
mod experiment;
mod flowstat;
mod instructions;
mod pattern;
mod peers;
mod rfc2544;
mod rig;
mod sample;
mod shaping;
mod trials;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_bench::{FORM, Machine, Record};

use crate::{catalogue, log, version};

pub(crate) use cpp::CppOptions;
pub(crate) use experiment::{RunOptions, check_only, run};
pub(crate) use flowstat::{FlowstatOptions, flowstat};
pub(crate) use instructions::job as count_job;
pub(crate) use peers::{PeersOptions, names as peer_names, peers, works as peer_works};
pub(crate) use rfc2544::rfc2544;
pub(crate) use sample::job as sample_job;
pub(crate) use shaping::{CHECKS as SHAPING_CHECKS, ShapingOptions, shaping};

/// Measures the cases of a function, and the peers beside them. `progress` is told what is being done; `stop` is asked for before
/// a peer is started: from then on there is something to put in order at the end.
pub(crate) fn cpp(
    options: &CppOptions,
    stop: &mut dyn FnMut() -> Result<Arc<AtomicBool>, String>,
    progress: &mut dyn FnMut(&str),
) -> Result<Record, String> {
    let (mut record, took) = begin(&format!("Cycles per packet of {}", options.function));
    cpp::cases(options, &peers::beside::names(&options.function), &mut record, progress)?;
    peers::beside::measure(options, stop, &mut record, progress)?;
    Ok(took.end(record))
}

/// A record of this run with nothing in it yet, and the clock that says how long it took.
#[allow(clippy::disallowed_methods, reason = "when a measurement was made is part of it")]
fn begin(title: &str) -> (Record, Took) {
    let here = version::here(catalogue::FUNCTIONS.iter().map(|function| function.kind()));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        version: FORM,
        title: title.to_owned(),
        command: std::env::args().collect(),
        started: log::timestamp(since_1970),
        seconds: 0.0,
        partial: None,
        verdict: Vec::new(),
        machine: Machine::here(weir_mem::Clock::calibrate().hz()),
        versions: BTreeMap::from([("weir".to_owned(), here.weir), ("DPDK".to_owned(), here.dpdk)]),
        settings: BTreeMap::new(),
        configurations: BTreeMap::new(),
        parameters: Vec::new(),
        points: Vec::new(),
        plots: Vec::new(),
        remarks: Vec::new(),
    };
    (record, Took(Instant::now()))
}

/// When a run began.
struct Took(Instant);

impl Took {
    /// The record with the time that it took.
    fn end(&self, record: Record) -> Record {
        Record { seconds: self.0.elapsed().as_secs_f64(), ..record }
    }
}
