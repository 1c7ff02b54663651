//! What a key may hold: the types of the schema, as data.

use crate::folder::FilePath;
use crate::quantity::Units;
use crate::scalar::{Scalar, ScalarType};
use crate::schema::{Change, Schema};
use crate::value::{Key, Table, Value};

/// How many entries a list or map, or how many characters a text, may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// The fewest.
    pub min: usize,
    /// The most.
    pub max: usize,
}

impl Length {
    /// Any number.
    pub const ANY: Self = Self { min: 0, max: usize::MAX };

    /// Whether so many are allowed.
    pub const fn allows(self, count: usize) -> bool {
        self.min <= count && count <= self.max
    }

    /// ` of 1 to 64`, or nothing where any number will do.
    fn describe(self, what: &str) -> String {
        match (self.min, self.max) {
            (0, usize::MAX) => String::new(),
            (min, usize::MAX) => format!(" of at least {min}{what}"),
            (0, max) => format!(" of at most {max}{what}"),
            (min, max) if min == max => format!(" of {min}{what}"),
            (min, max) => format!(" of {min} to {max}{what}"),
        }
    }
}

/// A rule for a text.
#[derive(Debug)]
pub struct Pattern {
    /// What a text that follows it is, with its article: `a name (a letter, then letters or digits)`.
    pub what: &'static str,
    /// A text that follows it.
    pub example: &'static str,
    /// Whether a text follows it.
    pub matches: fn(&str) -> bool,
}

/// The rule for names of ports, functions and the like: they must serve in paths, metrics and file names.
pub static NAME: Pattern = Pattern {
    what: "a name (a letter, then up to 31 letters, digits, - or _)",
    example: "wan",
    matches: |text| {
        text.len() <= 32
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    },
};

/// The rule for names of interfaces, which are usually those of their ports with their VLANs behind them.
pub static INTERFACE_NAME: Pattern = Pattern {
    what: "a name (a letter, then up to 31 letters, digits, -, _, . or :)",
    example: "lan.100",
    matches: |text| {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        text.len() <= 32 && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_one)
    },
};

/// One word of a choice.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What a key may hold.
#[derive(Debug, Clone)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A finite number.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// A text.
    Text {
        /// How many characters it may have.
        length: Length,
        /// The rule it follows, if any.
        pattern: Option<&'static Pattern>,
    },
    /// One of several words.
    Choice(&'static [Word]),
    /// A number with a unit.
    Quantity {
        /// Its units.
        units: &'static Units,
        /// The least, in base units.
        min: u64,
        /// The greatest, in base units.
        max: u64,
    },
    /// A text with a form of its own, such as an address.
    Scalar(ScalarType),
    /// The name of another declaration.
    Reference {
        /// The kind of that declaration.
        kind: &'static str,
    },
    /// A file below the folder of the script.
    File {
        /// What other contents take, where that is not what another file would take.
        contents: Option<Change>,
    },
    /// A list.
    List {
        /// What each entry is.
        of: Box<Type>,
        /// How many entries it may have.
        length: Length,
        /// Whether a single value may stand for a list of one.
        or_one: bool,
    },
    /// A table from keys that the user chooses.
    Map {
        /// What each key is.
        key: Box<Type>,
        /// What each value is.
        value: Box<Type>,
        /// How many entries it may have.
        length: Length,
    },
    /// A table with known keys.
    Table(Schema),
    /// A table whose key `tag` holds one of several words, on which its other keys depend.
    Tagged {
        /// The key.
        tag: &'static str,
        /// The words, each with the other keys of its tables.
        cases: Vec<(&'static str, Schema)>,
    },
    /// The first of several types that fits.
    Either(Vec<Type>),
}

impl Type {
    /// A scalar type.
    pub fn scalar<T: Scalar>() -> Self {
        Self::Scalar(ScalarType::of::<T>())
    }

    /// The schema, if this is a table with known keys.
    pub fn as_table(&self) -> Option<&Schema> {
        match self {
            Self::Table(schema) => Some(schema),
            _ => None,
        }
    }

    /// What is allowed, as a phrase that follows `expected`.
    pub fn expected(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Integer { min, max } => format!("an integer{}", between(min, max, &i64::MIN, &i64::MAX)),
            Self::Number { min, max } => format!("a number{}", between(min, max, &f64::MIN, &f64::MAX)),
            Self::Text { pattern: Some(pattern), .. } => pattern.what.to_owned(),
            Self::Text { length, pattern: None } => format!("a string{}", length.describe(" characters")),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{:?}", word.name)).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Quantity { units, min, max } => {
                let range =
                    between(&units.format(*min), &units.format(*max), &units.format(0), &units.format(u64::MAX));
                format!("{}{range}, e.g. {:?}", units.what, self.quantity_example(units))
            }
            Self::Scalar(scalar) => format!("{}, e.g. {:?}", scalar.what, scalar.example),
            Self::Reference { kind } => format!("the name of a {kind}"),
            Self::File { .. } => format!("a file below the folder of the script, e.g. {:?}", FilePath::EXAMPLE),
            Self::List { of, length, or_one: false } => {
                format!("a list{}, each {}", length.describe(""), of.expected())
            }
            Self::List { of, length, or_one: true } => {
                format!("{}, or a list{} of such", of.expected(), length.describe(""))
            }
            Self::Map { key, value, length } => {
                format!("a table{} from {} to {}", length.describe(" entries"), key.expected(), value.expected())
            }
            Self::Table(schema) => format!("a table with the keys {}", schema.names().collect::<Vec<_>>().join(", ")),
            Self::Tagged { tag, cases } => format!("a table with {tag} = {} and the keys of that", words(cases)),
            Self::Either(types) => {
                let each: Vec<String> = types.iter().map(Self::expected).collect();
                each.join("; or ")
            }
        }
    }

    /// A value that is right, with all keys of its tables; a reference names [`EXAMPLE_NAME`].
    pub fn example(&self) -> Value {
        match self {
            Self::Bool => Value::Bool(true),
            Self::Integer { min, max } => Value::Integer(1.clamp(*min, *max)),
            Self::Number { min, max } => Value::Number(0.5_f64.clamp(*min, *max)),
            Self::Text { pattern: Some(pattern), .. } => Value::from(pattern.example),
            Self::Text { length, pattern: None } => Value::Text("x".repeat(length.min.max(1).min(length.max))),
            Self::Choice(words) => words.first().map_or(Value::Nil, |word| Value::from(word.name)),
            Self::Quantity { units, .. } => Value::text(self.quantity_example(units)),
            Self::Scalar(scalar) => Value::from(scalar.example),
            Self::Reference { .. } => Value::from(EXAMPLE_NAME),
            Self::File { .. } => Value::from(FilePath::EXAMPLE),
            Self::List { of, length, .. } => Value::List(vec![of.example(); length.min.max(1)]),
            Self::Map { key, value, .. } => {
                let key = match key.example() {
                    Value::Integer(index) => Key::Index(index),
                    other => Key::Name(other.as_text().unwrap_or_default().to_owned()),
                };
                Value::Table(Table::from_iter([(key, value.example())]))
            }
            Self::Table(schema) => schema.example(),
            Self::Tagged { tag, cases } => cases.first().map_or(Value::Nil, |case| tagged_example(tag, case)),
            Self::Either(types) => types.first().map_or(Value::Nil, Self::example),
        }
    }

    /// The units' own example where the range allows it, else the nearest bound.
    fn quantity_example(&self, units: &Units) -> String {
        let (min, max) = match self {
            Self::Quantity { min, max, .. } => (*min, *max),
            _ => (0, u64::MAX),
        };
        let usual = units.parse(units.example).unwrap_or(min);
        units.format(usual.max(min).min(max))
    }
}

/// The words of a [`Type::Tagged`], as a phrase that follows `=`.
pub(crate) fn words(cases: &[(&'static str, Schema)]) -> String {
    let words: Vec<String> = cases.iter().map(|(word, _)| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A table that is right, of one case of a [`Type::Tagged`].
pub(crate) fn tagged_example(tag: &str, (word, schema): &(&'static str, Schema)) -> Value {
    match schema.example() {
        Value::Table(mut table) => {
            table.set(tag, Value::from(*word));
            Value::Table(table)
        }
        other => other,
    }
}

/// The name that examples refer to.
pub const EXAMPLE_NAME: &str = "example";

/// ` from 1 to 9`, ` of at least 1`, ` of at most 9` or nothing.
fn between<T: PartialEq + std::fmt::Display>(min: &T, max: &T, least: &T, most: &T) -> String {
    match (min == least, max == most) {
        (true, true) => String::new(),
        (false, true) => format!(" of at least {min}"),
        (true, false) => format!(" of at most {max}"),
        (false, false) => format!(" from {min} to {max}"),
    }
}
