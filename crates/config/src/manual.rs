//! The help text and the page of the manual, made from the schema.

use std::fmt::Write;

use crate::document::Kind;
use crate::schema::{KeySchema, Presence, Schema};
use crate::types::Type;

impl Kind {
    /// The page of the manual as Markdown: what the kind is for, and a table of its keys.
    pub fn manual(&self) -> String {
        let mut page = format!("## `{}`\n\n{}\n", self.name(), self.schema().doc);
        section(self.schema(), self.name(), &mut page);
        page
    }

    /// The help as plain text: one paragraph for each key.
    pub fn help(&self) -> String {
        let mut text = format!("{}: {}\n", self.name(), one_line(&self.schema().doc));
        help(self.schema(), self.name(), &mut text);
        text
    }
}

/// A table of keys, then the same for the tables among their values and the words of their choices.
fn section(schema: &Schema, path: &str, page: &mut String) {
    page.push_str("\n| Key | Holds | If absent | A change takes | Meaning |\n|---|---|---|---|---|\n");
    for key in &schema.keys {
        let (holds, absent) = (cell(&key.holds.expected()), cell(&absent(key)));
        let doc = cell(&format!("{}{}", key.doc, words(&key.holds)));
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {holds} | {absent} | {} | {doc} |", key.name, takes(key));
    }
    for key in &schema.keys {
        for (inner, path) in tables(&key.holds, &format!("{path}.{}", key.name)) {
            let _ = write!(page, "\n### `{path}`\n\n{}\n", inner.doc);
            section(inner, &path, page);
        }
    }
}

fn help(schema: &Schema, path: &str, text: &mut String) {
    for key in &schema.keys {
        let path = format!("{path}.{}", key.name);
        let _ = write!(
            text,
            "\n{path}\n    {}{}\n    Holds {}. {}; a change takes {}.\n",
            one_line(&key.doc),
            words(&key.holds),
            key.holds.expected(),
            absent(key),
            takes(key)
        );
        for (inner, path) in tables(&key.holds, &path) {
            help(inner, &path, text);
        }
    }
}

/// What a change takes; of a file also what its contents take, where that differs.
fn takes(key: &KeySchema) -> String {
    match key.holds {
        Type::File { contents: Some(contents) } if contents != key.change => {
            format!("{}; of its contents: {contents}", key.change)
        }
        _ => key.change.to_string(),
    }
}

fn absent(key: &KeySchema) -> String {
    match &key.presence {
        Presence::Required => "must be given".to_owned(),
        Presence::Optional => "may be absent".to_owned(),
        Presence::Default(value) => format!("default {value}"),
    }
}

/// The meanings of a choice's words.
fn words(holds: &Type) -> String {
    match holds {
        Type::Choice(words) => words.iter().fold(String::new(), |mut text, word| {
            let _ = write!(text, " {:?}: {}", word.name, word.doc.trim());
            text
        }),
        _ => String::new(),
    }
}

/// The tables inside a type, with the path of each.
fn tables<'a>(holds: &'a Type, path: &str) -> Vec<(&'a Schema, String)> {
    match holds {
        Type::Table(schema) => vec![(schema, path.to_owned())],
        Type::List { of, .. } => tables(of, &format!("{path}[n]")),
        Type::Map { value, .. } => tables(value, &format!("{path}[key]")),
        Type::Tagged { tag, cases } => {
            let case = |(word, schema): &'a (&'static str, Schema)| (schema, format!("{path} with {tag} = {word:?}"));
            cases.iter().map(case).collect()
        }
        Type::Either(types) => types.iter().flat_map(|each| tables(each, path)).collect(),
        _ => Vec::new(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text as a cell of a Markdown table.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
