//! Big tables as CSV: read line by line, each error with its line and column.
//!
//! The first line names the columns, in any order. Empty lines and lines that start with `#` are skipped; fields may
//! stand in double quotes (RFC 4180), but not reach over a line end. We read lines ourselves because an error must name
//! the exact column, quotes and skipped lines counted.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::ops::Range;

use crate::error::{ConfigError, ErrorKind, Errors, nearest};
use crate::place::Place;
use crate::scalar::Scalar;
use crate::value::Value;

/// The longest line, in bytes.
const LONGEST_LINE: u64 = 1 << 16;

/// A reader of rows.
///
/// ```
/// use std::net::Ipv4Addr;
/// use ipnet::Ipv4Net;
/// use weir_config::{Errors, Rows};
///
/// let text = "prefix,via\n10.0.0.0/8,192.0.2.1;192.0.2.2\n10.1.0.0/16,192.0.2.999\n";
/// let mut errors = Errors::new();
/// let mut rows = Rows::new("routes.csv", text.as_bytes(), &["prefix", "via"], &[]).unwrap();
/// let mut routes = Vec::new();
/// while let Some(row) = rows.next(&mut errors) {
///     let prefix = row.read::<Ipv4Net>(0, &mut errors);
///     let via = row.read_list::<Ipv4Addr>(1, ';', &mut errors);
///     routes.extend(prefix.zip(via));
/// }
/// assert_eq!(routes.len(), 1);
/// let errors = errors.into_result(()).unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     r#"routes.csv:3:13: via: "192.0.2.999" is not an IPv4 address; expected an IPv4 address, e.g. "192.0.2.9""#
/// );
/// ```
#[derive(Debug)]
pub struct Rows<R> {
    file: String,
    input: R,
    line: Vec<u8>,
    number: u64,
    names: Vec<Cow<'static, str>>,
    /// Whether columns of other names are passed over.
    others: bool,
    /// Where in a row each of the names stands.
    positions: Vec<Option<usize>>,
    columns: usize,
    fields: Vec<Range<usize>>,
}

/// One row.
#[derive(Debug)]
pub struct Row<'a> {
    file: &'a str,
    number: u64,
    line: &'a str,
    names: &'a [Cow<'static, str>],
    positions: &'a [Option<usize>],
    fields: &'a [Range<usize>],
}

impl<R: BufRead> Rows<R> {
    /// Starts to read: the header must name all of `required` and none but these and `optional`. Afterwards column
    /// `n` of a row is the n-th of `required`, then of `optional`.
    ///
    /// # Errors
    /// What is wrong with the header.
    pub fn new(
        file: impl Into<String>,
        input: R,
        required: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, Vec<ConfigError>> {
        let names = required.iter().chain(optional).map(|name| Cow::Borrowed(*name)).collect();
        Self::start(file.into(), input, names, required.len(), false)
    }

    /// The same for a file that belongs to somebody else: columns of other names are passed over.
    ///
    /// # Errors
    /// What is wrong with the header.
    pub fn among_others(
        file: impl Into<String>,
        input: R,
        required: &[String],
        optional: &[String],
    ) -> Result<Self, Vec<ConfigError>> {
        let names = required.iter().chain(optional).map(|name| Cow::Owned(name.clone())).collect();
        Self::start(file.into(), input, names, required.len(), true)
    }

    fn start(
        file: String,
        input: R,
        names: Vec<Cow<'static, str>>,
        required: usize,
        others: bool,
    ) -> Result<Self, Vec<ConfigError>> {
        let positions = vec![None; names.len()];
        let line = Vec::new();
        let mut rows = Self { file, input, line, number: 0, names, others, positions, columns: 0, fields: Vec::new() };
        rows.header(required).map_err(|error| vec![*error])?;
        Ok(rows)
    }

    fn header(&mut self, required: usize) -> Result<(), Box<ConfigError>> {
        let needed = self.names.get(..required).unwrap_or_default().join(",");
        let expected = || format!("a first line such as {needed:?}");
        if !self.read_line()? {
            return Err(self.error(0, "is empty").allowed(expected()).into());
        }
        let line = text_of(&self.line).map_err(|()| self.error(1, "is not UTF-8"))?;
        split(line, &mut self.fields).map_err(|column| self.error(column, UNCLOSED))?;
        self.columns = self.fields.len();
        for (position, range) in self.fields.iter().enumerate() {
            let name = unquoted(line, range);
            let Some(known) = self.names.iter().position(|known| *known == name) else {
                if self.others {
                    continue;
                }
                let near = nearest(&name, self.names.iter().map(AsRef::as_ref));
                return Err(self
                    .error(column_of(line, range), "is no column")
                    .found(&Value::text(&name))
                    .allowed(format!("one of {}", self.names.join(", ")))
                    .remedy(near.map_or_else(expected, |near| format!("did you mean {near:?}?")))
                    .into());
            };
            let place = self.positions.get_mut(known).and_then(|place| place.replace(position));
            if place.is_some() {
                return Err(self.error(column_of(line, range), "is a column twice").found(&Value::text(name)).into());
            }
        }
        let missing = self.names.iter().zip(&self.positions).take(required).find(|(_, position)| position.is_none());
        let Some((missing, _)) = missing else { return Ok(()) };
        let error = self.error(0, format!("has no column {missing:?}")).allowed(expected());
        if !self.others {
            return Err(error.into());
        }
        let there: Vec<_> = self.fields.iter().map(|range| unquoted(line, range)).collect();
        let near = nearest(missing, there.iter().map(AsRef::as_ref));
        let has = || format!("it has {}", there.join(", "));
        Err(error.remedy(near.map_or_else(has, |near| format!("did you mean {near:?}?"))).into())
    }

    /// The next row; `None` at the end, or when the file cannot be read on. A line that is no row is reported and
    /// skipped.
    pub fn next(&mut self, errors: &mut Errors) -> Option<Row<'_>> {
        loop {
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    errors.push(*error);
                    return None;
                }
            }
            match self.split_line() {
                Ok(()) => break,
                Err(error) => errors.push(*error),
            }
        }
        Some(Row {
            file: &self.file,
            number: self.number,
            line: text_of(&self.line).unwrap_or_default(),
            names: &self.names,
            positions: &self.positions,
            fields: &self.fields,
        })
    }

    fn split_line(&mut self) -> Result<(), Box<ConfigError>> {
        let line = text_of(&self.line).map_err(|()| self.error(1, "is not UTF-8"))?;
        split(line, &mut self.fields).map_err(|column| self.error(column, UNCLOSED))?;
        if self.fields.len() == self.columns {
            return Ok(());
        }
        let problem = format!("has {} columns", self.fields.len());
        Err(self.error(1, problem).allowed(format!("{} as in the first line", self.columns)).into())
    }

    /// Reads the next line that is neither empty nor a comment; `false` at the end.
    fn read_line(&mut self) -> Result<bool, Box<ConfigError>> {
        loop {
            self.line.clear();
            self.number = self.number.saturating_add(1);
            // One byte more than allowed tells a line that is too long.
            let read = self.input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| self.error(0, format!("cannot be read: {error}")))?;
            if read == 0 {
                return Ok(false);
            }
            if self.line.len() as u64 > LONGEST_LINE {
                return Err(self.error(1, format!("is longer than {LONGEST_LINE} bytes")).into());
            }
            while self.line.last().is_some_and(u8::is_ascii_whitespace) {
                self.line.pop();
            }
            if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            if !self.line.is_empty() && !self.line.starts_with(b"#") {
                return Ok(true);
            }
        }
    }

    fn error(&self, column: u64, problem: impl Into<String>) -> ConfigError {
        let place = match column {
            0 => Place::line(&self.file, 0),
            column => Place::column(&self.file, self.number, column),
        };
        ConfigError::new(ErrorKind::Malformed, &place, "", problem)
    }
}

const UNCLOSED: &str = "opens a quote that the line does not close before the next comma";

fn text_of(line: &[u8]) -> Result<&str, ()> {
    std::str::from_utf8(line).map_err(|_| ())
}

/// Splits a line at its commas; the ranges keep the quotes. The error is the column of a quote that is not closed.
fn split(line: &str, fields: &mut Vec<Range<usize>>) -> Result<(), u64> {
    fields.clear();
    let bytes = line.as_bytes();
    let mut start = 0;
    loop {
        let rest = bytes.get(start..).unwrap_or_default();
        let length = field_length(rest).ok_or_else(|| column_of(line, &(start..start)))?;
        let end = start.saturating_add(length);
        fields.push(start..end);
        if end >= bytes.len() {
            return Ok(());
        }
        start = end.saturating_add(1);
    }
}

/// How many bytes the first field takes; `None` if its quote is not closed.
fn field_length(rest: &[u8]) -> Option<usize> {
    if rest.first() != Some(&b'"') {
        return Some(rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len()));
    }
    let mut inside = false;
    let end = rest.iter().position(|byte| {
        // A doubled quote closes and opens again, which comes to the same.
        inside ^= *byte == b'"';
        *byte == b',' && !inside
    });
    let length = end.unwrap_or(rest.len());
    let closed = length >= 2 && rest.get(length.checked_sub(1)?) == Some(&b'"') && (end.is_some() || !inside);
    closed.then_some(length)
}

/// The text of a field: without blanks around it, without its quotes.
fn unquoted<'a>(line: &'a str, range: &Range<usize>) -> Cow<'a, str> {
    let field = line.get(range.clone()).unwrap_or_default();
    match field.strip_prefix('"').and_then(|field| field.strip_suffix('"')) {
        Some(inner) if inner.contains('"') => Cow::Owned(inner.replace("\"\"", "\"")),
        Some(inner) => Cow::Borrowed(inner),
        None => Cow::Borrowed(field.trim()),
    }
}

fn column_of(line: &str, range: &Range<usize>) -> u64 {
    let before = line.get(..range.start).unwrap_or_default().chars().count();
    u64::try_from(before).unwrap_or(u64::MAX).saturating_add(1)
}

impl<'a> Row<'a> {
    /// The number of the line, counted from 1.
    pub fn line(&self) -> u64 {
        self.number
    }

    /// The text of a column; empty for an optional column that the file has not.
    pub fn text(&self, column: usize) -> Cow<'a, str> {
        self.range(column).map_or(Cow::Borrowed(""), |range| unquoted(self.line, range))
    }

    /// Reads a column as a value.
    pub fn read<T: Scalar>(&self, column: usize, errors: &mut Errors) -> Option<T> {
        self.parse(column, &self.text(column), errors)
    }

    /// Reads a column as one or more values with a separator between them.
    pub fn read_list<T: Scalar>(&self, column: usize, separator: char, errors: &mut Errors) -> Option<Vec<T>> {
        let text = self.text(column);
        // Every value is looked at, so that all errors are told.
        let mut list = Vec::with_capacity(1);
        let mut complete = true;
        for part in text.split(separator) {
            match self.parse(column, part.trim(), errors) {
                Some(value) => list.push(value),
                None => complete = false,
            }
        }
        complete.then_some(list)
    }

    fn parse<T: Scalar>(&self, column: usize, text: &str, errors: &mut Errors) -> Option<T> {
        match T::parse(text) {
            Ok(value) => Some(value),
            Err(malformed) => {
                let error = self
                    .error(column, malformed.kind, malformed.problem)
                    .found(&Value::from(text))
                    .allowed(format!("{}, e.g. {:?}", T::WHAT, T::EXAMPLE))
                    .remedy(malformed.remedy);
                errors.push(error);
                None
            }
        }
    }

    /// An error about a column of this row.
    pub fn error(&self, column: usize, kind: ErrorKind, problem: impl Into<String>) -> ConfigError {
        let start = self.range(column).map_or(1, |range| column_of(self.line, range));
        let place = Place::column(self.file, self.number, start);
        ConfigError::new(kind, &place, self.names.get(column).map_or("", AsRef::as_ref), problem)
    }

    fn range(&self, column: usize) -> Option<&'a Range<usize>> {
        let position = self.positions.get(column).copied().flatten()?;
        self.fields.get(position)
    }
}
