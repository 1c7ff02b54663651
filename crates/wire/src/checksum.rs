//! The Internet checksum: RFC 1071 for the sum, RFC 1624 for its update.

/// A one's complement sum under way (RFC 1071).
///
/// Words are added as the machine loads them; one's complement addition commutes with swapping bytes (RFC 1071 section
/// 2 (B)), so that the order is put right once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Self {
        Sum(0)
    }

    /// Adds `bytes` as 16-bit words; an odd last byte counts as if a zero byte followed, so only the last part added
    /// may be of odd length. Exact for up to 16 GiB in all.
    #[inline]
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 = self.0.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.0 = self.0.wrapping_add(u64::from(u32::from_ne_bytes(last)));
        self
    }

    /// Adds a 16-bit word given in host order.
    #[inline]
    #[must_use]
    pub const fn word(mut self, word: u16) -> Self {
        self.0 = self.0.wrapping_add(word.to_be() as u64);
        self
    }

    /// Adds eight bytes given as the number that they are in network order: what stands in a register.
    #[inline]
    #[must_use]
    pub const fn long(self, bytes: u64) -> Self {
        let bytes = bytes.to_be();
        Sum(self.0.wrapping_add(bytes >> 32).wrapping_add(bytes & 0xffff_ffff))
    }

    /// Folded to 16 bits, in host order: what a checksum makes 0xffff. It is 0 only for a sum of zeroes.
    #[inline]
    pub const fn fold(self) -> u16 {
        // Adding a number to itself with its halves swapped gives, in the upper half, the sum of the halves and the carry
        // out of the lower one: the end-around carry.
        let sum = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        let sum = sum.wrapping_add(sum.rotate_left(16)) >> 16;
        u16::from_be(sum as u16)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The Internet checksum of `bytes`, in host order.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// Whether `bytes`, in which a checksum stands, sum up to all ones.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    Sum::new().bytes(bytes).fold() == 0xffff
}

/// The checksum after one 16-bit word of what it covers changed from `old` to `new`.
///
/// RFC 1624 equation 3: `HC' = ~(~HC + ~m + m')`. (Equation 4, with a subtraction, gives -0 where a sum from scratch
/// gives +0.) Equal to the checksum from scratch unless all that is covered is zero after the change.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

/// As [`update`], for two words that changed together, such as an address.
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(high, old as u16, new as u16)
}

/// The definition, word by word with an end-around carry at each step: the slow twin in tests.
#[cfg(test)]
pub(crate) fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).fold(), 0xddf2);
        assert_eq!(naive(&bytes), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_section_4() {
        // "the old header checksum is 0xDD2F, m = 0x5555, m' = 0x3285: the new checksum must be 0x0000".
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn large_sums_do_not_lose_carries() {
        let bytes = vec![0xff; 65_536];
        assert_eq!(checksum(&bytes), naive(&bytes));
        assert_eq!(Sum(u64::MAX).fold(), 0xffff);
        assert_eq!(Sum(0xffff_ffff_0000_0001).fold(), 1u16.to_be());
    }

    #[test]
    fn update_agrees_with_the_definition_for_every_word_and_step() {
        // A second word other than 0 keeps the sum from being all zeroes.
        for old in 0..=u16::MAX {
            let before = [old.to_be_bytes(), [0x12, 0x34]].concat();
            let new = old.wrapping_mul(40_503).wrapping_add(7);
            let after = [new.to_be_bytes(), [0x12, 0x34]].concat();
            assert_eq!(update(naive(&before), old, new), naive(&after), "{old:#x} to {new:#x}");
        }
    }

    proptest! {
        #[test]
        fn sum_agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(checksum(&bytes), naive(&bytes));
        }

        #[test]
        fn parts_and_words_add_up(a in proptest::collection::vec(any::<u16>(), 0..50), b: Vec<u8>) {
            let bytes: Vec<u8> = a.iter().flat_map(|word| word.to_be_bytes()).collect();
            let by_word = a.iter().fold(Sum::new(), |sum, &word| sum.word(word));
            let whole = [&bytes[..], &b].concat();
            prop_assert_eq!(Sum::new().bytes(&bytes).bytes(&b).checksum(), naive(&whole));
            prop_assert_eq!(by_word.bytes(&b).checksum(), naive(&whole));
        }

        #[test]
        fn eight_bytes_in_a_register_count_as_in_memory(ahead: u64, bytes: u64) {
            let whole = [ahead.to_be_bytes(), bytes.to_be_bytes()].concat();
            prop_assert_eq!(Sum::new().long(ahead).long(bytes).checksum(), naive(&whole));
        }

        #[test]
        fn a_checksum_put_in_makes_the_bytes_valid(mut bytes in proptest::collection::vec(any::<u8>(), 2..100), flip: u8) {
            bytes[..2].fill(0);
            let sum = checksum(&bytes);
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(is_valid(&bytes));
            if bytes.len() > 2 && flip != 0 {
                bytes[2] ^= flip;
                prop_assert!(!is_valid(&bytes));
            }
        }

        #[test]
        fn update32_agrees_with_the_definition(fixed in 1u16.., old: u32, new: u32) {
            let of = |value: u32| naive(&[&fixed.to_be_bytes()[..], &value.to_be_bytes()].concat());
            prop_assert_eq!(update32(of(old), old, new), of(new));
        }
    }
}
