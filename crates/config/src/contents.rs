//! What stands in the files that a configuration names: a reload must see a changed file though its name is the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};

use crate::diff::KeyChange;
use crate::folder::{FilePath, Folder};
use crate::path::Path;
use crate::schema::{Change, Schema};
use crate::types::Type;
use crate::value::Value;

/// A key that names a file, and what stood in it when the configuration was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedFile {
    path: String,
    file: String,
    /// What other contents take.
    contents: Change,
    /// `None` if it could not be read.
    digest: Option<u64>,
}

/// The files that a checked table names. Contents are read before anybody builds anything of them: what changes meanwhile is a
/// change at the next reload, and is never missed.
pub(crate) fn named_files(schema: &Schema, value: &Value, path: &Path<'_>, folder: &Folder) -> Vec<NamedFile> {
    let mut search = Search { folder, found: Vec::new() };
    search.table(schema, value, path);
    search.found
}

/// The keys whose files are the same by name and have other contents.
pub(crate) fn changed(old: &[NamedFile], new: &[NamedFile]) -> Vec<KeyChange> {
    let before: BTreeMap<&str, &NamedFile> = old.iter().map(|file| (file.path.as_str(), file)).collect();
    let is_changed = |new: &&NamedFile| {
        before.get(new.path.as_str()).is_some_and(|old| old.file == new.file && old.digest != new.digest)
    };
    let change = |new: &NamedFile| KeyChange {
        path: new.path.clone(),
        from: Some(format!("{:?} as it was", new.file)),
        to: Some("as it is now".to_owned()),
        change: new.contents,
    };
    new.iter().filter(is_changed).map(change).collect()
}

struct Search<'a> {
    folder: &'a Folder,
    found: Vec<NamedFile>,
}

impl Search<'_> {
    fn table(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        let Some(table) = value.as_table() else { return };
        for key in schema.keys.iter().filter(|key| names_files(&key.holds)) {
            if let Some(value) = table.get(key.name) {
                self.value(&key.holds, value, &path.field(key.name), key.change);
            }
        }
    }

    fn value(&mut self, holds: &Type, value: &Value, path: &Path<'_>, change: Change) {
        match (holds, value) {
            (Type::File { contents }, Value::Text(file)) => self.file(file, path, contents.unwrap_or(change)),
            (Type::List { of, .. }, Value::List(list)) => {
                for (index, value) in (1_i64..).zip(list) {
                    self.value(of, value, &path.index(index), change);
                }
            }
            (Type::Map { value: of, .. }, Value::Table(table)) => {
                for (key, value) in &table.0 {
                    self.value(of, value, &path.key(key), change);
                }
            }
            (Type::Table(schema), _) => self.table(schema, value, path),
            (Type::Tagged { tag, cases }, Value::Table(table)) => {
                let word = table.get(tag).and_then(Value::as_text);
                if let Some((_, schema)) = cases.iter().find(|(known, _)| word == Some(known)) {
                    self.table(schema, value, path);
                }
            }
            (Type::Either(types), _) => {
                types.iter().filter(|each| names_files(each)).for_each(|each| self.value(each, value, path, change));
            }
            _ => {}
        }
    }

    fn file(&mut self, file: &str, path: &Path<'_>, contents: Change) {
        let opened = FilePath::parse(file).ok().and_then(|file| self.folder.open_file(&file).ok());
        let digest = opened.and_then(|opened| digest(opened).ok());
        self.found.push(NamedFile { path: path.to_string(), file: file.to_owned(), contents, digest });
    }
}

/// Whether values of a type may name files: maps of a million routes are not gone through in vain.
fn names_files(holds: &Type) -> bool {
    match holds {
        Type::File { .. } => true,
        Type::List { of, .. } => names_files(of),
        Type::Map { value, .. } => names_files(value),
        Type::Table(schema) => schema.keys.iter().any(|key| names_files(&key.holds)),
        Type::Tagged { cases, .. } => {
            cases.iter().flat_map(|(_, schema)| &schema.keys).any(|key| names_files(&key.holds))
        }
        Type::Either(types) => types.iter().any(names_files),
        _ => false,
    }
}

/// As much of a file is read; of a longer one its length and the time of its last change speak for the rest.
const READ: u64 = 1 << 30;

/// A number that is another for other contents.
fn digest(file: File) -> io::Result<u64> {
    let mut sum = Sum(DefaultHasher::new());
    let about = file.metadata()?;
    about.len().hash(&mut sum.0);
    if about.len() > READ {
        about.modified()?.hash(&mut sum.0);
    }
    io::copy(&mut file.take(READ), &mut sum)?;
    Ok(sum.0.finish())
}

struct Sum(DefaultHasher);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
