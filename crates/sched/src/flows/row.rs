//! Small numbers side by side, within words, and found without a loop.

/// Up to 16 numbers below 16, each once, four bits for each, the first in the lowest. How many there are is known elsewhere: what is behind them means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row(u64);

/// Bits of a number.
const BITS: u32 = 4;
const ONES: u64 = 0x1111_1111_1111_1111;
const TOPS: u64 = 0x8888_8888_8888_8888;

/// The bits of the numbers before a place.
#[inline(always)]
fn before(place: u8) -> u64 {
    1_u64.wrapping_shl(BITS * u32::from(place)).wrapping_sub(1)
}

impl Row {
    pub(super) const EMPTY: Row = Row(0);

    #[inline(always)]
    pub(super) fn first(self) -> u8 {
        (self.0 & 0xf) as u8
    }

    /// The number at a place.
    #[inline(always)]
    pub(super) fn at(self, place: u8) -> u8 {
        Row(self.0.wrapping_shr(BITS * u32::from(place))).first()
    }

    /// Where a number is that is in the row.
    #[inline(always)]
    pub(super) fn place(self, number: u8) -> u8 {
        let other = self.0 ^ ONES.wrapping_mul(number.into());
        // The lowest four bits that are 0 have their top bit set; whether others have, too, does not matter.
        let same = other.wrapping_sub(ONES) & !other & TOPS;
        (same.trailing_zeros() / BITS) as u8
    }

    /// Puts a number at a place, before what is there.
    #[inline(always)]
    pub(super) fn insert(&mut self, place: u8, number: u8) {
        let before = before(place);
        let here = u64::from(number).wrapping_shl(BITS * u32::from(place));
        self.0 = self.0 & before | here | (self.0 & !before) << BITS;
    }

    /// Takes the number at a place out.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u8) {
        let before = before(place);
        self.0 = self.0 & before | (self.0 >> BITS) & !before;
    }

    /// Puts the first of so many numbers behind the others.
    #[inline(always)]
    pub(super) fn turn(&mut self, count: u8) {
        let first = self.first();
        self.remove(0);
        self.insert(count.wrapping_sub(1), first);
    }
}

/// Sixteen numbers of 16 bits, each of which is in once but for [`u16::MAX`], which is looked for by nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers([u64; 4]);

const WIDE_ONES: u64 = 0x0001_0001_0001_0001;
const WIDE_TOPS: u64 = 0x8000_8000_8000_8000;

impl Numbers {
    pub(super) const NONE: Numbers = Numbers([u64::MAX; 4]);

    /// Where a number is.
    #[inline(always)]
    pub(super) fn find(&self, number: u16) -> Option<u8> {
        let all = WIDE_ONES.wrapping_mul(number.into());
        let same = self.0.map(|word| {
            let other = word ^ all;
            other.wrapping_sub(WIDE_ONES) & !other & WIDE_TOPS
        });
        let [a, b, c, d] = same;
        (a | b | c | d != 0).then(|| place(same))
    }

    #[inline(always)]
    pub(super) fn at(&self, place: u8) -> u16 {
        let (word, shift) = parts(place);
        (self.0[word] >> shift) as u16
    }

    #[inline(always)]
    pub(super) fn set(&mut self, place: u8, number: u16) {
        let (word, shift) = parts(place);
        let word = &mut self.0[word];
        *word = *word & !(u64::from(u16::MAX) << shift) | u64::from(number) << shift;
    }
}

/// The word of a place, and by how many bits it is shifted there.
#[inline(always)]
fn parts(place: u8) -> (usize, u32) {
    (usize::from(place / 4) % 4, u32::from(place % 4) * 16)
}

/// The first place of which the top bit is set.
fn place(tops: [u64; 4]) -> u8 {
    let first = |(at, word): (u8, u64)| (word != 0).then(|| at * 4 + (word.trailing_zeros() / 16) as u8);
    (0..).zip(tops).find_map(first).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_lists(steps in prop::collection::vec((0..4_usize, 0..16_usize, 0..16_u8), 0..300)) {
            let (mut row, mut twin) = (Row::EMPTY, Vec::new());
            for (what, place, number) in steps {
                let is_in = twin.contains(&number);
                match what {
                    0 | 1 if !is_in => {
                        let place = place % (twin.len() + 1);
                        row.insert(place as u8, number);
                        twin.insert(place, number);
                    }
                    2 if !twin.is_empty() => {
                        let place = place % twin.len();
                        row.remove(place as u8);
                        twin.remove(place);
                    }
                    3 if !twin.is_empty() => {
                        row.turn(twin.len() as u8);
                        twin.rotate_left(1);
                    }
                    _ => {}
                }
                for (place, number) in (0..).zip(&twin) {
                    prop_assert_eq!((row.at(place), row.place(*number)), (*number, place));
                }
            }
        }

        #[test]
        fn numbers_are_found(steps in prop::collection::vec((0..16_u8, prop_oneof![0..4_u16, 0..1025_u16, Just(u16::MAX)]), 0..200)) {
            let (mut numbers, mut twin) = (Numbers::NONE, [u16::MAX; 16]);
            for (at, number) in steps {
                if number == u16::MAX || !twin.contains(&number) {
                    numbers.set(at, number);
                    twin[usize::from(at)] = number;
                }
                for number in 0..1025 {
                    let place = twin.iter().position(|other| *other == number).map(|place| place as u8);
                    prop_assert_eq!(numbers.find(number), place);
                }
                for (at, number) in (0..).zip(twin) {
                    prop_assert_eq!(numbers.at(at), number);
                }
            }
        }
    }
}
