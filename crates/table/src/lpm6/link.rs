//! What the words of nodes say.
//!
//! ```text
//!         63 62                32 31 30    26 25            0
//!        +--+--------------------+--+--------+---------------+
//! slot   |H | value              |B | bits   | line          |   H: there is a value. B: the node is a bucket or an index.
//!        +--+--------------------+--+--------+---------------+   A slot whose lower half is 0 leads nowhere.
//!                                 |1 | 0      | line          |   To a bucket.
//!                                 |1 |order-1 | line          |   To an index of 2^order lines with its buckets.
//!
//!        +-----------------------+--+------------------------+
//! range  | first of its 32 bits  |0 | value                  |
//!        +-----------------------+--+--------+---------------+
//!        | first                 |1 | bits-1 | line           |   To a slot, so many bits further.
//!        +-----------------------+--+--------+---------------+
//!        | first                 | all ones                  |   No prefix that ends here.
//!        +-----------------------+---------------------------+
//!
//!        +-----------------------+---------------------------+
//! index  | before the 2n-th      | before the (2n + 1)-th    |   One less than the first 32 bits of a bucket.
//!        +-----------------------+---------------------------+   All ones: there is no such bucket.
//! ```

/// Bits of the number of a line.
const LINE_BITS: u32 = 26;

/// Lines there can be: no link is taken for [`NOTHING`].
pub(super) const LINES: u32 = (1 << LINE_BITS) - 1;

/// Words of a line.
pub(super) const WORDS: usize = 8;

/// Bits of an address that a bucket tells apart.
pub(super) const WINDOW: u8 = 32;

/// Bits of an address that an array tells apart at most.
pub(super) const WIDEST: u8 = 16;

/// The lower half of a range in which no prefix ends.
const NOTHING: u32 = u32::MAX;

const HIGHEST: u32 = 1 << 31;
const LINE: u32 = (1 << LINE_BITS) - 1;
const BITS: u32 = 31;

/// What leads to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    /// To nowhere: line 0 is an array of one slot, in which there is nothing.
    pub(super) const NONE: Link = Link(0);

    /// To an array of 2^`bits` slots.
    pub(super) const fn array(line: u32, bits: u8) -> Link {
        Link(line & LINE | (bits as u32 & BITS) << LINE_BITS)
    }

    /// To a bucket.
    pub(super) const fn bucket(line: u32) -> Link {
        Link(line & LINE | HIGHEST)
    }

    /// To an index, to which with its buckets 2^`order` lines belong, at least 4 and at most 16.
    pub(super) const fn index(line: u32, order: u8) -> Link {
        Link(line & LINE | (order as u32).wrapping_sub(1) << LINE_BITS & !HIGHEST | HIGHEST)
    }

    #[inline(always)]
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) const fn is_bucket(self) -> bool {
        self.0 & !LINE == HIGHEST
    }

    #[inline(always)]
    pub(super) const fn is_index(self) -> bool {
        self.0 > HIGHEST | LINE
    }

    /// 2^`order` lines belong to an index with its buckets.
    pub(super) const fn order(self) -> u8 {
        self.bits() + 1
    }

    /// Whether it leads to an array with longer prefixes.
    #[inline(always)]
    pub(super) const fn is_array(self) -> bool {
        self.0 as i32 > 0
    }

    /// The first line of the node.
    #[inline(always)]
    pub(super) const fn line(self) -> u32 {
        self.0 & LINE
    }

    /// Bits of an address that the array tells apart; 0 for a bucket, and at most 3 for an index: the word that they lead to is still
    /// one of its first line.
    #[inline(always)]
    pub(super) const fn bits(self) -> u8 {
        (self.0 >> LINE_BITS & BITS) as u8
    }
}

/// A word of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

const HAS_VALUE: u64 = 1 << 63;

impl Slot {
    pub(super) const fn new(value: Option<u32>, link: Link) -> Slot {
        let value = match value {
            Some(value) => HAS_VALUE | (value as u64) << 32,
            None => 0,
        };
        Slot(value | link.0 as u64)
    }

    #[inline(always)]
    pub(super) const fn link(self) -> Link {
        Link(self.0 as u32)
    }

    #[inline(always)]
    pub(super) const fn has_value(self) -> bool {
        self.0 & HAS_VALUE != 0
    }

    /// The value; means nothing where there is none.
    #[inline(always)]
    pub(super) const fn value(self) -> u32 {
        (self.0 >> 32) as u32 & !HIGHEST
    }

    /// The same slot, which leads elsewhere.
    pub(super) const fn with_link(self, link: Link) -> Slot {
        Slot(self.0 >> 32 << 32 | link.0 as u64)
    }

    /// The same slot with another value.
    pub(super) const fn with_value(self, value: Option<u32>) -> Slot {
        Slot::new(value, self.link())
    }

    /// The same slot, with the value of another one where it has none itself.
    #[inline(always)]
    pub(super) const fn or(self, above: Slot) -> Slot {
        if self.has_value() { self } else { above.with_link(self.link()) }
    }
}

/// Where a range leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// No prefix ends here.
    Nowhere,
    /// The value of the longest prefix.
    Value(u32),
    /// To a slot, so many bits further.
    Slot { line: u32, bits: u8 },
}

/// A word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range(pub(super) u64);

impl Range {
    /// No prefix ends at any bits.
    pub(super) const NOWHERE: Range = Range::new(0, Leads::Nowhere);

    pub(super) const fn new(first: u32, leads: Leads) -> Range {
        let low = match leads {
            Leads::Nowhere => NOTHING,
            Leads::Value(value) => value & !HIGHEST,
            Leads::Slot { line, bits } => HIGHEST | (bits as u32).wrapping_sub(1) << LINE_BITS & !HIGHEST | line & LINE,
        };
        Range((first as u64) << 32 | low as u64)
    }

    /// The first of its 32 bits.
    pub(super) const fn first(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether it leads to a value.
    #[inline(always)]
    pub(super) const fn has_value(self) -> bool {
        self.0 as u32 & HIGHEST == 0
    }

    /// The value, if it leads to one, else that of the slot before it.
    #[inline(always)]
    pub(super) const fn value_or(self, before: Slot) -> u32 {
        if self.has_value() { self.0 as u32 } else { before.value() }
    }

    /// Whether it leads to a slot.
    #[inline(always)]
    pub(super) const fn leads_on(self) -> bool {
        !self.has_value() & (self.0 as u32 != NOTHING)
    }

    /// Where it leads.
    #[inline(always)]
    pub(super) const fn leads(self) -> Leads {
        let low = self.0 as u32;
        if low & HIGHEST == 0 {
            Leads::Value(low)
        } else if low == NOTHING {
            Leads::Nowhere
        } else {
            Leads::Slot { line: low & LINE, bits: (low >> LINE_BITS & BITS) as u8 + 1 }
        }
    }
}

/// The `bits` bits of an address behind the first `depth`; at most [`WINDOW`].
pub(super) const fn bits_at(address: u128, depth: u8, bits: u8) -> u32 {
    // In two steps: no bits at all are a shift by 128.
    (address.wrapping_shl(depth as u32) >> 1 >> (127 - (bits & 127))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_into_them() {
        let link = Link::array(LINES - 1, WIDEST);
        assert_eq!((link.line(), link.bits(), link.is_array()), (LINES - 1, WIDEST, true));
        assert!(Link::NONE.is_none() && !Link::NONE.is_array() && !Link::NONE.is_bucket());
        let bucket = Link::bucket(LINES - 1);
        assert_eq!((bucket.line(), bucket.bits(), bucket.is_bucket()), (LINES - 1, 0, true));
        for order in 2..=4 {
            let index = Link::index(LINES - 1, order);
            assert_eq!((index.line(), index.order(), index.is_index()), (LINES - 1, order, true));
            assert!(!index.is_bucket() && !index.is_array() && 1 << index.bits() <= WORDS);
        }
        assert!(![Link::NONE, link, bucket].into_iter().any(Link::is_index));
        for value in [None, Some(0), Some(crate::lpm6::MAX_VALUE)] {
            let slot = Slot::new(value, link);
            assert_eq!((slot.has_value().then(|| slot.value()), slot.link()), (value, link));
            let above = Slot::new(Some(7), bucket);
            assert_eq!((slot.or(above).value(), slot.or(above).link()), (value.unwrap_or(7), link));
        }
        let all = [Leads::Nowhere, Leads::Value(0), Leads::Value(crate::lpm6::MAX_VALUE)];
        let ends = [1, WINDOW].map(|bits| Leads::Slot { line: LINES - 1, bits });
        for leads in all.into_iter().chain(ends) {
            let range = Range::new(0xfedc_ba98, leads);
            assert_eq!((range.first(), range.leads()), (0xfedc_ba98, leads));
            let before = Slot::new(Some(7), link);
            let value = if let Leads::Value(value) = leads { value } else { 7 };
            assert_eq!((range.has_value(), range.value_or(before)), (matches!(leads, Leads::Value(_)), value));
            assert_eq!(range.leads_on(), matches!(leads, Leads::Slot { .. }));
        }
    }

    #[test]
    fn bits_are_those_behind_the_depth() {
        let address = 0x2001_0db8_1234_5678_9abc_def0_1122_3344;
        assert_eq!(bits_at(address, 0, 16), 0x2001);
        assert_eq!(bits_at(address, 16, 32), 0x0db8_1234);
        assert_eq!(bits_at(address, 52, 20), 0x6_789a);
        assert_eq!(bits_at(address, 112, 16), 0x3344);
        assert_eq!(bits_at(address, 112, 32), 0x3344_0000);
        assert_eq!((bits_at(address, 7, 0), bits_at(address, 128, 0)), (0, 0));
    }
}
