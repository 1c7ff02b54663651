//! What identifies a packet, in 128 bits: [`Key`].

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_seed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The hash of the bytes that a packet keeps on its way.
///
/// Two packets that differ have the same key with a probability of 2^-128 (XXH3, seeded anew in every run, so that nobody can make
/// packets that collide). Of n packets sent and m received any pair is taken for another wrongly with n m / 2^128: for 60 million
/// each, that is 1 in 10^23.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Key([u64; 2]);

impl Key {
    /// The key of no packet.
    pub(crate) const NONE: Key = Key([0, 0]);

    fn new(hash: u128) -> Key {
        // Zero stands for none.
        Key([(hash as u64).max(1), (hash >> 64) as u64])
    }

    /// Its bits.
    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        self.0
    }

    /// The key of these bits.
    #[inline]
    pub(crate) fn from_words(words: [u64; 2]) -> Key {
        Key(words)
    }

    /// Evenly spread bits: for a place in a table.
    #[inline]
    pub(crate) fn low(self) -> u64 {
        let Key([low, _]) = self;
        low
    }

    /// Other evenly spread bits: for a partition.
    #[inline]
    pub(crate) fn high(self) -> u64 {
        let Key([_, high]) = self;
        high
    }

    /// Another key, of this and a number.
    pub(crate) fn with(self, number: u64) -> Key {
        let Key([low, high]) = self;
        let mut bytes = [0; 16];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&low.to_ne_bytes());
        second.copy_from_slice(&high.to_ne_bytes());
        Key::new(xxh3_128_with_seed(&bytes, number))
    }
}

/// Makes keys.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    seed: u64,
}

impl Hasher {
    /// With a seed that nobody knows.
    pub fn random() -> Hasher {
        Hasher { seed: RandomState::new().hash_one(0) }
    }

    /// The key of bytes that come in pieces: packets that are cut elsewhere have other keys.
    #[inline]
    pub fn key(&self, pieces: &[&[u8]]) -> Key {
        let hash = |(n, piece): (usize, &&[u8])| xxh3_128_with_seed(piece, self.seed.wrapping_add(n as u64));
        Key::new(pieces.iter().enumerate().map(hash).fold(0, u128::wrapping_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_pieces_in_order() {
        let hasher = Hasher::random();
        let one = hasher.key(&[b"ab", b"c"]);
        assert_eq!(one, hasher.key(&[b"ab", b"c"]));
        for other in [&[&b"a"[..], b"bc"][..], &[b"c", b"ab"], &[b"abc"], &[b"ab", b"d"], &[b"ab"]] {
            assert_ne!(one, hasher.key(other));
        }
        assert_ne!(one, Hasher::random().key(&[b"ab", b"c"]), "seeds differ");
        assert_ne!(hasher.key(&[]), Key::NONE);
        assert_ne!(one.with(1), one.with(2));
    }
}
