//! Inputs made from a corpus. The n-th input of a seed is always the same, so that a number is enough to see it again.

/// The longest input, bytes.
pub const MAX_INPUT: usize = 4096;

/// A generator of numbers: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        // The excess of small numbers is of no interest here.
        usize::try_from(self.number() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// One of a list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Numbers at which parsers go wrong: ends of ranges, signs, lengths off by one.
const INTERESTING: &[u64] = &[
    0,
    1,
    2,
    4,
    7,
    8,
    0x0f,
    0x10,
    0x13,
    0x14,
    0x3f,
    0x40,
    0x45,
    0x7f,
    0x80,
    0xfe,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xfffe,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
];

/// What inputs are made of.
#[derive(Clone, Copy, Debug)]
pub struct Material<'a> {
    /// Inputs that were kept.
    pub corpus: &'a [Vec<u8>],
    /// Words of the language that the target reads.
    pub tokens: &'a [&'a [u8]],
    /// Whether that language is one of words and numbers, which are then changed as such.
    pub text: bool,
}

impl Material<'_> {
    /// Input number `number`: first the corpus as it is, then changed pieces of it.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        let kept = usize::try_from(number).ok().and_then(|number| self.corpus.get(number));
        if let Some(kept) = kept {
            return kept.clone();
        }
        // Two rounds, so that neighbouring numbers have nothing in common.
        let mut random = Random::new(Random::new(seed ^ Random::new(number).number()).number());
        let mut input = random.pick(self.corpus).cloned().unwrap_or_default();
        // Most inputs are changed a little, and stay close to what is right; a few are changed a lot.
        let few = if self.text { 2 } else { 3 };
        let changes = 1 + random.below(few) + if random.below(8) == 0 { random.below(12) } else { 0 };
        for _ in 0..changes {
            if self.text && random.below(8) > 0 {
                self.change_text(&mut input, &mut random);
            } else {
                self.change(&mut input, &mut random);
            }
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() + 1);
        match random.below(10) {
            0 => flip(input, at, random),
            1 => overwrite(input, at, &[random.number() as u8]),
            2 | 3 => overwrite(input, at, &number(random)),
            4 => insert(input, at, &number(random)),
            5 => remove(input, at, random),
            6 => repeat(input, at, random),
            7 => self.splice(input, at, random),
            8 => {
                let token = random.pick(self.tokens).copied().unwrap_or_default();
                insert(input, at, token);
            }
            _ => {
                let token = random.pick(self.tokens).copied().unwrap_or(b"\0\0\0\0");
                overwrite(input, at, token);
            }
        }
    }

    /// Changes a word or a number as a whole, so that what is around it stays what it was.
    fn change_text(&self, input: &mut Vec<u8>, random: &mut Random) {
        let word = word_at(input, random.below(input.len() + 1));
        let is_number = input.get(word.clone()).is_some_and(|word| word.iter().all(u8::is_ascii_digit));
        let with = match random.below(8) {
            0 | 1 if is_number => random.pick(INTERESTING).copied().unwrap_or(0).to_string().into_bytes(),
            0..=3 if is_number => random.below(300).to_string().into_bytes(),
            0 | 1 => self.other_word(input, random),
            2 => random.pick(self.tokens).copied().unwrap_or_default().to_vec(),
            3 => Vec::new(),
            4 => input.get(word.clone()).unwrap_or_default().repeat(2),
            5 => vec![b' '],
            _ => {
                let mut letters = input.get(word.clone()).unwrap_or_default().to_vec();
                let at = random.below(letters.len());
                overwrite(&mut letters, at, &[b'!' + random.below(94) as u8]);
                letters
            }
        };
        input.splice(word, with);
    }

    /// A word of this or another input.
    fn other_word(&self, input: &[u8], random: &mut Random) -> Vec<u8> {
        let from = if random.below(2) == 0 { input } else { random.pick(self.corpus).map_or(input, Vec::as_slice) };
        let word = word_at(from, random.below(from.len() + 1));
        from.get(word).unwrap_or_default().to_vec()
    }

    /// Goes on as another input of the corpus.
    fn splice(&self, input: &mut Vec<u8>, at: usize, random: &mut Random) {
        let Some(other) = random.pick(self.corpus) else { return };
        let from = random.below(other.len() + 1);
        input.truncate(at);
        input.extend_from_slice(other.get(from..).unwrap_or_default());
    }
}

/// The letters and digits around a place; the place itself where there are none.
fn word_at(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let at = at.min(input.len());
    let (before, after) = input.split_at_checked(at).unwrap_or_default();
    let letters = |byte: &&u8| byte.is_ascii_alphanumeric();
    let start = at - before.iter().rev().take_while(letters).count();
    let end = at + after.iter().take_while(letters).count();
    if start == end { at..(at + 1).min(input.len()) } else { start..end }
}

/// An interesting number in 1, 2, 4 or 8 bytes of either order.
fn number(random: &mut Random) -> Vec<u8> {
    let number = random.pick(INTERESTING).copied().unwrap_or(0);
    let width = 1 << random.below(4);
    let mut bytes = number.to_le_bytes().get(..width).unwrap_or_default().to_vec();
    if random.below(2) == 0 {
        bytes.reverse();
    }
    bytes
}

fn flip(input: &mut [u8], at: usize, random: &mut Random) {
    let bit = 1 << random.below(8);
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bit;
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    input.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(input.len());
    input.splice(at..at, bytes.iter().copied());
}

fn remove(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let longest = if random.below(4) == 0 { input.len() } else { 8 };
    let end = (at + 1 + random.below(longest)).min(input.len());
    if at < end {
        input.drain(at..end);
    }
}

/// Writes a piece several times: what counts and nests goes wrong when there is much of it.
fn repeat(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let end = (at + 1 + random.below(16)).min(input.len());
    let piece = input.get(at..end).unwrap_or_default().to_vec();
    let most = MAX_INPUT.saturating_sub(input.len()) / piece.len().max(1);
    let longest = if random.below(8) == 0 { 256 } else { 4 };
    let times = (1 + random.below(longest)).min(most);
    insert(input, end, &piece.repeat(times));
}
