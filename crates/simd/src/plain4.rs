//! What rules look at of a packet of IPv4 without options, as four words.

use crate::cpu::{Kernel, Level};

/// An IPv4 header without options, and what follows up to where TCP has its flags.
pub type Front = [u8; 34];

/// The words of a packet, in host order: source, destination; protocol, the byte where TCP has its flags, type of service and 0, from the lowest
/// byte on; the first four bytes behind the header.
///
/// It only moves bytes: whoever asks sees to it that they are what he takes them for.
#[inline(always)]
pub fn words(kernel: Kernel, front: &Front) -> [u32; 4] {
    match kernel.level() {
        Level::Scalar => scalar(front),
        // SAFETY: a `Kernel` of these levels exists only where AVX2 was detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::words(front) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => scalar(front),
    }
}

/// The portable twin.
#[inline(always)]
fn scalar(front: &Front) -> [u32; 4] {
    let word = |at: usize| u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    [word(12), word(16), u32::from_le_bytes([front[9], front[33], front[1], 0]), word(20)]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Front;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn words(front: &Front) -> [u32; 4] {
        // SAFETY: 32 of the 34 bytes; the load asks for no alignment.
        let all = unsafe { _mm256_loadu_si256(front.as_ptr().cast()) };
        // The first half has the source, the protocol and the type of service, the second one the destination and what is behind the header.
        let moved = _mm256_shuffle_epi8(
            all,
            _mm256_setr_epi8(
                15, 14, 13, 12, -1, -1, -1, -1, 9, -1, 1, -1, -1, -1, -1, -1, //
                -1, -1, -1, -1, 3, 2, 1, 0, -1, -1, -1, -1, 7, 6, 5, 4,
            ),
        );
        let words = _mm_or_si128(_mm256_castsi256_si128(moved), _mm256_extracti128_si256::<1>(moved));
        let words = _mm_insert_epi8::<9>(words, front[33].into());
        let mut all = [0; 4];
        // SAFETY: the array is 16 bytes; the store asks for no alignment.
        unsafe { _mm_storeu_si128(all.as_mut_ptr().cast(), words) };
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_the_words_where_they_lie() {
        let front: Front = std::array::from_fn(|at| at as u8 + 100);
        let byte = |at: u32| at + 100;
        let word = |at: u32| byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
        let expected = [word(12), word(16), byte(9) | byte(33) << 8 | byte(1) << 16, word(20)];
        for kernel in Kernel::available() {
            assert_eq!(words(kernel, &front), expected, "{kernel}");
        }
    }
}
