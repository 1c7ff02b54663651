//! Lua's own errors as errors with places.

use mlua::Error;
use weir_config::{ConfigError, ErrorKind, Place};

/// The name under which the virtual machine knows the n-th file: short, because Lua cuts long names in its messages,
/// and telling files apart whatever they are called.
pub(crate) fn chunk_name(number: usize) -> String {
    format!("weir#{number}")
}

/// The number of the file that a chunk name stands for.
pub(crate) fn chunk_number(name: &str) -> Option<usize> {
    name.strip_prefix("weir#")?.parse().ok()
}

/// An error of the virtual machine, with its place among the files.
pub(crate) fn translate(error: &Error, files: &[String]) -> ConfigError {
    let (kind, text) = match root(error) {
        Error::SyntaxError { message, .. } => (ErrorKind::Script, message.clone()),
        Error::RuntimeError(message) => (ErrorKind::Script, message.clone()),
        Error::MemoryError(_) => (ErrorKind::Limit, "needs more memory than it may use".to_owned()),
        other => (ErrorKind::Script, other.to_string()),
    };
    // The traceback names functions of the sandbox, which say nothing to the script's author.
    let text = text.split("\nstack traceback:").next().unwrap_or_default();
    let (place, text) = split_place(text, files);
    ConfigError::new(kind, &place, "", text.trim())
}

fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => root(cause),
        other => other,
    }
}

/// `weir#0:7: text` as place and text; without a place the first file as a whole is meant.
fn split_place<'a>(text: &'a str, files: &[String]) -> (Place, &'a str) {
    let mut parts = text.splitn(3, ':');
    let parsed = || {
        let file = files.get(chunk_number(parts.next()?)?)?;
        let line = parts.next()?.parse().ok()?;
        Some((Place::line(file, line), parts.next()?))
    };
    let mut parsed = parsed;
    parsed().unwrap_or_else(|| (Place::line(files.first().cloned().unwrap_or_default(), 0), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_from_messages() {
        let files = ["a.lua".to_owned(), "b:1.lua".to_owned()];
        let said = |text: &str| translate(&Error::RuntimeError(text.to_owned()), &files).to_string();
        assert_eq!(said("weir#0:7: broken"), "a.lua:7: broken");
        assert_eq!(said("weir#1:8: a: b\nstack traceback:\n\t[C]: ?"), "b:1.lua:8: a: b");
        for odd in ["weir#2:7: x", "weir#0", "weir#0:x: y", "", "weir#-1:1: x"] {
            assert_eq!(said(odd), format!("a.lua: {odd}"));
        }
        assert_eq!(chunk_number(&chunk_name(12)), Some(12));
    }
}
