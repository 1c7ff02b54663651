//! Wrong values derived from a schema: each key missing, of a wrong type or unit, out of range, unknown, dangling.
//!
//! A function's tests call [`Schema::defects`]; it must be empty.

use crate::check::Context;
use crate::error::{ConfigError, ErrorKind};
use crate::path::Path;
use crate::place::Place;
use crate::schema::{Presence, Schema};
use crate::types::{EXAMPLE_NAME, Length, Type, tagged_example};
use crate::value::{Key, Table, Value};

/// A change of the example of a schema that makes it wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct WrongValue {
    /// The keys that lead to the value.
    pub keys: Vec<Key>,
    /// What stands there instead; `None` removes the key.
    pub value: Option<Value>,
    /// The sort of mistake that it is.
    pub kind: ErrorKind,
    /// The path that the error must name, below the root.
    pub path: String,
}

impl WrongValue {
    /// The example of the schema, made wrong.
    pub fn apply(&self, example: &Value) -> Value {
        let mut wrong = example.clone();
        replace(&mut wrong, &self.keys, self.value.as_ref());
        wrong
    }

    /// What checking says to it.
    pub fn errors(&self, schema: &Schema) -> Vec<ConfigError> {
        let wrong = self.apply(&schema.example());
        schema.check_example(&wrong).err().unwrap_or_default()
    }

    /// Whether one of these errors tells this mistake.
    pub fn told_by(&self, errors: &[ConfigError]) -> bool {
        errors.iter().any(|error| error.kind == self.kind && error.path == self.path)
    }
}

fn replace(target: &mut Value, keys: &[Key], value: Option<&Value>) {
    let Some((first, rest)) = keys.split_first() else {
        *target = value.cloned().unwrap_or_default();
        return;
    };
    match (target, first) {
        (Value::Table(table), key) if rest.is_empty() => match value {
            Some(value) => drop(table.0.insert(key.clone(), value.clone())),
            None => drop(table.0.remove(key)),
        },
        (Value::Table(table), key) => {
            if let Some(inner) = table.0.get_mut(key) {
                replace(inner, rest, value);
            }
        }
        (Value::List(list), Key::Index(index)) => {
            let position = usize::try_from(*index).ok().and_then(|index| index.checked_sub(1));
            if let Some(inner) = position.and_then(|position| list.get_mut(position)) {
                replace(inner, rest, value);
            }
        }
        _ => {}
    }
}

const ROOT: Path<'static> = Path::root("test");

impl Schema {
    /// Every way to make the example wrong that the schema speaks of.
    pub fn wrong_values(&self) -> Vec<WrongValue> {
        let mut found = Vec::new();
        wrong_table(self, &mut Vec::new(), &ROOT, &mut found);
        found
    }

    /// Checks a value in a context in which [`EXAMPLE_NAME`] is declared for every kind that is referred to.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check_example(&self, value: &Value) -> Result<Value, Vec<ConfigError>> {
        let mut kinds = Vec::new();
        self.keys.iter().for_each(|key| referenced(&key.holds, &mut kinds));
        let context = kinds.iter().fold(Context::new(), |context, kind| context.name(kind, EXAMPLE_NAME));
        self.check(value, &Place::line("test.lua", 1), &ROOT, &context)
    }

    /// What is wrong with the schema itself: keys without a doc text, examples and defaults that do not pass,
    /// mistakes that checking does not tell. Empty for a right schema.
    pub fn defects(&self) -> Vec<String> {
        let mut defects: Vec<String> = Vec::new();
        undocumented(self, "", &mut defects);
        match self.check_example(&self.example()) {
            Ok(checked) if self.check_example(&checked).as_ref() != Ok(&checked) => {
                defects.push("the canonical form of the example changes when it is checked again".to_owned());
            }
            Ok(_) => {}
            Err(errors) => defects.extend(errors.iter().map(|error| format!("the example is refused: {error}"))),
        }
        defects.extend(self.bad_defaults());
        defects.extend(self.bad_advice());
        let untold = self.wrong_values().into_iter().filter(|wrong| !wrong.told_by(&wrong.errors(self)));
        defects.extend(untold.map(|wrong| format!("not told: {wrong:?} gives {:?}", wrong.errors(self))));
        defects
    }

    /// Advice to write some value that is wrong as well.
    fn bad_advice(&self) -> Vec<String> {
        let mut places: Vec<(Vec<Key>, String)> =
            self.wrong_values().into_iter().map(|wrong| (wrong.keys, wrong.path)).collect();
        places.sort_unstable();
        places.dedup();
        let mut bad = Vec::new();
        for (keys, path) in places {
            for value in tempting() {
                let of = |value: Value| {
                    let wrong = WrongValue {
                        keys: keys.clone(),
                        value: Some(value),
                        kind: ErrorKind::WrongType,
                        path: path.clone(),
                    };
                    wrong.errors(self).into_iter().find(|error| error.path == path)
                };
                let Some(error) = of(value) else { continue };
                let advised = advised(&error.remedy).and_then(|advised| Some((of(advised)?, error)));
                bad.extend(advised.map(|(again, error)| format!("advice that is no help: {error}, and then: {again}")));
            }
        }
        bad
    }

    /// The errors that a table with the required keys only brings about: they are those of the defaults.
    fn bad_defaults(&self) -> Vec<String> {
        let required = self.keys.iter().filter(|key| matches!(key.presence, Presence::Required));
        let table: Table = required.map(|key| (Key::from(key.name), key.holds.example())).collect();
        let errors = self.check_example(&Value::Table(table)).err().unwrap_or_default();
        errors.iter().map(|error| format!("a default is refused: {error}")).collect()
    }
}

/// What people write, right in one place and wrong in another.
fn tempting() -> impl Iterator<Item = Value> {
    const TEXTS: [&str; 16] = [
        "",
        "5",
        "1500",
        "-1",
        "99999999",
        "0.5",
        "true",
        "false",
        "10",
        "10 s",
        "192.0.2.1",
        "192.0.2.1/24",
        "0.0.0.0",
        "2001:db8::1",
        "2001:db8::1/64",
        "2001:db8::/200",
    ];
    let numbers =
        [Value::Integer(5), Value::Integer(-1), Value::Integer(i64::MAX), Value::Number(0.5), Value::Bool(true)];
    TEXTS.into_iter().map(Value::from).chain(numbers)
}

/// The value that a remedy says to write, if it names one.
fn advised(remedy: &str) -> Option<Value> {
    let words = ["such as ", "as in ", "write "];
    let (_, rest) = words.iter().find_map(|word| remedy.split_once(word))?;
    if let Some(text) = rest.strip_prefix('"') {
        return Some(Value::from(text.split('"').next()?));
    }
    let word = rest.split([' ', ';']).next()?;
    let number = || word.parse().map(Value::Integer).or_else(|_| word.parse().map(Value::Number)).ok();
    word.parse().map(Value::Bool).ok().or_else(number)
}

fn undocumented(schema: &Schema, path: &str, defects: &mut Vec<String>) {
    if schema.doc.is_empty() {
        defects.push(format!("the table {path:?} has no doc text"));
    }
    for key in &schema.keys {
        let path = format!("{path}.{}", key.name);
        if key.doc.is_empty() {
            defects.push(format!("the key {path} has no doc text"));
        }
        inner_tables(&key.holds, &mut |inner| undocumented(inner, &path, defects));
    }
}

fn inner_tables(holds: &Type, visit: &mut impl FnMut(&Schema)) {
    match holds {
        Type::Table(schema) => visit(schema),
        Type::List { of, .. } => inner_tables(of, visit),
        Type::Map { value, .. } => inner_tables(value, visit),
        Type::Tagged { cases, .. } => cases.iter().for_each(|(_, schema)| visit(schema)),
        Type::Either(types) => types.iter().for_each(|each| inner_tables(each, visit)),
        _ => {}
    }
}

fn referenced(holds: &Type, kinds: &mut Vec<&'static str>) {
    match holds {
        Type::Reference { kind } => kinds.push(kind),
        Type::List { of, .. } => referenced(of, kinds),
        Type::Map { key, value, .. } => {
            referenced(key, kinds);
            referenced(value, kinds);
        }
        Type::Table(schema) => schema.keys.iter().for_each(|key| referenced(&key.holds, kinds)),
        Type::Tagged { cases, .. } => {
            cases.iter().flat_map(|(_, schema)| &schema.keys).for_each(|key| referenced(&key.holds, kinds));
        }
        Type::Either(types) => types.iter().for_each(|each| referenced(each, kinds)),
        _ => {}
    }
}

/// Adds a wrong value at the keys that lead here.
fn add(found: &mut Vec<WrongValue>, keys: &[Key], path: &Path<'_>, kind: ErrorKind, value: Option<Value>) {
    found.push(WrongValue { keys: keys.to_vec(), value, kind, path: path.to_string() });
}

fn wrong_table(schema: &Schema, keys: &mut Vec<Key>, path: &Path<'_>, found: &mut Vec<WrongValue>) {
    const UNKNOWN: &str = "no_such_key";
    keys.push(Key::from(UNKNOWN));
    add(found, keys, &path.field(UNKNOWN), ErrorKind::Unknown, Some(Value::Bool(true)));
    keys.pop();
    for key in &schema.keys {
        let here = path.field(key.name);
        keys.push(Key::from(key.name));
        if matches!(key.presence, Presence::Required) {
            add(found, keys, &here, ErrorKind::Missing, None);
        }
        wrong_type(&key.holds, keys, &here, found);
        keys.pop();
    }
}

fn wrong_type(holds: &Type, keys: &mut Vec<Key>, path: &Path<'_>, found: &mut Vec<WrongValue>) {
    if let Some(value) = other_shape(holds) {
        add(found, keys, path, ErrorKind::WrongType, Some(value));
    }
    let mut wrong = |kind, value| add(found, keys, path, kind, Some(value));
    match holds {
        Type::Integer { min, max } => {
            for outside in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
                wrong(ErrorKind::OutOfRange, Value::Integer(outside));
            }
        }
        Type::Number { min, max } if *min > f64::MIN && *max < f64::MAX => {
            wrong(ErrorKind::OutOfRange, Value::Number(min - 1.0));
            wrong(ErrorKind::OutOfRange, Value::Number(max + 1.0));
        }
        Type::Text { pattern: Some(_), .. } => wrong(ErrorKind::Malformed, Value::from("\u{1}")),
        Type::Text { length, pattern: None } => {
            for count in outside(*length) {
                wrong(ErrorKind::OutOfRange, Value::Text("x".repeat(count)));
            }
        }
        Type::Choice(_) => wrong(ErrorKind::Unknown, Value::from("no such choice")),
        Type::Quantity { units, min, max } => {
            wrong(ErrorKind::WrongUnit, Value::Integer(10));
            wrong(ErrorKind::WrongUnit, Value::from("10 parsec"));
            wrong(ErrorKind::Malformed, Value::from("many"));
            for outside in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
                wrong(ErrorKind::OutOfRange, Value::Text(units.format(outside)));
            }
        }
        Type::Scalar(_) => wrong(ErrorKind::Malformed, Value::from("?")),
        Type::Reference { .. } => wrong(ErrorKind::Dangling, Value::from("no-such-name")),
        Type::File { .. } => wrong(ErrorKind::Malformed, Value::from("../outside")),
        Type::List { of, length, .. } => {
            for count in outside(*length) {
                wrong(ErrorKind::OutOfRange, Value::List(vec![of.example(); count]));
            }
            keys.push(Key::Index(1));
            wrong_type(of, keys, &path.index(1), found);
            keys.pop();
        }
        Type::Map { value, .. } => {
            if let Some(key) = holds.example().as_table().and_then(|table| table.0.keys().next()) {
                keys.push(key.clone());
                wrong_type(value, keys, &path.key(key), found);
                keys.pop();
            }
        }
        Type::Table(schema) => wrong_table(schema, keys, path, found),
        Type::Tagged { tag, cases } => wrong_cases(tag, cases, keys, path, found),
        Type::Either(types) => {
            types.iter().filter_map(Type::as_table).for_each(|schema| {
                wrong_alternative(schema, schema.example(), keys, path, found);
            });
        }
        Type::Bool | Type::Number { .. } => {}
    }
}

/// The wrong values of a table whose keys depend on the word of one.
fn wrong_cases(
    tag: &'static str,
    cases: &[(&'static str, Schema)],
    keys: &mut Vec<Key>,
    path: &Path<'_>,
    found: &mut Vec<WrongValue>,
) {
    let here = path.field(tag);
    keys.push(Key::from(tag));
    add(found, keys, &here, ErrorKind::Missing, None);
    add(found, keys, &here, ErrorKind::Unknown, Some(Value::from("no such choice")));
    add(found, keys, &here, ErrorKind::WrongType, Some(Value::Bool(true)));
    keys.pop();
    for case in cases {
        wrong_alternative(&case.1, tagged_example(tag, case), keys, path, found);
    }
}

/// The wrong values of a table that is one of several: the others do not take its shape, so its errors are told.
fn wrong_alternative(schema: &Schema, example: Value, keys: &[Key], path: &Path<'_>, found: &mut Vec<WrongValue>) {
    let mut inner = Vec::new();
    wrong_table(schema, &mut Vec::new(), path, &mut inner);
    found.extend(inner.into_iter().map(|wrong| WrongValue {
        value: Some(wrong.apply(&example)),
        keys: keys.to_vec(),
        ..wrong
    }));
}

/// Lengths just outside the allowed ones, as far as they can be tried.
fn outside(length: Length) -> Vec<usize> {
    const TRIED: usize = 100_000;
    let above = length.max.checked_add(1).filter(|count| *count <= TRIED);
    length.min.checked_sub(1).into_iter().chain(above).collect()
}

/// A value whose shape this type never takes, if there is one.
fn other_shape(holds: &Type) -> Option<Value> {
    let candidates = [Value::Bool(true), Value::from("?")];
    candidates.into_iter().find(|value| !takes(holds, value))
}

/// Whether a type has anything to do with values of this shape.
fn takes(holds: &Type, value: &Value) -> bool {
    match holds {
        Type::Bool => matches!(value, Value::Bool(_)),
        Type::Integer { .. } | Type::Number { .. } | Type::Map { .. } | Type::Table(_) | Type::Tagged { .. } => false,
        Type::List { of, or_one, .. } => *or_one && takes(of, value),
        Type::Either(types) => types.iter().any(|each| takes(each, value)),
        _ => matches!(value, Value::Text(_)),
    }
}
