//! Cycles per lookup and per change of each kind of table, on a real forwarding table:
//! `cargo run --release -p weir-table --example lpm_cycles -- ipv4-2015-11-01.csv.gz [ROUTES]`.
//!
//! The file has a line `prefix,origin_as` for each route; values are `origin_as % 194`. ROUTES takes that many, evenly
//! spread over the file. Destinations are drawn uniformly over the prefixes, with random host bits, a million of them.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;

use flate2::read::GzDecoder;
use weir_mem::{Clock, Domain, tsc};
use weir_simd::Kernel;
use weir_table::lpm4::{Config, Dir24, Lookup4, Lpm4, Packed, Prefix4};

const NEXT_HOPS: u32 = 194;
const ADDRESSES: usize = 1 << 20;
const BATCH: usize = 64;
const RUNS: usize = 7;

type Routes = Vec<(Prefix4, u32)>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: lpm_cycles FILE.csv.gz [ROUTES]")?;
    let routes = read(&path)?;
    let wanted = arguments.next().map(|count| count.parse()).transpose()?.unwrap_or(routes.len()).max(1);
    let routes: Routes = (0..wanted.min(routes.len())).map(|i| routes[i * routes.len() / wanted]).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let addresses: Vec<u32> = (0..ADDRESSES).map(|_| random.address(&routes)).collect();
    println!("{} routes, {} addresses, batches of {BATCH}", routes.len(), addresses.len());
    let domain = Domain::new();
    for kernel in Kernel::available() {
        let config = Config { kernel, ..Config::new(NEXT_HOPS) };
        if kernel == Kernel::detect() {
            measure(&format!("dir24 {kernel}"), Dir24::new(&config, &domain)?, &routes, &addresses);
        }
        measure(&format!("packed {kernel}"), Packed::new(&config, &domain)?, &routes, &addresses);
    }
    Ok(())
}

fn measure(name: &str, mut table: impl Lpm4, routes: &Routes, addresses: &[u32]) {
    let clock = Clock::calibrate();
    let start = tsc::now();
    for &(prefix, value) in routes {
        assert_eq!(table.insert(prefix, value), Ok(None));
    }
    let build = clock.span_nanos(tsc::now() - start) / 1_000_000;
    let memory = table.memory();
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!("{name}: built in {build} ms; {} groups, {memory:?}", memory.groups);
    println!("  used {:.1} MiB of {:.1}, control {:.1}", mib(memory.used), mib(memory.lookup), mib(memory.control));
    let reader = std::sync::Arc::clone(table.reader());
    let one = vec![addresses[0]; 1 << 16];
    println!("  one destination      {}", lookups(&*reader, &one, false));
    println!("  all, no prefetch     {}", lookups(&*reader, addresses, false));
    println!("  all, prefetched      {}", lookups(&*reader, addresses, true));
    println!("  all, one at a time   {}", singles(&*reader, addresses));
    changes(&mut table, routes, &clock);
}

/// Cycles per lookup in batches; with `ahead`, a batch is prefetched while the one before is looked up.
fn lookups(reader: &impl Lookup4, addresses: &[u32], ahead: bool) -> Figures {
    Figures::of(addresses.len(), || {
        let mut values = [0; BATCH];
        let batches = addresses.chunks(BATCH);
        for batch in batches {
            if ahead {
                batch.iter().for_each(|&address| reader.prefetch(address));
            }
            reader.lookup_batch(black_box(batch), &mut values);
            black_box(&values);
        }
    })
}

fn singles(reader: &impl Lookup4, addresses: &[u32]) -> Figures {
    Figures::of(addresses.len(), || {
        let mut sum = 0u32;
        for &address in addresses {
            sum = sum.wrapping_add(reader.lookup(address));
        }
        black_box(sum);
    })
}

/// Replaces, then removes and adds again, routes in random order.
fn changes(table: &mut impl Lpm4, routes: &Routes, clock: &Clock) {
    let mut random = Random(1);
    let some: Routes = (0..200_000).map(|_| routes[random.below(routes.len())]).collect();
    let start = tsc::now();
    for &(prefix, value) in &some {
        black_box(table.insert(prefix, value + 1)).ok();
    }
    let replaced = tsc::now() - start;
    let start = tsc::now();
    for &(prefix, value) in &some {
        black_box(table.remove(prefix)).ok();
        black_box(table.insert(prefix, value)).ok();
    }
    let flapped = tsc::now() - start;
    let report = |what, cycles: u64, count: usize| {
        let each = cycles as f64 / count as f64;
        println!("  {what} {each:.0} cycles, {:.2} million/s", clock.hz() as f64 / each / 1e6);
    };
    report("replace             ", replaced, some.len());
    report("remove or add       ", flapped, 2 * some.len());
}

/// Median, least and most of some runs, per item.
struct Figures(Vec<f64>);

impl Figures {
    fn of(items: usize, mut run: impl FnMut()) -> Self {
        run();
        let mut figures: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = tsc::now();
                run();
                (tsc::now() - start) as f64 / items as f64
            })
            .collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(runs) = self;
        write!(f, "{:5.1} cycles ({:.1}-{:.1})", runs[RUNS / 2], runs[0], runs[RUNS - 1])
    }
}

fn read(path: &str) -> Result<Routes, Box<dyn Error>> {
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let mut routes = Routes::new();
    for line in lines.skip(1) {
        let line = line?;
        routes.push(route(&line).ok_or_else(|| format!("{line:?} is not prefix,origin_as"))?);
    }
    Ok(routes)
}

fn route(line: &str) -> Option<(Prefix4, u32)> {
    let (prefix, origin) = line.split_once(',')?;
    let (address, length) = prefix.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let prefix = Prefix4::covering(address.to_bits(), length.parse().ok()?)?;
    Some((prefix, origin.trim().parse::<u32>().ok()? % NEXT_HOPS))
}

/// SplitMix64: good enough to draw addresses, and the same on each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn address(&mut self, routes: &Routes) -> u32 {
        let (prefix, _) = routes[self.below(routes.len())];
        prefix.address() | self.next() as u32 & (prefix.last() - prefix.address())
    }
}
