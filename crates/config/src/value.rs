//! The plain data that a configuration script yields.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A key of a table: an integer or a string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// An integer key.
    Index(i64),
    /// A string key.
    Name(String),
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<i64> for Key {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}

/// A table: keys in order, integers before strings.
///
/// Lua's own order is that of a hash table, so a fixed one is given here: the same script always yields the
/// same document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table(pub BTreeMap<Key, Value>);

impl Table {
    /// The value of a named key.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(&Key::from(name))
    }

    /// Sets a named key.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(Key::from(name), value);
    }
}

impl FromIterator<(Key, Value)> for Table {
    fn from_iter<I: IntoIterator<Item = (Key, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

/// A plain value. `Display` writes it as Lua source, from which the same value can be read again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Value {
    /// Nothing.
    #[default]
    #[serde(rename = "z")]
    Nil,
    /// `true` or `false`.
    #[serde(rename = "b")]
    Bool(bool),
    /// A whole number.
    #[serde(rename = "i")]
    Integer(i64),
    /// Any other finite number.
    #[serde(rename = "n")]
    Number(f64),
    /// Text.
    #[serde(rename = "s")]
    Text(String),
    /// A table whose keys are exactly 1, 2, ... n; also the empty table.
    #[serde(rename = "l")]
    List(Vec<Value>),
    /// Any other table.
    #[serde(rename = "t")]
    Table(Table),
}

impl Value {
    /// A text value.
    pub fn text(text: impl fmt::Display) -> Self {
        Self::Text(text.to_string())
    }

    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// The table, if this is one with keys other than 1 to n.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The name of the value's type with its article, as error messages use it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(list) if list.is_empty() => "an empty table",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The value in a few characters, as error messages show it.
    pub fn brief(&self) -> String {
        const LONGEST: usize = 60;
        match self {
            Self::Text(text) if text.chars().count() > LONGEST => {
                let start: String = text.chars().take(LONGEST).collect();
                format!("{}...", quote(&start))
            }
            Self::List(list) if !list.is_empty() => format!("a list of {}", list.len()),
            Self::Table(table) => format!("a table of {}", table.0.len()),
            other => other.to_string(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Bool(boolean)
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(list: [T; N]) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(boolean) => boolean.fmt(f),
            Self::Integer(integer) => integer.fmt(f),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::List(list) => write_braced(f, list, |f, value| value.fmt(f)),
            Self::Table(table) => table.fmt(f),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_braced(f, &self.0, |f, (key, value)| write!(f, "{key} = {value}"))
    }
}

/// The key as it stands in a Lua table: `name` or `["any text"]` or `[7]`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Name(name) if is_identifier(name) => f.write_str(name),
            Self::Name(name) => write!(f, "[{}]", quote(name)),
        }
    }
}

fn write_braced<I: IntoIterator>(
    f: &mut fmt::Formatter<'_>,
    items: I,
    write: impl Fn(&mut fmt::Formatter<'_>, I::Item) -> fmt::Result,
) -> fmt::Result {
    let mut separator = "{ ";
    for item in items {
        f.write_str(separator)?;
        write(f, item)?;
        separator = ", ";
    }
    f.write_str(if separator == "{ " { "{}" } else { " }" })
}

/// The words that Lua 5.1 reserves (with LuaJIT's `goto`), which cannot be written as bare keys.
const RESERVED: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Whether Lua takes this text as a bare name.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&text)
}

/// The text as a Lua string literal.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Three digits always, so that a digit that follows is not taken for part of the escape.
            control if control.is_control() => {
                let mut bytes = [0; 4];
                for byte in control.encode_utf8(&mut bytes).bytes() {
                    quoted.push_str(&format!("\\{byte:03}"));
                }
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

// A table travels as a list of pairs: JSON objects have string keys only.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(Key, Value)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        Value::Table(Table::from_iter([
            (Key::from("mtu"), Value::from(1500)),
            (Key::from("10/8"), Value::from(["a", "b\n\u{1}7\"\\"])),
            (Key::from("end"), Value::Bool(true)),
            (Key::from(3), Value::Number(0.5)),
            (Key::from("none"), Value::List(vec![])),
        ]))
    }

    #[test]
    fn values_print_as_lua_source() {
        assert_eq!(
            sample().to_string(),
            r#"{ [3] = 0.5, ["10/8"] = { "a", "b\n\0017\"\\" }, ["end"] = true, mtu = 1500, none = {} }"#
        );
    }

    #[test]
    fn values_survive_json() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), sample());
        let text = serde_json::to_string(&Value::Nil).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::Nil);
    }

    #[test]
    fn long_values_are_shown_in_brief() {
        assert_eq!(Value::text("x".repeat(61)).brief(), format!("\"{}\"...", "x".repeat(60)));
        assert_eq!(Value::text("x".repeat(60)).brief(), format!("\"{}\"", "x".repeat(60)));
        assert_eq!(sample().brief(), "a table of 5");
        assert_eq!(Value::from([1, 2]).brief(), "a list of 2");
        assert_eq!(Value::List(vec![]).brief(), "{}");
    }
}
