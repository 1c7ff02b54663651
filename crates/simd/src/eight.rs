//! Compares up to 64 keys, each with eight rules: which is the first that it matches.
//!
//! A key is `W` words. All but the last are compared below masks; the halves of the last are numbers between bounds.

use crate::Kernel;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Level;

#[cfg(target_arch = "x86_64")]
mod x86;

/// Rules that are compared at once.
pub const LANES: usize = 8;

/// Keys that are compared in one call at most.
pub const KEYS: usize = 64;

/// No rule.
pub const NO_LANE: u8 = LANES as u8;

/// What eight rules ask of one word of a key: a line of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Word {
    /// The value below the mask; of the last word the lower bounds of both halves.
    pub value: [u32; LANES],
    /// Bits that count; of the last word how far the upper bounds are from the lower ones.
    pub mask: [u32; LANES],
}

/// Eight rules.
pub type Row<const W: usize> = [Word; W];

/// Writes the first rule that each of the first `count` keys matches, [`NO_LANE`] for none, of the row that `at` says; a row that is not there
/// has none. Keys stand word by word.
#[inline(always)]
pub fn first<const W: usize>(
    kernel: Kernel,
    rows: &[Row<W>],
    at: &[u32; KEYS],
    (keys, count): (&[[u32; KEYS]; W], usize),
    lanes: &mut [u8; KEYS],
) {
    match kernel.level() {
        // SAFETY: a `Kernel` of this level, or of a higher one, exists only where its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::first_avx2(rows, at, keys, count, lanes) },
        _ => {
            for i in 0..count.min(KEYS) {
                let key = std::array::from_fn(|word| keys[word][i]);
                lanes[i] = rows.get(at[i] as usize).map_or(NO_LANE, |row| first_of(row, &key));
            }
        }
    }
}

/// The first rule of a row that one key matches; [`NO_LANE`]. This is the portable twin.
pub fn first_of<const W: usize>(row: &Row<W>, key: &[u32; W]) -> u8 {
    (0..NO_LANE).find(|lane| matches(row, key, usize::from(*lane))).unwrap_or(NO_LANE)
}

fn matches<const W: usize>(row: &Row<W>, key: &[u32; W], lane: usize) -> bool {
    row.iter().zip(key).enumerate().all(|(n, (word, key))| {
        let (Some(&value), Some(&mask)) = (word.value.get(lane), word.mask.get(lane)) else { return false };
        if n + 1 < W {
            return (key ^ value) & mask == 0;
        }
        let is_within = |key: u16, least: u16, span: u16| key.wrapping_sub(least) <= span;
        is_within((key >> 16) as u16, (value >> 16) as u16, (mask >> 16) as u16)
            && is_within(*key as u16, value as u16, mask as u16)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u64) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 ^ (state >> 7) as u32
        }
    }

    /// Few values, so that rules match often; bounds at all distances.
    fn compare<const W: usize>(seed: u64) -> [usize; LANES + 1] {
        let mut next = numbers(seed);
        let mut seen = [0; LANES + 1];
        for _ in 0..200 {
            let mut rows = vec![[Word { value: [0; LANES], mask: [0; LANES] }; W]; 5];
            for row in &mut rows {
                for (n, word) in row.iter_mut().enumerate() {
                    for lane in 0..LANES {
                        let is_last = n + 1 == W;
                        word.value[lane] = if is_last { next() } else { next() & 3 };
                        word.mask[lane] = if is_last { next() | next() } else { next() & next() & 3 };
                    }
                }
            }
            let mut keys = [[0; KEYS]; W];
            for (n, word) in keys.iter_mut().enumerate() {
                word.iter_mut().for_each(|key| *key = if n + 1 == W { next() } else { next() & 3 });
            }
            // One row in six is not there.
            let at = std::array::from_fn(|_| next() % 6);
            let count = next() as usize % (KEYS + 1);
            for kernel in Kernel::available() {
                let mut lanes = [0xee; KEYS];
                first(kernel, &rows, &at, (&keys, count), &mut lanes);
                for i in 0..KEYS {
                    let key = std::array::from_fn(|word| keys[word][i]);
                    let expected = rows.get(at[i] as usize).map_or(NO_LANE, |row| first_of(row, &key));
                    assert_eq!(lanes[i], if i < count { expected } else { 0xee }, "{kernel} {i} {key:?}");
                    seen[usize::from(expected)] += 1;
                }
            }
        }
        seen
    }

    #[test]
    fn every_kernel_finds_what_the_portable_one_finds() {
        for seen in [compare::<1>(1), compare::<2>(2), compare::<4>(3), compare::<10>(4)] {
            assert!(seen[0] > 0 && seen[LANES] > 0, "{seen:?}");
        }
        assert!(compare::<4>(5).iter().all(|seen| *seen > 0));
    }

    #[test]
    fn bounds_are_within() {
        let mut row = [Word { value: [0; LANES], mask: [u32::MAX; LANES] }; 1];
        row[0].value = [80 << 16 | 1024; LANES];
        row[0].mask = [(u32::from(u16::MAX) - 1024); LANES];
        for (key, lane) in
            [(80 << 16 | 1024, 0), (80 << 16 | 1023, NO_LANE), (80 << 16 | 0xffff, 0), (81 << 16 | 1024, NO_LANE)]
        {
            assert_eq!(first_of(&row, &[key]), lane, "{key:#x}");
        }
    }
}
