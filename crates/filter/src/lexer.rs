//! Characters in, tokens out.

use std::net::Ipv6Addr;

use crate::error::FilterError;
use crate::names;

/// A sign or a joining word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Open,
    Close,
    OpenIndex,
    CloseIndex,
    Colon,
    Slash,
    Star,
    Plus,
    Minus,
    Percent,
    Ampersand,
    Bar,
    Caret,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Not,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Symbol(Symbol),
    /// A word that may be one of the language's.
    Word,
    /// A name that is none of the language's words: written with a backslash before it.
    Name,
    Number(u32),
    /// Two to four parts of an IPv4 address, left-justified; `mask` covers the parts given.
    Ipv4 {
        address: u32,
        mask: u32,
    },
    Ipv6(u128),
    Mac([u8; 6]),
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// As it was written, without the backslash of a name.
    pub(crate) text: String,
    /// Counted in characters from 1.
    pub(crate) column: usize,
}

/// Signs, the longer ones before those they begin with.
const SIGNS: &[(&str, Symbol)] = &[
    ("&&", Symbol::And),
    ("||", Symbol::Or),
    ("!=", Symbol::NotEqual),
    ("==", Symbol::Equal),
    ("<<", Symbol::ShiftLeft),
    (">>", Symbol::ShiftRight),
    ("<=", Symbol::LessOrEqual),
    (">=", Symbol::GreaterOrEqual),
    ("(", Symbol::Open),
    (")", Symbol::Close),
    ("[", Symbol::OpenIndex),
    ("]", Symbol::CloseIndex),
    (":", Symbol::Colon),
    ("/", Symbol::Slash),
    ("*", Symbol::Star),
    ("+", Symbol::Plus),
    ("-", Symbol::Minus),
    ("%", Symbol::Percent),
    ("&", Symbol::Ampersand),
    ("|", Symbol::Bar),
    ("^", Symbol::Caret),
    ("=", Symbol::Equal),
    ("!", Symbol::Not),
    ("<", Symbol::Less),
    (">", Symbol::Greater),
];

/// Cuts an expression into tokens; the last one is always `End`.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut column = 1;
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        column += rest.len() - trimmed.len();
        rest = trimmed;
        let (kind, length) = token(rest, column)?;
        let (written, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let end = kind == Kind::End;
        tokens.push(Token { kind, text: written.trim_start_matches('\\').to_owned(), column });
        if end {
            return Ok(tokens);
        }
        column += written.chars().count();
        rest = tail;
    }
}

/// The token that `rest` begins with, and how many bytes it takes.
fn token(rest: &str, column: usize) -> Result<(Kind, usize), FilterError> {
    let Some(first) = rest.chars().next() else {
        return Ok((Kind::End, 0));
    };
    if let Some(name) = rest.strip_prefix('\\') {
        let length = name.find([' ', '!', '(', ')', '\n', '\t']).unwrap_or(name.len());
        if length > 0 {
            return Ok((Kind::Name, length + 1));
        }
    }
    if let Some(address) = colon_address(rest, column)? {
        return Ok(address);
    }
    if first.is_ascii_alphanumeric() {
        let run = run(rest, |c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let word = run.trim_end_matches(['-', '_']);
        return Ok((word_kind(word, column)?, word.len()));
    }
    let sign = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
    match sign {
        Some((sign, symbol)) => Ok((Kind::Symbol(*symbol), sign.len())),
        None => Err(FilterError::new(
            column,
            format!("`{first}`"),
            "a word, a number, an address or a sign",
            "remove the character",
        )),
    }
}

/// The longest start of `text` whose characters all are `wanted`.
fn run(text: &str, wanted: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// An IPv6 or MAC address written with colons. One colon alone belongs to an accessor (`ip[2:2]`).
fn colon_address(rest: &str, column: usize) -> Result<Option<(Kind, usize)>, FilterError> {
    let run = run(rest, |c| c.is_ascii_hexdigit() || c == ':' || c == '.');
    if run.matches(':').count() < 2 {
        return Ok(None);
    }
    let kind = match (mac(run.split(':')), run.parse::<Ipv6Addr>()) {
        (Some(address), _) => Kind::Mac(address),
        (None, Ok(address)) => Kind::Ipv6(address.to_bits()),
        (None, Err(_)) => {
            return Err(FilterError::new(
                column,
                format!("`{run}`"),
                "an IPv6 or MAC address",
                "write it like 2001:db8::1 or 02:00:00:00:00:01",
            ));
        }
    };
    Ok(Some((kind, run.len())))
}

/// Six groups of one or two hexadecimal digits.
fn mac<'a>(groups: impl Iterator<Item = &'a str>) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = groups.map(hex_byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

fn hex_byte(group: &str) -> Option<u8> {
    let digits = group.chars().all(|c| c.is_ascii_hexdigit());
    (digits && (1..=2).contains(&group.len())).then(|| u8::from_str_radix(group, 16).ok()).flatten()
}

/// The ways of writing a MAC address without colons: `02-00-00-00-00-01`, `2.0.0.0.0.1`, `0200.0000.0001`
/// and `020000000001`.
fn mac_word(word: &str) -> Option<[u8; 6]> {
    mac(word.split('-')).or_else(|| mac(word.split('.'))).or_else(|| dense_mac(word))
}

/// Twelve hexadecimal digits, perhaps in three groups of four.
fn dense_mac(word: &str) -> Option<[u8; 6]> {
    let groups: Vec<&str> = word.split('.').collect();
    let grouped = groups.len() == 3 && groups.iter().all(|group| group.len() == 4);
    let digits = if grouped { groups.concat() } else { word.to_owned() };
    if digits.len() != 12 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(&digits, 16).ok()?;
    number.to_be_bytes().last_chunk().copied()
}

fn word_kind(word: &str, column: usize) -> Result<Kind, FilterError> {
    if let Some(address) = mac_word(word) {
        return Ok(Kind::Mac(address));
    }
    if is_number(word) {
        return number(word).map(Kind::Number).ok_or_else(|| {
            FilterError::new(
                column,
                format!("`{word}`"),
                "a number below 2^32",
                "write it in decimal, in octal after a 0, or in hexadecimal after 0x",
            )
        });
    }
    if let Some(parts) = ipv4_parts(word) {
        return ipv4(&parts, word, column);
    }
    Ok(match word {
        "and" => Kind::Symbol(Symbol::And),
        "or" => Kind::Symbol(Symbol::Or),
        "not" => Kind::Symbol(Symbol::Not),
        _ => names::constant(word).map_or(Kind::Word, Kind::Number),
    })
}

fn is_number(word: &str) -> bool {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit()),
        None => word.chars().all(|c| c.is_ascii_digit()),
    }
}

fn number(word: &str) -> Option<u32> {
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', ..] => (word.get(2..)?, 16),
        [b'0', _, ..] => (word.get(1..)?, 8),
        _ => (word, 10),
    };
    u32::from_str_radix(digits, radix).ok()
}

/// The two to four decimal parts of an IPv4 address, if that is what `word` is.
fn ipv4_parts(word: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = word.split('.').collect();
    let decimal = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    ((2..=4).contains(&parts.len()) && parts.iter().all(decimal)).then_some(parts)
}

fn ipv4(parts: &[&str], word: &str, column: usize) -> Result<Kind, FilterError> {
    let mut bytes = [0; 4];
    let mut mask = [0; 4];
    for ((byte, cover), part) in bytes.iter_mut().zip(&mut mask).zip(parts) {
        *cover = 0xff;
        *byte = part.parse().map_err(|_| {
            FilterError::new(
                column,
                format!("`{word}`"),
                "an IPv4 address",
                "write each of its parts as a number from 0 to 255",
            )
        })?;
    }
    Ok(Kind::Ipv4 { address: u32::from_be_bytes(bytes), mask: u32::from_be_bytes(mask) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = tokens(text).unwrap().into_iter().map(|t| t.kind).collect();
        assert_eq!(kinds.pop(), Some(Kind::End));
        kinds
    }

    #[test]
    fn numbers_have_three_bases() {
        assert_eq!(kinds("10 010 0x10 0 4294967295"), [10, 8, 16, 0, u32::MAX].map(Kind::Number));
        assert!(tokens("4294967296").is_err());
        assert!(tokens("08").is_err());
    }

    #[test]
    fn macs_have_many_spellings() {
        let mac = Kind::Mac([2, 0, 0, 0, 0, 0xab]);
        for text in
            ["02:00:00:00:00:ab", "2:0:0:0:0:AB", "02-00-00-00-00-ab", "2.0.0.0.0.ab", "0200.0000.00ab", "0200000000ab"]
        {
            assert_eq!(kinds(text), std::slice::from_ref(&mac), "{text}");
        }
    }

    #[test]
    fn addresses_and_ranges_are_told_apart() {
        assert_eq!(
            kinds("10.1 1.2.3.4"),
            [
                Kind::Ipv4 { address: 0x0a01_0000, mask: 0xffff_0000 },
                Kind::Ipv4 { address: 0x0102_0304, mask: u32::MAX },
            ]
        );
        assert_eq!(kinds("::"), [Kind::Ipv6(0)]);
        assert_eq!(kinds("::ffff:1.2.3.4"), [Kind::Ipv6(0xffff_0102_0304)]);
        assert_eq!(kinds("80-90 1.2.3.4.5 \\tcp"), [Kind::Word, Kind::Word, Kind::Name]);
        assert!(tokens("256.0.0.1").is_err());
        assert!(tokens("1:2:3").is_err());
    }

    #[test]
    fn signs_are_read_longest_first() {
        use Symbol::*;
        assert_eq!(
            kinds("&&&<<<=<||| !!= ==="),
            [And, Ampersand, ShiftLeft, LessOrEqual, Less, Or, Bar, Not, NotEqual, Equal, Equal].map(Kind::Symbol)
        );
    }

    #[test]
    fn columns_count_characters() {
        let error = tokens("tcp \t §").unwrap_err();
        assert_eq!(error.column(), 7);
        let columns: Vec<usize> = tokens("ip[2:2] = \\x").unwrap().iter().map(|t| t.column).collect();
        assert_eq!(columns, [1, 3, 4, 5, 6, 7, 9, 11, 13]);
    }
}
