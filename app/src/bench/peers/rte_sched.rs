//! DPDK's `rte_sched`: its hierarchical scheduler alone, in a program that is compiled where it is measured.

use std::ffi::OsString;
use std::time::Duration;

use weir_bench::peers::{Measured, sched};
use weir_bench::search::Stop;
use weir_stage::Case;

use super::super::cpp;
use super::super::rig::Setup;
use super::super::waiting::Waiting;
use super::contest::{Beside, Contest, Peer, Side, Work};
use super::lab::Lab;
use super::program::Program;
use super::rte_fib;

const NAME: &str = "rte-sched";

/// Memory without huge pages, MiB: queues and buffers.
const MEMORY: u32 = 2048;

macro_rules! help {
    ($users:literal) => {
        concat!(
            "64-byte packets of ",
            $users,
            " users at random, in and out: one port, one subport, four traffic classes of which the lowest is used, queues of 64 packets, \
             overhead 24, users share 82 % of 40 Gbit/s. Theirs is enqueue and dequeue alone, with every one of 131,072 buffers in the \
             scheduler, which is when it is cheapest; ours is the whole graph less source and sink, which tells users by their tags."
        )
    };
}

const WORKS: &[Work] = &[
    Work { name: "users-4k", help: help!("4,096") },
    Work { name: "users-32k", help: help!("32,768") },
    Work { name: "users-128k", help: help!("131,072") },
    Work {
        name: "users-32k-offered",
        help: "The same with 32,768 users, but the peer is offered 4 million packets a second, of which it can hold what it wants: 64 at a \
               time, each time it may send 64. Ours takes what comes as fast as it can, as above.",
    },
];

/// Packets per second that are offered.
const OFFERED: u64 = 4_000_000;

/// The case of ours, the users, and the packets offered per second (0: as many as go), of a work.
fn of_work(work: &Work) -> (&'static str, u32, u64) {
    match work.name {
        "users-4k" => ("users-4k", 4_096, 0),
        "users-128k" => ("users-128k", 131_072, 0),
        "users-32k-offered" => ("users-32k", 32_768, OFFERED),
        _ => ("users-32k", 32_768, 0),
    }
}

pub(super) struct RteSched;

impl Peer for RteSched {
    fn name(&self) -> &'static str {
        NAME
    }

    fn absent(&self, lab: &Lab) -> Option<String> {
        rte_fib::RteFib.absent(lab)
    }

    fn works(&self) -> &'static [Work] {
        WORKS
    }

    fn beside(&self) -> Option<Beside> {
        let work = WORKS.iter().find(|work| work.name == "users-32k")?;
        Some(Beside { function: sched::FUNCTION, case: "rte-sched-32k", work })
    }

    fn start(&self, work: &Work, lab: &Lab) -> Result<Contest, Stop> {
        let (case, users, offered) = of_work(work);
        let function = cpp::function(sched::FUNCTION).map_err(Stop::Failed)?;
        let case = cpp::case(function, case, None).map_err(Stop::Failed)?;
        let program = rte_fib::compile(lab, NAME, sched::SOURCE)?;
        let mut words = vec![OsString::from(program), format!("--lcores=0@{}", lab.core).into()];
        words.extend(lab.eal("sched", MEMORY).into_iter().map(OsString::from));
        words.push("--".into());
        words.extend([users, sched::QUEUE_SIZE, sched::BUFFERS].map(|number| number.to_string().into()));
        let mut program = Program::start(lab, NAME, &words, &[])?;
        let ready = program.lines_until(lab, "make its queues", |line| line.starts_with("ready"))?;
        let ready = sched::ready(ready.lines().last().unwrap_or_default(), users);
        ready.map_err(|problem| program.failed(&format!("is not understood: {problem}")))?;
        let configurations = vec![("Weir", case.script.clone()), (NAME, sched::SOURCE.to_owned())];
        let mut theirs = Theirs { program, offered, loops: 0 };
        theirs.settle(lab)?;
        Ok(Contest { ours: Box::new(Ours { case }), theirs: Box::new(theirs), configurations })
    }
}

/// Weir's scheduler in this process, set up anew for each sample, so that nothing of it runs while the peer does.
struct Ours {
    case: Case,
}

impl Side for Ours {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        lab.check()?;
        let setup = Setup::on(lab.core);
        let measured = cpp::measure(&self.case, &setup, 1, window).map_err(Stop::Failed)?;
        let figure = |name: &str| measured.point.figure(name).map(|figure| figure.summary.median);
        let cycles = figure("own").ok_or_else(|| Stop::Failed("what Weir costs was not measured".to_owned()))?;
        Ok(Measured {
            cycles,
            rate: lab.clock.hz() as f64 / cycles.max(1.0) / 1e6,
            busy: None,
            waited: figure("waited"),
            held: figure("held"),
        })
    }
}

struct Theirs {
    program: Program,
    /// Packets per second; 0 for as many as go.
    offered: u64,
    /// Loops that take about a tenth of a second.
    loops: u64,
}

impl Theirs {
    fn did(&mut self, lab: &Lab, loops: u64) -> Result<sched::Did, Stop> {
        self.program.say(&format!("{loops} {}", self.offered))?;
        let line = self.program.line(lab, "schedule packets")?;
        sched::did(&line).map_err(|problem| self.program.failed(&format!("is not understood: {problem}")))
    }

    /// Fills it, and finds out how fast it is.
    fn settle(&mut self, lab: &Lab) -> Result<(), Stop> {
        const FIRST: u64 = 10_000;
        let did = self.did(lab, FIRST)?;
        let tenth = lab.clock.hz() / 10;
        self.loops = (FIRST.saturating_mul(tenth) / did.elapsed.max(1)).max(100);
        Ok(())
    }
}

impl Side for Theirs {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        let loops = self.loops.saturating_mul((window.as_millis() as u64).div_ceil(100).max(1));
        let waiting = Waiting::of_process(self.program.id());
        let did = self.did(lab, loops)?;
        let waited = waiting.cycles(&lab.clock);
        let cycles = did.cycles(waited);
        Ok(Measured {
            cycles,
            rate: lab.clock.hz() as f64 / cycles.max(1.0) / 1e6,
            busy: None,
            waited: Some(100.0 * waited.min(did.elapsed) as f64 / did.elapsed.max(1) as f64),
            held: Some(did.held as f64),
        })
    }
}
