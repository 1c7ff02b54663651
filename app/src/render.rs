//! Answers for people: aligned tables, and colour where somebody looks.

mod numbers;
mod parts;
mod rates;
mod rows;
mod services;
mod stats;
mod table;

pub(crate) use numbers::nanos;
pub(crate) use rates::View;
pub(crate) use rows::rows;
pub(crate) use services::services;
pub(crate) use stats::{cycles, drops, last, links, stages, stats};
pub(crate) use table::{Align, Table};

use std::io::IsTerminal;

use numbers::rate;

/// How text is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// Without colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Style = Style { colour: false };

    /// For the standard output: colour on a terminal, unless the user wants none (<https://no-color.org>).
    pub(crate) fn of_stdout() -> Style {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style { colour: std::io::stdout().is_terminal() && !unwanted && !dumb }
    }

    fn mark(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// What clears the screen, where there is one.
    pub(crate) fn clear(self) -> &'static str {
        if self.colour { "\x1b[H\x1b[2J" } else { "" }
    }

    /// A heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.mark("1", text)
    }

    /// Something of less weight.
    pub(crate) fn dim(self, text: &str) -> String {
        self.mark("2", text)
    }

    /// As it should be.
    pub(crate) fn good(self, text: &str) -> String {
        self.mark("32", text)
    }

    /// Worth a look.
    pub(crate) fn warn(self, text: &str) -> String {
        self.mark("33", text)
    }

    /// Wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.mark("31", text)
    }
}

/// Clean of what would move a terminal's cursor: names and messages may come from packets and files of others.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Characters of a device that are shown.
const DEVICE: usize = 32;

/// A device as far as it fits beside its figures.
fn shortened(device: &str) -> String {
    match device.char_indices().nth(DEVICE) {
        Some((end, _)) => format!("{}...", device.get(..end).unwrap_or(device)),
        None => device.to_owned(),
    }
}
