//! Cache hints. A hint never faults and changes nothing but time; on architectures without one here it does nothing.

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Asks for the line that holds the first byte of `p`, to be read soon.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(p: &T) {
    hint::<false>(std::ptr::from_ref(p).cast());
}

/// Asks for the line that holds the first byte of `p`, to be written soon.
#[inline(always)]
pub fn prefetch_write<T: ?Sized>(p: &T) {
    hint::<true>(std::ptr::from_ref(p).cast());
}

/// Asks for the line where `s[index]` starts, to be read soon.
///
/// An index out of range is harmless: a hint for an address that is not mapped is ignored, so no check is paid for.
#[inline(always)]
pub fn prefetch_slice<T>(s: &[T], index: usize) {
    hint::<false>(s.as_ptr().wrapping_add(index).cast());
}

/// As [`prefetch_slice`], and for all lines that `s[index]` has if it begins with one.
#[inline(always)]
pub fn prefetch_lines<T>(s: &[T], index: usize) {
    let first = s.as_ptr().wrapping_add(index).cast::<i8>();
    (0..size_of::<T>()).step_by(LINE).for_each(|at| hint::<false>(first.wrapping_add(at)));
}

/// As [`prefetch_slice`], to be written soon.
#[inline(always)]
pub fn prefetch_slice_write<T>(s: &[T], index: usize) {
    hint::<true>(s.as_ptr().wrapping_add(index).cast());
}

/// As [`prefetch_slice_write`], for so many lines if `s[index]` begins with one.
#[inline(always)]
pub fn prefetch_lines_write<T>(s: &[T], index: usize, lines: usize) {
    let first = s.as_ptr().wrapping_add(index).cast::<i8>();
    (0..lines).for_each(|line| hint::<true>(first.wrapping_add(line * LINE)));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn hint<const WRITE: bool>(p: *const i8) {
    use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
    if WRITE {
        // SAFETY: PREFETCHW takes any address and never faults; it is a no-op on CPUs that lack it (all x86-64 CPUs
        // decode it).
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(p) }
    } else {
        // SAFETY: PREFETCHT0 is part of SSE, which every x86-64 CPU has; it takes any address and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn hint<const WRITE: bool>(_: *const i8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_never_fault_and_change_nothing() {
        let values = [7u64; 4];
        prefetch_read(&values);
        prefetch_write(&values);
        for index in [0, 3, 4, 1 << 40, usize::MAX] {
            prefetch_slice(&values, index);
            prefetch_lines(&[values], index);
            prefetch_lines_write(&[values], index, 3);
        }
        prefetch_slice::<u64>(&[], 0);
        assert_eq!(values, [7; 4]);
    }
}
