//! DPDK's own forwarder, over devices that cost nothing, and over links to another process.

use std::ffi::OsString;

use weir_bench::peers::{configurations, testpmd};
use weir_bench::search::Stop;
use weir_mem::tsc;

use super::contest::{Contest, Count, Peer, Restless, Tally, Work};
use super::lab::Lab;
use super::links;
use super::ours::Ours;
use super::program::{Program, found};

pub(super) const PROGRAM: &str = "dpdk-testpmd";

/// Memory without huge pages, MiB: more than its buffers take.
const MEMORY: u32 = 256;

const LINKED: &str = "128 frames of UDP, 64 bytes each, go round between the program and another process on another core (a second testpmd, one and the \
                      same for both), which sends back what it receives, untouched. Cycles are those of times round that found packets. What is left \
                      of the core waits for the other end. MAC addresses as in the work of this name without a link";

const LINKED_TUPLES: &str = "The same. testpmd exchanges MAC addresses, IP addresses and ports, Weir MAC addresses";

const WORKS: &[Work] = &[
    Work {
        name: "io",
        help: "64-byte frames from one of DPDK's null devices to the other and back, untouched. Both leave in a frame what was in its buffer \
               (`blank=0` of Weir's device). Not alike: Weir checks what the driver hands over, and has its account, counters and times of \
               stages besides. testpmd has 8,192 buffers, Weir as many as it thinks right.",
    },
    Work { name: "macswap", help: "The same, MAC addresses exchanged by both." },
    Work { name: "mac", help: "The same; testpmd sets both MAC addresses without reading them, Weir exchanges them." },
    Work {
        name: "5tswap",
        help: "The same; testpmd would exchange IP addresses and ports as well, but finds none in frames without contents. Weir exchanges MAC \
               addresses.",
    },
    Work { name: "memif-io", help: LINKED },
    Work { name: "memif-macswap", help: LINKED },
    Work { name: "memif-mac", help: LINKED },
    Work { name: "memif-5tswap", help: LINKED_TUPLES },
    Work { name: "vhost-io", help: LINKED },
    Work { name: "vhost-macswap", help: LINKED },
    Work { name: "vhost-mac", help: LINKED },
    Work { name: "vhost-5tswap", help: LINKED_TUPLES },
];

pub(super) struct TestPmd;

impl Peer for TestPmd {
    fn name(&self) -> &'static str {
        PROGRAM
    }

    fn absent(&self, _lab: &Lab) -> Option<String> {
        if !cfg!(feature = "dpdk") {
            return Some("this Weir was built without DPDK, so there is nothing to compare with it".to_owned());
        }
        found(PROGRAM).is_none().then(|| "it is not installed (apt-get install dpdk-dev)".to_owned())
    }

    fn works(&self) -> &'static [Work] {
        WORKS
    }

    fn start(&self, work: &Work, lab: &Lab) -> Result<Contest, Stop> {
        if let Some((link, mode)) = work.name.split_once('-') {
            return links::start(link, mode, lab);
        }
        let words = command(work.name, lab);
        let shown: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut program = Program::start(lab, PROGRAM, &words, &[])?;
        program.say("start")?;
        program.lines_until(lab, "start", testpmd::is_ready)?;
        program.rest()?;
        let script = if work.name == "io" { configurations::UNTOUCHED } else { configurations::SWAPPED };
        let ours = Ours::start(lab, script, &[], &[])?.resting()?;
        Ok(Contest {
            configurations: vec![("Weir", ours.configuration.clone()), (PROGRAM, shown.join(" "))],
            ours: Box::new(ours),
            theirs: Box::new(Forwarder { program }),
        })
    }
}

fn command(mode: &str, lab: &Lab) -> Vec<OsString> {
    let cores = format!("--lcores=0@{},1@{}", lab.other, lab.core);
    let vdevs = ["net_null0", "net_null1"].map(str::to_owned);
    let topology = [&format!("--forward-mode={mode}"), "--burst=64", "--port-topology=paired"];
    words(lab, "testpmd", &cores, &vdevs, &topology)
}

/// The words that start one: on these cores, with these devices.
pub(super) fn words(lab: &Lab, name: &str, cores: &str, vdevs: &[String], rest: &[&str]) -> Vec<OsString> {
    // Into a pipe it would say things when its buffer is full.
    let mut words: Vec<String> = ["stdbuf", "-oL", PROGRAM].map(str::to_owned).to_vec();
    words.push(cores.to_owned());
    words.extend(lab.eal(name, MEMORY));
    words.extend(vdevs.iter().flat_map(|vdev| ["--vdev".to_owned(), vdev.clone()]));
    words.extend(["--", "-i"].map(str::to_owned));
    words.extend(rest.iter().map(|word| (*word).to_owned()));
    let always = ["--nb-cores=1", "--total-num-mbufs=8192", "--mbcache=256", "--no-lsc-interrupt"];
    words.extend(always.map(str::to_owned));
    words.into_iter().map(OsString::from).collect()
}

pub(super) struct Forwarder {
    pub(super) program: Program,
}

impl Forwarder {
    /// What it prints of itself, up to the figures of all ports.
    fn statistics(&mut self, lab: &Lab) -> Result<String, Stop> {
        self.program.forget();
        self.program.say("show fwd stats all")?;
        self.program.lines_until(lab, "tell its statistics", testpmd::ends)
    }

    /// Packets that it has sent so far.
    pub(super) fn packets(&mut self, lab: &Lab) -> Result<u64, Stop> {
        let text = self.statistics(lab)?;
        testpmd::transmitted(&text).map_err(|problem| self.program.failed(&format!("gives {problem}")))
    }

    /// What it has done so far, and the cycles of its times round that found packets. It tells them only once there were some.
    pub(super) fn tally(&mut self, lab: &Lab) -> Result<Tally, Stop> {
        let packets = self.packets(lab)?;
        let cycles = tsc::now();
        let line = self.program.lines_until(lab, "tell its cycles", testpmd::tells_cycles)?;
        let busy = testpmd::cycles(&line).map_err(|problem| self.program.failed(&format!("gives {problem}")))?;
        Ok(Tally { count: Count { packets, cycles }, busy })
    }
}

impl Restless for Forwarder {
    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    fn count(&mut self, lab: &Lab) -> Result<Count, Stop> {
        let packets = self.packets(lab)?;
        Ok(Count { packets, cycles: tsc::now() })
    }
}
