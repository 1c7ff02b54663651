//! Tables that scripts look packets up in, a whole batch at a time: the house's longest prefix match, exact match and meters.
//!
//! A script gives packets keys, asks a table about all of them, and then what was found for each. Tables are read-only for scripts, and are
//! shared by all workers; meters are each worker's own.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ipnet::Ipv4Net;
use weir_config::{Change, ConfigError, ErrorKind, Errors, FilePath, Malformed, Rate, Rows, Scalar, Size, config};
use weir_mem::Domain;
use weir_packet::BATCH;
use weir_stage::Env;
use weir_table::exact::{Exact, Index};
use weir_table::lpm4::{self, Lookup4, Lpm4, Packed, Prefix4};
use weir_table::meter::{Bucket, Colour, Meter, Parameters, Profile};

use crate::view::Seen;

config! {
    /// A table that a script looks packets up in. It has one of `prefixes` (with `prefixes_csv`), `numbers_csv` and `meters`.
    pub struct TableConfig {
        /// IPv4 prefixes and their values. The key is an address as a number; of the prefixes that hold it the longest counts.
        pub prefixes: BTreeMap<Ipv4Net, u32> = empty, live;
        /// More of them from a file with the columns `prefix` and `value`.
        pub prefixes_csv: Option<FilePath> = optional, live, contents(Change::Live);
        /// Numbers and their values, from a file with the columns `number` and `value`. The key is the number.
        pub numbers_csv: Option<FilePath> = optional, live, contents(Change::Live);
        /// So many meters. The key is the number of one, from 0; found is 1 while its packets keep to `rate` and `burst`, else 0.
        pub meters: Option<u32> = optional, live, range(1..=1_048_576);
        /// What each meter lets pass.
        pub rate: Option<Rate> = optional, live;
        /// How much may come at once.
        pub burst: Option<Size> = optional, live;
    }
}

/// The largest value of an entry.
pub const MAX_VALUE: u32 = lpm4::MAX_VALUE - 1;

/// What no prefix covers.
const MISS: u32 = lpm4::MAX_VALUE;

/// The most entries of a table.
pub const MAX_ENTRIES: usize = 8_000_000;

/// Up to here all numbers are told apart in Lua.
const MAX_NUMBER: u64 = (1 << 53) - 1;

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
#[derive(Default)]
pub struct Tables(BTreeMap<String, Compiled>);

enum Compiled {
    Prefixes(Arc<<Packed as Lpm4>::Reader>),
    Numbers { index: Arc<Index>, entries: Vec<(u64, u32)> },
    Meters { count: u32, profile: Profile },
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

    fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl Compiled {
    fn new(contents: &Contents) -> Result<Compiled, String> {
        match contents {
            Contents::Prefixes(prefixes) => Self::of_prefixes(prefixes),
            Contents::Numbers(numbers) => Self::of_numbers(numbers),
            Contents::Meters { count, profile } => Ok(Compiled::Meters { count: *count, profile: *profile }),
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
        Ok(Compiled::Numbers { index: Arc::clone(exact.index()), entries: numbers.to_vec() })
    }
}

/// What looks up for one virtual machine.
pub(crate) struct Finder {
    seen: Arc<Seen>,
    tables: Arc<Tables>,
    /// The worker's meters, by the name of their table.
    meters: BTreeMap<String, Vec<Meter>>,
}

/// The keys of a batch: whole numbers below a bound.
struct Keys {
    keys: [u64; BATCH],
    /// Who has one.
    given: u64,
    count: usize,
}

impl Finder {
    pub(crate) fn new(seen: Arc<Seen>, tables: Arc<Tables>) -> Finder {
        let of_table = |(name, table): (&String, &Compiled)| match table {
            Compiled::Meters { count, profile } => Some((name.clone(), vec![profile.meter(0); *count as usize])),
            _ => None,
        };
        let meters = tables.0.iter().filter_map(of_table).collect();
        Finder { seen, tables, meters }
    }

    /// Looks all packets of the batch up that were given keys. What is wrong, if anything is.
    pub(crate) fn look_up(&mut self, name: &str) -> Option<String> {
        let Some(table) = self.tables.0.get(name) else {
            let known = self.tables.names();
            return Some(match known.is_empty() {
                true => format!("there is no table \"{name}\"; name it in the key \"tables\" of the configuration"),
                false => format!("there is no table \"{name}\"; the configuration has {known}"),
            });
        };
        let seen = &*self.seen;
        match table {
            Compiled::Prefixes(reader) => find_prefixes(&**reader, &Keys::read(seen, 1 << 32), seen),
            Compiled::Numbers { index, entries } => {
                find_numbers(index, entries, &Keys::read(seen, MAX_NUMBER + 1), seen)
            }
            Compiled::Meters { count, profile } => {
                let meters = self.meters.get_mut(name).map(Vec::as_mut_slice).unwrap_or_default();
                measure(profile, meters, &Keys::read(seen, (*count).into()), seen);
            }
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

/// Makes an error of the key `tables`.
type Wrong<'a> = dyn Fn(ErrorKind, &str, String) -> ConfigError + 'a;

/// Reads what tables are to have.
///
/// # Errors
/// All that is wrong with them.
pub(crate) fn read(
    configs: &BTreeMap<String, TableConfig>,
    env: &Env<'_>,
    wrong: &Wrong<'_>,
) -> Result<BTreeMap<String, Contents>, Vec<ConfigError>> {
    let (mut tables, mut errors) = (BTreeMap::new(), Errors::new());
    for (name, config) in configs {
        let reading = Reading { name, env, wrong };
        match reading.contents(config) {
            Ok(contents) => drop(tables.insert(name.clone(), contents)),
            Err(more) => errors.extend(more),
        }
    }
    errors.into_result(tables)
}

struct Reading<'a> {
    name: &'a str,
    env: &'a Env<'a>,
    wrong: &'a Wrong<'a>,
}

impl Reading<'_> {
    fn error(&self, kind: ErrorKind, problem: &str) -> ConfigError {
        (self.wrong)(kind, "tables", format!("\"{}\" {problem}", self.name))
    }

    fn contents(&self, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let has_prefixes = !config.prefixes.is_empty() || config.prefixes_csv.is_some();
        let is_measured = config.rate.is_some() || config.burst.is_some();
        match (has_prefixes, &config.numbers_csv, config.meters) {
            (true, None, None) if !is_measured => self.prefixes(config),
            (false, Some(file), None) if !is_measured => self.numbers(file),
            (false, None, Some(count)) => self.meters(count, config),
            (false, None, None) if !is_measured => {
                let error = self.error(ErrorKind::Missing, "has nothing to look up");
                Err(vec![
                    error.remedy("give it prefixes, prefixes_csv, numbers_csv, or meters with a rate and a burst"),
                ])
            }
            _ => {
                let error = self.error(ErrorKind::Conflict, "is of several kinds");
                Err(vec![
                    error.remedy("choose prefixes (with prefixes_csv), numbers_csv, or meters with a rate and a burst"),
                ])
            }
        }
    }

    fn prefixes(&self, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let mut prefixes: Vec<(Ipv4Net, u32)> = Vec::new();
        for (prefix, value) in &config.prefixes {
            if *value > MAX_VALUE {
                let problem = format!("gives {prefix} the value {value}; it may be at most {MAX_VALUE}");
                errors.push(self.error(ErrorKind::OutOfRange, &problem));
            }
            prefixes.push((prefix.trunc(), *value));
        }
        if let Some(file) = &config.prefixes_csv {
            let more = self.rows::<Ipv4Net>(file, "prefix").map_err(|more| errors.extend(more));
            prefixes.extend(more.unwrap_or_default().into_iter().map(|(prefix, value)| (prefix.trunc(), value)));
        }
        self.check_once(prefixes.iter().map(|(prefix, _)| *prefix), &mut errors);
        errors.into_result(Contents::Prefixes(prefixes))
    }

    fn numbers(&self, file: &FilePath) -> Result<Contents, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let numbers = self.rows::<Number>(file, "number").map_err(|more| errors.extend(more)).unwrap_or_default();
        let numbers: Vec<_> = numbers.into_iter().map(|(number, value)| (number.0, value)).collect();
        self.check_once(numbers.iter().map(|(number, _)| *number), &mut errors);
        errors.into_result(Contents::Numbers(numbers))
    }

    /// Which of two values counts would be anybody's guess.
    fn check_once<K: Copy + Eq + std::hash::Hash + fmt::Display>(
        &self,
        keys: impl Iterator<Item = K>,
        errors: &mut Errors,
    ) {
        let mut known = HashSet::new();
        for key in keys {
            if !known.insert(key) {
                errors.push(self.error(ErrorKind::Duplicate, &format!("has {key} twice")));
            }
        }
    }

    fn meters(&self, count: u32, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let (Some(rate), Some(burst)) = (&config.rate, &config.burst) else {
            let error = self.error(ErrorKind::Missing, "has meters without both of rate and burst");
            return Err(vec![error.remedy("give it both: rate = \"1 Mbit/s\", burst = \"10 kB\"")]);
        };
        let committed = Bucket { rate: rate.bits_per_second(), burst: burst.bytes() };
        let profile = Profile::new(Parameters::SingleRate { committed, excess_burst: 0 });
        let profile =
            profile.map_err(|error| vec![self.error(ErrorKind::OutOfRange, &format!("cannot be: {error}"))])?;
        Ok(Contents::Meters { count, profile })
    }

    /// The lines of a file with these two columns.
    fn rows<K: Scalar>(&self, file: &FilePath, key: &'static str) -> Result<Vec<(K, u32)>, Vec<ConfigError>> {
        let unreadable =
            |problem: String| vec![self.error(ErrorKind::File, &format!("is in \"{file}\", which {problem}"))];
        let folder =
            self.env.folder.ok_or_else(|| unreadable("is in no folder: the configuration has none".to_owned()))?;
        let opened = folder.open_file(file).map_err(unreadable)?;
        let path = folder.path().join(file.path()).display().to_string();
        let mut rows = Rows::new(path, BufReader::new(opened), &[key, "value"], &[])?;
        let (mut all, mut errors) = (Vec::new(), Errors::new());
        while let Some(row) = rows.next(&mut errors) {
            if all.len() >= MAX_ENTRIES {
                let problem = format!("has more than {MAX_ENTRIES} entries");
                errors.push(row.error(0, ErrorKind::Limit, problem));
                break;
            }
            let (key, value) = (row.read::<K>(0, &mut errors), row.read::<Found>(1, &mut errors));
            all.extend(key.zip(value).map(|(key, Found(value))| (key, value)));
        }
        errors.into_result(all)
    }
}

/// A number that is looked up.
#[derive(Clone, Copy)]
struct Number(u64);

impl Scalar for Number {
    const WHAT: &'static str = "a number from 0 to 9007199254740991";
    const EXAMPLE: &'static str = "4242";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let number = text.parse().ok().filter(|number| *number <= MAX_NUMBER);
        number.map(Number).ok_or_else(Malformed::not::<Self>)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What stands for it.
struct Found(u32);

impl Scalar for Found {
    const WHAT: &'static str = "a number from 0 to 2147483646";
    const EXAMPLE: &'static str = "7";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let value = text.parse().ok().filter(|value| *value <= MAX_VALUE);
        value.map(Found).ok_or_else(Malformed::not::<Self>)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
