//! Checking a value against a schema: all errors at once, and the value in its one canonical form.
//!
//! The canonical form has every default filled in, single values that stand for lists made into lists, and every
//! quantity and address written in the one way that equal values share; so two checked values that mean the same
//! are equal.

mod advice;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::error::{ConfigError, ErrorKind, Errors, nearest};
use crate::folder::{FilePath, Folder};
use crate::path::Path;
use crate::place::Place;
use crate::quantity::Units;
use crate::scalar::Malformed;
use crate::schema::{Presence, Schema};
use crate::types::{Length, Type, Word};
use crate::value::{Key, Table, Value};
pub(crate) use advice::did_you_mean;
use advice::undeclared;

/// What a value may refer to: the names that are declared, and the files that are there.
#[derive(Debug, Clone, Default)]
pub struct Context {
    names: BTreeMap<String, BTreeSet<String>>,
    folder: Option<Folder>,
}

impl Context {
    /// No names and no folder; files are then judged by their paths alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for files in this folder.
    #[must_use]
    pub fn folder(mut self, folder: Option<Folder>) -> Self {
        self.folder = folder;
        self
    }

    /// Adds the name of a declaration.
    #[must_use]
    pub fn name(mut self, kind: &str, name: &str) -> Self {
        self.names.entry(kind.to_owned()).or_default().insert(name.to_owned());
        self
    }

    /// The folder in which files are looked for.
    pub(crate) fn files_in(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    fn names(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.names.get(kind).into_iter().flatten().map(String::as_str)
    }
}

/// Checks a value against a type. The canonical value comes back if nothing was wrong with it.
pub(crate) fn check(
    holds: &Type,
    value: &Value,
    place: &Place,
    path: &Path<'_>,
    context: &Context,
    errors: &mut Errors,
) -> Option<Value> {
    let mut checker = Checker { place, context, errors };
    checker.value(holds, value, path)
}

impl Schema {
    /// Checks a table against the schema; the canonical table comes back.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(
        &self,
        value: &Value,
        place: &Place,
        path: &Path<'_>,
        context: &Context,
    ) -> Result<Value, Vec<ConfigError>> {
        let mut errors = Errors::new();
        let mut checker = Checker { place, context, errors: &mut errors };
        let checked = checker.table_or_empty(self, value, path);
        errors.into_result(checked.unwrap_or_default())
    }
}

struct Checker<'a> {
    place: &'a Place,
    context: &'a Context,
    errors: &'a mut Errors,
}

impl Checker<'_> {
    fn value(&mut self, holds: &Type, value: &Value, path: &Path<'_>) -> Option<Value> {
        match (holds, value) {
            (Type::Bool, Value::Bool(_)) => Some(value.clone()),
            (Type::Integer { min, max }, Value::Integer(integer)) => {
                self.in_range(holds, value, path, min <= integer && integer <= max)
            }
            (Type::Number { min, max }, Value::Number(number)) => {
                self.in_range(holds, value, path, min <= number && number <= max)
            }
            // Lua has no others than floating-point numbers, so that none is rounded here.
            (Type::Number { min, max }, Value::Integer(integer)) => {
                let number = *integer as f64;
                self.in_range(holds, value, path, *min <= number && number <= *max).map(|_| Value::Number(number))
            }
            (Type::Text { .. }, Value::Text(text)) => self.text(holds, text, value, path),
            (Type::Choice(words), Value::Text(text)) => self.choice(holds, words, text, path),
            (Type::Quantity { units, min, max }, _) => self.quantity(holds, units, (*min, *max), value, path),
            (Type::Scalar(scalar), Value::Text(text)) => {
                self.or_malformed((scalar.canonical)(text).map(Value::Text), holds, value, path)
            }
            (Type::Reference { kind }, Value::Text(text)) => self.reference(kind, text, value, path),
            (Type::File { .. }, Value::Text(text)) => self.file(holds, text, value, path),
            (Type::List { of, length, or_one }, _) => self.list(holds, of, *length, *or_one, value, path),
            (Type::Map { key, value: of, length }, Value::Table(table)) => {
                let entries = table.0.iter().map(|(key, value)| (key.clone(), value));
                self.map((key, of), entries, *length, path)
            }
            (Type::Map { key, value: of, length }, Value::List(list)) => {
                let entries = (1_i64..).map(Key::Index).zip(list);
                self.map((key, of), entries, *length, path)
            }
            (Type::Table(schema), _) => self.table_or_empty(schema, value, path),
            (Type::Tagged { tag, cases }, Value::Table(table)) => self.tagged(tag, cases, table, path),
            (Type::Tagged { tag, cases }, Value::List(list)) if list.is_empty() => {
                self.tagged(tag, cases, &Table::default(), path)
            }
            (Type::Either(types), _) => self.either(holds, types, value, path),
            _ => self.wrong_type(holds, value, path),
        }
    }

    fn error(&mut self, kind: ErrorKind, path: impl Display, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(kind, self.place, path, problem)
    }

    fn wrong_type(&mut self, holds: &Type, value: &Value, path: &Path<'_>) -> Option<Value> {
        let remedy = self.other_type(holds, value, path);
        let problem = match value {
            Value::List(_) | Value::Table(_) => "is not".to_owned(),
            _ => format!("is {}, not", value.type_name()),
        };
        let error = self
            .error(ErrorKind::WrongType, path, format!("{problem} what this key holds"))
            .found(value)
            .allowed(holds.expected())
            .remedy(remedy);
        self.errors.push(error);
        None
    }

    fn in_range(&mut self, holds: &Type, value: &Value, path: &Path<'_>, inside: bool) -> Option<Value> {
        if inside {
            return Some(value.clone());
        }
        let error = self.error(ErrorKind::OutOfRange, path, "is out of range").found(value).allowed(holds.expected());
        self.errors.push(error);
        None
    }

    /// The value, or the error that its own type reports.
    fn or_malformed(
        &mut self,
        parsed: Result<Value, Malformed>,
        holds: &Type,
        value: &Value,
        path: &Path<'_>,
    ) -> Option<Value> {
        parsed
            .map_err(|malformed| {
                let remedy = self.remedy_of(&malformed, holds, path);
                let error = self
                    .error(malformed.kind, path, malformed.problem)
                    .found(value)
                    .allowed(holds.expected())
                    .remedy(remedy);
                self.errors.push(error);
            })
            .ok()
    }

    fn text(&mut self, holds: &Type, text: &str, value: &Value, path: &Path<'_>) -> Option<Value> {
        let Type::Text { length, pattern } = holds else {
            return None;
        };
        if pattern.is_some_and(|pattern| !(pattern.matches)(text)) {
            let error = Malformed::because("has the wrong form");
            return self.or_malformed(Err(error), holds, value, path);
        }
        self.in_range(holds, value, path, length.allows(text.chars().count()))
    }

    fn choice(&mut self, holds: &Type, words: &[Word], text: &str, path: &Path<'_>) -> Option<Value> {
        if words.iter().any(|word| word.name == text) {
            return Some(Value::from(text));
        }
        let near = nearest(text, words.iter().map(|word| word.name));
        let error = self
            .error(ErrorKind::Unknown, path, "is no choice")
            .found(&Value::from(text))
            .allowed(holds.expected())
            .remedy(did_you_mean(near));
        self.errors.push(error);
        None
    }

    fn quantity(
        &mut self,
        holds: &Type,
        units: &'static Units,
        (min, max): (u64, u64),
        value: &Value,
        path: &Path<'_>,
    ) -> Option<Value> {
        let parsed = match value {
            Value::Text(text) => units.parse(text),
            // A bare number gets the answer that its text would get: that it has no unit.
            Value::Integer(_) | Value::Number(_) => units.parse(&value.to_string()),
            _ => return self.wrong_type(holds, value, path),
        };
        let amount = self.or_malformed(parsed.map(|amount| Value::Text(units.format(amount))), holds, value, path)?;
        let inside = parsed_amount(units, &amount).is_some_and(|amount| min <= amount && amount <= max);
        self.in_range(holds, value, path, inside).map(|_| amount)
    }

    fn reference(&mut self, kind: &str, text: &str, value: &Value, path: &Path<'_>) -> Option<Value> {
        if self.context.names(kind).any(|name| name == text) {
            return Some(value.clone());
        }
        let known: Vec<String> = self.context.names(kind).take(8).map(|name| format!("{name:?}")).collect();
        let allowed = match known.as_slice() {
            [] => format!("the name of a {kind}, and none is declared"),
            names => format!("the name of a {kind}, such as {}", names.join(", ")),
        };
        let remedy = match nearest(text, self.context.names(kind)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => undeclared(kind, text),
        };
        let error = self
            .error(ErrorKind::Dangling, path, format!("names no {kind}"))
            .found(value)
            .allowed(allowed)
            .remedy(remedy);
        self.errors.push(error);
        None
    }

    fn file(&mut self, holds: &Type, text: &str, value: &Value, path: &Path<'_>) -> Option<Value> {
        let parsed = FilePath::parse(text);
        let file = self.or_malformed(parsed.map(Value::text), holds, value, path)?;
        let folder = self.context.folder.as_ref();
        let problem = folder.zip(FilePath::parse(text).ok()).map(|(folder, file)| folder.open_file(&file));
        if let Some(Err(problem)) = problem {
            let error = self.error(ErrorKind::File, path, problem).found(value).allowed(holds.expected());
            self.errors.push(error);
            return None;
        }
        Some(file)
    }

    fn list(
        &mut self,
        holds: &Type,
        of: &Type,
        length: Length,
        or_one: bool,
        value: &Value,
        path: &Path<'_>,
    ) -> Option<Value> {
        let list = match value {
            Value::List(list) => list,
            Value::Table(table) if table.0.keys().all(|key| matches!(key, Key::Index(_))) => {
                return self.holes(table, path);
            }
            Value::Nil | Value::Table(_) => return self.wrong_type(holds, value, path),
            one if or_one => return self.value(of, one, path).map(|one| Value::List(vec![one])),
            _ => return self.wrong_type(holds, value, path),
        };
        // Every entry is looked at, so that all errors are told at once.
        let entries: Vec<Option<Value>> =
            (1_i64..).zip(list).map(|(index, entry)| self.value(of, entry, &path.index(index))).collect();
        self.counted(list.len(), length, "entries", path)?;
        entries.into_iter().collect::<Option<_>>().map(Value::List)
    }

    /// A table with integer keys that are not 1 to n: a `nil` was written among the entries of a list.
    fn holes(&mut self, table: &Table, path: &Path<'_>) -> Option<Value> {
        let hole = (1_i64..).find(|index| !table.0.contains_key(&Key::Index(*index))).unwrap_or(1);
        let error = self
            .error(ErrorKind::WrongType, path, format!("has no entry {hole}, yet others after it or before 1"))
            .allowed("a list whose entries are numbered from 1 without a gap")
            .remedy("look for a nil among its entries");
        self.errors.push(error);
        None
    }

    fn counted(&mut self, count: usize, length: Length, what: &str, path: &Path<'_>) -> Option<()> {
        if length.allows(count) {
            return Some(());
        }
        let allowed = if length.max == usize::MAX {
            format!("at least {}", length.min)
        } else {
            format!("{} to {}", length.min, length.max)
        };
        let error = self.error(ErrorKind::OutOfRange, path, format!("has {count} {what}")).allowed(allowed);
        self.errors.push(error);
        None
    }

    fn map<'v>(
        &mut self,
        (key_type, value_type): (&Type, &Type),
        entries: impl Iterator<Item = (Key, &'v Value)>,
        length: Length,
        path: &Path<'_>,
    ) -> Option<Value> {
        let mut checked = BTreeMap::new();
        let mut count = 0_usize;
        let before = self.errors.count();
        for (key, value) in entries {
            count = count.saturating_add(1);
            let here = path.key(&key);
            let canonical = self.map_key(key_type, &key, &here);
            let value = self.value(value_type, value, &here);
            let (Some(canonical), Some(value)) = (canonical, value) else {
                continue;
            };
            if checked.insert(canonical.clone(), value).is_some() {
                let error = self
                    .error(ErrorKind::Duplicate, here, format!("is the same key as another, {canonical}"))
                    .remedy("remove one of the two");
                self.errors.push(error);
            }
        }
        self.counted(count, length, "entries", path)?;
        (self.errors.count() == before).then_some(Value::Table(Table(checked)))
    }

    fn map_key(&mut self, key_type: &Type, key: &Key, path: &Path<'_>) -> Option<Key> {
        let value = match key {
            Key::Index(index) => Value::Integer(*index),
            Key::Name(name) => Value::Text(name.clone()),
        };
        match self.value(key_type, &value, path)? {
            Value::Integer(index) => Some(Key::Index(index)),
            Value::Text(name) => Some(Key::Name(name)),
            _ => None,
        }
    }

    fn table_or_empty(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) -> Option<Value> {
        match value {
            Value::Table(table) => self.table(schema, table, path),
            Value::List(list) if list.is_empty() => self.table(schema, &Table::default(), path),
            _ => self.wrong_type(&Type::Table(schema.clone()), value, path),
        }
    }

    fn table(&mut self, schema: &Schema, table: &Table, path: &Path<'_>) -> Option<Value> {
        let before = self.errors.count();
        for key in table.0.keys() {
            self.known(schema, table, key, path);
        }
        let mut checked = Table::default();
        for key in &schema.keys {
            let here = path.field(key.name);
            let given = table.get(key.name).filter(|value| **value != Value::Nil);
            let value = match (given, &key.presence) {
                (Some(value), _) => self.value(&key.holds, value, &here),
                (None, Presence::Default(value)) => self.value(&key.holds, value, &here),
                (None, Presence::Optional) => None,
                (None, Presence::Required) => {
                    let error = self
                        .error(ErrorKind::Missing, here, "is missing")
                        .allowed(key.holds.expected())
                        .remedy(format!("add {} = {}", key.name, self.example(&key.holds)));
                    self.errors.push(error);
                    None
                }
            };
            if let Some(value) = value {
                checked.set(key.name, value);
            }
        }
        (self.errors.count() == before).then_some(Value::Table(checked))
    }

    fn known(&mut self, schema: &Schema, table: &Table, key: &Key, path: &Path<'_>) {
        let name = match key {
            Key::Name(name) if schema.key(name).is_some() => return,
            Key::Name(name) => name.as_str(),
            Key::Index(_) => "",
        };
        let here = match key {
            Key::Name(name) => path.field(name),
            Key::Index(index) => path.index(*index),
        };
        let names: Vec<&str> = schema.names().collect();
        let error = self
            .error(ErrorKind::Unknown, here, "is not a key here")
            .allowed(if names.is_empty() {
                "no keys at all".to_owned()
            } else {
                format!("one of {}", names.join(", "))
            })
            .remedy(did_you_mean(nearest(name, schema.names().filter(|name| table.get(name).is_none()))));
        self.errors.push(error);
    }

    /// A table whose other keys depend on the word of one.
    fn tagged(
        &mut self,
        tag: &'static str,
        cases: &[(&'static str, Schema)],
        table: &Table,
        path: &Path<'_>,
    ) -> Option<Value> {
        let here = path.field(tag);
        let given = table.get(tag).filter(|value| **value != Value::Nil);
        let word = given.and_then(Value::as_text);
        if let Some((word, schema)) = cases.iter().find(|(known, _)| word == Some(known)) {
            let mut rest = table.clone();
            rest.0.remove(&Key::from(tag));
            let mut checked = self.table(schema, &rest, path)?;
            if let Value::Table(table) = &mut checked {
                table.set(tag, Value::from(*word));
            }
            return Some(checked);
        }
        let allowed = crate::types::words(cases);
        let error = match given {
            None => {
                let example = cases.first().map_or("", |(word, _)| word);
                self.error(ErrorKind::Missing, here, "is missing").remedy(format!("add {tag} = {example:?}"))
            }
            Some(Value::Text(text)) => {
                let near = nearest(text, cases.iter().map(|(word, _)| *word));
                let error = self.error(ErrorKind::Unknown, here, "is no choice").found(&Value::from(text.as_str()));
                error.remedy(did_you_mean(near))
            }
            Some(other) => self.error(ErrorKind::WrongType, here, "is not what this key holds").found(other),
        };
        self.errors.push(error.allowed(allowed));
        None
    }

    /// The first type that fits. If none does, but only one takes values of this shape, then its errors are the
    /// ones to tell.
    fn either(&mut self, holds: &Type, types: &[Type], value: &Value, path: &Path<'_>) -> Option<Value> {
        let mut attempts = Vec::new();
        for each in types {
            let mut errors = Errors::new();
            if let Some(value) = check(each, value, self.place, path, self.context, &mut errors) {
                return Some(value);
            }
            let errors = errors.into_result(()).err().unwrap_or_default();
            let here = path.to_string();
            if !errors.iter().any(|error| error.kind == ErrorKind::WrongType && error.path == here) {
                attempts.push(errors);
            }
        }
        match <[_; 1]>::try_from(attempts) {
            Ok([errors]) => self.errors.extend(errors),
            Err(several) if several.is_empty() => return self.wrong_type(holds, value, path),
            Err(_) => {
                let error = Malformed::because("has none of the forms allowed");
                return self.or_malformed(Err(error), holds, value, path);
            }
        }
        None
    }
}

fn parsed_amount(units: &Units, amount: &Value) -> Option<u64> {
    units.parse(amount.as_text()?).ok()
}
