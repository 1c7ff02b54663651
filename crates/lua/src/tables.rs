//! Tables that scripts look packets up in, a whole batch at a time: longest prefix match, exact match and meters of `weir-table`.
//!
//! A script gives packets keys, asks a table about all of them, and then what was found for each. Tables are read-only for scripts, and are
//! shared by all workers; meters are each worker's own.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_mem::Domain;
use weir_packet::BATCH;
use weir_table::exact::{Exact, Index};
use weir_table::lpm4::{self, Lookup4, Lpm4, Packed, Prefix4};
use weir_table::lpm6::{self, Compiled as Compiled6, Lookup6, Lpm6, Prefix6, Refused};
use weir_table::meter::{Colour, Meter, Profile};

use crate::view::Seen;

/// The largest value of an entry.
pub(crate) const MAX_VALUE: u32 = lpm4::MAX_VALUE - 1;

/// What no prefix covers.
const MISS: u32 = lpm4::MAX_VALUE;

/// Up to here all numbers are told apart in Lua.
pub(crate) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// What is in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Values of prefixes, each once.
    Prefixes(Vec<(IpNet, u32)>),
    /// Values of numbers, each once.
    Numbers(Vec<(u64, u32)>),
    /// Meters of one kind: single rate and one burst (RFC 2697 without an excess burst).
    Meters {
        /// How many.
        count: u32,
        /// What each does.
        profile: Profile,
    },
}

/// Why tables cannot be made: there is no memory for them.
#[derive(Clone, Debug)]
pub struct NoRoom(String);

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tables of a script by their names, to look up in.
#[derive(Clone, Default)]
pub struct Tables(BTreeMap<String, Compiled>);

/// A clone has meters of its own, and shares the rest.
#[derive(Clone)]
enum Compiled {
    Prefixes { four: Arc<<Packed as Lpm4>::Reader>, six: Option<Arc<<Compiled6 as Lpm6>::Reader>> },
    Numbers { index: Arc<Index>, entries: Arc<[(u64, u32)]> },
    Meters { profile: Profile, meters: Vec<Meter> },
}

impl Tables {
    /// Makes tables of these contents.
    ///
    /// # Errors
    /// That there is no room for one.
    pub fn new(contents: &BTreeMap<String, Contents>) -> Result<Tables, NoRoom> {
        let compiled = |(name, contents): (&String, &Contents)| {
            let compiled = Compiled::new(contents);
            let compiled =
                compiled.map_err(|problem| NoRoom(format!("the table \"{name}\" cannot be made: {problem}")))?;
            Ok((name.clone(), compiled))
        };
        Ok(Tables(contents.iter().map(compiled).collect::<Result<_, _>>()?))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is told of a name that none has.
    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        match known.is_empty() {
            true => format!("there is no table \"{name}\"; name it in the key \"tables\" of the configuration"),
            false => format!("there is no table \"{name}\"; the configuration has {}", known.join(", ")),
        }
    }
}

impl Compiled {
    fn new(contents: &Contents) -> Result<Compiled, String> {
        match contents {
            Contents::Prefixes(prefixes) => Self::of_prefixes(prefixes),
            Contents::Numbers(numbers) => Self::of_numbers(numbers),
            Contents::Meters { count, profile } => {
                Ok(Compiled::Meters { profile: *profile, meters: vec![profile.meter(0); *count as usize] })
            }
        }
    }

    fn of_prefixes(prefixes: &[(IpNet, u32)]) -> Result<Compiled, String> {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for (prefix, value) in prefixes {
            match prefix {
                IpNet::V4(prefix) => four.push((*prefix, *value)),
                IpNet::V6(prefix) => six.push((*prefix, *value)),
            }
        }
        let six = if six.is_empty() { None } else { Some(of_six(&six)?) };
        Ok(Compiled::Prefixes { four: of_four(&four)?, six })
    }

    fn of_numbers(numbers: &[(u64, u32)]) -> Result<Compiled, String> {
        let capacity = u32::try_from(numbers.len()).unwrap_or(u32::MAX).max(1);
        let mut exact = Exact::new(capacity, 0).map_err(|error| error.to_string())?;
        for (at, (number, _)) in (0..).zip(numbers) {
            exact.insert(exact.index().hash(0, *number), at).map_err(|error| error.to_string())?;
        }
        Ok(Compiled::Numbers { index: Arc::clone(exact.index()), entries: numbers.into() })
    }
}

fn of_four(prefixes: &[(Ipv4Net, u32)]) -> Result<Arc<<Packed as Lpm4>::Reader>, String> {
    let long = prefixes.iter().filter(|(prefix, _)| prefix.prefix_len() > 24);
    let long: BTreeSet<u32> = long.map(|(prefix, _)| prefix.network().to_bits() >> 8).collect();
    let groups = u32::try_from(long.len()).unwrap_or(u32::MAX).max(1);
    let config = lpm4::Config { max_routes: prefixes.len().max(1), max_groups: groups, ..lpm4::Config::new(MISS) };
    // Nothing is changed later, so nobody has to be waited for.
    let mut table = Packed::new(&config, &Domain::new()).map_err(|error| error.to_string())?;
    for (prefix, value) in prefixes {
        let Some(prefix) = Prefix4::covering(prefix.addr().to_bits(), prefix.prefix_len()) else { continue };
        table.insert(prefix, *value).map_err(|error| error.to_string())?;
    }
    Ok(Arc::clone(table.reader()))
}

/// With the lines that real tables need, or, where prefixes are of another kind, with those that any need.
fn of_six(prefixes: &[(Ipv6Net, u32)]) -> Result<Arc<<Compiled6 as Lpm6>::Reader>, String> {
    let any = lpm6::Config::for_any(MISS, prefixes.len());
    let few = u32::try_from(prefixes.len().saturating_mul(8).saturating_add(4096)).unwrap_or(u32::MAX);
    let usual = lpm6::Config { max_lines: few.min(any.max_lines), ..any };
    match try_six(prefixes, &usual)? {
        Err(Refused::NoRoom { .. }) => try_six(prefixes, &any)?.map_err(|refused| refused.to_string()),
        tried => tried.map_err(|refused| refused.to_string()),
    }
}

/// A table of so many lines, or why they do not do.
fn try_six(
    prefixes: &[(Ipv6Net, u32)],
    config: &lpm6::Config,
) -> Result<Result<Arc<<Compiled6 as Lpm6>::Reader>, Refused>, String> {
    let mut table = Compiled6::new(config, &Domain::new()).map_err(|error| error.to_string())?;
    for (prefix, value) in prefixes {
        let Some(prefix) = Prefix6::covering(prefix.addr().to_bits(), prefix.prefix_len()) else { continue };
        if let Err(refused) = table.insert(prefix, *value) {
            return Ok(Err(refused));
        }
    }
    Ok(Ok(Arc::clone(table.reader())))
}

/// What looks up for one virtual machine.
pub(crate) struct Finder {
    seen: Arc<Seen>,
    tables: Tables,
}

/// The keys of a batch: whole numbers below a bound.
struct Keys {
    keys: [u64; BATCH],
    /// Who has one.
    given: u64,
    count: usize,
}

impl Finder {
    pub(crate) fn new(seen: Arc<Seen>, tables: &Tables) -> Finder {
        Finder { seen, tables: tables.clone() }
    }

    /// Looks all packets of the batch up that were given keys. What is wrong, if anything is.
    pub(crate) fn look_up(&mut self, name: &str) -> Option<String> {
        let seen = &*self.seen;
        match self.tables.0.get_mut(name) {
            Some(Compiled::Prefixes { four, six }) => find_prefixes(&**four, six.as_deref(), seen),
            Some(Compiled::Numbers { index, entries }) => {
                find_numbers(index, entries, &Keys::read(seen, MAX_NUMBER + 1), seen);
            }
            Some(Compiled::Meters { profile, meters }) => {
                let keys = Keys::read(seen, meters.len() as u64);
                measure(profile, meters, &keys, seen);
            }
            None => return Some(self.tables.unknown(name)),
        }
        None
    }
}

impl Keys {
    /// Those below the bound, with their fractions cut off.
    fn read(seen: &Seen, bound: u64) -> Keys {
        let mut keys = Keys { keys: [0; BATCH], given: 0, count: seen.count() };
        for (n, (to, key)) in keys.keys.iter_mut().zip(seen.keys.iter().skip(1)).take(keys.count).enumerate() {
            let key = f64::from_bits(key.load(Relaxed));
            if key >= 0.0 && key < bound as f64 {
                *to = key as u64;
                keys.given |= 1 << n;
            }
        }
        keys
    }

    fn has(&self, n: usize) -> bool {
        self.given >> n & 1 == 1
    }
}

/// Writes what was found for each packet.
fn answer(keys: &Keys, seen: &Seen, mut found: impl FnMut(usize) -> Option<u32>) {
    for (n, place) in seen.found.iter().skip(1).take(keys.count).enumerate() {
        let value = if keys.has(n) { found(n) } else { None };
        place.store(value.map_or(Seen::NOTHING, f64::from).to_bits(), Relaxed);
    }
}

/// Of a packet that has both an address of IPv6 and a number, the address counts.
fn find_prefixes(four: &impl Lookup4, six: Option<&impl Lookup6>, seen: &Seen) {
    let keys = Keys::read(seen, 1 << 32);
    let (mut addresses, mut values) = ([0; BATCH], [MISS; BATCH]);
    addresses.iter_mut().zip(&keys.keys).for_each(|(address, key)| *address = *key as u32);
    let (addresses, values) = (addresses.get(..keys.count).unwrap_or_default(), &mut values);
    four.lookup_batch(addresses, values);
    answer(&keys, seen, |n| values.get(n).copied().filter(|value| *value != MISS));
    if seen.asked.load(Relaxed) != 0 {
        find_addresses(six, seen);
    }
}

/// Looks up by addresses of IPv6 whoever was given one.
fn find_addresses(six: Option<&impl Lookup6>, seen: &Seen) {
    let (mut packets, mut addresses, mut values) = ([0; BATCH], [0; BATCH], [MISS; BATCH]);
    let given = (1..=seen.count()).filter_map(|n| Some((n, seen.address(n)?)));
    let mut count = 0;
    for (((n, address), packet), to) in given.zip(&mut packets).zip(&mut addresses) {
        (*packet, *to) = (n, address);
        count += 1;
    }
    if let Some(six) = six {
        six.lookup_batch(addresses.get(..count).unwrap_or_default(), &mut values);
    }
    for (n, value) in packets.iter().zip(values).take(count) {
        seen.note(*n, Some(value).filter(|value| *value != MISS));
    }
}

fn find_numbers(index: &Index, entries: &[(u64, u32)], keys: &Keys, seen: &Seen) {
    let hashes = keys.keys.map(|key| index.hash(0, key));
    hashes.iter().take(keys.count).for_each(|hash| index.prefetch(*hash));
    let entry = |at: u64| entries.get(usize::try_from(at).ok()?);
    answer(keys, seen, |n| {
        let (key, hash) = (keys.keys.get(n)?, *hashes.get(n)?);
        let is = |at: u64| entry(at).is_some_and(|(number, _)| number == key);
        entry(index.candidate(hash).filter(|at| is(*at)).or_else(|| index.find(hash, is))?).map(|(_, value)| *value)
    });
}

fn measure(profile: &Profile, meters: &mut [Meter], keys: &Keys, seen: &Seen) {
    let now = f64::from_bits(seen.now.load(Relaxed)) as u64;
    answer(keys, seen, |n| {
        let meter = meters.get_mut(usize::try_from(*keys.keys.get(n)?).ok()?)?;
        let length = seen.lengths.get(n + 1)?.load(Relaxed);
        Some(u32::from(profile.colour(meter, now, length, Colour::Green) == Colour::Green))
    });
}
