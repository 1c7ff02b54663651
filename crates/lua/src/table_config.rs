//! The tables of a script as its configuration has them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;

use ipnet::IpNet;
use weir_config::{
    Change, ConfigError, ErrorKind, Errors, FilePath, Length, Malformed, NAME, Rate, Rows, Scalar, Setting, Size, Type,
    Value, config,
};
use weir_stage::Env;
use weir_table::meter::Bucket;

use crate::tables::{Contents, MAX_NUMBER, MAX_VALUE, Wanted, profile};

/// The name of a table, which command lines name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName(pub(crate) String);

impl Setting for TableName {
    fn describe() -> Type {
        Type::Text { length: Length::ANY, pattern: Some(&NAME) }
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_text().map(|text| TableName(text.to_owned()))
    }

    fn write(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

config! {
    /// A number that is looked up.
    pub struct NumberConfig {
        /// The number.
        pub number: u64 = required, live, range(0..=9_007_199_254_740_991);
        /// What is found for it.
        pub value: u32 = required, live, range(0..=2_147_483_646);
    }
}

config! {
    /// A meter that does not do as the others of its table.
    pub struct MeterConfig {
        /// Its number, from 0.
        pub meter: u32 = required, live, range(0..=1_048_575);
        /// What it lets pass.
        pub rate: Rate = required, live;
        /// How much may come at once.
        pub burst: Size = required, live;
    }
}

config! {
    /// A table that a script looks packets up in. It has one of `prefixes` (with `prefixes_csv`), `numbers` (with `numbers_csv`) and `meters`.
    pub struct TableConfig {
        /// Prefixes of either family and their values. The key is an IPv4 address as a number, or an IPv6 address in the packet; of the prefixes that
        /// hold it the longest counts.
        pub prefixes: Option<BTreeMap<IpNet, u32>> = optional, live;
        /// More of them from a file with the columns `prefix` and `value`.
        pub prefixes_csv: Option<FilePath> = optional, live, contents(Change::Live);
        /// Numbers and their values: `{ { number = 4242, value = 7 } }`. The key is the number.
        pub numbers: Option<Vec<NumberConfig>> = optional, live;
        /// More of them from a file with the columns `number` and `value`.
        pub numbers_csv: Option<FilePath> = optional, live, contents(Change::Live);
        /// So many meters. The key is the number of one, from 0; found is 1 while its packets keep to `rate` and `burst`, else 0.
        pub meters: Option<u32> = optional, live, range(1..=1_048_576);
        /// What each meter lets pass.
        pub rate: Option<Rate> = optional, live;
        /// How much may come at once.
        pub burst: Option<Size> = optional, live;
        /// Meters with a rate and a burst of their own: `{ { meter = 7, rate = "2 Mbit/s", burst = "20 kB" } }`.
        pub own: Vec<MeterConfig> = empty, live;
        /// How many entries `weir table add` may add.
        pub max_added: u32 = default(4096), live, range(0..=8_000_000);
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
    configs: &BTreeMap<TableName, TableConfig>,
    env: &Env<'_>,
    wrong: &Wrong<'_>,
) -> Result<BTreeMap<String, Wanted>, Vec<ConfigError>> {
    let (mut tables, mut errors) = (BTreeMap::new(), Errors::new());
    for (TableName(name), config) in configs {
        let reading = Reading { name, env, wrong };
        match reading.contents(config) {
            Ok(contents) => {
                tables.insert(name.clone(), Wanted { contents, max_added: config.max_added });
            }
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
        let has_prefixes = config.prefixes.is_some() || config.prefixes_csv.is_some();
        let has_numbers = config.numbers.is_some() || config.numbers_csv.is_some();
        let is_measured = config.rate.is_some() || config.burst.is_some() || !config.own.is_empty();
        match (has_prefixes, has_numbers, config.meters) {
            (true, false, None) if !is_measured => self.prefixes(config),
            (false, true, None) if !is_measured => self.numbers(config),
            (false, false, Some(count)) => self.meters(count, config),
            (false, false, None) if !is_measured => {
                let error = self.error(ErrorKind::Missing, "has nothing to look up");
                let remedy = "give it prefixes, prefixes_csv, numbers, numbers_csv, or meters with a rate and a burst";
                Err(vec![error.remedy(format!("{remedy}; prefixes = {{}} is for those that are added later"))])
            }
            _ => {
                let error = self.error(ErrorKind::Conflict, "is of several kinds");
                let remedy = "choose prefixes (with prefixes_csv), numbers (with numbers_csv), or meters with a rate and a burst";
                Err(vec![error.remedy(remedy)])
            }
        }
    }

    fn prefixes(&self, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let mut prefixes: Vec<(IpNet, u32)> = Vec::new();
        for (prefix, value) in config.prefixes.iter().flatten() {
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
        self.put_in_order(&mut prefixes, &mut errors);
        errors.into_result(Contents::Prefixes(prefixes))
    }

    fn numbers(&self, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let listed = config.numbers.iter().flatten().map(|one| (one.number, one.value));
        let mut numbers: Vec<(u64, u32)> = listed.collect();
        if let Some(file) = &config.numbers_csv {
            let more = self.rows::<Number>(file, "number").map_err(|more| errors.extend(more));
            numbers.extend(more.unwrap_or_default().into_iter().map(|(number, value)| (number.0, value)));
        }
        self.put_in_order(&mut numbers, &mut errors);
        errors.into_result(Contents::Numbers(numbers))
    }

    /// Puts entries in the order of their keys. Which of two values of a key counts would be anybody's guess.
    fn put_in_order<K: Copy + Ord + fmt::Display, V>(&self, entries: &mut [(K, V)], errors: &mut Errors) {
        entries.sort_by_key(|(key, _)| *key);
        for (key, _) in
            entries.iter().zip(entries.iter().skip(1)).filter(|(one, next)| one.0 == next.0).map(|(one, _)| one)
        {
            errors.push(self.error(ErrorKind::Duplicate, &format!("has {key} twice")));
        }
    }

    fn meters(&self, count: u32, config: &TableConfig) -> Result<Contents, Vec<ConfigError>> {
        let (Some(rate), Some(burst)) = (&config.rate, &config.burst) else {
            let error = self.error(ErrorKind::Missing, "has meters without both of rate and burst");
            return Err(vec![error.remedy("give it both: rate = \"1 Mbit/s\", burst = \"10 kB\"")]);
        };
        let usual = self.bucket(*rate, *burst)?;
        let (mut own, mut errors) = (Vec::new(), Errors::new());
        for one in &config.own {
            if one.meter >= count {
                let problem = format!("says what the meter {} does; it has {count}, the first is 0", one.meter);
                errors.push(self.error(ErrorKind::OutOfRange, &problem));
            }
            let bucket = self.bucket(one.rate, one.burst).map_err(|more| errors.extend(more));
            own.extend(bucket.ok().map(|bucket| (one.meter, bucket)));
        }
        self.put_in_order(&mut own, &mut errors);
        errors.into_result(Contents::Meters { count, usual, own })
    }

    fn bucket(&self, rate: Rate, burst: Size) -> Result<Bucket, Vec<ConfigError>> {
        let bucket = Bucket { rate: rate.bits_per_second(), burst: burst.bytes() };
        profile(bucket)
            .map(|_| bucket)
            .map_err(|error| vec![self.error(ErrorKind::OutOfRange, &format!("cannot be: {error}"))])
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
pub(crate) struct Number(pub(crate) u64);

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
#[derive(Clone, Copy)]
pub(crate) struct Found(pub(crate) u32);

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
