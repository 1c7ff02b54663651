//! How long frames are.

use std::fmt;

use weir_config::{Malformed, Scalar};

use crate::random::Random;

/// The shortest frame (IEEE 802.3), in bytes with its check sequence.
pub(crate) const SHORTEST: u16 = 64;

/// The longest frame, in bytes with its check sequence: what a buffer holds.
pub(crate) const LONGEST: u16 = weir_packet::MAX_FRAME as u16 + 4;

/// The longest genome.
const LONGEST_GENOME: usize = 4096;

/// Lengths of frames, in bytes with their check sequence, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes {
    text: String,
    /// Each length that occurs, once, rising.
    pub(crate) lengths: Vec<u16>,
    /// What is drawn.
    pub(crate) order: Order,
}

/// In which order lengths occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// All lengths in turn.
    Turn,
    /// Any, at random.
    Random,
    /// As this list says, by the lengths' positions, over and over.
    Listed(Vec<u16>),
}

impl Sizes {
    /// Frames of 64 bytes.
    pub(crate) fn usual() -> Sizes {
        Sizes { text: SHORTEST.to_string(), lengths: vec![SHORTEST], order: Order::Turn }
    }

    /// The longest.
    pub(crate) fn longest(&self) -> u16 {
        self.lengths.last().copied().unwrap_or(SHORTEST)
    }

    /// The shortest.
    pub(crate) fn shortest(&self) -> u16 {
        self.lengths.first().copied().unwrap_or(SHORTEST)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn length(text: &str) -> Result<u16, Malformed> {
    let wrong =
        || Malformed::because("is not a length of frames").remedy("write it as in \"64\", \"64-1518\" or \"imix\"");
    let length: u32 = text.trim().parse().map_err(|_| wrong())?;
    if (u32::from(SHORTEST)..=u32::from(LONGEST)).contains(&length) {
        return Ok(length as u16);
    }
    let problem = format!("has frames of {length} bytes; a frame has {SHORTEST} to {LONGEST}, check sequence included");
    Err(Malformed::because(problem))
}

/// The mix that "imix" stands for: seven packets of 40 bytes (in the shortest frame), four of 576, one of 1500.
const SIMPLE: &str = "{7}a{4}Ag,A=594";

/// The length that a letter stands for (RFC 6985 section 4); `z` is that of the largest packet of an Ethernet.
fn letter(letter: char) -> Option<u16> {
    Some(match letter {
        'a' => 64,
        'b' => 128,
        'c' => 256,
        'd' => 512,
        'e' => 1024,
        'f' => 1280,
        'g' | 'z' => 1518,
        'h' => 2112,
        'i' => 9000,
        _ => return None,
    })
}

/// The lengths of a genome, in order: letters, each possibly after a number of times in braces; then what capital letters stand
/// for, `A=594`.
fn genome(text: &str) -> Result<Vec<u16>, Malformed> {
    let mut pieces = text.split(',');
    let letters = pieces.next().unwrap_or_default();
    let mut custom = std::collections::BTreeMap::new();
    for piece in pieces {
        let wrong = || {
            Malformed::because(format!("has \"{piece}\", which gives no letter a length"))
                .remedy("write it as in \"A=594\"")
        };
        let (name, value) = piece.trim().split_once('=').ok_or_else(wrong)?;
        let name = name.trim().chars().next().filter(char::is_ascii_uppercase).ok_or_else(wrong)?;
        custom.insert(name, length(value)?);
    }
    let mut lengths = Vec::new();
    let mut rest = letters.trim();
    while let Some(first) = rest.chars().next() {
        let mut times = 1;
        let mut of = first;
        if first == '{' {
            let wrong =
                || Malformed::because("has a brace that holds no number of times").remedy("write it as in \"{7}a\"");
            let (number, after) = rest.get(1..).and_then(|rest| rest.split_once('}')).ok_or_else(wrong)?;
            times = number.trim().parse::<usize>().map_err(|_| wrong())?;
            of = after.chars().next().ok_or_else(wrong)?;
            rest = after;
        }
        rest = rest.get(of.len_utf8()..).unwrap_or_default();
        let length = letter(of).or_else(|| custom.get(&of).copied()).ok_or_else(|| {
            Malformed::because(format!("has the letter {of:?}, which stands for no length"))
                .remedy("letters are a (64), b (128), c (256), d (512), e (1024), f (1280), g (1518), h (2112), i (9000), z (1518), and capitals given a length as in \"A=594\"")
        })?;
        if times == 0 || lengths.len() + times > LONGEST_GENOME {
            return Err(Malformed::because(format!("has no or more than {LONGEST_GENOME} packets")));
        }
        lengths.extend(std::iter::repeat_n(length, times));
    }
    if lengths.is_empty() {
        return Err(Malformed::because("has no packets").remedy("write it as in \"imix:aaaaaaabbbbg\""));
    }
    Ok(lengths)
}

impl Scalar for Sizes {
    const WHAT: &'static str = "a length of frames, a range of lengths, or a mix";
    const EXAMPLE: &'static str = "64";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        let whole = |lengths, order| Sizes { text: text.to_owned(), lengths, order };
        let listed = match text.strip_prefix("imix") {
            Some("") => Some(genome(SIMPLE)?),
            Some(rest) => match rest.trim_start().strip_prefix(':') {
                Some(letters) => Some(genome(letters)?),
                None => None,
            },
            None => None,
        };
        if let Some(listed) = listed {
            let mut lengths = listed.clone();
            lengths.sort_unstable();
            lengths.dedup();
            let place = |length: &u16| lengths.iter().position(|other| other == length).unwrap_or(0) as u16;
            let order = listed.iter().map(place).collect();
            return Ok(whole(lengths, Order::Listed(order)));
        }
        let (range, order) = match text.strip_suffix("random") {
            Some(range) => (range.trim_end(), Order::Random),
            None => (text, Order::Turn),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (length(first)?, length(last)?),
            None => (length(range)?, length(range)?),
        };
        if first > last {
            return Err(Malformed::because("is a range that ends before it begins").remedy("exchange its ends"));
        }
        Ok(whole((first..=last).collect(), order))
    }
}

/// Lengths on their way, by their positions in [`Sizes::lengths`].
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    count: u16,
    order: Order,
    next: usize,
    random: Random,
}

impl Drawing {
    pub(crate) fn new(sizes: &Sizes, random: Random) -> Drawing {
        Drawing { count: sizes.lengths.len() as u16, order: sizes.order.clone(), next: 0, random }
    }

    /// Whether all frames have one length.
    pub(crate) fn is_fixed(&self) -> bool {
        self.count == 1
    }

    /// The positions of lengths, each as often as it is as frequent as others.
    pub(crate) fn period(&self) -> Vec<u16> {
        match &self.order {
            Order::Listed(list) => list.clone(),
            Order::Turn | Order::Random => (0..self.count).collect(),
        }
    }

    /// The position of the next frame's length.
    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        let (at, period) = match &self.order {
            Order::Random => return self.random.below(u128::from(self.count)) as usize,
            Order::Turn => (self.next, usize::from(self.count)),
            Order::Listed(list) => (list.get(self.next).copied().map_or(0, usize::from), list.len()),
        };
        self.next = if self.next + 1 >= period { 0 } else { self.next + 1 };
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str, count: usize) -> Vec<u16> {
        let sizes = Sizes::parse(text).unwrap();
        let mut drawing = Drawing::new(&sizes, Random::new(1, 0));
        (0..count).map(|_| sizes.lengths[drawing.next()]).collect()
    }

    #[test]
    fn texts_are_lengths() {
        assert_eq!(lengths("64", 3), [64, 64, 64]);
        assert_eq!(lengths("64-66", 4), [64, 65, 66, 64]);
        assert!(lengths("64-66 random", 300).iter().all(|length| (64..=66).contains(length)));
        assert_eq!(lengths("imix", 13), [64, 64, 64, 64, 64, 64, 64, 594, 594, 594, 594, 1518, 64]);
        assert_eq!(lengths("imix:abg", 4), [64, 128, 1518, 64]);
        assert_eq!(lengths("imix:{2}aBz,B=570", 5), [64, 64, 570, 1518, 64]);
        assert_eq!(Sizes::parse("imix:{2}a").unwrap().to_string(), "imix:{2}a");
    }

    #[test]
    fn mistakes_are_told() {
        let problem = |text| Sizes::parse(text).unwrap_err().problem;
        assert!(problem("63").contains("63 bytes; a frame has 64 to 9220"));
        assert!(problem("99999").contains("99999 bytes"));
        assert!(problem("-1").contains("is not a length"));
        assert!(problem("100-64").contains("ends before"));
        assert!(problem("imix:k").contains("'k'"));
        assert!(problem("imix:").contains("has no packets"));
        assert!(problem("imix:{0}a").contains("has no or more than"));
        assert!(problem("imix:{9999999}a").contains("has no or more than"));
        assert!(problem("imix:{a").contains("brace"));
        assert!(problem("imix:A,A=x").contains("is not a length"));
    }
}
