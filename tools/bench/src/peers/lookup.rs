//! The look-up of the table alone: prefixes, addresses, and how long it takes to look them up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use weir_mem::{Domain, tsc};
use weir_table::lpm4::{Config, Dir24, Lookup4, Lpm4, Prefix4};

/// The real table: a CSV file with the columns `prefix` and `origin_as`.
pub const FIB_FILE: &str = "ipv4-2015-11-01.csv.gz";

/// Different next hops.
pub const NEXT_HOPS: u32 = 194;

/// Made-up prefixes, where there is no real table.
const MADE_UP: usize = 400_000;

/// Addresses that are looked up: a multiple of [`BATCH`].
pub(super) const ADDRESSES: usize = 1 << 20;

/// Addresses that are looked up together.
pub(super) const BATCH: usize = 64;

/// Prefixes, all different, and addresses in them.
pub struct Work {
    prefixes: Vec<Prefix4>,
    addresses: Vec<u32>,
}

impl Work {
    /// The prefixes of the real table in a folder.
    ///
    /// # Errors
    ///
    /// A sentence: the file is not there, or is something else.
    pub fn real(folder: &Path) -> Result<Work, String> {
        Ok(Work::of(read(&folder.join(FIB_FILE), prefix)?))
    }

    /// Made-up prefixes of lengths from 16 to 24, most of them 24, the same every time.
    pub fn made_up() -> Work {
        Work::drawn(MADE_UP)
    }

    fn drawn(count: usize) -> Work {
        let mut random = Random(1);
        let mut prefixes = BTreeSet::new();
        while prefixes.len() < count {
            let length = if random.below(2) == 0 { 24 } else { 16 + random.below(8) as u8 };
            // 16.0.0.0 to 207.255.255.255: unicast, and room enough.
            let address = random.below(0xc000_0000) as u32 + 0x1000_0000;
            prefixes.extend(Prefix4::covering(address, length));
        }
        Work::of(prefixes)
    }

    fn of(prefixes: BTreeSet<Prefix4>) -> Work {
        let prefixes: Vec<Prefix4> = prefixes.into_iter().collect();
        let mut random = Random(2);
        let draw = |_| {
            let prefix =
                prefixes.get(random.below(prefixes.len() as u64) as usize).copied().unwrap_or(Prefix4::DEFAULT);
            prefix.address() | (random.next() as u32 & (prefix.last() - prefix.address()))
        };
        let addresses = (0..ADDRESSES).map(draw).collect();
        Work { prefixes, addresses }
    }

    /// How many prefixes there are.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The prefixes, a line each; the n-th, from 0, leads to the next hop 1 + n % [`NEXT_HOPS`].
    pub fn prefixes_as_text(&self) -> String {
        let mut text = String::new();
        for prefix in &self.prefixes {
            // A string takes whatever is written to it.
            let _ = writeln!(text, "{}/{}", Ipv4Addr::from_bits(prefix.address()), prefix.length());
        }
        text
    }

    /// The addresses, 4 bytes each in the machine's order.
    pub fn addresses_as_bytes(&self) -> Vec<u8> {
        self.addresses.iter().flat_map(|address| address.to_ne_bytes()).collect()
    }

    /// How many addresses there are.
    pub fn addresses(&self) -> usize {
        self.addresses.len()
    }

    /// Weir's table with these prefixes.
    ///
    /// # Errors
    ///
    /// A sentence: there is no memory, or not enough room in the table.
    pub fn table(self) -> Result<Table, String> {
        let config = Config { max_groups: 1 << 16, ..Config::new(0) };
        let mut table = Dir24::new(&config, &Domain::new()).map_err(|error| error.to_string())?;
        for (next_hop, prefix) in (1..=NEXT_HOPS).cycle().zip(&self.prefixes) {
            table.insert(*prefix, next_hop).map_err(|error| error.to_string())?;
        }
        let reader = Arc::clone(table.reader());
        Ok(Table { _table: table, reader, addresses: self.addresses })
    }
}

/// Weir's table, built and ready to be asked.
pub struct Table {
    // What is read belongs to it.
    _table: Dir24,
    reader: Arc<<Dir24 as Lpm4>::Reader>,
    addresses: Vec<u32>,
}

impl Table {
    /// The sum of the next hops of all addresses.
    pub fn sum(&self) -> u64 {
        self.addresses.iter().map(|address| u64::from(self.reader.lookup(*address))).sum()
    }

    /// Looks all addresses up, in batches as workers do; answers how many TSC cycles that took.
    pub fn cycles(&self) -> u64 {
        let mut values = [0; BATCH];
        let began = tsc::now();
        for batch in self.addresses.chunks(BATCH) {
            batch.iter().for_each(|address| self.reader.prefetch(*address));
            self.reader.lookup_batch(black_box(batch), &mut values);
            black_box(&values);
        }
        tsc::now().wrapping_sub(began)
    }
}

/// The prefixes of a real table, each with its line made one by `prefix`.
///
/// # Errors
///
/// A sentence: the file is not there, or is something else.
pub(super) fn read<P: Ord>(path: &Path, prefix: fn(&str) -> Option<P>) -> Result<BTreeSet<P>, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut prefixes = BTreeSet::new();
    for line in BufReader::new(GzDecoder::new(file)).lines().skip(1) {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let prefix = prefix(&line).ok_or_else(|| wrong(format!("\"{line}\" does not begin with a prefix")))?;
        prefixes.insert(prefix);
    }
    if prefixes.is_empty() {
        return Err(wrong("holds no prefixes".to_owned()));
    }
    Ok(prefixes)
}

fn prefix(line: &str) -> Option<Prefix4> {
    let (address, length) = line.split(',').next()?.trim().split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    Prefix4::covering(address.to_bits(), length.parse().ok()?)
}

/// Numbers that look random and are the same every time (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next hop of the longest prefix that covers an address, by looking at all of them.
    fn slow(text: &str, address: u32) -> u64 {
        let mut best = None;
        for (n, line) in text.lines().enumerate() {
            let prefix = prefix(line).unwrap();
            if prefix.covers(address) && best.is_none_or(|(length, _)| length < prefix.length()) {
                best = Some((prefix.length(), 1 + n as u64 % u64::from(NEXT_HOPS)));
            }
        }
        best.map_or(0, |(_, next_hop)| next_hop)
    }

    #[test]
    fn the_sum_is_that_of_the_longest_prefixes() {
        let mut work = Work::drawn(300);
        work.addresses.truncate(2 * BATCH);
        work.addresses.extend([0, u32::MAX]);
        let text = work.prefixes_as_text();
        assert_eq!((text.lines().count(), work.addresses_as_bytes().len()), (300, (2 * BATCH + 2) * 4));
        let expected: u64 = work.addresses.iter().map(|address| slow(&text, *address)).sum();
        let table = work.table().unwrap();
        assert_eq!(table.sum(), expected);
        assert!(table.cycles() > 0);
    }

    #[test]
    fn a_folder_without_the_file_is_told() {
        let sentence = Work::real(Path::new("/nowhere")).err().unwrap();
        assert!(sentence.contains(FIB_FILE), "{sentence}");
        assert!(prefix("10.0.0.0/8,1").is_some());
        for garbage in ["", "10.0.0.0", "10.0.0.0/33,1", "10.0.0/8,1", "a/8"] {
            assert!(prefix(garbage).is_none(), "{garbage}");
        }
    }
}
