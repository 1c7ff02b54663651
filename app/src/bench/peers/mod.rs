//! `weir bench peers`: other programs at the same work as Weir, on the same core, in turns, in the same run.
//!
//! Each runs as a program of its own, Weir too; who is not measured is stopped by a signal. So both find the machine as it is
//! within the same second or two, and neither knows of the other.

pub(super) mod beside;
mod contest;
mod lab;
mod links;
mod linux;
mod ours;
mod ovs;
mod program;
mod rte_fib;
mod rte_sched;
mod testpmd;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_bench::peers::{limit, pair};
use weir_bench::search::Stop;
use weir_bench::{Form, Plot, Point, Record};

use contest::{Peer, Work};
use lab::Lab;

/// All peers.
static PEERS: &[&dyn Peer] =
    &[&testpmd::TestPmd, &ovs::OpenVSwitch, &linux::Linux, &rte_fib::RteFib, &rte_sched::RteSched];

/// What to measure, and how.
#[derive(Clone, Debug)]
pub(crate) struct PeersOptions {
    /// Names of peers; all when empty.
    pub(crate) peers: Vec<String>,
    /// Names of works; all when empty.
    pub(crate) works: Vec<String>,
    /// Samples of each, in turns.
    pub(crate) runs: u32,
    /// How long a sample is.
    pub(crate) window: Duration,
    /// The core; the last one when absent.
    pub(crate) core: Option<usize>,
    /// The folder of the real table.
    pub(crate) data: Option<PathBuf>,
    /// How long a program may take to start, and to answer.
    pub(crate) patience: Duration,
}

/// The names of all peers.
pub(crate) fn names() -> Vec<&'static str> {
    PEERS.iter().map(|peer| peer.name()).collect()
}

/// The names of all works.
pub(crate) fn works() -> Vec<&'static str> {
    PEERS.iter().flat_map(|peer| peer.works()).map(|work| work.name).collect()
}

/// Measures Weir and its peers. `progress` is told what is being done.
pub(crate) fn peers(
    options: &PeersOptions,
    stop: Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str),
) -> Result<Record, String> {
    let lab = Lab::new(options.core, options.data.clone(), options.patience, stop)?;
    let (mut record, took) = super::begin("Weir beside other programs");
    describe(&mut record, options, &lab);
    let chosen = |chosen: &[String], name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);
    let mut unfinished = 0;
    for peer in PEERS.iter().filter(|peer| chosen(&options.peers, peer.name())) {
        let works: Vec<&Work> = peer.works().iter().filter(|work| chosen(&options.works, work.name)).collect();
        if works.is_empty() {
            continue;
        }
        if let Some(why) = peer.absent(&lab) {
            let sentence = format!("{} was skipped: {why}.", peer.name());
            progress(&sentence);
            record.remarks.push(sentence);
            continue;
        }
        if let Some(version) = peer.version(&lab) {
            record.versions.insert(peer.name().to_owned(), version);
        }
        for work in works {
            let mut point = Point { help: work.help.to_owned(), ..Point::default() };
            point.parameters.insert("peer".to_owned(), peer.name().into());
            point.parameters.insert("work".to_owned(), work.name.into());
            let ended = compare(*peer, work, &lab, options, &mut point, &mut record, progress);
            if let Err(stop) = &ended {
                unfinished += 1;
                progress(&format!("{}, {}: {stop}", peer.name(), work.name));
                point.trouble = Some(stop.to_string());
            }
            let limit = limit(&point).map(|sentence| format!("{}, {}: {sentence}", peer.name(), work.name));
            record.remarks.extend(limit);
            record.points.push(point);
            if ended == Err(Stop::Interrupted) {
                record.partial = Some("it was interrupted".to_owned());
                return Ok(took.end(record));
            }
        }
    }
    record.partial = match (unfinished, record.points.len()) {
        (_, 0) => Some("no peer could be measured".to_owned()),
        (0, _) => None,
        (_, all) => Some(format!("{unfinished} of {all} comparisons did not come to their end")),
    };
    Ok(took.end(record))
}

/// Takes all samples of one comparison.
fn compare(
    peer: &dyn Peer,
    work: &Work,
    lab: &Lab,
    options: &PeersOptions,
    point: &mut Point,
    record: &mut Record,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    progress(&format!("{}, {}: starting", peer.name(), work.name));
    let mut contest = peer.start(work, lab)?;
    for (name, text) in &contest.configurations {
        record.configurations.insert(format!("{} {}: {name}", peer.name(), work.name), text.clone());
    }
    for run in 1..=options.runs {
        progress(&format!("{}, {}: run {run} of {}", peer.name(), work.name, options.runs));
        let ours = contest.ours.measure(lab, options.window)?;
        let theirs = contest.theirs.measure(lab, options.window)?;
        pair(point, &ours, &theirs);
    }
    contest.theirs.verdict(lab)?;
    contest.ours.verdict(lab)
}

fn describe(record: &mut Record, options: &PeersOptions, lab: &Lab) {
    record.parameters = vec!["peer".to_owned(), "work".to_owned()];
    let settings =
        [("runs", f64::from(options.runs)), ("window, s", options.window.as_secs_f64()), ("core", lab.core as f64)];
    record.settings.extend(settings.map(|(name, value)| (name.to_owned(), value.into())));
    record.settings.insert("huge pages for peers".to_owned(), weir_bench::Value::Flag(Lab::has_huge_pages()));
    record.plots.push(Plot {
        title: "Weir's cost over the peer's: below 1, Weir is cheaper".to_owned(),
        form: Form::Bars,
        x: "work".to_owned(),
        y: "ratio".to_owned(),
        by: None,
    });
    record.remarks = REMARKS.iter().map(|remark| (*remark).to_owned()).collect();
    if !Lab::has_huge_pages() {
        record.remarks.push(PAGES.to_owned());
    }
}

/// What is not alike where nobody reserved huge pages.
const PAGES: &str = "No huge pages are reserved (1 GiB): DPDK's programs have theirs of 4 KiB, Weir those that the kernel makes when it is \
                     asked. Reserve some to compare like with like: echo 1024 > /proc/sys/vm/nr_hugepages";

const REMARKS: &[&str] = &[
    "ratio = ours / theirs of each pair of samples, taken one after the other on the same core; who is not measured is stopped. \
     Below 1, Weir is cheaper. ours and theirs are TSC cycles of that core for each packet that left (or look-up), source and sink \
     included, but of rte-fib and rte-sched, where there are none.",
    "we waited, they waited: the share of the time that the program had to wait for its core, because others ran there. It is left \
     out of cycles and rates; runs with more than a few per cent are disturbed all the same.",
];
