//! The log: one line for each thing that happened, as `key=value`, to the standard error output or a file.
//!
//! Whoever tells something never waits for who reads it: what is not taken at once waits, and a service writes it.
//! A message about the same subject is written at most [`BURST`] times in [`WINDOW`]; how often it was held back is told
//! afterwards.
//!
//! ```text
//! time=2026-11-21T21:46:03.120Z level=warn at=port message="the link went down" port=wan
//! ```

mod service;
mod sink;

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sink::Sink;

pub(crate) use service::Maker;
pub(crate) use weir_protocol::Level;

/// How often a message is written in a window.
const BURST: u32 = 10;

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(10);

/// Messages and subjects that are told apart; above that the oldest windows are forgotten.
const KINDS: usize = 256;

/// Characters of a fact that are written: a mistake may quote what others wrote.
const LONGEST: usize = 2000;

/// How long the end of the program waits for somebody who reads the log.
const LEAVE: Duration = Duration::from_secs(2);

/// What goes with a message: names, and what they stand for.
pub(crate) type Facts<'a> = &'a [(&'a str, &'a dyn Display)];

#[derive(Default)]
struct Log {
    sink: Sink,
    windows: HashMap<Kind, Window>,
}

/// What a window is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    level: Level,
    at: &'static str,
    message: String,
    /// What the message is about, where each of those has a window of its own.
    subject: String,
}

struct Window {
    began: Duration,
    written: u32,
    held_back: u64,
}

static LOG: OnceLock<Mutex<Log>> = OnceLock::new();

/// The place in [`Level::ALL`] of the last level that is written.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Writes to a file from here on, after what is in it.
pub(crate) fn to_file(path: &Path) -> Result<(), String> {
    let opened = weir_host::files::append(path);
    let file = opened.map_err(|error| format!("cannot write the log to {}: {error}", path.display()))?;
    with(|log| log.sink = Sink::to(file));
    Ok(())
}

/// Writes what matters as much as `level`, or more, from here on.
pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// The level that is written.
pub(crate) fn level() -> Level {
    Level::ALL.into_iter().find(|level| *level as u8 == LEVEL.load(Ordering::Relaxed)).unwrap_or(Level::Info)
}

/// Something of any level.
pub(crate) fn tell(level: Level, at: &'static str, message: &str, facts: Facts<'_>) {
    write(level, at, message, facts);
}

/// Something that people may want to know. `at` is the part of the program, `facts` go with the message.
pub(crate) fn info(at: &'static str, message: &str, facts: Facts<'_>) {
    write(Level::Info, at, message, facts);
}

/// Something that somebody should look at.
pub(crate) fn warn(at: &'static str, message: &str, facts: Facts<'_>) {
    write(Level::Warn, at, message, facts);
}

/// The same, of what bounds by itself how often it is told: nothing is held back.
pub(crate) fn bounded(at: &'static str, message: &str, facts: Facts<'_>) {
    if Level::Warn <= level() {
        put(|_, now| Some(line(now, Level::Warn, at, message, facts, 0)));
    }
}

/// Something that does not work.
pub(crate) fn error(at: &'static str, message: &str, facts: Facts<'_>) {
    write(Level::Error, at, message, facts);
}

/// Something of a level that happened to the first of `facts`: what is often told of one holds back nothing of the others.
pub(crate) fn each(level: Level, at: &'static str, message: &str, facts: Facts<'_>) {
    let subject = facts.first().map_or_else(String::new, |(_, fact)| fact.to_string());
    write_of(level, at, message, subject, facts);
}

/// Tells what was held back and has not been told: of windows that have passed, or of all when the program ends.
pub(crate) fn tell_held_back(all: bool) {
    put(|log, now| Some(log.held_back(now, all)).filter(|lines| !lines.is_empty()));
}

fn with<T>(act: impl FnOnce(&mut Log) -> T) -> T {
    let log = LOG.get_or_init(Mutex::default);
    act(&mut log.lock().unwrap_or_else(PoisonError::into_inner))
}

fn write(level: Level, at: &'static str, message: &str, facts: Facts<'_>) {
    write_of(level, at, message, String::new(), facts);
}

fn write_of(of: Level, at: &'static str, message: &str, subject: String, facts: Facts<'_>) {
    if of <= level() {
        put(|log, now| log.line(now, Kind { level: of, at, message: message.to_owned(), subject }, facts));
    }
}

/// Writes a line, if there is one to write now.
fn put(line: impl FnOnce(&mut Log, Duration) -> Option<String>) {
    let now = now();
    with(|log| {
        let Some(line) = line(log, now) else { return };
        log.sink.put(line);
        log.go_on(now, usize::MAX, Duration::ZERO);
        if log.sink.waiting() > 0 {
            service::wake();
        }
    });
}

/// Writes so many pieces of what waits, as far as they are taken at once.
fn go_on(pieces: usize) {
    with(|log| log.go_on(now(), pieces, Duration::ZERO));
}

/// Writes what waits, for as long as somebody takes a piece now and then. For the end: nobody does it afterwards.
pub(crate) fn finish() {
    with(|log| log.go_on(now(), usize::MAX, LEAVE));
}

/// Bytes of lines that wait.
fn waiting() -> usize {
    with(|log| log.sink.waiting())
}

/// Where lines go, to wait for.
fn descriptor() -> io::Result<OwnedFd> {
    with(|log| log.sink.as_fd().try_clone_to_owned())
}

/// Since 1970.
#[allow(clippy::disallowed_methods, reason = "a log tells the time of the world")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Log {
    /// Writes so many pieces as far as they are taken within `patience`, and tells when lines were lost.
    fn go_on(&mut self, now: Duration, pieces: usize, patience: Duration) {
        self.sink.go_on(pieces, patience);
        let lost = self.sink.lost();
        if lost > 0 {
            let message = "lines of the log were lost: nobody read it for long";
            self.sink.put(line(now, Level::Warn, "log", message, &[("lines", &lost)], 0));
            self.sink.go_on(pieces, patience);
        }
    }

    /// The line to write, if the message is not held back.
    fn line(&mut self, now: Duration, kind: Kind, facts: Facts<'_>) -> Option<String> {
        let held_back = self.admit(now, &kind)?;
        Some(line(now, kind.level, kind.at, &kind.message, facts, held_back))
    }

    /// `None` if the message was written often enough; else how often it was held back before.
    fn admit(&mut self, now: Duration, kind: &Kind) -> Option<u64> {
        if self.windows.len() >= KINDS {
            self.windows.retain(|_, window| now.saturating_sub(window.began) < WINDOW);
        }
        if self.windows.len() >= KINDS {
            self.windows.clear();
        }
        let fresh = Window { began: now, written: 0, held_back: 0 };
        let window = self.windows.entry(kind.clone()).or_insert(fresh);
        let mut held_back = 0;
        if now.saturating_sub(window.began) >= WINDOW {
            held_back = window.held_back;
            *window = Window { began: now, written: 0, held_back: 0 };
        }
        if window.written >= BURST {
            window.held_back += 1;
            return None;
        }
        window.written += 1;
        Some(held_back)
    }

    /// A line for each message that was held back: in windows that have passed, or in all. Those windows are closed.
    fn held_back(&mut self, now: Duration, all: bool) -> String {
        let mut lines = String::new();
        self.windows.retain(|kind, window| {
            let passed = all || now.saturating_sub(window.began) >= WINDOW;
            if passed && window.held_back > 0 {
                let about: Facts<'_> = if kind.subject.is_empty() { &[] } else { &[("about", &kind.subject)] };
                lines += &line(now, kind.level, kind.at, &kind.message, about, window.held_back);
            }
            !passed
        });
        lines
    }
}

/// A line of a message that was held back so often before.
fn line(now: Duration, level: Level, at: &str, message: &str, facts: Facts<'_>, held_back: u64) -> String {
    let mut line = format!("time={} level={} at={at} message={}", timestamp(now), level.word(), value(message));
    for (key, fact) in facts {
        let _ = write!(line, " {key}={}", value(&fact.to_string()));
    }
    if held_back > 0 {
        let _ = write!(line, " held_back={held_back}");
    }
    line.push('\n');
    line
}

/// A value as it is, or in quotes where a reader could take it apart wrongly.
fn value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    let text = match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    };
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("{text:?}") }
}

/// RFC 3339, in UTC, to the millisecond.
pub(crate) fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after 1 January 1970, by the Gregorian calendar, whose cycles of 400 years have 146,097 days. Years
/// are counted from March, so that the day that may or may not be comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let from_march_0000 = days + 719_468;
    let (era, day_of_era) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(level: Level, at: &'static str, message: &str) -> Kind {
        Kind { level, at, message: message.to_owned(), subject: String::new() }
    }

    #[test]
    fn a_line_has_its_facts() {
        let mut log = Log::default();
        let now = Duration::from_millis(1_795_297_563_120);
        let line = log.line(now, kind(Level::Warn, "port", "the link went down"), &[("port", &"wan"), ("n", &7)]);
        assert_eq!(
            line.unwrap(),
            "time=2026-11-21T21:46:03.120Z level=warn at=port message=\"the link went down\" port=wan n=7\n"
        );
    }

    #[test]
    fn values_cannot_break_a_line() {
        assert_eq!(value("wan"), "wan");
        assert_eq!(value(""), "\"\"");
        assert_eq!(value("a\nlevel=error"), r#""a\nlevel=error""#);
        assert_eq!(value("say \"x\""), r#""say \"x\"""#);
        assert_eq!(value(&"x".repeat(LONGEST + 1)), format!("{}...", "x".repeat(LONGEST)));
    }

    #[test]
    fn each_subject_has_its_own_window() {
        let mut log = Log::default();
        let of = |subject: &str| Kind { subject: subject.to_owned(), ..kind(Level::Info, "port", "up") };
        assert_eq!((0..100).filter(|_| log.line(Duration::ZERO, of("wan"), &[]).is_some()).count(), BURST as usize);
        assert!(log.line(Duration::ZERO, of("lan"), &[]).is_some());
    }

    #[test]
    fn what_was_held_back_is_told_when_nothing_follows() {
        let mut log = Log::default();
        let at = Duration::from_secs;
        (0..17).for_each(|_| drop(log.line(at(5), kind(Level::Warn, "x", "flood"), &[])));
        assert_eq!(log.held_back(at(14), false), "");
        let told = log.held_back(at(15), false);
        assert!(told.ends_with("level=warn at=x message=flood held_back=7\n"), "{told}");
        assert_eq!(log.held_back(at(30), true), "", "once");
        (0..12).for_each(|_| drop(log.line(at(31), kind(Level::Warn, "x", "flood"), &[])));
        assert!(log.held_back(at(31), true).ends_with("held_back=2\n"), "at the end nothing waits for a window");
    }

    #[test]
    fn a_flood_is_held_back_and_told() {
        let mut log = Log::default();
        let at = Duration::from_secs;
        let mut line = |second, message: &str| log.line(at(second), kind(Level::Info, "x", message), &[]);
        let written = (0..1000).filter(|_| line(5, "flood").is_some()).count();
        assert_eq!(written, BURST as usize);
        assert!(line(5, "other").is_some(), "another message is another window");
        assert!(line(15, "flood").unwrap().ends_with("held_back=990\n"));
        assert!(!line(15, "flood").unwrap().contains("held_back"));
    }

    #[test]
    fn many_messages_do_not_fill_the_memory() {
        let mut log = Log::default();
        for n in 0..10_000 {
            assert!(log.line(Duration::ZERO, kind(Level::Info, "x", &n.to_string()), &[]).is_some());
            assert!(log.windows.len() <= KINDS);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        // A slow twin: counts the days of every month from 1970 on.
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..60_000 {
            assert_eq!(civil(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
