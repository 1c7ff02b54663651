//! Tables that scripts look packets up in, a whole batch at a time: longest prefix match, exact match and meters of `weir-table`.
//!
//! A script gives packets keys, asks a table about all of them, and then what was found for each. Tables are read-only for scripts, and are
//! shared by all workers; what meters remember is each worker's own. The control side [writes](crate::book) them meanwhile.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ipnet::IpNet;
use weir_mem::Domain;
use weir_packet::BATCH;
use weir_table::lpm4::{self, Lookup4, Lpm4, Packed};
use weir_table::lpm6::{Compiled as Compiled6, Lookup6, Lpm6};
use weir_table::meter::{Bucket, Colour, Error, Meter, Parameters, Profile};
use weir_table::{numbers, rates};

use crate::book::Book;
use crate::view::Seen;

/// The largest value of an entry.
pub(crate) const MAX_VALUE: u32 = lpm4::MAX_VALUE - 1;

/// What no prefix covers.
pub(crate) const MISS: u32 = lpm4::MAX_VALUE;

/// Up to here all numbers are told apart in Lua.
pub(crate) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// What is in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Values of prefixes, each once, in order.
    Prefixes(Vec<(IpNet, u32)>),
    /// Values of numbers, each once, in order.
    Numbers(Vec<(u64, u32)>),
    /// Meters of one kind: single rate and one burst (RFC 2697 without an excess burst).
    Meters {
        /// How many.
        count: u32,
        /// What each lets pass.
        usual: Bucket,
        /// What some let pass in its place, each once, in order.
        own: Vec<(u32, Bucket)>,
    },
}

/// What a table is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What is in it.
    pub contents: Contents,
    /// How many entries may be added while it is in use.
    pub max_added: u32,
}

/// Why tables cannot be made: there is no memory for them.
#[derive(Clone, Debug)]
pub struct NoRoom(pub(crate) String);

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What meters of this rate and burst do.
///
/// # Errors
///
/// What is wrong with them.
pub(crate) fn profile(committed: Bucket) -> Result<Profile, Error> {
    Profile::new(Parameters::SingleRate { committed, excess_burst: 0 })
}

/// The tables of a script by their names, to look up in.
#[derive(Clone, Default)]
pub struct Tables(pub(crate) BTreeMap<String, Compiled>);

/// A clone has meters of its own, and shares the rest.
#[derive(Clone)]
pub(crate) enum Compiled {
    Prefixes { four: Arc<<Packed as Lpm4>::Reader>, six: Option<Arc<<Compiled6 as Lpm6>::Reader>> },
    Numbers(Arc<numbers::Reader>),
    Meters { usual: Profile, own: Arc<rates::Reader>, meters: Vec<Meter> },
}

impl Tables {
    /// Makes tables of these contents, which nobody changes.
    ///
    /// # Errors
    /// That there is no room for one.
    pub fn new(contents: &BTreeMap<String, Contents>) -> Result<Tables, NoRoom> {
        let wanted = |(name, contents): (&String, &Contents)| {
            (name.clone(), Wanted { contents: contents.clone(), max_added: 0 })
        };
        Ok(Book::new(Arc::new(contents.iter().map(wanted).collect()), &Domain::new())?.tables())
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
            Some(Compiled::Numbers(numbers)) => find_numbers(numbers, &Keys::read(seen, MAX_NUMBER + 1), seen),
            Some(Compiled::Meters { usual, own, meters }) => {
                let keys = Keys::read(seen, meters.len() as u64);
                measure((usual, own), meters, &keys, seen);
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

fn find_numbers(numbers: &numbers::Reader, keys: &Keys, seen: &Seen) {
    let mut values = [None; BATCH];
    numbers.lookup_batch(keys.keys.get(..keys.count).unwrap_or_default(), &mut values);
    answer(keys, seen, |n| values.get(n).copied().flatten());
}

/// Meters packets by the rates of their own that meters have, or by the usual one. What a meter has left when its rate changes counts on, as far as
/// the burst has room.
fn measure((usual, own): (&Profile, &rates::Reader), meters: &mut [Meter], keys: &Keys, seen: &Seen) {
    let now = f64::from_bits(seen.now.load(Relaxed)) as u64;
    answer(keys, seen, |n| {
        let key = *keys.keys.get(n)?;
        let meter = meters.get_mut(usize::try_from(key).ok()?)?;
        let of_its_own = own.of(key as u32).and_then(|bucket| profile(bucket).ok());
        let length = seen.lengths.get(n + 1)?.load(Relaxed);
        let colour = of_its_own.as_ref().unwrap_or(usual).colour(meter, now, length, Colour::Green);
        Some(u32::from(colour == Colour::Green))
    });
}
