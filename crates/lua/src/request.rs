//! Changes of scripts' tables at run time: `table add`, `table set`, `table del`; and what is shown and saved of them.
#![forbid(unsafe_code)]

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::{Rate, Size};
use weir_stage::{
    Collection, Entries, Entry as _, PIECE, RequestError, Saved, Show, ShowRows, TakeBack, Verb, columns, entries,
    entry, whole,
};
use weir_table::meter::Bucket;

use crate::book::{Book, Given, Key, Shared, lock};
use crate::script::Seats;
use crate::table_config::Number;
use crate::tables::{Contents, MAX_VALUE, profile};

entry! {
    /// An entry of a table, as requests say it. The table tells whether its key is a prefix or a number, and what there is for it.
    struct Stated by (table: String, key: String) {
        /// The table; in a wiring STAGE.TABLE.
        table: String = required, live;
        /// What is looked up: a prefix, a number, or the number of a meter.
        key: String = required, live;
        /// What is found for a prefix or a number: from 0 to 2147483646.
        value: Option<u32> = optional, live, range(0..=MAX_VALUE);
        /// What a meter lets pass, such as 2Mbit/s.
        rate: Option<Rate> = optional, live;
        /// How much of it may come at once, such as 20kB.
        burst: Option<Size> = optional, live;
    }
}

impl Stated {
    fn of(table: &str, key: Key, given: Given) -> Stated {
        let (value, rate, burst) = match given {
            Given::Value(value) => (Some(value), None, None),
            Given::Rate(Bucket { rate, burst }) => (None, Some(Rate::new(rate)), Some(Size::new(burst))),
        };
        Stated { table: table.to_owned(), key: key.to_string(), value, rate, burst }
    }

    /// What it says of its key in a table with such contents.
    fn given(&self, contents: &Contents) -> Result<Given, String> {
        let Stated { table, value, rate, burst, .. } = self;
        match (contents, value, rate, burst) {
            (Contents::Meters { .. }, Some(_), ..) => {
                Err(format!("value: {table} has meters; write a rate and a burst"))
            }
            (Contents::Meters { .. }, None, Some(rate), Some(burst)) => {
                let bucket = Bucket { rate: rate.bits_per_second(), burst: burst.bytes() };
                profile(bucket).map(|_| Given::Rate(bucket)).map_err(|error| format!("burst: {error}"))
            }
            (Contents::Meters { .. }, None, None, _) => Err("rate is missing".to_owned()),
            (Contents::Meters { .. }, None, _, None) => Err("burst is missing".to_owned()),
            (_, Some(value), None, None) => Ok(Given::Value(*value)),
            (_, None, None, None) => Err("value is missing".to_owned()),
            _ => Err(format!("rate: {table} has no meters; write a value")),
        }
    }
}

/// Entries of tables.
static ENTRIES: Collection = Collection::of::<Stated>("table", "tables");

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    ENTRIES.verb("add", Stated::FIELDS, "Adds an entry to a script's table, where there is none yet for the key"),
    ENTRIES.verb(
        "set",
        Stated::FIELDS,
        "Says what is found for a key, or what a meter does, and adds the entry if there is none",
    ),
    ENTRIES.verb(
        "del",
        Stated::KEYS,
        "Takes back what was added or changed at run time; what the configuration says counts again",
    ),
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "table add routes 10.1.0.0/16 value 7  # from now on, in all workers",
    "table set routes 10.1.0.0/16 value 8  # another value: no packet finds none meanwhile",
    "table del routes 10.1.0.0/16  # takes it all back",
    "table add users 4242 value 1  # a number, in a table of numbers",
    "table set limits 7 rate 2Mbit/s burst 20kB  # the meter 7 lets another rate pass than the others",
    "table add --from more.txt  # one in each line: routes 10.2.0.0/16 value 9",
];

/// What is shown of tables.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "tables",
        columns: &["table", "looks_up", "entries", "added", "max_added"],
        help: "Tables of scripts, with how many entries each has, and how many were added or changed at run time. Filter: a table",
    },
    Show {
        what: "entries",
        columns: columns!(Stated, "source"),
        help: "Entries of the tables of scripts; of meters those that do not do as the others. Filter: a table",
    },
];

/// Changes tables of the stages that sit here.
struct Changing<'a>(&'a Seats);

/// Carries out a request for one or many entries: all of it or nothing.
pub(crate) fn carry_out(seats: &Seats, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    entries::carry_out(|| Box::new(Changing(seats)), PIECE, (verb, arguments), now)
}

impl Entries for Changing<'_> {
    type Undo = TakeBack;

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<TakeBack, String> {
        self.0.change(verb, arguments)
    }

    fn take_back(&mut self, undo: TakeBack, now: u64) {
        undo(now);
    }
}

/// What a request asks for: that something is said of a key of a table, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) table: String,
    pub(crate) key: Key,
    pub(crate) given: Option<Given>,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn read(book: &Book, verb: &str, arguments: &Value) -> Result<Asked, String> {
        let table = arguments.get("table").and_then(Value::as_str).ok_or("table is missing")?;
        let wanted = book.wanted(table).ok_or_else(|| book.unknown(table))?;
        let key = key(&wanted.contents, arguments)?;
        let (said, counts) = (book.said(table, key), book.counts(table, key));
        let given = match verb {
            "table add" if counts.is_some() => {
                return Err(format!("{table} has {key} already; `table set` changes it"));
            }
            "table add" => Some(given(&wanted.contents, None, arguments)?),
            "table set" => {
                // What is not named of a meter stays as it is, or is as of all others.
                let before = match wanted.contents {
                    Contents::Meters { usual, .. } => {
                        Some(Stated::of(table, key, counts.unwrap_or(Given::Rate(usual))))
                    }
                    _ => None,
                };
                Some(given(&wanted.contents, before.as_ref(), arguments)?)
            }
            "table del" => match (said, counts) {
                (Some(_), _) => None,
                (None, Some(_)) => {
                    return Err(format!("{key} of {table} stands in the configuration; delete it there and reload"));
                }
                (None, None) => return Err(format!("{table} has no {key}; `show entries` lists what there is")),
            },
            _ => return Err(format!("there is no request '{verb}'")),
        };
        Ok(Asked { table: table.to_owned(), key, given })
    }
}

/// The key of a request to a table with such contents.
fn key(contents: &Contents, arguments: &Value) -> Result<Key, String> {
    let mut fields = ENTRIES.arguments(arguments);
    let key = match contents {
        Contents::Prefixes(_) => fields.required::<IpNet>("key").map(|prefix| Key::Prefix(prefix.trunc())),
        Contents::Numbers(_) => fields.required::<Number>("key").map(|number| Key::Number(number.0)),
        Contents::Meters { count, .. } => {
            let number = fields.required::<Number>("key");
            let Number(number) = fields.finish(number)?;
            return match u32::try_from(number) {
                Ok(meter) if meter < *count => Ok(Key::Meter(meter)),
                _ => Err(format!(
                    "key: there is no meter {number}; write a number from 0 to {}",
                    count.saturating_sub(1)
                )),
            };
        }
    };
    fields.finish(key)
}

/// What a request says of its key. What it does not name is as it was `before`.
fn given(contents: &Contents, before: Option<&Stated>, arguments: &Value) -> Result<Given, String> {
    let mut fields = ENTRIES.arguments(arguments);
    let said = Stated::read_from(&mut fields, before);
    fields.finish(said)?.given(contents)
}

/// The rows of a table of [`SHOWS`].
pub(crate) fn show(book: &Shared, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let looked = lock(book);
    if let Some(unknown) = filter.filter(|name| looked.wanted(name).is_none()) {
        return Err(RequestError(looked.unknown(unknown)));
    }
    let names: Vec<String> =
        looked.names().filter(|name| filter.is_none_or(|word| word == *name)).map(str::to_owned).collect();
    match what {
        "tables" => Ok(whole(names.iter().filter_map(|name| table_row(&looked, name)).collect())),
        "entries" => {
            drop(looked);
            Ok(by_table(book, names, |book, name, last, most| {
                let rows = book.rows(name, last, most);
                let last = rows.last().map(|(key, ..)| *key);
                let row = |(key, given, source)| Stated::of(name, key, given).row(json!({ "source": source }));
                (rows.into_iter().map(row).collect(), last)
            }))
        }
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// What commands said, as requests that would say it again.
pub(crate) fn save(book: &Shared) -> Box<dyn ShowRows<Saved>> {
    let names = lock(book).names().map(str::to_owned).collect();
    by_table(book, names, |book, name, last, most| {
        let said = book.said_behind(name, last, most);
        let last = said.last().map(|(key, _)| *key);
        (said.into_iter().map(|(key, given)| saved(name, key, given)).collect(), last)
    })
}

/// Rows of tables, one behind the other, by the piece: `look` looks at at most so many entries of one behind a key, and answers the last of them.
fn by_table<R: 'static>(
    book: &Shared,
    names: Vec<String>,
    look: impl Fn(&Book, &str, Option<Key>, usize) -> (Vec<R>, Option<Key>) + Send + 'static,
) -> Box<dyn ShowRows<R>> {
    let book = book.clone();
    entries::in_order(move |last: Option<&(usize, Option<Key>)>| {
        let (at, behind) = last.copied().unwrap_or_default();
        let Some(name) = names.get(at) else { return (Vec::new(), None) };
        let (rows, last) = look(&lock(&book), name, behind, PIECE);
        // Behind the last entry of a table comes the next table.
        let next = last.map_or((at + 1, None), |key| (at, Some(key)));
        (rows, Some(next))
    })
}

fn table_row(book: &Book, name: &str) -> Option<Value> {
    let wanted = book.wanted(name)?;
    let looks_up = match &wanted.contents {
        Contents::Prefixes(_) => "prefixes",
        Contents::Numbers(_) => "numbers",
        Contents::Meters { .. } => "meters",
    };
    let (entries, said) = book.sizes(name);
    Some(json!({
        "table": name, "looks_up": looks_up, "entries": entries, "added": said, "max_added": wanted.max_added,
    }))
}

/// An entry as the request that says it again, and as it stands in the configuration.
fn saved(table: &str, key: Key, given: Given) -> Saved {
    let said = Value::from(Stated::of(table, key, given).to_json());
    let (list, entry, under) = match key {
        Key::Prefix(prefix) => ("prefixes", said["value"].clone(), Some(prefix.to_string())),
        Key::Number(number) => ("numbers", json!({ "number": number, "value": said["value"] }), None),
        Key::Meter(meter) => ("own", json!({ "meter": meter, "rate": said["rate"], "burst": said["burst"] }), None),
    };
    Saved { key: format!("tables.{table}.{list}"), entry: Some(entry), under, ..ENTRIES.saved("set", said) }
}
