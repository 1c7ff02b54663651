//! Ports in memory as a configuration names them.

use std::path::Path;

use weir_config::{Nanos, PacketRate, Quantity};
use weir_stage::{DeviceText, PortError};

use crate::fault::Faults;
use crate::port::{Load, MemPort, Replayed};

/// The options that a device text may have.
const OPTIONS: &[&str] = &[
    "rate",
    "count",
    "times",
    "seed",
    "drop",
    "duplicate",
    "truncate",
    "corrupt",
    "reorder",
    "delay",
    "delay_time",
    "side",
    "mac",
];

/// Those that only a replay has.
const OF_REPLAY: &[&str] = &["rate", "count", "times"];

impl MemPort {
    /// The port called `name` with one of these devices:
    ///
    /// - `mem:null` receives nothing and forgets what it transmits;
    /// - `mem:loop` receives what it transmits;
    /// - `mem:cable=NAME` receives what another port with the same text transmits, and the other way round;
    /// - `mem:replay=FILE` receives the frames of a capture file over and over and forgets what it transmits; relative paths are
    ///   below `base_dir`, and `load` reads the file when the port is opened.
    ///
    /// Options follow after commas. Of a replay: `rate=1 Mpps` (as fast as possible otherwise), `count=1000` packets or
    /// `times=3` rounds (for ever otherwise). Of all: `drop=0.01`, `duplicate`, `truncate`, `corrupt`, `reorder` and `delay` are
    /// the odds of faults, from 0 to 1, in both directions or, with `side=receive`, of what is received only; `delay_time=1 ms`
    /// says how late delayed packets are, `seed=7` which packets are struck; `mac=02:00:00:00:00:01`.
    ///
    /// # Errors
    ///
    /// The text is wrong. No file is touched.
    pub fn new(name: &str, device: &str, base_dir: &Path, load: Load) -> Result<MemPort, PortError> {
        let text = DeviceText::parse(device, 1, OPTIONS)?;
        if text.kind != "mem" {
            return Err(text.wrong(text.kind, "is not mem", "write it as in mem:loop"));
        }
        let port = match text.argument(0) {
            Some("null") => MemPort::null(name),
            Some("loop") => MemPort::mirror(name),
            Some(other) => match other.split_once('=') {
                Some(("cable", cable)) if !cable.is_empty() => MemPort::cable(name, cable),
                Some(("replay", path)) if !path.is_empty() => {
                    MemPort::file(name, replayed(&text, base_dir.join(path), load)?)
                }
                _ => return Err(no_such(&text, other)),
            },
            None => return Err(no_such(&text, "")),
        };
        let replays = text.argument(0).is_some_and(|argument| argument.starts_with("replay="));
        if let Some(key) = OF_REPLAY.iter().find(|key| !replays && text.option(key).is_some()) {
            return Err(text.wrong(key, "is an option of mem:replay=FILE only", "leave it out"));
        }
        let port = port.with_device(device).with_faults(faults(&text)?);
        Ok(match text.mac()? {
            Some(mac) => port.with_mac(mac),
            None => port,
        })
    }
}

fn no_such(text: &DeviceText<'_>, kind: &str) -> PortError {
    text.wrong(kind, "is no port in memory", "write mem:null, mem:loop, mem:cable=NAME or mem:replay=FILE")
}

fn replayed(text: &DeviceText<'_>, path: std::path::PathBuf, load: Load) -> Result<Replayed, PortError> {
    let rate = text.option_as("rate", |value| match PacketRate::UNITS.parse(value) {
        Ok(0) => Err(("is no rate at which anything would come".to_owned(), "write it as in rate=1 Mpps".to_owned())),
        Ok(rate) => Ok(rate),
        Err(malformed) => Err((malformed.problem, or(malformed.remedy, "write it as in rate=1 Mpps"))),
    })?;
    let count = text.number("count", 1, u64::MAX)?;
    let times = text.number("times", 1, u64::MAX)?;
    if count.is_some() && times.is_some() {
        return Err(text.wrong("times", "and count both say when to stop", "leave one out"));
    }
    Ok(Replayed { path, load, rate, count, times })
}

fn faults(text: &DeviceText<'_>) -> Result<Faults, PortError> {
    let odds = |key| {
        text.option_as(key, |value| {
            let odds = value.parse().ok().filter(|odds| (0.0..=1.0).contains(odds));
            odds.ok_or_else(|| {
                ("is not a probability".to_owned(), format!("write a number from 0 to 1, as in {key}=0.01"))
            })
        })
        .map(|odds| odds.unwrap_or(0.0))
    };
    let usual = Faults::default();
    let delay_time = text.option_as("delay_time", |value| {
        let wrong = |remedy: String| or(remedy, "write it as in delay_time=1 ms");
        Nanos::UNITS.parse(value).map_err(|malformed| (malformed.problem, wrong(malformed.remedy)))
    })?;
    let receive_only = text.option_as("side", |value| match value {
        "both" => Ok(false),
        "receive" => Ok(true),
        _ => Err(("is not known".to_owned(), "write side=receive or side=both".to_owned())),
    })?;
    Ok(Faults {
        receive_only: receive_only.unwrap_or(false),
        seed: text.number("seed", 0, u64::MAX)?.unwrap_or(usual.seed),
        drop: odds("drop")?,
        duplicate: odds("duplicate")?,
        truncate: odds("truncate")?,
        corrupt: odds("corrupt")?,
        reorder: odds("reorder")?,
        delay: odds("delay")?,
        delay_time: delay_time.unwrap_or(usual.delay_time),
    })
}

fn or(remedy: String, usual: &str) -> String {
    if remedy.is_empty() { usual.to_owned() } else { remedy }
}
