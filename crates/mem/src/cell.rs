//! Values that share no cache line with others.

use std::ops::{Deref, DerefMut};

/// A value on lines of its own, so that writing it disturbs no neighbour (no false sharing).
///
/// Aligned to 128 bytes, not 64: x86 cores fetch lines in pairs, and some arm64 cores have 128-byte lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(128))]
pub struct CacheAligned<T>(
    /// The value.
    pub T,
);

impl<T> CacheAligned<T> {
    /// Puts a value on lines of its own.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CacheAligned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CacheAligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for CacheAligned<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_two_lines_apart() {
        let mut pair = [CacheAligned::new(1u8), CacheAligned::new(2u8)];
        *pair[1] += 1;
        let apart = (&raw const pair[1]).addr() - (&raw const pair[0]).addr();
        assert_eq!(apart, 128);
        assert_eq!((*pair[0], pair[1].into_inner()), (1, 3));
    }
}
