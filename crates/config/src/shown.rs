//! Texts from outside, such that a terminal can be shown them.

use std::fmt::{self, Write as _};

/// A text that others wrote, as it can be shown: what a terminal obeys is escaped, and what is long is cut, which is said.
///
/// ```
/// use weir_config::Shown;
///
/// assert_eq!(Shown::line("a\x1b[2J\nb").to_string(), r"a\u{1b}[2J\nb");
/// assert_eq!(Shown::lines("a\nb\r").to_string(), "a\nb\\r");
/// assert!(Shown::line(&"x".repeat(100_000)).to_string().ends_with("x... (cut: 100000 bytes)"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    text: &'a str,
    lines: bool,
}

impl<'a> Shown<'a> {
    /// How much of a text is shown, in bytes.
    pub const LONGEST: usize = 4_000;

    /// On one line.
    pub fn line(text: &'a str) -> Self {
        Self { text, lines: false }
    }

    /// With the line ends that it has; each line is cut by itself.
    pub fn lines(text: &'a str) -> Self {
        Self { text, lines: true }
    }

    /// A text that is no longer than what is shown of it, and otherwise as it was.
    pub fn cut(text: String) -> String {
        if text.len() <= Self::LONGEST { text } else { format!("{}{}", start(&text), end(&text)) }
    }
}

/// As much of a text as is shown.
fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(Shown::LONGEST)).unwrap_or_default()
}

fn end(text: &str) -> String {
    format!("... (cut: {} bytes)", text.len())
}

/// Whether a terminal shows a character, rather than doing what it says: control characters, and those that turn the direction of
/// what follows.
fn is_shown(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.lines {
            return one_line(self.text, f);
        }
        for (n, line) in self.text.split('\n').enumerate() {
            if n > 0 {
                f.write_char('\n')?;
            }
            one_line(line, f)?;
        }
        Ok(())
    }
}

fn one_line(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // What was cut before, with what tells it, is not cut again.
    const TELLING: usize = 40;
    let whole = text.len() <= Shown::LONGEST + TELLING;
    for character in if whole { text } else { start(text) }.chars() {
        if is_shown(character) {
            f.write_char(character)?;
        } else if matches!(character, '\n' | '\r' | '\t') {
            write!(f, "{}", character.escape_default())?;
        } else {
            write!(f, "{}", character.escape_unicode())?;
        }
    }
    if whole { Ok(()) } else { f.write_str(&end(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let text: String = (0..0x3000).filter_map(char::from_u32).chain(['\u{9b}', '\u{202e}', 'é', '√']).collect();
        for piece in text.chars().collect::<Vec<_>>().chunks(300) {
            let piece: String = piece.iter().collect();
            let shown = Shown::line(&piece).to_string();
            assert!(shown.chars().all(is_shown), "{shown:?}");
        }
        assert_eq!(Shown::line("é √ \\ plain").to_string(), "é √ \\ plain");
    }

    #[test]
    fn a_text_is_cut_once_and_between_characters() {
        let long = "é".repeat(5_000);
        let cut = Shown::cut(long.clone());
        assert_eq!(cut, format!("{}... (cut: 10000 bytes)", "é".repeat(2_000)));
        assert_eq!(Shown::line(&cut).to_string(), cut);
        assert_eq!(Shown::line(&long).to_string(), cut);
        assert_eq!(Shown::cut("short".to_owned()), "short");
    }
}
