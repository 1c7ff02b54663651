//! `weir bench flowstat`: how fast two captures are matched, in how much memory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use weir_bench::{Better, Figure, Form, Plot, Point, Record};
use weir_capture::Merged;
use weir_flowstat::models::{self, Sources};
use weir_flowstat::synthetic::{Pair, write_pair};
use weir_flowstat::{Clock, Fields, Options, Order, analyse};

use super::begin;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub(crate) struct FlowstatOptions {
    /// Packets in the captures, in turn.
    pub(crate) packets: Vec<u64>,
    /// Fields that make a stream, in turn; none for a single stream.
    pub(crate) by: Vec<String>,
    /// How often each is measured.
    pub(crate) runs: u32,
    /// Memory that packets may take, bytes.
    pub(crate) memory: u64,
    /// The folder of the captures and of temporary files.
    pub(crate) folder: PathBuf,
    /// Whether the captures stay.
    pub(crate) keep: bool,
}

/// A folder that is gone in the end, unless it is to stay.
struct Folder(PathBuf, bool);

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.1 {
            // There is nobody to tell, and the captures are no secret.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Writes captures and measures how they are matched. `progress` is told what is being done.
pub(crate) fn flowstat(options: &FlowstatOptions, progress: &mut dyn FnMut(&str)) -> Result<Record, String> {
    let (mut record, clock) = begin("How fast two captures are matched");
    record.parameters = vec!["packets".to_owned(), "streams by".to_owned()];
    record.settings.insert("model".to_owned(), models::OF_SYNTHETIC.into());
    record.settings.insert("runs".to_owned(), f64::from(options.runs).into());
    record.settings.insert("memory for packets, MiB".to_owned(), ((options.memory >> 20) as f64).into());
    let folder = Folder(options.folder.join(format!("weir-bench-flowstat-{}", std::process::id())), options.keep);
    weir_host::files::folder(&folder.0, 0o755)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.0.display()))?;
    for &packets in &options.packets {
        progress(&format!("writing two captures of {packets} packets"));
        let pair = write_pair(&folder.0, packets)?;
        for by in &options.by {
            let name = if by.is_empty() { "none" } else { by };
            progress(&format!("{packets} packets, streams by {name}"));
            let mut point = Point::default();
            point.parameters.insert("packets".to_owned(), (packets as f64).into());
            point.parameters.insert("streams by".to_owned(), name.into());
            for _ in 0..options.runs.max(1) {
                measure(options, by, &pair, &folder.0)?.into_iter().for_each(|figure| point.add(figure));
            }
            record.points.push(point);
        }
    }
    let plot = |title: &str, y: &str| Plot {
        title: title.to_owned(),
        form: Form::Lines,
        x: "packets".to_owned(),
        y: y.to_owned(),
        by: Some("streams by".to_owned()),
    };
    record.plots = vec![plot("Time for both captures", "time"), plot("Memory", "peak memory")];
    record.remarks = vec![
        "The captures hold frames of 64 bytes (60 in the file) at 10 Gbit/s, as a router's two sides show them; they were written just \
         before, so that they are read from memory as far as it reaches. One thread reads, matches and reports. What was lost is \
         compared with what is known to be lost. Peak memory is that of the process's resident pages (VmHWM)."
            .to_owned(),
    ];
    Ok(clock.end(record))
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn measure(options: &FlowstatOptions, by: &str, pair: &Pair, folder: &Path) -> Result<Vec<Figure>, String> {
    let wanted = Options {
        model: models::make(models::OF_SYNTHETIC, &Sources::default()).map_err(|wrong| wrong.join("; "))?,
        by: Fields::parse(by).map_err(|wrong| wrong.join("; "))?,
        filter_sent: None,
        filter_received: None,
        window: 1_000_000_000,
        clock: Clock::Same,
        trim: false,
        profile: None,
        order: Order::Loss,
        memory: options.memory,
        temp: folder.to_owned(),
    };
    forget_peak();
    let began = Instant::now();
    let open = |path: &PathBuf| {
        Merged::open(&[path]).map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let (mut sent, mut received) = (open(&pair.sent)?, open(&pair.received)?);
    let report = analyse(&wanted, &mut sent, &mut received, &mut |_, _, _| {})?;
    let seconds = began.elapsed().as_secs_f64();
    let total = &report.total;
    if (total.sent, total.lost, total.ambiguous) != (pair.packets, pair.lost, 0) {
        return Err(format!(
            "of {} packets, {} are known to be lost; found were {} and {}, and {} ambiguous: this is a bug",
            pair.packets, pair.lost, total.sent, total.lost, total.ambiguous
        ));
    }
    let both = (report.sent.packets + report.received.packets) as f64;
    let one = |name: &str, unit: &str, better, value| Figure::new(name, unit, better, vec![value]);
    Ok(vec![
        one("time", "s", Better::Less, seconds),
        one("rate", "million packets/s", Better::More, both / seconds / 1e6),
        one("peak memory", "MiB", Better::Less, peak() as f64 / 1024.0),
        one("streams", "streams", Better::Neither, report.stream_count as f64),
    ])
}

/// Lets the peak of resident memory begin anew, where the kernel knows how.
fn forget_peak() {
    // Else the peak is that of the whole process, which is no less.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of resident memory, KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
