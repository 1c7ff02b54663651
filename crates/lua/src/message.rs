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

/// The name under which the virtual machine knows the sandbox's own Lua.
pub(crate) const LIBRARY: &str = "weir#library";

/// An error of the virtual machine, with its place among the files.
pub(crate) fn translate(error: &Error, files: &[String]) -> ConfigError {
    let mut traces = String::new();
    let (kind, text) = match root(error, &mut traces) {
        Error::SyntaxError { message, .. } => (ErrorKind::Script, message.clone()),
        // As LuaJIT says it when there is no memory for its message.
        Error::RuntimeError(message) if message == "error in error handling" => {
            (ErrorKind::Limit, "failed, and there was no memory left to say how".to_owned())
        }
        Error::RuntimeError(message) => (ErrorKind::Script, message.clone()),
        Error::MemoryError(_) => (ErrorKind::Limit, "needs more memory than it may use".to_owned()),
        other => (ErrorKind::Script, other.to_string()),
    };
    let (text, trace) = text.split_once(TRACE).unwrap_or((&text, ""));
    let text = without_library(text);
    let place = place_at_start(text, files).or_else(|| {
        let place = place_in_trace(trace, files).or_else(|| place_in_trace(&traces, files))?;
        Some((place, text))
    });
    let (place, text) = place.unwrap_or_else(|| (Place::line(files.first().cloned().unwrap_or_default(), 0), text));
    ConfigError::new(kind, &place, "", text.trim())
}

/// What stands between a message and the calls that led to it.
const TRACE: &str = "\nstack traceback:";

/// The error itself; the traces of the calls that led to it are added to `traces`.
fn root<'a>(error: &'a Error, traces: &mut String) -> &'a Error {
    match error {
        Error::CallbackError { cause, traceback } => {
            traces.push_str(traceback);
            root(cause, traces)
        }
        Error::BadArgument { cause, .. } | Error::WithContext { cause, .. } => root(cause, traces),
        other => other,
    }
}

/// `weir#0:7: text` as place and text.
fn place_at_start<'a>(text: &'a str, files: &[String]) -> Option<(Place, &'a str)> {
    let mut parts = text.splitn(3, ':');
    let file = files.get(chunk_number(parts.next()?)?)?;
    let line = parts.next()?.parse().ok()?;
    Some((Place::line(file, line), parts.next()?))
}

/// The text without a place in the sandbox's own Lua, which tells the script's author nothing.
fn without_library(text: &str) -> &str {
    let rest =
        text.strip_prefix(LIBRARY).and_then(|rest| rest.strip_prefix(':')).and_then(|rest| rest.split_once(": "));
    rest.map_or(text, |(_, rest)| rest)
}

/// The innermost call in a trace that stands in one of the files.
fn place_in_trace(trace: &str, files: &[String]) -> Option<Place> {
    trace.lines().find_map(|line| place_at_start(line.trim_start(), files)).map(|(place, _)| place)
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
        assert_eq!(said("deep\nstack traceback:\n\t[C]: in x\n\tweir#1:8: in y\n\tweir#0:9: in z"), "b:1.lua:8: deep");
        for odd in ["weir#2:7: x", "weir#0", "weir#0:x: y", "", "weir#-1:1: x"] {
            assert_eq!(said(odd), format!("a.lua: {odd}"));
        }
        assert_eq!(chunk_number(&chunk_name(12)), Some(12));
    }
}
