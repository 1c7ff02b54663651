//! Lua values as plain data: what is not plain is an error with its key path.

use std::collections::BTreeMap;
use std::ffi::c_void;

use mlua::Value as Lua;
use weir_config::{ConfigError, ErrorKind, Key, Path, Place, Table, Value};

/// Converts the values of one declaration.
pub(crate) struct Converter<'a> {
    /// Where the declaration stands.
    pub(crate) place: &'a Place,
    /// The mistakes found.
    pub(crate) errors: Vec<ConfigError>,
    /// How many more values there may be.
    pub(crate) values_left: u64,
    /// Whether there were more.
    pub(crate) exhausted: bool,
    /// How deep tables may lie in tables.
    depth: u32,
    /// The tables that lead to the one at hand, to find cycles.
    within: Vec<*const c_void>,
}

impl<'a> Converter<'a> {
    pub(crate) fn new(place: &'a Place, values_left: u64, depth: u32) -> Self {
        Self { place, errors: Vec::new(), values_left, exhausted: false, depth, within: Vec::new() }
    }

    /// The value as plain data. What cannot be converted is reported and left out.
    pub(crate) fn value(&mut self, value: &Lua, path: &Path<'_>) -> Option<Value> {
        self.values_left = self.values_left.checked_sub(1).or_else(|| self.exhaust(path))?;
        match value {
            Lua::Nil => Some(Value::Nil),
            Lua::Boolean(boolean) => Some(Value::Bool(*boolean)),
            Lua::Integer(integer) => Some(Value::Integer(*integer)),
            Lua::Number(number) if number.is_finite() => Some(Value::Number(*number)),
            Lua::Number(number) => self.refuse(path, format!("is {number}, which is no finite number")),
            Lua::String(text) => match text.to_str() {
                Ok(text) => Some(Value::from(&*text)),
                Err(_) => self.refuse(path, "is a string that is not UTF-8"),
            },
            Lua::Table(table) => self.table(table, path),
            other => self.refuse(path, format!("is a {}, which is no plain data", other.type_name())),
        }
    }

    fn table(&mut self, table: &mlua::Table, path: &Path<'_>) -> Option<Value> {
        let address = table.to_pointer();
        if self.within.contains(&address) {
            return self.refuse(path, "is a table that contains itself");
        }
        if self.within.len() >= usize::try_from(self.depth.min(32)).unwrap_or(32) {
            let problem = format!("lies more than {} tables deep", self.depth);
            return self.report(ErrorKind::Limit, path, problem);
        }
        self.within.push(address);
        let converted = self.entries(table, path);
        self.within.pop();
        converted
    }

    /// Goes through a table without its metamethods. As long as the keys come as 1, 2, ... it is a list.
    fn entries(&mut self, table: &mlua::Table, path: &Path<'_>) -> Option<Value> {
        let mut list = Vec::new();
        let mut others = BTreeMap::new();
        let walked = table.for_each(|key: Lua, value: Lua| {
            if self.exhausted {
                return Err(mlua::Error::runtime("too many values"));
            }
            let Some(key) = self.key(&key, path) else {
                return Ok(());
            };
            let Some(value) = self.value(&value, &path.key(&key)) else {
                return Ok(());
            };
            let next = i64::try_from(list.len()).unwrap_or(i64::MAX).saturating_add(1);
            if others.is_empty() && key == Key::Index(next) {
                list.push(value);
            } else {
                others.insert(key, value);
            }
            Ok(())
        });
        walked.ok()?;
        Some(merged(list, others))
    }

    fn key(&mut self, key: &Lua, path: &Path<'_>) -> Option<Key> {
        match key {
            Lua::Integer(index) => Some(Key::Index(*index)),
            Lua::String(name) => match name.to_str() {
                Ok(name) => Some(Key::from(&*name)),
                Err(_) => self.refuse(path, "has a key that is not UTF-8"),
            },
            other => self.refuse(path, format!("has a {} as a key, not a string or an integer", other.type_name())),
        }
    }

    /// There are too many values; the walk ends with the one error that tells it.
    fn exhaust<T>(&mut self, path: &Path<'_>) -> Option<T> {
        self.exhausted = true;
        self.report(ErrorKind::Limit, path, "makes more values than a script may declare")
    }

    fn refuse<T>(&mut self, path: &Path<'_>, problem: impl Into<String>) -> Option<T> {
        self.report(ErrorKind::WrongType, path, problem)
    }

    fn report<T>(&mut self, kind: ErrorKind, path: &Path<'_>, problem: impl Into<String>) -> Option<T> {
        self.errors.push(ConfigError::new(kind, self.place, path, problem));
        None
    }
}

/// One list or one table of the entries that came in order and those that did not.
fn merged(list: Vec<Value>, mut others: BTreeMap<Key, Value>) -> Value {
    if others.is_empty() {
        return Value::List(list);
    }
    others.extend((1_i64..).map(Key::Index).zip(list));
    let numbered = (1_i64..).zip(others.keys()).all(|(index, key)| *key == Key::Index(index));
    if numbered { Value::List(others.into_values().collect()) } else { Value::Table(Table(others)) }
}
