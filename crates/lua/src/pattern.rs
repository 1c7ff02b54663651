//! Lua's patterns (reference manual of Lua 5.1, section 5.4.1), matched in a bounded number of steps.
//!
//! The library's own matcher is one call, however long it takes, and a short pattern can take longer than the universe lasts.
//! This one does what that one does, step by step, and stops when it has no more left.
#![forbid(unsafe_code)]

/// What stands before a character that is a class, or is itself.
const ESCAPE: u8 = b'%';

/// Captures that a pattern may have.
const CAPTURES: usize = 32;

/// How deep items of a pattern may wait for those behind them.
const DEPTH: u32 = 200;

/// Bytes that are compared at once for the price of one step.
const AT_ONCE: usize = 16;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It took more steps than there were.
    Spent,
    /// The pattern is wrong: how.
    Wrong(&'static str),
}

/// What an item of a pattern has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capture {
    /// Its end was not seen yet; where it begins.
    Open(usize),
    /// Where it begins and ends.
    Text(usize, usize),
    /// A place.
    Position(usize),
}

/// Something that a match captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// From here to there.
    Text(usize, usize),
    /// A place, counted from 0.
    Position(usize),
}

/// A match: where, and what it captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Where it begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    captures: Vec<Capture>,
}

impl Match {
    /// How many captures there are; without any, the whole match is one if `whole`.
    pub(crate) fn count(&self, whole: bool) -> usize {
        if whole { self.captures.len().max(1) } else { self.captures.len() }
    }

    /// The n-th capture, counted from 0; that is the whole match where there are no captures.
    pub(crate) fn capture(&self, n: usize) -> Result<Captured, Stop> {
        match self.captures.get(n) {
            Some(Capture::Text(from, to)) => Ok(Captured::Text(*from, *to)),
            Some(Capture::Position(at)) => Ok(Captured::Position(*at)),
            Some(Capture::Open(_)) => Err(Stop::Wrong("unfinished capture")),
            None if n == 0 => Ok(Captured::Text(self.start, self.end)),
            None => Err(Stop::Wrong("invalid capture index")),
        }
    }
}

/// Looks for a pattern in a text.
pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u32,
    /// Steps that may still be taken.
    pub(crate) left: u64,
}

type Found = Result<Option<usize>, Stop>;

impl<'a> Matcher<'a> {
    /// For one text and one pattern, in so many steps.
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], steps: u64) -> Self {
        Self { text, pattern, captures: Vec::new(), depth: 0, left: steps }
    }

    /// The first match that begins at `from` or later. `anchors`: whether `^` holds it to `from`; else it is a character.
    pub(crate) fn search(&mut self, from: usize, anchors: bool) -> Result<Option<Match>, Stop> {
        let anchored = anchors && self.pattern.first() == Some(&b'^');
        for start in from..=self.text.len() {
            if let Some(found) = self.at(start, anchors)? {
                return Ok(Some(found));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The match that begins at `start`.
    pub(crate) fn at(&mut self, start: usize, anchors: bool) -> Result<Option<Match>, Stop> {
        let anchored = anchors && self.pattern.first() == Some(&b'^');
        self.captures.clear();
        self.depth = 0;
        let end = self.matched(start, usize::from(anchored))?;
        Ok(end.map(|end| Match { start, end, captures: self.captures.clone() }))
    }

    /// Where a text without any pattern in it is found, at `from` or later.
    pub(crate) fn plain(&mut self, from: usize) -> Result<Option<Match>, Stop> {
        let last = self.text.len().checked_sub(self.pattern.len());
        for start in from..last.map_or(0, |last| last + 1) {
            let rest = self.text.get(start..).unwrap_or_default();
            let alike = rest.iter().zip(self.pattern).take_while(|(one, other)| one == other).count();
            self.step(1 + alike / AT_ONCE)?;
            if alike == self.pattern.len() {
                return Ok(Some(Match { start, end: start + alike, captures: Vec::new() }));
            }
        }
        Ok(None)
    }

    fn step(&mut self, steps: usize) -> Result<(), Stop> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(steps).ok_or(Stop::Spent)?;
        Ok(())
    }

    fn item(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    /// Where a match of the pattern from `p` on ends that begins at `s`.
    fn matched(&mut self, s: usize, p: usize) -> Found {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Stop::Wrong("pattern too complex"));
        }
        let found = self.items(s, p);
        self.depth -= 1;
        found
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.step(1)?;
            let Some(item) = self.item(p) else { return Ok(Some(s)) };
            match (item, self.item(p + 1)) {
                (b'(', Some(b')')) => return self.captured(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.captured(Capture::Open(s), s, p + 1),
                (b')', _) => return self.closed(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (ESCAPE, Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(s, p + 2)? {
                    Some(end) => p = end,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.again(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => match self.single(s, p)? {
                    Single::GoOn(next, item) => (s, p) = (next, item),
                    Single::Done(found) => return Ok(found),
                },
            }
        }
    }

    /// An item that stands for one character, with what may follow it.
    fn single(&mut self, s: usize, p: usize) -> Result<Single, Stop> {
        let end = self.class_end(p)?;
        let fits = self.fits(s, p, end)?;
        Ok(match self.item(end) {
            Some(b'?') => {
                if fits && let Some(found) = self.matched(s + 1, end + 1)? {
                    return Ok(Single::Done(Some(found)));
                }
                Single::GoOn(s, end + 1)
            }
            Some(b'*') => Single::Done(self.most(s, p, end)?),
            Some(b'+') if fits => Single::Done(self.most(s + 1, p, end)?),
            Some(b'-') => Single::Done(self.least(s, p, end)?),
            Some(b'+') => Single::Done(None),
            _ if fits => Single::GoOn(s + 1, end),
            _ => Single::Done(None),
        })
    }

    /// As many of an item as there are, then fewer.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Found {
        let mut at = s;
        while self.fits(at, p, end)? {
            at += 1;
        }
        for at in (s..=at).rev() {
            if let Some(found) = self.matched(at, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// As few of an item as will do.
    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.matched(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn captured(&mut self, capture: Capture, s: usize, p: usize) -> Found {
        if self.captures.len() >= CAPTURES {
            return Err(Stop::Wrong("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let found = self.matched(s, p)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn closed(&mut self, s: usize, p: usize) -> Found {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let last = self.captures.iter().rposition(is_open);
        let Some((n, Some(Capture::Open(from)))) = last.map(|n| (n, self.captures.get(n).copied())) else {
            return Err(Stop::Wrong("invalid pattern capture"));
        };
        self.set(n, Capture::Text(from, s));
        let found = self.matched(s, p)?;
        if found.is_none() {
            self.set(n, Capture::Open(from));
        }
        Ok(found)
    }

    fn set(&mut self, n: usize, capture: Capture) {
        if let Some(place) = self.captures.get_mut(n) {
            *place = capture;
        }
    }

    /// `%1`: what the first capture captured.
    fn again(&mut self, s: usize, digit: u8) -> Found {
        let n = usize::from(digit).checked_sub(usize::from(b'1'));
        let (from, to) = match n.and_then(|n| self.captures.get(n)) {
            Some(Capture::Text(from, to)) => (*from, *to),
            Some(Capture::Position(_)) => return Ok(None),
            Some(Capture::Open(_)) | None => return Err(Stop::Wrong("invalid capture index")),
        };
        self.step((to - from) / AT_ONCE)?;
        let rest = self.text.get(s..).unwrap_or_default();
        Ok(rest.starts_with(self.text.get(from..to).unwrap_or_default()).then_some(s + to - from))
    }

    /// `%b()`: from an opening character to the one that closes it.
    fn balanced(&mut self, s: usize, p: usize) -> Found {
        let (Some(open), Some(close)) = (self.item(p), self.item(p + 1)) else {
            return Err(Stop::Wrong("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut deep = 1_usize;
        for at in s + 1..self.text.len() {
            self.step(1)?;
            let byte = self.text.get(at).copied().unwrap_or_default();
            if byte == close {
                deep -= 1;
                if deep == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                deep += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: between a character outside the set and one in it; where the set ends.
    fn frontier(&mut self, s: usize, p: usize) -> Found {
        if self.item(p) != Some(b'[') {
            return Err(Stop::Wrong("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let before = s.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or_default();
        let here = self.text.get(s).copied().unwrap_or_default();
        let is_frontier = !self.in_set(before, p, end - 1)? && self.in_set(here, p, end - 1)?;
        Ok(is_frontier.then_some(end))
    }

    /// Where an item ends that stands for one character.
    fn class_end(&mut self, p: usize) -> Result<usize, Stop> {
        const OPEN: Stop = Stop::Wrong("malformed pattern (missing ']')");
        let mut at = p + 1;
        match self.item(p) {
            Some(ESCAPE) if self.item(at).is_none() => Err(Stop::Wrong("malformed pattern (ends with '%')")),
            Some(ESCAPE) => Ok(at + 1),
            Some(b'[') => {
                at += usize::from(self.item(at) == Some(b'^'));
                loop {
                    self.step(1)?;
                    let item = self.item(at).ok_or(OPEN)?;
                    at += 1;
                    at += usize::from(item == ESCAPE && self.item(at).is_some());
                    if self.item(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the character at `s` is one that the item from `p` to `end` stands for.
    fn fits(&mut self, s: usize, p: usize, end: usize) -> Result<bool, Stop> {
        self.step(1)?;
        let Some(byte) = self.text.get(s).copied() else { return Ok(false) };
        match self.item(p) {
            Some(b'.') => Ok(true),
            Some(ESCAPE) => Ok(in_class(byte, self.item(p + 1).unwrap_or_default())),
            Some(b'[') => self.in_set(byte, p, end - 1),
            item => Ok(item == Some(byte)),
        }
    }

    /// Whether a character is in the set that begins at `p` and ends with the `]` at `last`.
    fn in_set(&mut self, byte: u8, p: usize, last: usize) -> Result<bool, Stop> {
        self.step((last - p) / AT_ONCE)?;
        let mut at = p + 1;
        let wanted = self.item(at) != Some(b'^');
        at += usize::from(!wanted);
        while at < last {
            let (low, next) = (self.item(at).unwrap_or_default(), self.item(at + 1));
            let (is_in, after) = match next {
                Some(class) if low == ESCAPE => (in_class(byte, class), at + 2),
                Some(b'-') if at + 2 < last => ((low..=self.item(at + 2).unwrap_or_default()).contains(&byte), at + 3),
                _ => (low == byte, at + 1),
            };
            if is_in {
                return Ok(wanted);
            }
            at = after;
        }
        Ok(!wanted)
    }
}

/// How it goes on after an item that stands for one character.
enum Single {
    /// At this character, with this item.
    GoOn(usize, usize),
    /// It does not: this is the match.
    Done(Option<usize>),
}

/// Whether a character is in a class: `%a`; what is no letter stands for itself.
fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b'\t'..=b'\r' | b' '),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// Whether a text has anything in it that a pattern treats differently from itself.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}
