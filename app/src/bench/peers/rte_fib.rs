//! DPDK's `rte_fib` and `rte_fib6`: a table alone, in a program that is compiled where it is measured.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weir_bench::peers::lookup::{self, NEXT_HOPS};
use weir_bench::peers::{Measured, fib, lookup6};
use weir_bench::search::Stop;
use weir_mem::{Clock, tsc};

use super::super::waiting::Waiting;
use super::contest::{Contest, Peer, Side, Work};
use super::lab::Lab;
use super::program::{Program, found};

const NAME: &str = "rte-fib";
const SIX: &str = "look-up-ipv6";
const SIX_MANY: &str = "look-up-ipv6-200k";

/// Memory without huge pages, MiB: both levels of the table, and the prefixes.
const MEMORY: u32 = 1024;

/// The same for IPv6.
const MEMORY6: u32 = 2048;

/// Made-up prefixes of IPv6.
const MANY: usize = 200_000;

const WORKS: &[Work] = &[
    Work {
        name: "look-up",
        help: "A million IPv4 addresses, looked up 64 at a time in the same prefixes, DIR-24-8 with two bytes for each /24 on both \
           sides; cycles and rates are of look-ups, not of packets. Both find the same next hops, or there is no figure. Debian's DPDK has no vector code for it; Weir's has.",
    },
    Work { name: SIX, help: "The same with a million IPv6 addresses: `rte_fib6` (its trie) on the other side." },
    Work { name: SIX_MANY, help: "The same with 200,000 made-up prefixes, with the lengths of the real table." },
];

pub(super) struct RteFib;

impl Peer for RteFib {
    fn name(&self) -> &'static str {
        NAME
    }

    fn absent(&self, lab: &Lab) -> Option<String> {
        for (program, package) in [("cc", "gcc"), ("pkg-config", "pkg-config")] {
            if found(program).is_none() {
                return Some(format!(
                    "it has to be compiled, and {program} is not installed (apt-get install {package})"
                ));
            }
        }
        let library = lab.tool(Command::new("pkg-config").args(["--exists", "libdpdk"]));
        library.is_err().then(|| {
            "it has to be compiled, and DPDK's headers are not installed (apt-get install libdpdk-dev)".to_owned()
        })
    }

    fn works(&self) -> &'static [Work] {
        WORKS
    }

    fn start(&self, work: &Work, lab: &Lab) -> Result<Contest, Stop> {
        match work.name {
            SIX => contest(lab, Family::six(lab.data.as_deref().map(lookup6::Work::real), lookup6::REAL)?),
            SIX_MANY => contest(lab, Family::six(None, MANY)?),
            _ => contest(lab, Family::four(lab)?),
        }
    }
}

/// What a contest is about: both sides' program, and what both look up.
struct Family {
    source: &'static str,
    /// Memory without huge pages, MiB.
    memory: u32,
    text: String,
    addresses: Vec<u8>,
    ours: fib::Ready,
    table: Box<dyn Asked>,
}

impl Family {
    fn four(lab: &Lab) -> Result<Family, Stop> {
        let lookups = match &lab.data {
            Some(folder) => lookup::Work::real(folder).map_err(Stop::Failed)?,
            None => lookup::Work::made_up(),
        };
        let (prefixes, all) = (lookups.prefixes() as u64, lookups.addresses() as u64);
        let (text, addresses) = (lookups.prefixes_as_text(), lookups.addresses_as_bytes());
        let table = lookups.table().map_err(Stop::Failed)?;
        let ours = fib::Ready { prefixes, addresses: all, sum: table.sum() };
        Ok(Family { source: fib::SOURCE, memory: MEMORY, text, addresses, ours, table: Box::new(table) })
    }

    fn six(real: Option<Result<lookup6::Work, String>>, made_up: usize) -> Result<Family, Stop> {
        let lookups = real.unwrap_or_else(|| Ok(lookup6::Work::made_up(made_up))).map_err(Stop::Failed)?;
        let (prefixes, all) = (lookups.prefixes() as u64, lookups.addresses() as u64);
        let (text, addresses) = (lookups.prefixes_as_text(), lookups.addresses_as_bytes());
        let table = lookups.table().map_err(Stop::Failed)?;
        let ours = fib::Ready { prefixes, addresses: all, sum: table.sum() };
        Ok(Family { source: fib::SOURCE6, memory: MEMORY6, text, addresses, ours, table: Box::new(table) })
    }
}

/// Weir's table of either family.
trait Asked: Send + Sync {
    /// TSC cycles that it took to look all addresses up.
    fn cycles(&self) -> u64;
}

impl Asked for lookup::Table {
    fn cycles(&self) -> u64 {
        self.cycles()
    }
}

impl Asked for lookup6::Table {
    fn cycles(&self) -> u64 {
        self.cycles()
    }
}

fn contest(lab: &Lab, family: Family) -> Result<Contest, Stop> {
    let Family { source, memory, text, addresses, ours, table } = family;
    let program = compile(lab, NAME, source)?;
    let prefixes = lab.file("prefixes", text.as_bytes())?;
    let addresses = lab.file("addresses", &addresses)?;
    let mut words = vec![OsString::from(program), format!("--lcores=0@{}", lab.core).into()];
    words.extend(lab.eal("fib", memory).into_iter().map(OsString::from));
    words.extend(["--".into(), prefixes.into(), NEXT_HOPS.to_string().into(), addresses.into()]);
    let mut program = Program::start(lab, NAME, &words, &[])?;
    let ready = program.lines_until(lab, "build its table", |line| line.starts_with("ready"))?;
    let ready = fib::ready(ready.lines().last().unwrap_or_default());
    let ready = ready.map_err(|problem| program.failed(&format!("is not understood: {problem}")))?;
    if ours != ready {
        return Err(program.failed(&format!("has found other next hops: {ready:?} against Weir's {ours:?}")));
    }
    let configuration = format!("{} prefixes, {} addresses\n", ours.prefixes, ours.addresses);
    Ok(Contest {
        ours: Box::new(Ours { table, addresses: ours.addresses }),
        theirs: Box::new(Theirs { program, addresses: ours.addresses }),
        configurations: vec![("both", configuration), (NAME, source.to_owned())],
    })
}

/// Compiles a program that is linked with DPDK.
pub(super) fn compile(lab: &Lab, name: &str, text: &str) -> Result<PathBuf, Stop> {
    let folder = lab.fresh_folder(name)?;
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    let written = weir_host::files::create(&source, 0o644).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Stop::Failed(format!("cannot write {}: {error}", source.display())))?;
    let flags = lab.tool(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]))?;
    let mut command = Command::new("cc");
    command.arg("-O3").arg(&source).args(flags.split_whitespace()).arg("-o").arg(&program);
    lab.tool(&mut command)?;
    Ok(program)
}

/// Cycles of so many look-ups, of which others on the core took a part.
fn measured(clock: &Clock, cycles: u64, waited: u64, lookups: u64) -> Measured {
    let worked = cycles.saturating_sub(waited).max(1) as f64;
    let each = worked / lookups.max(1) as f64;
    Measured {
        cycles: each,
        rate: clock.hz() as f64 / each / 1e6,
        busy: None,
        waited: Some(100.0 - worked / cycles.max(1) as f64 * 100.0),
        held: None,
    }
}

struct Ours {
    table: Box<dyn Asked>,
    addresses: u64,
}

impl Side for Ours {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        let cycles = lab.clock.cycles(window.as_nanos() as u64);
        let (table, addresses) = (&self.table, self.addresses);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                weir_engine::pin(lab.core).map_err(|error| Stop::Failed(error.to_string()))?;
                table.cycles();
                let (waiting, began) = (Waiting::of_this_thread(), tsc::now());
                let (mut took, mut passes) = (0, 0);
                while tsc::now().wrapping_sub(began) < cycles || passes == 0 {
                    lab.check()?;
                    took += table.cycles();
                    passes += 1;
                }
                Ok(measured(&lab.clock, took, waiting.cycles(&lab.clock), passes * addresses))
            });
            thread.join().unwrap_or_else(|_| Err(Stop::Failed("the measuring thread ended".to_owned())))
        })
    }
}

struct Theirs {
    program: Program,
    addresses: u64,
}

impl Theirs {
    /// Cycles of so many passes.
    fn passes(&mut self, lab: &Lab, passes: u64) -> Result<u64, Stop> {
        self.program.say(&passes.to_string())?;
        let line = self.program.line(lab, "look addresses up")?;
        fib::cycles(&line).map_err(|problem| self.program.failed(&format!("is not understood: {problem}")))
    }
}

impl Side for Theirs {
    fn measure(&mut self, lab: &Lab, window: Duration) -> Result<Measured, Stop> {
        let one = self.passes(lab, 1)?;
        let passes = lab.clock.cycles(window.as_nanos() as u64).div_ceil(one);
        let waiting = Waiting::of_process(self.program.id());
        let cycles = self.passes(lab, passes)?;
        Ok(measured(&lab.clock, cycles, waiting.cycles(&lab.clock), passes * self.addresses))
    }
}
