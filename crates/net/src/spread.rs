//! Numbers that look random, from numbers that differ: no two stations wait equally long, and the same inputs always give the same.

/// Spreads the bits of a number evenly (the last step of SplitMix64; Steele, Lea and Flood 2014).
pub(crate) const fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
