//! Which of the latest packets have come, and how those that never did lie together.

use crate::distribution::Distribution;

/// Which of the latest packets have come, one bit each.
///
/// Packets are numbered from 0. What falls out of the window is final: it came or it is lost.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Bit `n % 64` of word `n / 64`, modulo the number of words, which is a power of two. Empty until the first packet.
    words: Vec<u64>,
    /// How many words there are when there are any.
    size: usize,
    /// The least number that has never been in the window.
    next: u64,
    losses: Losses,
}

/// Loss periods (RFC 3357 section 4): packets with consecutive numbers that are all lost.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// Lost packets in all.
    pub(crate) lost: u64,
    /// How long the periods are that have ended, packets.
    pub(crate) lengths: Distribution,
    /// How long the last one is so far.
    open: u64,
}

impl Window {
    /// Of `packets` packets, rounded up: at least 64, at most 2^26. `empty` is what a distribution starts as.
    pub(crate) fn new(packets: usize, empty: &Distribution) -> Window {
        let size = (packets.clamp(64, 1 << 26).div_ceil(64) + 1).next_power_of_two();
        Window { words: Vec::new(), size, next: 0, losses: Losses { lost: 0, lengths: empty.clone(), open: 0 } }
    }

    /// How far behind the greatest number a packet can be told from its copy.
    pub(crate) fn reach(&self) -> u64 {
        (self.size as u64 - 1) * 64
    }

    /// One more than the greatest number so far.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the window still reaches back to `number`, which is below `next`.
    pub(crate) fn covers(&self, number: u64) -> bool {
        self.next - number <= self.reach()
    }

    /// Whether `number`, which the window covers, has come.
    pub(crate) fn has(&self, number: u64) -> bool {
        let word = self.words.get(self.slot(number / 64)).copied().unwrap_or_default();
        word >> (number % 64) & 1 == 1
    }

    /// Notes that `number`, which the window covers, has come.
    pub(crate) fn set(&mut self, number: u64) {
        let slot = self.slot(number / 64);
        if let Some(word) = self.words.get_mut(slot) {
            *word |= 1 << (number % 64);
        }
    }

    /// Notes that the next number has come.
    #[inline]
    pub(crate) fn push(&mut self) {
        if self.next.is_multiple_of(64) {
            self.advance(self.next);
        }
        let number = self.next;
        self.next += 1;
        self.set(number);
    }

    /// Notes that `number`, from the next one up, has come.
    pub(crate) fn leap(&mut self, number: u64) {
        self.advance(number);
        self.next = number + 1;
        self.set(number);
    }

    #[inline]
    fn slot(&self, word: u64) -> usize {
        word as usize & (self.size - 1)
    }

    /// Makes room for the word of `number`, and settles those that fall out.
    #[cold]
    fn advance(&mut self, number: u64) {
        if self.words.is_empty() {
            self.words = vec![0; self.size];
        }
        let (from, to, size) = (self.next.div_ceil(64), number / 64 + 1, self.size as u64);
        // Of a leap beyond the window, only as many words are settled as there are.
        for word in from..to.min(from.saturating_add(size)) {
            let slot = self.slot(word);
            let old = self.words.get_mut(slot).map_or(0, std::mem::take);
            if word >= size {
                self.losses.word(old, 64);
            }
        }
        let unseen = to.saturating_sub(from.saturating_add(size));
        self.losses.run(unseen.saturating_mul(64));
    }

    /// The losses if nothing more came of the first `sent` packets, or of those up to the greatest number.
    pub(crate) fn losses(&self, sent: u64) -> Losses {
        let mut losses = self.losses.clone();
        let end = self.next.div_ceil(64);
        for word in end.saturating_sub(self.size as u64)..end {
            let bits = (self.next - word * 64).min(64);
            losses.word(self.words.get(self.slot(word)).copied().unwrap_or_default(), bits as u32);
        }
        losses.run(sent.saturating_sub(self.next));
        losses.end();
        losses
    }
}

impl Losses {
    /// The next `bits` packets, those that came as ones.
    fn word(&mut self, word: u64, bits: u32) {
        if word == u64::MAX && self.open == 0 {
            return;
        }
        let (mut word, mut left) = (word, bits);
        while left > 0 {
            let lost = word.trailing_zeros().min(left);
            self.run(u64::from(lost));
            left -= lost;
            word = word.checked_shr(lost).unwrap_or(0);
            if left > 0 {
                self.end();
                let came = word.trailing_ones().min(left);
                left -= came;
                word = word.checked_shr(came).unwrap_or(0);
            }
        }
    }

    fn run(&mut self, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        self.open = self.open.saturating_add(lost);
    }

    fn end(&mut self) {
        if self.open > 0 {
            self.lengths.record_count(self.open);
            self.open = 0;
        }
    }
}
