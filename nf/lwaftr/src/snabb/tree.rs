//! The grammar of such configurations: statements of a name and a value, or of a name and more of them in braces.

use std::str::FromStr;

/// What is wrong, each with its line.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<String>);

/// More are not told.
const MOST: usize = 20;

/// A statement.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    value: Option<String>,
    pub(super) line: usize,
    pub(super) children: Vec<Node>,
}

impl Node {
    /// The first statement of a name in it.
    pub(super) fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The value of such a one.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.child(name)?.value.as_deref()
    }
}

/// A value, and what it is called.
pub(super) trait Kind: FromStr {
    const WHAT: &'static str;
}

impl Kind for u8 {
    const WHAT: &'static str = "a number from 0 to 255";
}
impl Kind for u16 {
    const WHAT: &'static str = "a number from 0 to 65535";
}
impl Kind for u32 {
    const WHAT: &'static str = "a number from 0 to 4294967295";
}
impl Kind for bool {
    const WHAT: &'static str = "true or false";
}
impl Kind for std::net::Ipv4Addr {
    const WHAT: &'static str = "an IPv4 address";
}
impl Kind for std::net::Ipv6Addr {
    const WHAT: &'static str = "an IPv6 address";
}
impl Kind for std::net::IpAddr {
    const WHAT: &'static str = "an IP address";
}

impl Problems {
    pub(super) fn tell(&mut self, line: usize, problem: String) {
        if self.0.len() < MOST {
            self.0.push(format!("line {line}: {problem}"));
        }
    }

    /// Tells of statements of other names.
    pub(super) fn known(&mut self, node: &Node, names: &[&str]) {
        for child in node.children.iter().filter(|child| !names.contains(&child.name.as_str())) {
            self.tell(child.line, format!("{} is not known in {}", child.name, node.name));
        }
    }

    /// The value of a statement in another, if it is there and right.
    pub(super) fn value<T: Kind>(&mut self, node: &Node, name: &str) -> Option<T> {
        let child = node.child(name)?;
        let text = child.value.as_deref().unwrap_or_default();
        let value = text.parse().ok();
        if value.is_none() {
            self.tell(child.line, format!("{name}: \"{text}\" is not {}", T::WHAT));
        }
        value
    }

    /// The same of one that has to be there.
    pub(super) fn required<T: Kind>(&mut self, node: &Node, name: &str) -> Option<T> {
        if node.child(name).is_none() {
            self.tell(node.line, format!("{}: {name} is missing", node.name));
        }
        self.value(node, name)
    }
}

/// A word or a sign, with its line.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// Statements inside each other at most.
const DEPTH: usize = 16;

/// Reads all statements, as children of one without a name; `None` if the grammar is broken.
pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut open = vec![Node { name: String::new(), value: None, line: 1, children: Vec::new() }];
    let mut words: Vec<(String, usize)> = Vec::new();
    let mut line = 1;
    for token in tokens(text) {
        let (token, at) = token.map_err(|(problem, at)| problems.tell(at, problem)).ok()?;
        line = at;
        let wrong = match token {
            Token::Word(word) => {
                words.push((word, at));
                None
            }
            Token::Open if open.len() > DEPTH => Some("too many braces inside each other"),
            Token::Open => match take(&mut words) {
                Some(node) => {
                    open.push(node);
                    None
                }
                None => Some("a brace without a name"),
            },
            Token::End => match (take(&mut words), open.last_mut()) {
                (Some(node), Some(parent)) => {
                    parent.children.push(node);
                    None
                }
                _ => Some("a semicolon where a name and its value should be"),
            },
            Token::Close if !words.is_empty() => Some("a semicolon is missing"),
            Token::Close => match (open.pop(), open.last_mut()) {
                (Some(node), Some(parent)) => {
                    parent.children.push(node);
                    None
                }
                _ => Some("a brace is closed that is not open"),
            },
        };
        if let Some(wrong) = wrong {
            problems.tell(at, wrong.to_owned());
            return None;
        }
    }
    let root = open.pop()?;
    if !open.is_empty() || !words.is_empty() {
        problems.tell(line, "ends inside of a statement".to_owned());
        return None;
    }
    Some(root)
}

/// The statement that words make: a name, and a value or none.
fn take(words: &mut Vec<(String, usize)>) -> Option<Node> {
    let mut words = std::mem::take(words).into_iter();
    let (name, line) = words.next()?;
    let value = words.next().map(|(value, _)| value);
    words.next().is_none().then_some(Node { name, value, line, children: Vec::new() })
}

type Found = Result<(Token, usize), (String, usize)>;

fn tokens(text: &str) -> impl Iterator<Item = Found> {
    let (mut rest, mut line) = (text, 1);
    std::iter::from_fn(move || {
        loop {
            let trimmed = rest.trim_start_matches(|letter: char| letter.is_whitespace() && letter != '\n');
            rest = trimmed;
            if let Some(next) = rest.strip_prefix('\n') {
                (rest, line) = (next, line + 1);
            } else if rest.starts_with("//") || rest.starts_with('#') {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    rest = "";
                    return Some(Err(("a comment does not end".to_owned(), line)));
                };
                line += rest[..end].matches('\n').count();
                rest = &rest[end + 2..];
            } else {
                break;
            }
        }
        let first = rest.chars().next()?;
        let sign = match first {
            '{' => Some(Token::Open),
            '}' => Some(Token::Close),
            ';' => Some(Token::End),
            _ => None,
        };
        if let Some(sign) = sign {
            rest = &rest[1..];
            return Some(Ok((sign, line)));
        }
        if let Some(quote @ ('"' | '\'')) = Some(first) {
            let begun = line;
            let mut word = String::new();
            let mut letters = rest.char_indices().skip(1);
            while let Some((at, letter)) = letters.next() {
                match letter {
                    '\\' if quote == '"' => word.extend(letters.next().map(|(_, escaped)| escaped)),
                    letter if letter == quote => {
                        rest = &rest[at + 1..];
                        return Some(Ok((Token::Word(word), begun)));
                    }
                    letter => {
                        line += usize::from(letter == '\n');
                        word.push(letter);
                    }
                }
            }
            rest = "";
            return Some(Err(("a text does not end".to_owned(), begun)));
        }
        let ends = |letter: char| letter.is_whitespace() || "{};".contains(letter);
        let (word, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        rest = behind;
        Some(Ok((Token::Word(word.to_owned()), line)))
    })
}
