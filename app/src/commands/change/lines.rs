//! The changes of a file: one per line in the words of the command, or rows of CSV below the names of its arguments.

use std::io::Read;

use serde_json::{Map, Value};
use weir_config::{Errors, Rows};
use weir_stage::{Argument, Verb};

use crate::words;

/// The longest file that changes are read from, bytes.
const LONGEST: u64 = 1 << 30;

/// What stands between several values in a field.
const SEPARATOR: char = ';';

/// A file of changes, read whole: nothing of it is carried out before every line has been understood.
pub(super) struct File {
    /// Its name, as messages have it.
    pub(super) name: String,
    bytes: Vec<u8>,
}

/// A change and the line that it stands in, counted from 1.
pub(super) type Line = (u64, Value);

impl File {
    /// Reads a file to its end.
    pub(super) fn read(name: String, input: impl Read) -> Result<File, String> {
        let mut bytes = Vec::new();
        let read = input.take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read {name}: {error}"))?;
        if bytes.len() as u64 > LONGEST {
            return Err(format!("{name} is longer than {LONGEST} bytes; give it in parts"));
        }
        Ok(File { name, bytes })
    }

    /// Whether its first line has the names of a verb's arguments, as a table of CSV does.
    pub(super) fn is_table(&self, verb: &Verb) -> bool {
        let lines = self.bytes.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let first = lines.map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        first.is_some_and(|line| {
            let mut names = line.split(',').map(|name| name.trim().trim_matches('"'));
            line.contains(',') && names.all(|name| verb.arguments.iter().any(|argument| argument.name == name))
        })
    }

    /// The changes in order, and what is wrong with lines, each with its place.
    pub(super) fn changes(&self, verb: &'static Verb, each: &mut dyn FnMut(Result<Line, String>)) {
        if self.is_table(verb) { self.rows(verb, each) } else { self.lines(verb, each) }
    }

    fn lines(&self, verb: &Verb, each: &mut dyn FnMut(Result<Line, String>)) {
        for (line, number) in self.bytes.split(|&byte| byte == b'\n').zip(1..) {
            match change_of(line, verb) {
                Ok(None) => {}
                Ok(Some(change)) => each(Ok((number, change))),
                Err(problem) => each(Err(format!("{}:{number}: {problem}", self.name))),
            }
        }
    }

    fn rows(&self, verb: &'static Verb, each: &mut dyn FnMut(Result<Line, String>)) {
        let (required, optional): (Vec<&Argument>, Vec<&Argument>) =
            verb.arguments.iter().partition(|argument| argument.required);
        let names = |arguments: &[&Argument]| arguments.iter().map(|argument| argument.name).collect::<Vec<_>>();
        let mut rows = match Rows::new(self.name.clone(), &*self.bytes, &names(&required), &names(&optional)) {
            Ok(rows) => rows,
            Err(errors) => return errors.into_iter().for_each(|error| each(Err(error.to_string()))),
        };
        let columns: Vec<&Argument> = required.into_iter().chain(optional).collect();
        loop {
            let mut errors = Errors::new();
            let row = rows.next(&mut errors);
            let (line, change) = match &row {
                Some(row) => (row.line(), Some(change_in(&columns, |column| row.text(column).into_owned()))),
                None => (0, None),
            };
            errors.into_result(()).err().into_iter().flatten().for_each(|error| each(Err(error.to_string())));
            match change {
                Some(Ok(change)) => each(Ok((line, change))),
                Some(Err(problem)) => each(Err(format!("{}:{line}: {problem}", self.name))),
                None => return,
            }
        }
    }
}

/// The change that a line asks for, if it asks for any.
fn change_of(line: &[u8], verb: &Verb) -> Result<Option<Value>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    words::of_line(text).map(|words| words::arguments(verb, &words)).transpose()
}

/// The change that a row asks for: its fields are the arguments in this order.
fn change_in(columns: &[&Argument], text: impl Fn(usize) -> String) -> Result<Value, String> {
    let mut found = Map::new();
    for (column, argument) in columns.iter().enumerate() {
        let text = text(column);
        let value = match text.trim() {
            "" if argument.required => return Err(format!("{} is empty", argument.name)),
            "" => continue,
            text if argument.many => text.split(SEPARATOR).map(|one| Value::from(one.trim())).collect(),
            text => Value::from(text),
        };
        found.insert(argument.name.to_owned(), value);
    }
    Ok(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ADD;
    use serde_json::json;

    fn all(text: &str) -> (Vec<Line>, Vec<String>) {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        let file = File::read("r.txt".to_owned(), text.as_bytes()).unwrap();
        file.changes(&ADD, &mut |line| match line {
            Ok(line) => right.push(line),
            Err(problem) => wrong.push(problem),
        });
        (right, wrong)
    }

    #[test]
    fn a_table_says_what_lines_say() {
        let via = |list: &[&str]| json!({ "prefix": "10.0.0.0/8", "via": list });
        let words = all("# Routes\n10.0.0.0/8 via 192.0.2.1 192.0.2.2\n\n10.0.0.0/8 via 192.0.2.1 # one");
        let rows = all("# Routes\nvia,prefix\n192.0.2.1;192.0.2.2,10.0.0.0/8\n\"192.0.2.1\", 10.0.0.0/8\n");
        assert_eq!(words, (vec![(2, via(&["192.0.2.1", "192.0.2.2"])), (4, via(&["192.0.2.1"]))], vec![]));
        assert_eq!(rows, (vec![(3, via(&["192.0.2.1", "192.0.2.2"])), (4, via(&["192.0.2.1"]))], vec![]));
    }

    #[test]
    fn every_wrong_line_is_named() {
        let (right, wrong) = all("10.0.0.0/8\n10.0.0.0/8 via 192.0.2.1\nnonsense and more\n");
        assert_eq!((right.len(), wrong.len()), (1, 2));
        assert!(wrong[0].starts_with("r.txt:1: VIA is missing") && wrong[1].starts_with("r.txt:3: "), "{wrong:?}");
        let (right, wrong) = all("prefix,via\n10.0.0.0/8\n10.0.0.0/8,192.0.2.1\n10.0.0.0/8,\n");
        assert_eq!((right.len(), wrong.len()), (1, 2), "{wrong:?}");
        assert!(wrong[0].starts_with("r.txt:2") && wrong[1].starts_with("r.txt:4: via is empty"), "{wrong:?}");
    }
}
