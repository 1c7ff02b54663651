//! Two programs that do the same work in turns.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_bench::peers::Measured;
use weir_bench::search::Stop;

use super::lab::{Lab, TICK};
use super::program::Program;

/// How long a program goes on before it is measured.
pub(super) const WARM_UP: Duration = Duration::from_millis(200);

/// A program to be measured beside Weir. To add one: a file with this trait, and a line in `PEERS`.
pub(super) trait Peer: Sync {
    /// Its name, as `--peer` takes it.
    fn name(&self) -> &'static str;

    /// Why it cannot be measured here: a sentence that says what to install or to change.
    fn absent(&self, lab: &Lab) -> Option<String>;

    /// What it is measured at.
    fn works(&self) -> &'static [Work];

    /// Its version, where Weir's own do not tell.
    fn version(&self, _lab: &Lab) -> Option<String> {
        None
    }

    /// Where it stands beside the cases of a function of Weir's.
    fn beside(&self) -> Option<Beside> {
        None
    }

    /// Starts it and Weir at a work. Both rest until they are measured.
    fn start(&self, work: &Work, lab: &Lab) -> Result<Contest, Stop>;
}

/// Work that Weir and a peer can both do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Its name, different from those of all other peers' works.
    pub(super) name: &'static str,
    /// What both do, and where they differ.
    pub(super) help: &'static str,
}

/// A peer at a work, as one more case of a function in `weir bench cpp`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// The function.
    pub(super) function: &'static str,
    /// The name of the case, different from those of the function's own.
    pub(super) case: &'static str,
    /// The work.
    pub(super) work: &'static Work,
}

/// Weir and a peer, ready to work.
pub(super) struct Contest {
    /// Weir.
    pub(super) ours: Box<dyn Side>,
    /// The peer.
    pub(super) theirs: Box<dyn Side>,
    /// Texts of configurations and command lines, by name.
    pub(super) configurations: Vec<(&'static str, String)>,
}

/// One of the two.
pub(super) trait Side {
    /// Lets it work for `window` and a little more, and answers what it did.
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop>;

    /// What has to be true of it when all was measured.
    fn verdict(&mut self, _lab: &Lab) -> Result<(), Stop> {
        Ok(())
    }
}

/// What a program has done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// Packets that it sent on.
    pub(super) packets: u64,
    /// TSC cycles at that moment, from any beginning, modulo 2^64.
    pub(super) cycles: u64,
}

/// What a program has done so far, and what it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// What it has done.
    pub(super) count: Count,
    /// TSC cycles in which it had something to do.
    pub(super) busy: u64,
}

impl Tally {
    /// What was done since. What seems to have gone back has not been in step yet, and is nothing.
    pub(super) fn since(&self, before: &Tally) -> Tally {
        let cycles = u64::try_from(self.count.cycles.wrapping_sub(before.count.cycles) as i64).unwrap_or(0);
        let packets = self.count.packets.saturating_sub(before.count.packets);
        Tally { count: Count { packets, cycles }, busy: self.busy.saturating_sub(before.busy) }
    }
}

/// A program that always works unless it is stopped: a [`Side`].
pub(super) trait Restless {
    /// The program.
    fn program(&mut self) -> &mut Program;

    /// What it has done so far.
    fn count(&mut self, lab: &Lab) -> Result<Count, Stop>;

    /// What has to be true of it when all was measured. It works meanwhile.
    fn verdict(&mut self, _lab: &Lab) -> Result<(), Stop> {
        Ok(())
    }
}

impl<R: Restless> Side for R {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        self.program().go_on()?;
        lab.wait(WARM_UP)?;
        let id = self.program().id();
        let (threads, before) = (threads(id), self.count(lab)?);
        lab.wait(window)?;
        // On a busy machine it may not have had its turn yet.
        let patience = lab.patience();
        let (packets, elapsed) = loop {
            let after = self.count(lab)?;
            let packets = after.packets.saturating_sub(before.packets);
            // What seems to have gone back has not been in step yet.
            let elapsed = u64::try_from(after.cycles.wrapping_sub(before.cycles) as i64).unwrap_or(0);
            if packets > 0 && elapsed > 0 {
                break (packets, elapsed);
            }
            if patience.is_over() {
                return Err(self.program().failed(&format!("let no packet through within {}", patience.text())));
            }
            lab.wait(TICK)?;
        };
        let waited = waited(&threads, id);
        self.program().rest()?;
        let worked = elapsed.saturating_sub(lab.clock.cycles(waited)).max(1) as f64;
        let cycles = worked / packets as f64;
        Ok(Measured {
            cycles,
            rate: lab.clock.hz() as f64 / cycles / 1e6,
            busy: None,
            waited: Some(100.0 - worked / elapsed as f64 * 100.0),
            held: None,
        })
    }

    fn verdict(&mut self, lab: &Lab) -> Result<(), Stop> {
        self.program().go_on()?;
        let verdict = Restless::verdict(self, lab);
        self.program().rest()?;
        verdict
    }
}

/// Of each thread of a process, how long it has run and how long it had to wait for its core, nanoseconds.
pub(super) fn threads(process: u32) -> BTreeMap<String, (u64, u64)> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let thread = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        Some((entry.file_name().into_string().ok()?, (numbers.next()?, numbers.next()?)))
    };
    entries.filter_map(thread).collect()
}

/// How long the thread that ran most since `before` has waited since then, nanoseconds: the one that packets go through.
pub(super) fn waited(before: &BTreeMap<String, (u64, u64)>, process: u32) -> u64 {
    let since = |(thread, now): (String, (u64, u64))| {
        let then = before.get(&thread).copied().unwrap_or(now);
        (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))
    };
    threads(process).into_iter().map(since).max().map_or(0, |(_, waited)| waited)
}
