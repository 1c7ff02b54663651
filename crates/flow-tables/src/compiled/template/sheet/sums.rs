//! Checksums of a frame as it is changed.

use weir_codegen::Value;

use super::Sheet;
use crate::compiled::template::writer::Carried;

/// A checksum: of the IPv4 header, or of what is carried.
pub(super) const HEADER: usize = 0;
pub(super) const CARRIED: usize = 1;

impl Sheet<'_> {
    /// Words from a place on were these; a checksum covers them.
    pub(super) fn cover(&mut self, sum: usize, before: &[Value], at: usize) {
        let is_there = self.ip.is_some_and(|ip| sum == HEADER || ip.carried.sum_at().is_some());
        if !is_there {
            return;
        }
        let ones = self.builder.constant(0xffff);
        for (old, number) in before.iter().zip(0..) {
            let new = self.word(at + 2 * number);
            let old = self.builder.xor(*old, ones);
            let change = self.builder.add(old, new);
            self.add(sum, change, 2 * 0xffff);
        }
    }

    /// Where a checksum stands.
    fn sum_at(&self, sum: usize) -> Option<usize> {
        let ip = self.ip?;
        if sum == HEADER { Some(ip.at + 10) } else { Some(ip.carried_at() + ip.carried.sum_at()?) }
    }

    /// Adds to what becomes a checksum what is `most` at most: RFC 1624, equation 3, HC' = ~(~HC + ~m + m'). Carries are added at the end: no sum is 0 by then that is not 0 where they are
    /// added one by one.
    pub(super) fn add(&mut self, sum: usize, change: Value, most: u64) {
        let Some(at) = self.sum_at(sum) else { return };
        let (before, before_most) = match self.sums.get(sum).copied().flatten() {
            Some(before) => before,
            None => {
                let (old, ones) = (self.word(at), self.builder.constant(0xffff));
                (self.builder.xor(old, ones), 0xffff)
            }
        };
        let after = self.builder.add(before, change);
        if let Some(place) = self.sums.get_mut(sum) {
            *place = Some((after, before_most + most));
        }
    }

    /// Writes checksums, when all is changed that they cover.
    pub(in crate::compiled::template) fn write_sums(&mut self) {
        for sum in [HEADER, CARRIED] {
            let added = self.sums.get_mut(sum).and_then(Option::take);
            let Some((added, at)) = added.zip(self.sum_at(sum)) else { continue };
            let mut value = self.fold(added);
            if sum == CARRIED && self.ip.is_some_and(|ip| ip.carried == Carried::Udp) {
                value = self.udp_sum(value, at);
            }
            self.put(at, value);
        }
    }

    /// Zero says that UDP has no checksum (RFC 768): it stays so, and no sum becomes it.
    fn udp_sum(&mut self, value: Value, at: usize) -> Value {
        let before = self.as_it_came(at, 2);
        let [is_zero, was_zero] = [value, before].map(|value| self.all_if_zero(value));
        let value = self.builder.or(value, is_zero);
        let all = self.builder.constant(0xffff);
        let kept = self.builder.xor(was_zero, all);
        self.builder.and(value, kept)
    }

    /// 16 bits, all of them if a word is 0, or else none.
    fn all_if_zero(&mut self, word: Value) -> Value {
        let (less, ones) = (self.builder.constant(u64::MAX), self.builder.constant(0xffff));
        let borrowed = self.builder.add(word, less);
        let borrowed = self.builder.right(borrowed, 48);
        self.builder.and(borrowed, ones)
    }

    /// A checksum of what was added up, which is no more than `most`: fewer than 2,048 numbers of 17 bits, so that there are two carries; and one if that is
    /// two words, for what is behind a carry of 1 has room for it.
    pub(super) fn fold(&mut self, (sum, most): (Value, u64)) -> Value {
        let (ones, mut sum) = (self.builder.constant(0xffff), sum);
        for _ in 0..if most <= 2 * 0xffff { 1 } else { 2 } {
            let (high, low) = (self.builder.right(sum, 16), self.builder.and(sum, ones));
            sum = self.builder.add(high, low);
        }
        self.builder.xor(sum, ones)
    }
}
