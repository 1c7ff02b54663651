//! Tables that scripts look packets up in, a whole batch at a time: longest prefix match, exact match and meters of `weir-table`.
//!
//! A script gives packets keys, asks a table about all of them, and then what was found for each. Tables are read-only for scripts, and are
//! shared by all workers; meters are each worker's own.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ipnet::Ipv4Net;
use weir_mem::Domain;
use weir_packet::BATCH;
use weir_table::exact::{Exact, Index};
use weir_table::lpm4::{self, Lookup4, Lpm4, Packed, Prefix4};
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
    Prefixes(Vec<(Ipv4Net, u32)>),
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
    Prefixes(Arc<<Packed as Lpm4>::Reader>),
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

    fn of_prefixes(prefixes: &[(Ipv4Net, u32)]) -> Result<Compiled, String> {
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
        Ok(Compiled::Prefixes(Arc::clone(table.reader())))
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
            Some(Compiled::Prefixes(reader)) => find_prefixes(&**reader, &Keys::read(seen, 1 << 32), seen),
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
        let mut keys = Keys { keys: [0; BATCH], given: 0, count: (seen.count.load(Relaxed) as usize).min(BATCH) };
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

fn find_prefixes(table: &impl Lookup4, keys: &Keys, seen: &Seen) {
    let (mut addresses, mut values) = ([0; BATCH], [MISS; BATCH]);
    addresses.iter_mut().zip(&keys.keys).for_each(|(address, key)| *address = *key as u32);
    let (addresses, values) = (addresses.get(..keys.count).unwrap_or_default(), &mut values);
    table.lookup_batch(addresses, values);
    answer(keys, seen, |n| values.get(n).copied().filter(|value| *value != MISS));
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
