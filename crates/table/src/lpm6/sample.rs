//! Prefixes that are made up as those of a real table are, to measure with.

use std::collections::BTreeSet;

use super::Prefix6;

/// How many of a hundred prefixes of a real table (of 2015) have about these lengths.
const LENGTHS: [(u8, u64); 9] = [(26, 1), (29, 3), (32, 27), (35, 3), (36, 4), (40, 8), (44, 7), (48, 44), (64, 3)];

/// So many made-up prefixes, which depend on nothing but the numbers that `random` answers: in 48 networks of 16 bits, with the lengths of a
/// real table; three of four of those longer than a /32 are in a /32 that is there.
pub fn made_up(count: usize, mut random: impl FnMut() -> u64) -> BTreeSet<Prefix6> {
    let (mut prefixes, mut blocks) = (BTreeSet::new(), vec![0x2001_0db8_u32]);
    while prefixes.len() < count {
        let mut at = below(random(), 100);
        let drawn = LENGTHS.iter().find(|(_, share)| at.checked_sub(*share).map(|rest| at = rest).is_none());
        let length = drawn.map_or(32, |(length, _)| *length);
        let inside = length > 32 && below(random(), 4) != 0;
        let any = blocks.get(below(random(), blocks.len() as u64) as usize).copied().unwrap_or_default();
        let fresh = 0x2400_0000 | (below(random(), 48) as u32) << 16 | random() as u32 >> 16;
        let block = if inside { any } else { fresh };
        let address = u128::from(block) << 96 | u128::from(random()) << 32;
        prefixes.extend(Prefix6::covering(address, length));
        if length == 32 {
            blocks.push(block);
        }
    }
    prefixes
}

/// A number below `bound` of any number.
const fn below(number: u64, bound: u64) -> u64 {
    ((number as u128 * bound as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_lengths_are_those_of_a_real_table() {
        assert_eq!(LENGTHS.iter().map(|(_, share)| share).sum::<u64>(), 100);
        let mut state = 0_u64;
        let random = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ (mixed >> 27)
        };
        let prefixes = made_up(10_000, random);
        let share = |length| prefixes.iter().filter(|prefix| prefix.length() == length).count() / 100;
        assert!((40..=48).contains(&share(48)) && (24..=30).contains(&share(32)), "{} {}", share(48), share(32));
    }
}
