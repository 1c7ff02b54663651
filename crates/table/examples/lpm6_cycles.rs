//! Cycles per lookup and per change of the table of IPv6 prefixes, on a real forwarding table:
//! `cargo run --release -p weir-table --example lpm6_cycles -- ipv6-2015-11-01.csv.gz [ROUTES]`.
//!
//! The file has a line `prefix,origin_as` for each route; values are `origin_as % 194`. With more ROUTES than there are, others
//! are made up: copies of real ones that differ somewhere behind their 16th bit. Destinations are drawn uniformly over the prefixes,
//! with random host bits, 262,144 of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::Ipv6Addr;

use flate2::read::GzDecoder;
use weir_mem::{Clock, Domain, tsc};
use weir_simd::Kernel;
use weir_table::lpm6::{Compiled, Config, Lookup6, Lpm6, Prefix6};

const NEXT_HOPS: u32 = 194;
const ADDRESSES: usize = 1 << 18;
const BATCH: usize = 64;
const RUNS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: lpm6_cycles FILE.csv.gz [ROUTES]")?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut routes = read(&path)?;
    let real: Vec<(Prefix6, u32)> = routes.iter().map(|(prefix, value)| (*prefix, *value)).collect();
    let wanted = arguments.next().map(|count| count.parse()).transpose()?.unwrap_or(real.len());
    while routes.len() < wanted {
        let (prefix, value) = real[random.below(real.len())];
        let behind = 16 + random.below(usize::from(prefix.length())) as u32;
        let address = prefix.address() ^ random.bits().checked_shr(behind).unwrap_or(0);
        routes.extend(Prefix6::covering(address, prefix.length()).map(|prefix| (prefix, value)));
    }
    let routes: Vec<(Prefix6, u32)> = routes.into_iter().collect();
    let draw = |_| {
        let (prefix, _) = routes[random.below(routes.len())];
        prefix.address() | random.bits() & (prefix.last() - prefix.address())
    };
    let addresses: Vec<u128> = (0..ADDRESSES).map(draw).collect();
    println!("{} routes, {} addresses, batches of {BATCH}", routes.len(), addresses.len());
    let mut table = Compiled::new(&Config::new(NEXT_HOPS), &Domain::new())?;
    let clock = Clock::calibrate();
    let start = tsc::now();
    for &(prefix, value) in &routes {
        table.insert(prefix, value)?;
    }
    println!("built in {} ms; {:?}", clock.span_nanos(tsc::now() - start) / 1_000_000, table.memory());
    let reader = std::sync::Arc::clone(table.reader());
    println!("  one destination  {}", lookups(&*reader, &vec![addresses[0]; 1 << 16]));
    println!("  all              {}", lookups(&*reader, &addresses));
    println!("  one at a time    {}", singles(&*reader, &addresses));
    changes(&mut table, &routes, &clock, &mut random);
    Ok(())
}

fn lookups(reader: &impl Lookup6, addresses: &[u128]) -> String {
    figures(addresses.len(), || {
        Kernel::detect().run(
            #[inline(always)]
            || {
                let mut values = [0; BATCH];
                for batch in addresses.chunks(BATCH) {
                    reader.lookup_batch(black_box(batch), &mut values);
                    black_box(&values);
                }
            },
        );
    })
}

fn singles(reader: &impl Lookup6, addresses: &[u128]) -> String {
    figures(addresses.len(), || {
        black_box(addresses.iter().fold(0, |sum: u32, &address| sum.wrapping_add(reader.lookup(address))));
    })
}

/// Replaces, then removes and adds again, routes in random order.
fn changes(table: &mut impl Lpm6, routes: &[(Prefix6, u32)], clock: &Clock, random: &mut Random) {
    let some: Vec<_> = (0..100_000).map(|_| routes[random.below(routes.len())]).collect();
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
    let start = tsc::now();
    for value in 0..1000 {
        black_box(table.insert(Prefix6::covering(1 << 125, 3).unwrap_or(Prefix6::DEFAULT), value)).ok();
    }
    let short = tsc::now() - start;
    let report = |what, cycles: u64, count: usize| {
        println!("  {what} {} ns", clock.span_nanos(cycles) / count as u64);
    };
    report("replace          ", replaced, some.len());
    report("remove or add    ", flapped, 2 * some.len());
    report("replace 2000::/3 ", short, 1000);
}

/// Median, least and most of some runs, per item.
fn figures(items: usize, mut run: impl FnMut()) -> String {
    run();
    let timed = |_| {
        let start = tsc::now();
        run();
        (tsc::now() - start) as f64 / items as f64
    };
    let mut runs: Vec<f64> = (0..RUNS).map(timed).collect();
    runs.sort_by(f64::total_cmp);
    format!("{:5.1} cycles ({:.1}-{:.1})", runs[RUNS / 2], runs[0], runs[RUNS - 1])
}

fn read(path: &str) -> Result<BTreeMap<Prefix6, u32>, Box<dyn Error>> {
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let mut routes = BTreeMap::new();
    for line in lines.skip(1) {
        let line = line?;
        let (prefix, value) = route(&line).ok_or_else(|| format!("{line:?} is not prefix,origin_as"))?;
        routes.insert(prefix, value);
    }
    Ok(routes)
}

fn route(line: &str) -> Option<(Prefix6, u32)> {
    let (prefix, origin) = line.split_once(',')?;
    let (address, length) = prefix.split_once('/')?;
    let address: Ipv6Addr = address.parse().ok()?;
    let prefix = Prefix6::covering(address.to_bits(), length.parse().ok()?)?;
    Some((prefix, origin.parse::<u32>().ok()? % NEXT_HOPS))
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn bits(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}
