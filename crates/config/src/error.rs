//! Errors in what a user wrote: place, key, value found, what is allowed, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::shown::Shown;
use crate::value::Value;

/// What sort of mistake a [`ConfigError`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// A required key or declaration is absent.
    Missing,
    /// A value of another type, such as a string for a number.
    WrongType,
    /// A quantity without a unit, or with one of another quantity.
    WrongUnit,
    /// A number, length or quantity outside its bounds.
    OutOfRange,
    /// Text that does not have the form asked for, such as an address.
    Malformed,
    /// A key, kind or word that does not exist.
    Unknown,
    /// A name that nothing in the configuration bears.
    Dangling,
    /// The same thing declared twice.
    Duplicate,
    /// Values that are right each by itself, yet not together.
    Conflict,
    /// A script that cannot be read or that failed while it ran.
    Script,
    /// A bound on time, memory, size or depth was exceeded.
    Limit,
    /// A file that cannot be opened or read.
    File,
}

/// A mistake in a configuration, told so that it can be mended without looking anything up. Its texts may be those of scripts and files:
/// long ones are cut, and where it is displayed, on one line, there is nothing left that a terminal would obey.
///
/// Displayed as `router.lua:7: router.routes["10/8"].via: "192.0.2.999" is not an IPv4 address; expected ...; ...`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigError {
    /// The sort of mistake.
    pub kind: ErrorKind,
    /// The file and line of the declaring call, or the line and column of a CSV file.
    pub place: Place,
    /// The key path, such as `router.routes["10/8"].via`; empty where no key is meant.
    pub path: String,
    /// The value found, in Lua's notation and shortened; empty where none was.
    pub found: String,
    /// What is wrong, as a phrase that follows the value found: `is not an IPv4 address`.
    pub problem: String,
    /// What is allowed, as a phrase that follows `expected`; may be empty.
    pub allowed: String,
    /// What to do, as an imperative; may be empty.
    pub remedy: String,
}

impl ConfigError {
    /// An error with a place, a key path (which may be empty) and a problem.
    pub fn new(kind: ErrorKind, place: &Place, path: impl fmt::Display, problem: impl Into<String>) -> Self {
        Self {
            kind,
            place: place.clone(),
            path: Shown::cut(path.to_string()),
            found: String::new(),
            problem: Shown::cut(problem.into()),
            allowed: String::new(),
            remedy: String::new(),
        }
    }

    /// Adds the value that was found.
    #[must_use]
    pub fn found(mut self, value: &Value) -> Self {
        self.found = value.brief();
        self
    }

    /// Adds what is allowed.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Shown::cut(allowed.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Shown::cut(remedy.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.to_string();
        write!(f, "{}: ", Shown::line(&place))?;
        if !self.path.is_empty() {
            write!(f, "{}: ", Shown::line(&self.path))?;
        }
        if !self.found.is_empty() {
            write!(f, "{} ", Shown::line(&self.found))?;
        }
        Shown::line(&self.problem).fmt(f)?;
        if !self.allowed.is_empty() {
            write!(f, "; expected {}", Shown::line(&self.allowed))?;
        }
        if !self.remedy.is_empty() {
            write!(f, "; {}", Shown::line(&self.remedy))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Collects errors, up to a bound: a table of a million wrong lines must not become a million messages.
#[derive(Debug, Default)]
pub struct Errors {
    list: Vec<ConfigError>,
    more: u64,
}

impl Errors {
    /// How many errors are kept; of the others only the number is.
    pub const KEPT: usize = 100;

    /// No errors yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, error: ConfigError) {
        if self.list.len() < Self::KEPT {
            self.list.push(error);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Adds several.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = ConfigError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are, with those that were not kept.
    pub fn count(&self) -> u64 {
        u64::try_from(self.list.len()).unwrap_or(u64::MAX).saturating_add(self.more)
    }

    /// `value` if there were no errors, else the errors.
    ///
    /// # Errors
    /// Those collected; a last one tells how many were left out.
    pub fn into_result<T>(mut self, value: T) -> Result<T, Vec<ConfigError>> {
        if self.more > 0
            && let Some(last) = self.list.last()
        {
            let problem = format!("has {} more errors, which are not shown", self.more);
            let rest = ConfigError::new(ErrorKind::Limit, &Place::line(&last.place.file, 0), "", problem);
            self.list.push(rest);
        }
        if self.list.is_empty() { Ok(value) } else { Err(self.list) }
    }
}

/// The candidate most like `word`, if any is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            let longer = word.len().max(candidate.len());
            *distance <= 1 + longer / 4 && *distance < longer
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: u64) -> ConfigError {
        ConfigError::new(ErrorKind::Malformed, &Place::line("router.lua", line), "router.via", "is wrong")
    }

    #[test]
    fn an_error_reads_as_one_line() {
        let error = error(7).found(&Value::from("x")).allowed("an address").remedy("write one");
        assert_eq!(error.to_string(), r#"router.lua:7: router.via: "x" is wrong; expected an address; write one"#);
        let plain = ConfigError::new(ErrorKind::File, &Place::column("r.csv", 2, 9), "", "cannot be read");
        assert_eq!(plain.to_string(), "r.csv:2:9: cannot be read");
    }

    #[test]
    fn what_others_wrote_is_shown_and_not_obeyed() {
        let error = ConfigError::new(ErrorKind::Script, &Place::line("a\x1b]0;x.lua", 1), "k\x07", "bad\n\x1b[31m");
        assert_eq!(error.to_string(), r"a\u{1b}]0;x.lua:1: k\u{7}: bad\n\u{1b}[31m");
        let long = ConfigError::new(ErrorKind::Script, &Place::line("a", 1), "k".repeat(9_999), "x".repeat(100 << 20));
        let texts = [&long.path, &long.problem, &long.to_string()];
        assert!(texts.iter().all(|text| text.len() < 9_000 && text.contains("... (cut: ")), "{}", long.problem.len());
        assert!(long.problem.ends_with("... (cut: 104857600 bytes)"));
    }

    #[test]
    fn an_error_survives_json() {
        let text = serde_json::to_string(&error(7)).unwrap();
        assert!(text.contains(r#""kind":"malformed""#), "{text}");
        assert_eq!(serde_json::from_str::<ConfigError>(&text).unwrap(), error(7));
    }

    #[test]
    fn errors_are_bounded_and_counted() {
        let mut errors = Errors::new();
        errors.extend((0..130).map(error));
        assert_eq!(errors.count(), 130);
        let list = errors.into_result(()).unwrap_err();
        assert_eq!(list.len(), Errors::KEPT + 1);
        assert_eq!(list[100].to_string(), "router.lua: has 30 more errors, which are not shown");
        assert_eq!(Errors::new().into_result(5), Ok(5));
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        assert_eq!(nearest("ruoter", ["port", "router", "forward"]), Some("router"));
        assert_eq!(nearest("mtuu", ["mtu", "ports"]), Some("mtu"));
        assert_eq!(nearest("ROUTER", ["router"]), Some("router"));
        assert_eq!(nearest("xyzzy", ["router", "port"]), None);
        assert_eq!(nearest("x", ["y"]), None, "nothing of the word is left");
        assert_eq!(nearest("x", []), None);
    }
}
