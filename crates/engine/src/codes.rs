//! Which packets of a batch were answered for alike.

use weir_packet::{BATCH, Slots};

/// Those of `of` whose code is this one.
#[inline]
pub(crate) fn like(codes: &[u8; BATCH], of: u64, code: u8) -> u64 {
    // Comparing all takes as long as comparing so few.
    if of.count_ones() > 8 {
        return of & equal_mask(codes, code);
    }
    Slots(of).filter(|slot| codes[slot.index()] == code).fold(0, |like, slot| like | slot.bit())
}

/// The mask of those bytes that equal `code`: eight bytes at a time, a byte that differs nowhere is found by the carry.
fn equal_mask(codes: &[u8; BATCH], code: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut mask = 0;
    let (eights, _) = codes.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate() {
        let differ = u64::from_le_bytes(*eight) ^ ONES.wrapping_mul(u64::from(code));
        // The high bit of a byte stays 0 exactly when its seven low bits and itself are 0.
        let differs = ((differ & !HIGH).wrapping_add(!HIGH) | differ) & HIGH;
        let equal = !differs & HIGH;
        // Gathers the eight high bits into one byte.
        let bits = (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * n);
    }
    mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_are_compared(
            seed in prop::collection::vec(0_u8..4, BATCH), high in any::<bool>(), code in 0_u8..4, of in any::<u64>()
        ) {
            let shift = |n: u8| if high { n.wrapping_add(126) } else { n };
            let codes: [u8; BATCH] = std::array::from_fn(|n| shift(seed[n]));
            let expected = codes.iter().enumerate().fold(0, |mask, (n, other)| mask | u64::from(*other == shift(code)) << n);
            prop_assert_eq!(equal_mask(&codes, shift(code)), expected);
            for of in [of, of & of >> 7 & of >> 21 & of >> 33, 0] {
                prop_assert_eq!(like(&codes, of, shift(code)), expected & of);
            }
        }
    }
}
