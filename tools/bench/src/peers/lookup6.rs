//! The look-up of the table of IPv6 alone, as [`lookup`](super::lookup) does it for IPv4.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;

use weir_mem::{Domain, tsc};
use weir_simd::Kernel;
use weir_table::lpm6::{Compiled, Config, Lookup6, Lpm6, Prefix6, Trie, sample};

use super::lookup::{ADDRESSES, BATCH, NEXT_HOPS, Random, read};

/// The real table: a CSV file with the columns `prefix` and `origin_as`.
pub const FIB_FILE: &str = "ipv6-2015-11-01.csv.gz";

/// Prefixes of the real table, and of one that is made up in its place.
pub const REAL: usize = 27_693;

/// Prefixes, all different, and addresses in them.
pub struct Work {
    prefixes: Vec<Prefix6>,
    addresses: Vec<u128>,
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

    /// So many made-up prefixes, the same every time.
    pub fn made_up(count: usize) -> Work {
        let mut random = Random(1);
        Work::of(sample::made_up(count, || random.next()))
    }

    fn of(prefixes: BTreeSet<Prefix6>) -> Work {
        let prefixes: Vec<Prefix6> = prefixes.into_iter().collect();
        let mut random = Random(2);
        let draw = |_| {
            let prefix =
                prefixes.get(random.below(prefixes.len() as u64) as usize).copied().unwrap_or(Prefix6::DEFAULT);
            let host = u128::from(random.next()) << 64 | u128::from(random.next());
            prefix.address() | (host & (prefix.last() - prefix.address()))
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
            let _ = writeln!(text, "{prefix}");
        }
        text
    }

    /// The addresses, 16 bytes each as they are sent.
    pub fn addresses_as_bytes(&self) -> Vec<u8> {
        self.addresses.iter().flat_map(|address| address.to_be_bytes()).collect()
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
        let mut table = Compiled::new(&Config::new(0), &Domain::new()).map_err(|error| error.to_string())?;
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
    _table: Compiled,
    reader: Arc<Trie>,
    addresses: Vec<u128>,
}

impl Table {
    /// The sum of the next hops of all addresses.
    pub fn sum(&self) -> u64 {
        self.addresses.iter().map(|address| u64::from(self.reader.lookup(*address))).sum()
    }

    /// Looks all addresses up, in batches as workers do; answers how many TSC cycles that took.
    pub fn cycles(&self) -> u64 {
        Kernel::detect().run(
            #[inline(always)]
            || {
                let mut values = [0; BATCH];
                let began = tsc::now();
                for batch in self.addresses.chunks(BATCH) {
                    self.reader.lookup_batch(black_box(batch), &mut values);
                    black_box(&values);
                }
                tsc::now().wrapping_sub(began)
            },
        )
    }
}

fn prefix(line: &str) -> Option<Prefix6> {
    let (address, length) = line.split(',').next()?.trim().split_once('/')?;
    let address: Ipv6Addr = address.parse().ok()?;
    Prefix6::covering(address.to_bits(), length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next hop of the longest prefix that covers an address, by looking at all of them.
    fn slow(text: &str, address: u128) -> u64 {
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
        let mut work = Work::made_up(300);
        work.addresses.truncate(2 * BATCH);
        work.addresses.extend([0, u128::MAX]);
        let text = work.prefixes_as_text();
        assert_eq!((text.lines().count(), work.addresses_as_bytes().len()), (300, (2 * BATCH + 2) * 16));
        let expected: u64 = work.addresses.iter().map(|address| slow(&text, *address)).sum();
        let table = work.table().unwrap();
        assert_eq!(table.sum(), expected);
        assert!(table.cycles() > 0);
    }

    #[test]
    fn a_folder_without_the_file_is_told() {
        let sentence = Work::real(Path::new("/nowhere")).err().unwrap();
        assert!(sentence.contains(FIB_FILE), "{sentence}");
        assert!(prefix("2001:db8::/32,1").is_some());
        for garbage in ["", "2001:db8::", "2001:db8::/129,1", "10.0.0.0/8,1", "a/8"] {
            assert!(prefix(garbage).is_none(), "{garbage}");
        }
    }
}
