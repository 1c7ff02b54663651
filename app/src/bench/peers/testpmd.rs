//! DPDK's own forwarder, over devices that cost nothing.

use std::ffi::OsString;

use weir_bench::peers::{configurations, testpmd};
use weir_bench::search::Stop;
use weir_mem::tsc;

use super::contest::{Contest, Count, Peer, Restless, Work};
use super::lab::Lab;
use super::ours::Ours;
use super::program::{Program, found};

const PROGRAM: &str = "dpdk-testpmd";

/// Memory without huge pages, MiB: more than its buffers take.
const MEMORY: u32 = 256;

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
    // Into a pipe it would say things when its buffer is full.
    let mut words: Vec<String> = ["stdbuf", "-oL", PROGRAM].map(str::to_owned).to_vec();
    words.push(format!("--lcores=0@{},1@{}", lab.other, lab.core));
    words.extend(lab.eal("testpmd", MEMORY));
    words.extend(["--vdev", "net_null0", "--vdev", "net_null1", "--", "-i"].map(str::to_owned));
    words.push(format!("--forward-mode={mode}"));
    let rest = ["--nb-cores=1", "--burst=64", "--total-num-mbufs=8192", "--mbcache=256", "--no-lsc-interrupt"];
    words.extend(rest.map(str::to_owned));
    words.into_iter().map(OsString::from).collect()
}

struct Forwarder {
    program: Program,
}

impl Restless for Forwarder {
    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    fn count(&mut self, lab: &Lab) -> Result<Count, Stop> {
        self.program.forget();
        self.program.say("show fwd stats all")?;
        let text = self.program.lines_until(lab, "tell its statistics", testpmd::ends)?;
        let packets =
            testpmd::transmitted(&text).map_err(|problem| self.program.failed(&format!("gives {problem}")))?;
        Ok(Count { packets, cycles: tsc::now() })
    }
}
