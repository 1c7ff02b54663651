//! Rust sources in pieces: code, string literals and comments.

use std::path::{Path, PathBuf};

/// A piece of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Code(&'a str),
    /// What is between the quotes of a string literal.
    Text(&'a str),
    Comment(&'a str),
}

/// Cuts a source into pieces, in order, each with the line that it begins on (from 1). Quotes and hashes around
/// texts belong to the code.
pub(crate) fn pieces(source: &str) -> Vec<(usize, Piece<'_>)> {
    let mut pieces = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while !rest.is_empty() {
        let (piece, length) = piece(rest);
        pieces.push((line, piece));
        let (taken, tail) = rest.split_at_checked(length.max(1)).unwrap_or((rest, ""));
        line += taken.matches('\n').count();
        rest = tail;
    }
    pieces
}

/// The piece that `rest` begins with, and its length with what delimits it.
fn piece(rest: &str) -> (Piece<'_>, usize) {
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        return (Piece::Comment(upto(rest, length)), length);
    }
    if rest.starts_with("/*") {
        let length = block_comment(rest);
        return (Piece::Comment(upto(rest, length)), length);
    }
    if let Some((start, end, length)) = text(rest) {
        return (Piece::Text(rest.get(start..end).unwrap_or_default()), length);
    }
    if let Some(length) = character(rest) {
        return (Piece::Code(upto(rest, length)), length);
    }
    let length = code(rest);
    (Piece::Code(upto(rest, length)), length)
}

fn upto(text: &str, end: usize) -> &str {
    text.get(..end).unwrap_or(text)
}

/// The length of the block comment that `rest` begins with; they nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Start and end of what is between the quotes, and the length of the whole literal.
fn text(rest: &str) -> Option<(usize, usize, usize)> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let tail = rest.strip_prefix(prefix).unwrap_or_default();
        tail.starts_with('"') || (prefix.ends_with('r') && tail.trim_start_matches('#').starts_with('"'))
    })?;
    let tail = rest.get(prefix.len()..)?;
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    let start = prefix.len() + hashes + 1;
    let inside = rest.get(start..)?;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = inside.find(&close).unwrap_or(inside.len());
        return Some((start, start + end, (start + end + close.len()).min(rest.len())));
    }
    let mut escaped = false;
    let end = inside.find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    let end = start + end.unwrap_or(inside.len());
    Some((start, end, (end + 1).min(rest.len())))
}

/// The length of the character literal that `rest` begins with. A lifetime is not one.
fn character(rest: &str) -> Option<usize> {
    let mut inside = rest.strip_prefix('\'')?.char_indices();
    let (_, first) = inside.next()?;
    if first != '\\' {
        return inside.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 2);
    }
    inside.next();
    inside.find(|(_, c)| *c == '\'').map(|(at, _)| at + 2)
}

/// The length of the code that `rest` begins with, up to what may be something else.
fn code(rest: &str) -> usize {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let word = |c: char| c.is_alphanumeric() || c == '_';
    // A whole word at once, so that the `r` at the end of `for"` opens no raw string.
    let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
    length.max(first)
}

/// Whether `word` stands in `code` as a word of its own.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|found| found == word)
}

/// All files below `folder` with one of `extensions`, in order. A folder that does not exist has none.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        if !next.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                open.push(path);
            } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> (String, Vec<&str>, Vec<&str>) {
        let (mut code, mut texts, mut comments) = (String::new(), Vec::new(), Vec::new());
        for (_, piece) in pieces(source) {
            match piece {
                Piece::Code(piece) => code += piece,
                Piece::Text(text) => texts.push(text),
                Piece::Comment(comment) => comments.push(comment),
            }
        }
        (code, texts, comments)
    }

    #[test]
    fn code_texts_and_comments_are_told_apart() {
        let (code, texts, comments) = of(r##"let a = "x // \" y"; // "no" unsafe
            /* a /* b */ "c" */ let b = r#"raw " one"#; let c = br"z\"; '"'; '\''; 'l: loop {} b"q" é"##);
        assert_eq!(texts, ["x // \\\" y", "raw \" one", "z\\", "q"]);
        assert_eq!(comments, ["// \"no\" unsafe", "/* a /* b */ \"c\" */"]);
        assert!(code.contains("let b =") && code.contains("'l: loop") && code.contains("'\"'"), "{code}");
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let lines: Vec<(usize, Piece)> =
            pieces("a\n\"b\n\"\n/*\n*/\nc").into_iter().filter(|(_, piece)| *piece != Piece::Code("\n")).collect();
        assert_eq!(
            lines,
            [(1, Piece::Code("a")), (2, Piece::Text("b\n")), (4, Piece::Comment("/*\n*/")), (6, Piece::Code("c"))]
        );
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe") && has_word("a(unsafe)", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("not_unsafe", "unsafe"));
    }
}
