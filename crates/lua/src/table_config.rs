//! The tables of a script as its configuration has them.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::BufReader;

use ipnet::IpNet;
use weir_config::{Change, ConfigError, ErrorKind, Errors, FilePath, Malformed, Rate, Rows, Scalar, Size, config};
use weir_stage::Env;
use weir_table::meter::{Bucket, Parameters, Profile};

use crate::tables::{Contents, MAX_NUMBER, MAX_VALUE};

config! {
    /// A table that a script looks packets up in. It has one of `prefixes` (with `prefixes_csv`), `numbers_csv` and `meters`.
    pub struct TableConfig {
        /// Prefixes of either family and their values. The key is an IPv4 address as a number, or an IPv6 address in the packet; of the prefixes that
        /// hold it the longest counts.
        pub prefixes: BTreeMap<IpNet, u32> = empty, live;
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

/// The most entries of a table.
const MAX_ENTRIES: usize = 8_000_000;

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
        let mut prefixes: Vec<(IpNet, u32)> = Vec::new();
        for (prefix, value) in &config.prefixes {
            if *value > MAX_VALUE {
                let problem = format!("gives {prefix} the value {value}; it may be at most {MAX_VALUE}");
                errors.push(self.error(ErrorKind::OutOfRange, &problem));
            }
            prefixes.push((prefix.trunc(), *value));
        }
        if let Some(file) = &config.prefixes_csv {
            let more = self.rows::<IpNet>(file, "prefix").map_err(|more| errors.extend(more));
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
