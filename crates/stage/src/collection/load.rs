//! Entries of a configuration: in a list of the script, line by line in a file, or both; each once. All that is wrong is told at once, each with
//! its place.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;

use weir_config::{ConfigError, Element, ErrorKind, Errors, FilePath, Path, Row};

use crate::collection::{Collection, Entry, Site};

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Among those of the script, counted from 1.
    Number(u32),
    /// In a line of the file, counted from 1.
    Line(u32),
}

impl Stands {
    /// In this row.
    pub fn of_row(row: &Row<'_>) -> Stands {
        Stands::Line(u32::try_from(row.line()).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Stands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stands::Number(n) => write!(f, "number {n}"),
            Stands::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The field; empty where it is the entry as a whole.
    pub field: &'static str,
    /// The sort of mistake.
    pub kind: ErrorKind,
    /// What is wrong.
    pub problem: String,
    /// What to do; may be empty.
    pub remedy: String,
}

impl Wrong {
    /// A field that is not what it may be beside others.
    pub fn field(field: &'static str, problem: impl Into<String>) -> Wrong {
        Wrong { field, kind: ErrorKind::Conflict, problem: problem.into(), remedy: String::new() }
    }

    /// Adds what to do.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Wrong {
        Wrong { remedy: remedy.into(), ..self }
    }

    /// The same of the entry at a place in a declaration.
    pub fn at(self, element: &Element, entry: &Path<'_>) -> ConfigError {
        let Wrong { field, kind, problem, remedy } = self;
        let error = match field {
            "" => element.error(kind, entry, problem),
            field => element.error(kind, &entry.field(field), problem),
        };
        error.remedy(remedy)
    }
}

/// As requests are told.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { field, problem, remedy, .. } = self;
        let (label, end) = (if field.is_empty() { "" } else { ": " }, if remedy.is_empty() { "" } else { "; " });
        write!(f, "{field}{label}{problem}{end}{remedy}")
    }
}

/// The entries that were found, and where.
type Found<E> = BTreeMap<<E as Entry>::Key, (E, Stands)>;

impl Collection {
    /// The entries of a configuration: those that are listed, and those of a file. `check` looks at each that could be read.
    pub fn load<E: Entry>(
        &self,
        site: Site<'_>,
        listed: &[E],
        file: Option<&FilePath>,
        errors: &mut Errors,
        mut check: impl FnMut(&E, Stands) -> Vec<Wrong>,
    ) -> BTreeMap<E::Key, E> {
        let mut found: Found<E> = BTreeMap::new();
        for (entry, n) in listed.iter().zip(1..) {
            let wrong = looked_at(entry.clone(), Stands::Number(n), &mut found, &mut check);
            errors.extend(wrong.into_iter().map(|wrong| self.at_number(site, n, wrong)));
        }
        if let Some(file) = file {
            self.read_file(file, site, errors, |row, errors| {
                let entry = E::read_from(&mut self.row(row, errors), None);
                let wrong = entry.map(|entry| looked_at(entry, Stands::of_row(row), &mut found, &mut check));
                errors.extend(wrong.into_iter().flatten().map(|wrong| self.at_row(row, wrong)));
            });
        }
        found.into_iter().map(|(key, (entry, _))| (key, entry)).collect()
    }

    /// What is wrong with the entry of this number in the list, counted from 1, with its place.
    pub fn at_number(&self, site: Site<'_>, n: u32, wrong: Wrong) -> ConfigError {
        let list = site.path.field(self.key);
        wrong.at(site.element, &list.index(i64::from(n)))
    }

    /// What is wrong with an entry in a row of the file, with its place.
    pub fn at_row(&self, row: &Row<'_>, wrong: Wrong) -> ConfigError {
        let Wrong { field, kind, problem, remedy } = wrong;
        let column = if field.is_empty() { 0 } else { self.column(field) };
        row.error(column, kind, problem).remedy(remedy)
    }
}

/// Takes an entry, if it is there once and nothing is wrong with it; answers what is.
fn looked_at<E: Entry>(
    entry: E,
    stands: Stands,
    found: &mut Found<E>,
    check: &mut impl FnMut(&E, Stands) -> Vec<Wrong>,
) -> Vec<Wrong> {
    let wrong = check(&entry, stands);
    if !wrong.is_empty() {
        return wrong;
    }
    match found.entry(entry.key()) {
        Slot::Vacant(slot) => {
            slot.insert((entry, stands));
            Vec::new()
        }
        Slot::Occupied(slot) => {
            let problem = format!("{} is {}, too", E::name_of(slot.key()), slot.get().1);
            vec![Wrong { kind: ErrorKind::Duplicate, ..Wrong::field("", problem) }.remedy("leave one out")]
        }
    }
}
