//! Collections: entries that a configuration lists, that a file lists line by line, and that come and go at run time.
//!
//! A function declares a collection once, by the fields of its entries ([`entry!`](crate::entry)). From these follow:
//!
//! - what the configuration's key holds, and what is told of it (`config!`, of which an entry is one);
//! - the columns of a file, and how its rows are read, each entry once ([`Collection::load`]);
//! - the arguments of requests and of their command lines, and how they are read;
//! - the columns of a table, and what an entry says in it ([`columns!`](crate::columns), [`Entry::to_json`]);
//! - how what was added is saved ([`Ledger::saved`]);
//! - what becomes of entries at a reload, and whose word counts ([`Ledger`]).
//!
//! What one field holds is read in one place, whichever of them it stands in ([`Source`]). How requests are carried out, all or none of a list,
//! and how entries are told by the piece, is in [`entries`](crate::entries).

pub mod entry;
mod ledger;
mod load;

pub use entry::Entry;
pub use ledger::{Ledger, Record, Versions};
pub use load::{Stands, Wrong};

use std::io::{BufRead, BufReader};

use serde_json::Value;
use weir_config::{
    Element, ErrorKind, Errors, FilePath, Folder, KeySchema, Path, Presence, Row, Rows, Scalar, Setting, Type,
};

use crate::request::{Argument, Saved, Verb};
use entry::unsaid;

/// A collection of entries of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// What an entry is called in requests: `route`.
    pub noun: &'static str,
    /// The key of the function's configuration that holds entries: `routes`.
    pub key: &'static str,
    /// Whether that key holds a list; else a table, whose keys are the entries' first fields.
    pub is_list: bool,
    /// The key that names a file of entries, where there is one: `routes_csv`.
    pub file_key: &'static str,
    /// What is known of an entry. Those that are required are columns that a file must have.
    pub fields: &'static [Argument],
    /// Whether a request is told which field is wrong: where they are few, their values say it.
    pub has_labels: bool,
}

/// Where a configuration names a file of entries.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The declaration.
    pub element: &'a Element,
    /// The table in it that has the key.
    pub path: Path<'a>,
    /// The configuration's folder, below which files lie.
    pub folder: Option<&'a Folder>,
}

impl Collection {
    /// The collection of such entries, which are called `noun` and stand in the list `key`.
    pub const fn of<E: Entry>(noun: &'static str, key: &'static str) -> Collection {
        Collection { noun, key, is_list: true, file_key: "", fields: E::FIELDS, has_labels: true }
    }

    /// The same, with entries in the file that a key names, too.
    #[must_use]
    pub const fn in_file(self, key: &'static str) -> Collection {
        Collection { file_key: key, ..self }
    }

    /// A request about entries, one or many at once.
    pub const fn verb(&self, action: &'static str, arguments: &'static [Argument], help: &'static str) -> Verb {
        Verb { noun: self.noun, action, arguments, help, batch: true }
    }

    fn names(&self, required: bool) -> impl Iterator<Item = &'static str> {
        self.fields.iter().filter(move |field| field.required == required).map(|field| field.name)
    }

    /// The position of a field's column in a file's rows: those that a file must have come first.
    pub fn column(&self, field: &str) -> usize {
        let (mut before, mut behind, mut found) = (0, 0, None);
        for known in self.fields {
            let at = if known.required { &mut before } else { &mut behind };
            if found.is_none() && known.name == field {
                found = Some((known.required, *at));
            }
            *at += 1;
        }
        match found {
            Some((true, at)) => at,
            Some((false, at)) => before + at,
            None => usize::MAX,
        }
    }

    /// Reads a file of entries line by line; a wrong line does not keep the next ones from being looked at. What is wrong goes to `errors`.
    pub fn read_file(
        &self,
        file: &FilePath,
        site: Site<'_>,
        errors: &mut Errors,
        each: impl FnMut(&Row<'_>, &mut Errors),
    ) {
        let opened = match site.folder {
            Some(folder) => folder.open_file(file),
            None => Err("can not be opened: the configuration has no folder".to_owned()),
        };
        match opened {
            Ok(opened) => self.read_rows(&file.to_string(), BufReader::with_capacity(1 << 18, opened), errors, each),
            Err(reason) => {
                let path = site.path.field(self.file_key);
                errors.push(site.element.error(ErrorKind::File, &path, format!("\"{file}\" {reason}")));
            }
        }
    }

    /// Reads entries line by line, of what is called `name` in messages.
    pub fn read_rows(
        &self,
        name: &str,
        input: impl BufRead,
        errors: &mut Errors,
        mut each: impl FnMut(&Row<'_>, &mut Errors),
    ) {
        let (required, optional): (Vec<_>, Vec<_>) = (self.names(true).collect(), self.names(false).collect());
        let mut rows = match Rows::new(name, input, &required, &optional) {
            Ok(rows) => rows,
            Err(wrong) => return errors.extend(wrong),
        };
        while let Some(row) = rows.next(errors) {
            each(&row, errors);
        }
    }

    /// The fields of a request about an entry.
    pub fn arguments<'a>(&self, arguments: &'a Value) -> Arguments<'a> {
        Arguments { arguments, has_labels: self.has_labels, problem: None }
    }

    /// A row of a file as a source of fields. What is wrong with them goes to `errors`.
    pub fn row<'a>(&'a self, row: &'a Row<'a>, errors: &'a mut Errors) -> RowFields<'a> {
        RowFields { collection: self, row, errors }
    }

    /// An entry as it is saved: the request `action` with these arguments adds it again.
    pub fn saved(&self, action: &str, arguments: Value) -> Saved {
        let entry = self.is_list.then(|| arguments.clone());
        let (verb, key) = (format!("{} {action}", self.noun), self.key.to_owned());
        Saved { verb, arguments, key, entry, under: None, within: None }
    }
}

/// The word by which a request takes a value away.
const NONE: &str = "none";

/// The same, where a field may have several values.
fn is_list_of_none(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.as_slice() == [NONE])
}

/// Where an entry is described. What is wrong with a field is told by the source; whoever reads it goes on with the others.
pub trait Source {
    /// The field that a key describes; where nothing is said of it, what it was `before`, or its default. `None` if it is wrong.
    fn field<T: Setting + Clone>(&mut self, key: &KeySchema, before: Option<&T>) -> Option<T>;
}

/// A row of a file; its empty fields say nothing.
pub struct RowFields<'a> {
    collection: &'a Collection,
    row: &'a Row<'a>,
    errors: &'a mut Errors,
}

impl Source for RowFields<'_> {
    fn field<T: Setting + Clone>(&mut self, key: &KeySchema, before: Option<&T>) -> Option<T> {
        let column = self.collection.column(key.name);
        let text = self.row.text(column);
        if text.is_empty() && !matches!(key.presence, Presence::Required) {
            return unsaid(key, before);
        }
        let texts = text.split(|character| T::IS_LIST && character == ';').map(str::trim);
        key.holds.read_texts(texts, |text, malformed| {
            let error = self.row.error(column, malformed.kind, malformed.problem).found(&text.into());
            self.errors.push(error.allowed(key.holds.of_each().expected()).remedy(malformed.remedy));
        })
    }
}

/// The arguments of a request.
#[derive(Debug)]
pub struct Arguments<'a> {
    arguments: &'a Value,
    has_labels: bool,
    /// The first thing that is wrong.
    problem: Option<String>,
}

impl Arguments<'_> {
    /// Something, if nothing was wrong with what it was made of.
    ///
    /// # Errors
    ///
    /// What was wrong first.
    pub fn finish<T>(self, made: Option<T>) -> Result<T, String> {
        match (self.problem, made) {
            (None, Some(made)) => Ok(made),
            (problem, _) => Err(problem.unwrap_or_default()),
        }
    }

    /// A field that must be there; `None` if it is not, or is wrong.
    pub fn required<T: Scalar>(&mut self, field: &str) -> Option<T> {
        match self.value(field).map(|value| self.parse(field, value)) {
            Some(parsed) => self.told(parsed),
            None => self.told(Err(format!("{field} is missing"))),
        }
    }

    fn value(&self, field: &str) -> Option<&Value> {
        self.arguments.get(field).filter(|value| !value.is_null())
    }

    fn told<T>(&mut self, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|problem| _ = self.problem.get_or_insert(problem)).ok()
    }

    fn parse<T: Scalar>(&self, field: &str, value: &Value) -> Result<T, String> {
        let label = if self.has_labels { format!("{field}: ") } else { String::new() };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(format!("{label}{value} is not {}", T::WHAT)),
        };
        T::parse(&text).map_err(|malformed| {
            let usual = || format!("write it as in {}", T::EXAMPLE);
            let remedy = if malformed.remedy.is_empty() { usual() } else { malformed.remedy };
            format!("{label}\"{text}\" {}; {remedy}", malformed.problem)
        })
    }
}

impl Source for Arguments<'_> {
    fn field<T: Setting + Clone>(&mut self, key: &KeySchema, before: Option<&T>) -> Option<T> {
        let is_required = matches!(key.presence, Presence::Required);
        match self.value(key.name) {
            None if is_required && before.is_none() => self.told(Err(format!("{} is missing", key.name))),
            None => unsaid(key, before),
            Some(value) if (value == NONE || T::IS_LIST && is_list_of_none(value)) && !is_required => unsaid(key, None),
            Some(value) => {
                let read = self.read_values(key, value);
                self.told(read)
            }
        }
    }
}

impl Arguments<'_> {
    /// The values of a field, from the texts and numbers that say them.
    fn read_values<T: Setting>(&self, key: &KeySchema, value: &Value) -> Result<T, String> {
        let label = if self.has_labels { format!("{}: ", key.name) } else { String::new() };
        let of = key.holds.of_each();
        let list = match value {
            Value::Array(list) if T::IS_LIST => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            _ => Err(format!("{label}{value} is not {}", of.expected())),
        };
        let texts = list.iter().map(text).collect::<Result<Vec<String>, String>>()?;
        let mut problem = None;
        let read = key.holds.read_texts(texts.iter().map(String::as_str), |text, malformed| {
            let remedy = match of {
                _ if !malformed.remedy.is_empty() => format!("; {}", malformed.remedy),
                Type::Scalar(scalar) => format!("; write it as in {}", scalar.example),
                _ if malformed.problem.contains(&of.expected()) => String::new(),
                _ => format!("; expected {}", of.expected()),
            };
            problem.get_or_insert_with(|| format!("{label}\"{text}\" {}{remedy}", malformed.problem));
        });
        read.ok_or_else(|| problem.unwrap_or_else(|| format!("{label}{value} is not {}", key.holds.expected())))
    }
}

#[cfg(test)]
mod tests;
