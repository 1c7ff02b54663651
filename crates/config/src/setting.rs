//! Rust types as types of keys: what each holds, and how its values are read and written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, RangeInclusive};

use crate::folder::FilePath;
use crate::quantity::{Nanos, PacketRate, Quantity, Rate, Size};
use crate::schema::Change;
use crate::types::{Length, Pattern, Type};
use crate::value::{Key, Table, Value};

/// A type that a key can have.
pub trait Setting: Sized {
    /// Whether it is a list of values.
    const IS_LIST: bool = false;

    /// What a key of this type may hold.
    fn describe() -> Type;

    /// Reads a checked value; `None` only for a value that [`describe`](Self::describe) does not allow.
    fn read(value: &Value) -> Option<Self>;

    /// Reads a text with a [form of its own](crate::Scalar), in which all of a value is written; `None` if it is not of that form.
    fn read_text(text: &str) -> Option<Self> {
        Self::read(&Value::from(text))
    }

    /// The value as a script would have it.
    fn write(&self) -> Value;
}

/// A type with an order, whose values a key can restrict with `range(least..=greatest)`.
pub trait Ranged: Setting {
    /// The type of the bounds.
    type Bound;

    /// Restricts a description of this type.
    fn within(described: Type, range: RangeInclusive<Self::Bound>) -> Type;
}

/// A type with a length, which a key can restrict with `length(fewest..=most)`.
pub trait Measured: Setting {}

/// Restricts the length of what a list, map or text of this description holds.
pub fn with_length<T: Measured>(described: Type, range: RangeInclusive<usize>) -> Type {
    let length = Length { min: *range.start(), max: *range.end() };
    match described {
        Type::List { of, or_one, .. } => Type::List { of, length, or_one },
        Type::Map { key, value, .. } => Type::Map { key, value, length },
        Type::Text { pattern, .. } => Type::Text { length, pattern },
        other => other,
    }
}

/// Says what other contents of a file take, where that is not what another file would take.
pub fn with_contents(described: Type, contents: Change) -> Type {
    match described {
        Type::File { .. } => Type::File { contents: Some(contents) },
        other => other,
    }
}

/// Restricts a text by a rule; a list of texts is restricted in each.
pub fn with_pattern(described: Type, pattern: &'static Pattern) -> Type {
    match described {
        Type::Text { length, .. } => Type::Text { length, pattern: Some(pattern) },
        Type::List { of, length, or_one } => Type::List { of: Box::new(with_pattern(*of, pattern)), length, or_one },
        other => other,
    }
}

impl Setting for bool {
    fn describe() -> Type {
        Type::Bool
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(boolean) => Some(*boolean),
            _ => None,
        }
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

/// The greatest integer that a Lua number holds exactly, 2^53.
const LUA_MAX: i64 = 1 << 53;

macro_rules! integer {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            fn describe() -> Type {
                Type::Integer {
                    min: i64::try_from(<$type>::MIN).unwrap_or(-LUA_MAX).max(-LUA_MAX),
                    max: i64::try_from(<$type>::MAX).unwrap_or(LUA_MAX).min(LUA_MAX),
                }
            }

            fn read(value: &Value) -> Option<Self> {
                value.as_integer().and_then(|integer| Self::try_from(integer).ok())
            }

            fn write(&self) -> Value {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }

        impl Ranged for $type {
            type Bound = $type;

            fn within(described: Type, range: RangeInclusive<$type>) -> Type {
                match described {
                    Type::Integer { min, max } => Type::Integer {
                        min: i64::try_from(*range.start()).unwrap_or(min),
                        max: i64::try_from(*range.end()).unwrap_or(max),
                    },
                    other => other,
                }
            }
        }
    )* };
}

integer!(u8, u16, u32, u64, usize, i32, i64);

impl Setting for f64 {
    fn describe() -> Type {
        Type::Number { min: f64::MIN, max: f64::MAX }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn write(&self) -> Value {
        Value::Number(*self)
    }
}

impl Ranged for f64 {
    type Bound = f64;

    fn within(_: Type, range: RangeInclusive<f64>) -> Type {
        Type::Number { min: *range.start(), max: *range.end() }
    }
}

impl Setting for String {
    fn describe() -> Type {
        Type::Text { length: Length::ANY, pattern: None }
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_text().map(str::to_owned)
    }

    fn write(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Measured for String {}

macro_rules! quantity_setting {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            fn describe() -> Type {
                Type::Quantity { units: <$type>::UNITS, min: 0, max: u64::MAX }
            }

            fn read(value: &Value) -> Option<Self> {
                let amount = <$type>::UNITS.parse(value.as_text()?).ok()?;
                Some(Self::from_base(amount))
            }

            fn write(&self) -> Value {
                Value::text(self)
            }
        }

        impl Ranged for $type {
            type Bound = $type;

            fn within(_: Type, range: RangeInclusive<$type>) -> Type {
                Type::Quantity {
                    units: <$type>::UNITS,
                    min: range.start().base(),
                    max: range.end().base(),
                }
            }
        }
    )* };
}

quantity_setting!(Rate, PacketRate, Nanos, Size);

/// Makes a [`Scalar`](crate::Scalar) type a type that keys can have.
#[macro_export]
macro_rules! scalar {
    ($($type:ty),* $(,)?) => { $(
        impl $crate::Setting for $type {
            fn describe() -> $crate::Type {
                $crate::Type::scalar::<$type>()
            }

            fn read(value: &$crate::Value) -> Option<Self> {
                <Self as $crate::Setting>::read_text(value.as_text()?)
            }

            fn read_text(text: &str) -> Option<Self> {
                <$type as $crate::Scalar>::parse(text).ok()
            }

            fn write(&self) -> $crate::Value {
                $crate::Value::text(self)
            }
        }
    )* };
}

scalar!(
    std::net::Ipv4Addr,
    std::net::Ipv6Addr,
    std::net::IpAddr,
    ipnet::Ipv4Net,
    ipnet::Ipv6Net,
    ipnet::IpNet,
    crate::scalar::InterfaceAddress,
    crate::scalar::MacAddress,
);

impl Setting for FilePath {
    fn describe() -> Type {
        Type::File { contents: None }
    }

    fn read(value: &Value) -> Option<Self> {
        Self::parse(value.as_text()?).ok()
    }

    fn write(&self) -> Value {
        Value::text(self)
    }
}

/// The name of a port that the same configuration declares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName(String);

impl PortName {
    /// A name; in a configuration it must be declared.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Setting for PortName {
    fn describe() -> Type {
        Type::Reference { kind: "port" }
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_text().map(Self::new)
    }

    fn write(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl<T: Setting> Setting for Option<T> {
    fn describe() -> Type {
        T::describe()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Nil => Some(None),
            value => T::read(value).map(Some),
        }
    }

    fn read_text(text: &str) -> Option<Self> {
        T::read_text(text).map(Some)
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Nil, T::write)
    }
}

impl<T: Ranged> Ranged for Option<T> {
    type Bound = T::Bound;

    fn within(described: Type, range: RangeInclusive<T::Bound>) -> Type {
        T::within(described, range)
    }
}

impl<T: Measured> Measured for Option<T> {}

impl<T: Setting> Setting for Vec<T> {
    const IS_LIST: bool = true;

    fn describe() -> Type {
        Type::List { of: Box::new(T::describe()), length: Length::ANY, or_one: false }
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_list()?.iter().map(T::read).collect()
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(T::write).collect())
    }
}

impl<T: Setting, const N: usize> Setting for [T; N] {
    fn describe() -> Type {
        Type::List { of: Box::new(T::describe()), length: Length { min: N, max: N }, or_one: false }
    }

    fn read(value: &Value) -> Option<Self> {
        Vec::read(value)?.try_into().ok()
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(T::write).collect())
    }
}

impl<T: Ranged> Ranged for Vec<T> {
    type Bound = T::Bound;

    fn within(described: Type, range: RangeInclusive<T::Bound>) -> Type {
        match described {
            Type::List { of, length, or_one } => Type::List { of: Box::new(T::within(*of, range)), length, or_one },
            other => other,
        }
    }
}

impl<T: Setting> Measured for Vec<T> {}

/// A list for which a single value may stand: `"a"` is `{ "a" }`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Setting> Setting for OneOrMany<T> {
    const IS_LIST: bool = true;

    fn describe() -> Type {
        Type::List { of: Box::new(T::describe()), length: Length::ANY, or_one: true }
    }

    fn read(value: &Value) -> Option<Self> {
        Vec::read(value).map(Self)
    }

    fn write(&self) -> Value {
        match self.0.as_slice() {
            [one] => one.write(),
            _ => self.0.write(),
        }
    }
}

impl<T: Ranged> Ranged for OneOrMany<T> {
    type Bound = T::Bound;

    fn within(described: Type, range: RangeInclusive<T::Bound>) -> Type {
        Vec::<T>::within(described, range)
    }
}

impl<T: Setting> Measured for OneOrMany<T> {}

impl<K: Setting + Ord, V: Setting> Setting for BTreeMap<K, V> {
    fn describe() -> Type {
        Type::Map { key: Box::new(K::describe()), value: Box::new(V::describe()), length: Length::ANY }
    }

    fn read(value: &Value) -> Option<Self> {
        let entry = |(key, value): (&Key, &Value)| {
            let key = match key {
                Key::Index(index) => K::read(&Value::Integer(*index)),
                Key::Name(name) => K::read(&Value::Text(name.clone())),
            };
            Some((key?, V::read(value)?))
        };
        match value {
            Value::List(list) if list.is_empty() => Some(Self::new()),
            value => value.as_table()?.0.iter().map(entry).collect(),
        }
    }

    fn write(&self) -> Value {
        let entry = |(key, value): (&K, &V)| match key.write() {
            Value::Integer(index) => (Key::Index(index), value.write()),
            other => (Key::Name(other.as_text().unwrap_or_default().to_owned()), value.write()),
        };
        Value::Table(self.iter().map(entry).collect::<Table>())
    }
}

impl<K: Setting + Ord, V: Setting> Measured for BTreeMap<K, V> {}

/// The table that a value is; part of [`config!`](crate::config).
#[doc(hidden)]
pub fn table_or_empty<'a>(value: &'a Value, empty: &'a Table) -> Option<&'a Table> {
    match value {
        Value::Table(table) => Some(table),
        Value::List(list) if list.is_empty() => Some(empty),
        _ => None,
    }
}

/// Reads a key of a checked table; part of [`config!`](crate::config).
#[doc(hidden)]
pub fn read_key<T: Setting>(table: &Table, name: &str) -> Option<T> {
    let name = name.strip_prefix("r#").unwrap_or(name);
    T::read(table.get(name).unwrap_or(&Value::Nil))
}

/// Writes a key of a table, unless it is absent; part of [`config!`](crate::config).
#[doc(hidden)]
pub fn write_key<T: Setting>(table: &mut Table, name: &str, setting: &T) {
    let name = name.strip_prefix("r#").unwrap_or(name);
    match setting.write() {
        Value::Nil => {}
        value => table.set(name, value),
    }
}
