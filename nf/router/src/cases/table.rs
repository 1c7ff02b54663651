//! Prefixes of a real table, and tables made from them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use flate2::read::GzDecoder;
use ipnet::Ipv4Net;
use weir_stage::Random;
use weir_wire::martian;

/// The real table: a CSV file with the columns `prefix` and `origin_as`.
pub(super) const FIB_FILE: &str = "ipv4-2015-11-01.csv.gz";

/// Which prefixes a table has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill {
    /// All of the real table.
    Real,
    /// So many of the real table's, of the lengths /16 to /24 that an access router sees.
    Usual(usize),
    /// The real table's, and longer ones within them up to so many.
    Padded(usize),
}

/// Prefixes, each with the number of its next hop.
pub(super) struct Prefixes {
    list: Vec<(Ipv4Net, u32)>,
    by_prefix: HashMap<Ipv4Net, u32>,
}

impl Prefixes {
    /// Reads the table from its folder and makes another of it.
    pub(super) fn read(folder: &Path, fill: Fill) -> Result<Prefixes, String> {
        let mut list = read_real(&folder.join(FIB_FILE))?;
        let mut random = Random::new(1);
        match fill {
            Fill::Real => {}
            Fill::Usual(count) => {
                list.retain(|(prefix, _)| (16..=24).contains(&prefix.prefix_len()));
                // The first `count` of a shuffled list, in the order they had.
                while list.len() > count {
                    let one = random.position(list.len());
                    list.swap_remove(one);
                }
                list.sort_unstable();
            }
            Fill::Padded(count) => pad(&mut list, count, &mut random),
        }
        let by_prefix = list.iter().copied().collect();
        Ok(Prefixes { list, by_prefix })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ipv4Net, u32)> {
        self.list.iter().copied()
    }

    /// Addresses drawn uniformly over the prefixes, with random host bits.
    pub(super) fn destinations(&self, count: u64) -> Vec<Ipv4Addr> {
        let mut random = Random::new(2);
        let draw = |_| {
            let (prefix, _) = self.list.get(random.position(self.list.len())).copied().unwrap_or_default();
            let host_bits = random.next() as u32 & !prefix.netmask().to_bits();
            Ipv4Addr::from_bits(prefix.addr().to_bits() | host_bits)
        };
        (0..count).map(draw).collect()
    }

    /// The next hop of an address, by trying every length: the slow twin of the router's tables.
    pub(super) fn lookup(&self, address: Ipv4Addr) -> Option<u32> {
        let prefixes = (0..=32).rev().filter_map(|length| Ipv4Net::new(address, length).ok());
        prefixes.map(|prefix| prefix.trunc()).find_map(|prefix| self.by_prefix.get(&prefix).copied())
    }
}

fn read_real(path: &Path) -> Result<Vec<(Ipv4Net, u32)>, String> {
    let mut list: Vec<(Ipv4Net, u32)> =
        read(path)?.into_iter().map(|(prefix, n): (Ipv4Net, u32)| (prefix.trunc(), n)).collect();
    // What no router forwards to would not come out.
    list.retain(|(prefix, _)| !martian::is_martian_destination(prefix.addr().to_bits()));
    list.sort_unstable();
    list.dedup_by_key(|(prefix, _)| *prefix);
    Ok(list)
}

/// The lines of a real table: prefixes with numbers.
pub(super) fn read<P: FromStr>(path: &Path) -> Result<Vec<(P, u32)>, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut list = Vec::new();
    for line in BufReader::new(GzDecoder::new(file)).lines().skip(1) {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let entry = line.split_once(',');
        let entry = entry.and_then(|(prefix, origin)| Some((prefix.parse().ok()?, origin.trim().parse().ok()?)));
        list.push(entry.ok_or_else(|| wrong(format!("\"{line}\" is not a prefix and a number")))?);
    }
    Ok(list)
}

/// Adds prefixes that are 1 to 4 bits longer than one there is, up to /24, with next hops of their own.
fn pad(list: &mut Vec<(Ipv4Net, u32)>, count: usize, random: &mut Random) {
    let mut there: HashMap<Ipv4Net, u32> = list.iter().copied().collect();
    let shorter: Vec<Ipv4Net> =
        list.iter().map(|(prefix, _)| *prefix).filter(|prefix| prefix.prefix_len() < 24).collect();
    while there.len() < count && !shorter.is_empty() {
        let Some(parent) = shorter.get(random.position(shorter.len())) else { continue };
        let length = (parent.prefix_len() + 1 + random.below(4) as u8).min(24);
        let host_bits = random.next() as u32 & !parent.netmask().to_bits();
        let address = Ipv4Addr::from_bits(parent.addr().to_bits() | host_bits);
        let next_hop = random.next() as u32 % 65_536;
        if let Ok(prefix) = Ipv4Net::new(address, length) {
            there.entry(prefix.trunc()).or_insert(next_hop);
        }
    }
    *list = there.into_iter().collect();
    list.sort_unstable();
}
