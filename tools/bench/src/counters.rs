//! What the processor counts by itself, through Linux's `perf_event_open`: instructions, misses, the top-down breakdown, memory
//! bandwidth.

use std::io;
use std::time::{Duration, Instant};

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Hardware};
use perf_event::{Builder, Counter, Group, ReadFormat};

use crate::record::{Better, Figure};

/// Counters of one thread, and of the memory of the whole machine where the processor has such.
pub struct Counters {
    simple: Vec<(&'static str, Counter)>,
    topdown: Option<TopDown>,
    memory: Vec<(Counter, f64)>,
    began: Instant,
}

/// The slots of the top-down analysis (A. Yasin, "A top-down method for performance analysis and counters architecture", ISPASS
/// 2014), as the kernel names them: those of the first level, which every processor with a `slots` event has, then those of the
/// second.
const TOP_DOWN: [(&str, &str); 8] = [
    ("topdown-retiring", "retiring"),
    ("topdown-bad-spec", "bad speculation"),
    ("topdown-fe-bound", "front-end bound"),
    ("topdown-be-bound", "back-end bound"),
    ("topdown-heavy-ops", "retiring, heavy operations"),
    ("topdown-br-mispredict", "bad speculation, mispredicted branches"),
    ("topdown-fetch-lat", "front-end bound, fetch latency"),
    ("topdown-mem-bound", "back-end bound, memory"),
];

/// How many of [`TOP_DOWN`] are of the first level, and add up to the whole.
const FIRST_LEVEL: usize = 4;

struct TopDown {
    group: Group,
    parts: Vec<(&'static str, Counter)>,
}

impl Counters {
    /// Begins to count what the thread of this number does.
    ///
    /// # Errors
    ///
    /// A sentence that says why nothing can be counted.
    pub fn of_thread(thread: u32) -> Result<Counters, String> {
        let pid = i32::try_from(thread).map_err(|_| format!("{thread} is no number of a thread"))?;
        let simple = open_simple(pid).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "the kernel does not let this user count (kernel.perf_event_paranoid); run as root".to_owned()
            }
            _ => format!("this machine gives no hardware counters ({error}), as is usual in a virtual machine"),
        })?;
        Ok(Counters { simple, topdown: open_top_down(pid).ok(), memory: open_memory(), began: now() })
    }

    /// Begins anew.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn restart(&mut self) -> io::Result<()> {
        self.simple.iter_mut().try_for_each(|(_, counter)| counter.reset().and_then(|()| counter.enable()))?;
        self.memory.iter_mut().try_for_each(|(counter, _)| counter.reset().and_then(|()| counter.enable()))?;
        if let Some(topdown) = &mut self.topdown {
            topdown.group.reset().and_then(|()| topdown.group.enable())?;
        }
        self.began = now();
        Ok(())
    }

    /// What was counted since [`Self::restart`], in which so many packets went through.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn figures(&mut self, packets: u64) -> io::Result<Vec<Figure>> {
        let elapsed = self.began.elapsed();
        let mut figures = Vec::new();
        let mut counts = Vec::new();
        for (name, counter) in &mut self.simple {
            let data = counter.read_full()?;
            let Some(count) = scaled(data.count(), data.time_enabled(), data.time_running()) else { continue };
            counts.push((*name, count));
            let unit = "/packet";
            figures.push(Figure::new(name, unit, Better::Less, vec![count / packets.max(1) as f64]).as_detail());
        }
        let count = |wanted: &str| counts.iter().find(|(name, _)| *name == wanted).map(|(_, count)| *count);
        if let Some((instructions, cycles)) = count(INSTRUCTIONS).zip(count(CORE_CYCLES)) {
            let rate = vec![instructions / cycles.max(1.0)];
            figures.push(Figure::new("instructions per core cycle", "", Better::More, rate).as_detail());
        }
        if let Some(topdown) = &mut self.topdown {
            figures.extend(topdown.figures()?);
        }
        figures.extend(bandwidth(&mut self.memory, elapsed)?);
        Ok(figures)
    }
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

const INSTRUCTIONS: &str = "instructions";
const CORE_CYCLES: &str = "core cycles";

/// Counters take turns when the processor has too few: what it would have been had it counted all the time. `None` if it did
/// not count at all.
fn scaled(count: u64, enabled: Option<Duration>, running: Option<Duration>) -> Option<f64> {
    match (enabled, running) {
        (Some(_), Some(Duration::ZERO)) => None,
        (Some(enabled), Some(running)) => Some(count as f64 * enabled.as_secs_f64() / running.as_secs_f64()),
        _ => Some(count as f64),
    }
}

fn open_simple(pid: i32) -> io::Result<Vec<(&'static str, Counter)>> {
    let misses = |which| Cache { which, operation: CacheOp::READ, result: CacheResult::MISS };
    let mut counters = vec![(INSTRUCTIONS, open(&mut Builder::new(Hardware::INSTRUCTIONS), pid)?)];
    let others = [
        (CORE_CYCLES, Builder::new(Hardware::CPU_CYCLES)),
        ("branch misses", Builder::new(Hardware::BRANCH_MISSES)),
        ("L1d misses", Builder::new(misses(CacheId::L1D))),
        ("last-level misses", Builder::new(misses(CacheId::LL))),
        ("data TLB misses", Builder::new(misses(CacheId::DTLB))),
    ];
    // Which of these there are depends on the processor.
    let others = others.into_iter().filter_map(|(name, mut builder)| Some((name, open(&mut builder, pid).ok()?)));
    counters.extend(others);
    Ok(counters)
}

fn open(builder: &mut Builder<'_>, pid: i32) -> io::Result<Counter> {
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    builder.observe_pid(pid).any_cpu().read_format(times).build()
}

fn open_top_down(pid: i32) -> io::Result<TopDown> {
    let event = |name: &str| -> io::Result<Dynamic> {
        let mut builder = Dynamic::builder("cpu")?;
        builder.event(name)?.build().map_err(io::Error::other)
    };
    // The kernel wants the slots to lead the group.
    let format = ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::ID;
    let mut leader = Builder::new(event("slots")?);
    let mut group = leader.observe_pid(pid).any_cpu().read_format(format).build_group()?;
    let mut parts = Vec::new();
    for (n, (name, what)) in TOP_DOWN.into_iter().enumerate() {
        let added = event(name).and_then(|event| group.add(Builder::new(event).observe_pid(pid).any_cpu()));
        match added {
            Ok(counter) => parts.push((what, counter)),
            Err(error) if n < FIRST_LEVEL => return Err(error),
            Err(_) => {}
        }
    }
    Ok(TopDown { group, parts })
}

impl TopDown {
    fn figures(&mut self) -> io::Result<Vec<Figure>> {
        let data = self.group.read()?;
        let counts =
            self.parts.iter().map(|(what, counter)| (*what, data.get(counter).map_or(0, |entry| entry.value())));
        Ok(shares(&counts.collect::<Vec<_>>()))
    }
}

/// The slots of each kind as a share of all, in per cent.
fn shares(counts: &[(&'static str, u64)]) -> Vec<Figure> {
    let all: u64 = counts.iter().take(FIRST_LEVEL).map(|(_, count)| *count).sum();
    let share = |(what, count): &(&str, u64)| {
        Figure::new(what, "% of slots", Better::Neither, vec![*count as f64 * 100.0 / all.max(1) as f64]).as_detail()
    };
    counts.iter().map(share).collect()
}

/// The counters of the memory controllers, each with the bytes of a count. They are the machine's, not a thread's.
fn open_memory() -> Vec<(Counter, f64)> {
    const DEVICES: &str = "/sys/bus/event_source/devices";
    let devices = std::fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let names = devices.filter_map(|entry| entry.file_name().into_string().ok());
    let mut counters = Vec::new();
    for name in names.filter(|name| name.starts_with("uncore_imc")) {
        let mask = std::fs::read_to_string(format!("{DEVICES}/{name}/cpumask")).unwrap_or_default();
        let cpu = mask.trim().split([',', '-']).next().and_then(|cpu| cpu.parse().ok()).unwrap_or(0);
        counters.extend(["cas_count_read", "cas_count_write"].into_iter().filter_map(|event| {
            let mut builder = Dynamic::builder(&name).ok()?;
            let builder = builder.event(event).ok()?;
            let mebibytes = builder.scale().ok()??;
            let counter = Builder::new(builder.build().ok()?).any_pid().one_cpu(cpu).include_kernel().build().ok()?;
            Some((counter, mebibytes * f64::from(1 << 20)))
        }));
    }
    counters
}

fn bandwidth(counters: &mut [(Counter, f64)], elapsed: Duration) -> io::Result<Option<Figure>> {
    if counters.is_empty() {
        return Ok(None);
    }
    let mut bytes = 0.0;
    for (counter, each) in counters {
        bytes += counter.read()? as f64 * *each;
    }
    let rate = vec![bytes / elapsed.as_secs_f64() / 1e9];
    Ok(Some(Figure::new("memory bandwidth of the machine", "GB/s", Better::Neither, rate).as_detail()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_took_turns_are_scaled() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(scaled(10, second, second), Some(10.0));
        assert_eq!(scaled(10, Some(Duration::from_secs(4)), second), Some(40.0));
        assert_eq!(scaled(0, second, Some(Duration::ZERO)), None);
    }

    #[test]
    fn the_first_level_adds_up_to_all_slots() {
        let counts: Vec<_> = TOP_DOWN.iter().map(|(_, what)| *what).zip([40, 10, 20, 30, 5, 9, 15, 25]).collect();
        let found: Vec<f64> = shares(&counts).iter().map(|figure| figure.summary.median).collect();
        assert_eq!(found, [40.0, 10.0, 20.0, 30.0, 5.0, 9.0, 15.0, 25.0]);
    }

    #[test]
    fn counters_count_or_a_sentence_says_why_not() {
        match Counters::of_thread(std::process::id()) {
            Ok(mut counters) => {
                counters.restart().unwrap();
                assert!(counters.figures(1).unwrap().iter().any(|figure| figure.name == INSTRUCTIONS));
            }
            Err(sentence) => {
                assert!(sentence.contains("counters") || sentence.contains("does not let"), "{sentence}");
                eprintln!("skipped: {sentence}");
            }
        }
    }
}
