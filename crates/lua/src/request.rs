//! Changes of scripts' tables at run time: `table add`, `table set`, `table del`; and what is shown and saved of them.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::{Rate, Schema, Size};
use weir_stage::{
    Argument, Collection, Entries, PIECE, RequestError, Saved, Show, ShowRows, Source as _, TakeBack, Verb, entries,
    whole,
};
use weir_table::meter::Bucket;

use crate::book::{Book, Given, Key, Row, Shared, lock};
use crate::script::Seats;
use crate::table_config::{Found, MeterConfig, Number};
use crate::tables::{Contents, profile};

const TABLE: Argument =
    Argument { name: "table", keyword: None, required: true, many: false, help: "The table; in a wiring STAGE.TABLE" };

const KEY: Argument = Argument {
    name: "key",
    keyword: None,
    required: true,
    many: false,
    help: "What is looked up: a prefix, a number, or the number of a meter",
};

const VALUE: Argument = Argument {
    name: "value",
    keyword: Some("value"),
    required: false,
    many: false,
    help: "What is found for a prefix or a number: from 0 to 2147483646",
};

const RATE: Argument = Argument {
    name: "rate",
    keyword: Some("rate"),
    required: false,
    many: false,
    help: "What a meter lets pass, such as 2Mbit/s",
};

const BURST: Argument = Argument {
    name: "burst",
    keyword: Some("burst"),
    required: false,
    many: false,
    help: "How much of it may come at once, such as 20kB",
};

const FIELDS: &[Argument] = &[TABLE, KEY, VALUE, RATE, BURST];

/// Entries of tables.
static ENTRIES: Collection =
    Collection { noun: "table", key: "tables", is_list: true, file_key: "", fields: FIELDS, has_labels: true };

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    ENTRIES.verb("add", FIELDS, "Adds an entry to a script's table, where there is none yet for the key"),
    ENTRIES.verb(
        "set",
        FIELDS,
        "Says what is found for a key, or what a meter does, and adds the entry if there is none",
    ),
    ENTRIES.verb(
        "del",
        const { &[TABLE, KEY] },
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
        columns: &["table", "key", "value", "rate", "burst", "source"],
        help: "Entries of the tables of scripts; of meters those that do not do as the others. Filter: a table",
    },
];

/// What is allowed of a meter.
static METER: LazyLock<Schema> = LazyLock::new(MeterConfig::schema);

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
        let table = arguments.get(TABLE.name).and_then(Value::as_str).ok_or("table is missing")?;
        let wanted = book.wanted(table).ok_or_else(|| book.unknown(table))?;
        let key = key(&wanted.contents, arguments)?;
        let (said, counts) = (book.said(table, key), book.counts(table, key));
        let given = match verb {
            "table add" if counts.is_some() => {
                return Err(format!("{table} has {key} already; `table set` changes it"));
            }
            "table add" => Some(given((table, &wanted.contents), None, arguments)?),
            "table set" => Some(given((table, &wanted.contents), Some(counts), arguments)?),
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
        Contents::Prefixes(_) => fields.required::<IpNet>(KEY.name).map(|prefix| Key::Prefix(prefix.trunc())),
        Contents::Numbers(_) => fields.required::<Number>(KEY.name).map(|number| Key::Number(number.0)),
        Contents::Meters { count, .. } => {
            let number = fields.required::<Number>(KEY.name);
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

/// What a request says of its key. `before`, if it goes over something: what counted, if anything did.
fn given(
    (table, contents): (&str, &Contents),
    before: Option<Option<Given>>,
    arguments: &Value,
) -> Result<Given, String> {
    let has = |field: &Argument| arguments.get(field.name).is_some_and(|value| !value.is_null());
    let mut fields = ENTRIES.arguments(arguments);
    if let Contents::Meters { usual, .. } = contents {
        if has(&VALUE) {
            return Err(format!("value: {table} has meters; write a rate and a burst"));
        }
        // What is not named of a meter stays as it is, or is as of all others.
        let before = before.map(|counts| match counts {
            Some(Given::Rate(bucket)) => bucket,
            _ => *usual,
        });
        let before = before.map(|bucket| (Rate::new(bucket.rate), Size::new(bucket.burst)));
        let (rate_key, burst_key) = METER.key(RATE.name).zip(METER.key(BURST.name)).ok_or("there are no rates")?;
        let rate = fields.field(rate_key, before.as_ref().map(|(rate, _)| rate));
        let burst = fields.field(burst_key, before.as_ref().map(|(_, burst)| burst));
        let bucket = rate.zip(burst).map(|(rate, burst)| Bucket { rate: rate.bits_per_second(), burst: burst.bytes() });
        let bucket = fields.finish(bucket)?;
        return profile(bucket).map(|_| Given::Rate(bucket)).map_err(|error| format!("burst: {error}"));
    }
    if has(&RATE) || has(&BURST) {
        return Err(format!("rate: {table} has no meters; write a value"));
    }
    let value = fields.required::<Found>(VALUE.name);
    fields.finish(value).map(|value| Given::Value(value.0))
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
                (rows.into_iter().map(|row| entry_row(name, &row)).collect(), last)
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

fn entry_row(table: &str, (key, given, source): &Row) -> Value {
    let (value, rate, burst) = match given {
        Given::Value(value) => (json!(value), Value::Null, Value::Null),
        Given::Rate(Bucket { rate, burst }) => {
            (Value::Null, Rate::new(*rate).to_string().into(), Size::new(*burst).to_string().into())
        }
    };
    json!({ "table": table, "key": key.to_string(), "value": value, "rate": rate, "burst": burst, "source": source })
}

/// An entry as the request that says it again, and as it stands in the configuration.
fn saved(table: &str, key: Key, given: Given) -> Saved {
    let (list, entry, said) = match given {
        Given::Value(value) => {
            let (list, entry) = match key {
                Key::Prefix(_) => ("prefixes", json!(value)),
                Key::Number(number) => ("numbers", json!({ "number": number, "value": value })),
                Key::Meter(_) => ("own", Value::Null),
            };
            (list, entry, json!({ "table": table, "key": key.to_string(), "value": value }))
        }
        Given::Rate(Bucket { rate, burst }) => {
            let (rate, burst) = (Rate::new(rate).to_string(), Size::new(burst).to_string());
            let entry = json!({ "meter": key_number(key), "rate": rate, "burst": burst });
            ("own", entry, json!({ "table": table, "key": key.to_string(), "rate": rate, "burst": burst }))
        }
    };
    let under = matches!(key, Key::Prefix(_)).then(|| key.to_string());
    Saved { key: format!("tables.{table}.{list}"), entry: Some(entry), under, ..ENTRIES.saved("set", said) }
}

/// The number that a key is.
fn key_number(key: Key) -> u64 {
    match key {
        Key::Prefix(_) => 0,
        Key::Number(number) => number,
        Key::Meter(meter) => meter.into(),
    }
}
