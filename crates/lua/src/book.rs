//! The tables of a script as the control side knows them: what the configuration has in them, what commands said, and the writers of what workers
//! look up in.
//!
//! What commands say goes over the configuration, and stays across reloads. Each change is seen by all workers at once, and by each packet before
//! or behind it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use weir_mem::Domain;
use weir_table::lpm4::{self, Lpm4, Packed, Prefix4};
use weir_table::lpm6::{self, Compiled as Compiled6, Lpm6, Prefix6};
use weir_table::meter::Bucket;
use weir_table::numbers::Numbers;
use weir_table::rates::Rates;

use crate::tables::{Compiled, Contents, MISS, NoRoom, Tables, Wanted, profile};

/// What an entry is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Prefix(IpNet),
    Number(u64),
    Meter(u32),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Prefix(prefix) => prefix.fmt(f),
            Key::Number(number) => number.fmt(f),
            Key::Meter(meter) => meter.fmt(f),
        }
    }
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Value(u32),
    Rate(Bucket),
}

/// An entry of a table, and whose word counts: that of the configuration or of commands.
pub(crate) type Row = (Key, Given, &'static str);

/// See the module.
pub(crate) struct Book {
    wanted: Arc<BTreeMap<String, Wanted>>,
    kept: BTreeMap<String, Kept>,
}

/// A table beside what the configuration has in it.
struct Kept {
    /// What commands said.
    said: BTreeMap<Key, Given>,
    /// How many of those the configuration has not.
    added: u32,
    writer: Writer,
}

enum Writer {
    Prefixes { four: Box<Packed>, six: Option<Box<Compiled6>> },
    Numbers(Numbers),
    Rates(Rates),
}

/// The book of tables that are in use.
pub(crate) type Shared = Arc<Mutex<Book>>;

/// Looks into a book.
pub(crate) fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Book {
    /// Makes tables.
    ///
    /// # Errors
    /// That there is no room for one.
    pub(crate) fn new(wanted: Arc<BTreeMap<String, Wanted>>, domain: &Domain) -> Result<Book, NoRoom> {
        let made = |(name, wanted): (&String, &Wanted)| {
            let writer = Writer::new(wanted, domain)
                .map_err(|problem| NoRoom(format!("the table \"{name}\" cannot be made: {problem}")))?;
            Ok((name.clone(), Kept { said: BTreeMap::new(), added: 0, writer }))
        };
        let kept = wanted.iter().map(made).collect::<Result<_, _>>()?;
        Ok(Book { wanted, kept })
    }

    /// What workers look up in; it follows every change.
    pub(crate) fn tables(&self) -> Tables {
        let compiled =
            |(name, kept): (&String, &Kept)| Some((name.clone(), kept.writer.compiled(self.wanted.get(name)?)?));
        Tables(self.kept.iter().filter_map(compiled).collect())
    }

    /// The names of all tables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.keys().map(String::as_str)
    }

    /// What the configuration wants of a table.
    pub(crate) fn wanted(&self, name: &str) -> Option<&Wanted> {
        self.wanted.get(name)
    }

    /// What counts for a key of a table.
    pub(crate) fn counts(&self, name: &str, key: Key) -> Option<Given> {
        self.said(name, key).or_else(|| self.wanted.get(name)?.contents.get(key))
    }

    /// What commands said of a key.
    pub(crate) fn said(&self, name: &str, key: Key) -> Option<Given> {
        self.kept.get(name)?.said.get(&key).copied()
    }

    /// How many entries a table has, and how many of them commands said.
    pub(crate) fn sizes(&self, name: &str) -> (usize, usize) {
        let own = self.wanted.get(name).map_or(0, |wanted| wanted.contents.len());
        self.kept.get(name).map_or((own, 0), |kept| (own + kept.added as usize, kept.said.len()))
    }

    /// Has commands say something else of a key, or nothing. Answers what they said before.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    pub(crate) fn say(&mut self, name: &str, key: Key, given: Option<Given>) -> Result<Option<Given>, String> {
        let wanted = self.wanted.get(name).ok_or_else(|| self.unknown(name))?;
        let by_config = wanted.contents.get(key);
        let kept = self.kept.get_mut(name).ok_or_else(|| format!("there is no table \"{name}\""))?;
        let before = kept.said.get(&key).copied();
        let adds = by_config.is_none() && given.is_some() && before.is_none();
        if adds && kept.added >= wanted.max_added {
            let most = wanted.max_added;
            return Err(format!("{most} entries were added to {name} already; for more, raise its max_added"));
        }
        kept.writer.write(key, given.or(by_config)).map_err(|problem| format!("{name} {key}: {problem}"))?;
        kept.added += u32::from(adds);
        match given {
            Some(given) => kept.said.insert(key, given),
            None => kept.said.remove(&key),
        };
        kept.added -= u32::from(by_config.is_none() && given.is_none() && before.is_some());
        Ok(before)
    }

    /// Has said of each table what another book has said of the one of the same name, if that is looked up in the same way.
    ///
    /// # Errors
    ///
    /// What is refused first.
    pub(crate) fn take_over(&mut self, other: &Book) -> Result<(), String> {
        for (name, kept) in &other.kept {
            for (key, given) in &kept.said {
                if self.takes(name, *key) {
                    self.say(name, *key, Some(*given))?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is a table of this name that has such keys.
    pub(crate) fn takes(&self, name: &str, key: Key) -> bool {
        self.wanted.get(name).is_some_and(|wanted| match (&wanted.contents, key) {
            (Contents::Prefixes(_), Key::Prefix(_)) | (Contents::Numbers(_), Key::Number(_)) => true,
            (Contents::Meters { count, .. }, Key::Meter(meter)) => meter < *count,
            _ => false,
        })
    }

    /// At most so many entries of a table behind a key, in order; at first from the first on.
    pub(crate) fn rows(&self, name: &str, behind: Option<Key>, most: usize) -> Vec<Row> {
        let Some((wanted, kept)) = self.wanted.get(name).zip(self.kept.get(name)) else { return Vec::new() };
        let bound = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let said = kept.said.range((bound, Bound::Unbounded)).map(|(key, given)| (*key, *given, "cli"));
        let said: Vec<Row> = said.take(most).collect();
        let own = wanted.contents.behind(behind).take(most).map(|(key, given)| (key, given, "config"));
        let mut rows: Vec<Row> = own.chain(said.iter().copied()).collect();
        // What commands said stands behind what the configuration says of the same, and goes over it.
        rows.sort_by_key(|(key, ..)| *key);
        rows.dedup_by(|next, one| {
            let same = next.0 == one.0;
            if same {
                *one = *next;
            }
            same
        });
        rows.truncate(most);
        rows
    }

    /// At most so many of the entries behind a key that commands said.
    pub(crate) fn said_behind(&self, name: &str, behind: Option<Key>, most: usize) -> Vec<(Key, Given)> {
        let bound = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let said = self.kept.get(name).map(|kept| kept.said.range((bound, Bound::Unbounded)));
        said.into_iter().flatten().take(most).map(|(key, given)| (*key, *given)).collect()
    }

    /// What is told of a name that no table has.
    pub(crate) fn unknown(&self, name: &str) -> String {
        match self.names().collect::<Vec<_>>().as_slice() {
            [] => format!("there is no table \"{name}\"; the configuration has none, write one into the key tables"),
            names => format!("there is no table \"{name}\"; write one of {}", names.join(", ")),
        }
    }
}

impl Contents {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Contents::Prefixes(prefixes) => prefixes.len(),
            Contents::Numbers(numbers) => numbers.len(),
            Contents::Meters { own, .. } => own.len(),
        }
    }

    /// The entry at a place.
    fn at(&self, at: usize) -> Option<(Key, Given)> {
        match self {
            Contents::Prefixes(all) => all.get(at).map(|(prefix, value)| (Key::Prefix(*prefix), Given::Value(*value))),
            Contents::Numbers(all) => all.get(at).map(|(number, value)| (Key::Number(*number), Given::Value(*value))),
            Contents::Meters { own, .. } => {
                own.get(at).map(|(meter, bucket)| (Key::Meter(*meter), Given::Rate(*bucket)))
            }
        }
    }

    /// The place of the first entry behind a key.
    fn place_behind(&self, key: Key) -> usize {
        match self {
            Contents::Prefixes(all) => all.partition_point(|(prefix, _)| Key::Prefix(*prefix) <= key),
            Contents::Numbers(all) => all.partition_point(|(number, _)| Key::Number(*number) <= key),
            Contents::Meters { own, .. } => own.partition_point(|(meter, _)| Key::Meter(*meter) <= key),
        }
    }

    /// The entries behind a key, in order; at first from the first on.
    fn behind(&self, key: Option<Key>) -> impl Iterator<Item = (Key, Given)> {
        (key.map_or(0, |key| self.place_behind(key))..self.len()).filter_map(|at| self.at(at))
    }

    /// What is said of a key.
    fn get(&self, key: Key) -> Option<Given> {
        let (found, given) = self.at(self.place_behind(key).checked_sub(1)?)?;
        (found == key).then_some(given)
    }
}

impl Writer {
    fn new(wanted: &Wanted, domain: &Domain) -> Result<Writer, String> {
        // With the lines that real tables need, or, where prefixes are of another kind, with those that any need.
        match Writer::empty(wanted, false, domain)?.filled(&wanted.contents) {
            Err(_) if matches!(wanted.contents, Contents::Prefixes(_)) => {
                Writer::empty(wanted, true, domain)?.filled(&wanted.contents)
            }
            filled => filled,
        }
    }

    /// One that has nothing yet; prefixes of IPv6 are `any`, or usual ones.
    fn empty(wanted: &Wanted, any: bool, domain: &Domain) -> Result<Writer, String> {
        let room = wanted.max_added as usize;
        match &wanted.contents {
            Contents::Prefixes(prefixes) => Writer::of_prefixes(prefixes, room, any, domain),
            Contents::Numbers(numbers) => {
                let capacity = u32::try_from(numbers.len().saturating_add(room)).unwrap_or(u32::MAX).max(1);
                let numbers = Numbers::new(capacity, 0, domain);
                numbers.map(Writer::Numbers).map_err(|error| error.to_string())
            }
            Contents::Meters { count, own, .. } => {
                let capacity = own.len().saturating_add(room).min(*count as usize) as u32;
                Rates::new(*count, capacity, domain).map(Writer::Rates).map_err(|error| error.to_string())
            }
        }
    }

    /// With the entries of these contents.
    fn filled(mut self, contents: &Contents) -> Result<Writer, String> {
        contents.behind(None).try_for_each(|(key, given)| self.write(key, Some(given)))?;
        Ok(self)
    }

    /// A table for such prefixes and so many others.
    fn of_prefixes(prefixes: &[(IpNet, u32)], room: usize, any: bool, domain: &Domain) -> Result<Writer, String> {
        let four = prefixes.iter().filter_map(|(prefix, _)| match prefix {
            IpNet::V4(prefix) => Some(prefix),
            IpNet::V6(_) => None,
        });
        let long = four.clone().filter(|prefix| prefix.prefix_len() > 24);
        let long: BTreeSet<u32> = long.map(|prefix| prefix.network().to_bits() >> 8).collect();
        let groups = u32::try_from(long.len().saturating_add(room)).unwrap_or(u32::MAX).max(1);
        let fours = four.count();
        let config = lpm4::Config { max_routes: (fours + room).max(1), max_groups: groups, ..lpm4::Config::new(MISS) };
        let four = Packed::new(&config, domain).map(Box::new).map_err(|error| error.to_string())?;
        let sixes = prefixes.len() - fours + room;
        if sixes == 0 {
            return Ok(Writer::Prefixes { four, six: None });
        }
        let whole = lpm6::Config::for_any(MISS, sixes);
        let few = u32::try_from(sixes.saturating_mul(8).saturating_add(4096)).unwrap_or(u32::MAX);
        let max_lines = if any { whole.max_lines } else { few.min(whole.max_lines) };
        let six = Compiled6::new(&lpm6::Config { max_lines, ..whole }, domain).map_err(|error| error.to_string())?;
        Ok(Writer::Prefixes { four, six: Some(Box::new(six)) })
    }

    /// What workers look up in.
    fn compiled(&self, wanted: &Wanted) -> Option<Compiled> {
        Some(match (self, &wanted.contents) {
            (Writer::Prefixes { four, six }, _) => Compiled::Prefixes {
                four: Arc::clone(four.reader()),
                six: six.as_ref().map(|six| Arc::clone(six.reader())),
            },
            (Writer::Numbers(numbers), _) => Compiled::Numbers(Arc::clone(numbers.reader())),
            (Writer::Rates(rates), Contents::Meters { count, usual, .. }) => {
                let usual = profile(*usual).ok()?;
                let meters = vec![usual.meter(0); *count as usize];
                Compiled::Meters { usual, own: Arc::clone(rates.reader()), meters }
            }
            (Writer::Rates(_), _) => return None,
        })
    }

    /// Writes what counts for a key from now on; nothing, or the rate of all meters, where it is `None`.
    fn write(&mut self, key: Key, given: Option<Given>) -> Result<(), String> {
        match (self, key, given) {
            (Writer::Prefixes { four, six }, Key::Prefix(prefix), given) => write_prefix(four, six, prefix, given),
            (Writer::Numbers(numbers), Key::Number(number), Some(Given::Value(value))) => {
                numbers.insert(number, value).map(drop).map_err(|refused| refused.to_string())
            }
            (Writer::Numbers(numbers), Key::Number(number), None) => {
                numbers.remove(number);
                Ok(())
            }
            (Writer::Rates(rates), Key::Meter(meter), Some(Given::Rate(bucket))) => {
                rates.set(meter, bucket).map(drop).map_err(|refused| refused.to_string())
            }
            (Writer::Rates(rates), Key::Meter(meter), None) => {
                rates.clear(meter);
                Ok(())
            }
            _ => Err("the table has entries of another kind".to_owned()),
        }
    }
}

fn write_prefix(
    four: &mut Packed,
    six: &mut Option<Box<Compiled6>>,
    prefix: IpNet,
    given: Option<Given>,
) -> Result<(), String> {
    let value = match given {
        Some(Given::Value(value)) => Some(value),
        Some(Given::Rate(_)) => return Err("the table has values, and no rates".to_owned()),
        None => None,
    };
    match (prefix, six) {
        (IpNet::V4(prefix), _) => {
            let prefix = Prefix4::covering(prefix.addr().to_bits(), prefix.prefix_len());
            let written = prefix.map(|prefix| match value {
                Some(value) => four.insert(prefix, value),
                None => four.remove(prefix),
            });
            written.map_or(Ok(()), |written| written.map(drop)).map_err(|refused| refused.to_string())
        }
        (IpNet::V6(prefix), Some(six)) => {
            let prefix = Prefix6::covering(prefix.addr().to_bits(), prefix.prefix_len());
            let written = prefix.map(|prefix| match value {
                Some(value) => six.insert(prefix, value),
                None => six.remove(prefix),
            });
            written.map_or(Ok(()), |written| written.map(drop)).map_err(|refused| refused.to_string())
        }
        (IpNet::V6(_), None) => Err("the table has no room for prefixes of IPv6; raise its max_added".to_owned()),
    }
}
