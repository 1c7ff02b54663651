//! Where the fields of a packet stand in words of 32 bits: the form in which flows are looked up.
//!
//! A packet has at most some of the fields at the same time: those of IPv4 and of IPv6, or of TCP and of UDP, never meet. Such fields share
//! words. The first two words say which fields the packet has, so that they cannot be taken for each other.

use std::ops::Range;

use weir_openflow::Field;

/// How many words there are.
pub(crate) const WORDS: usize = 32;

/// The fields of a packet, or what a match asks of them.
pub(crate) type Words = [u32; WORDS];

/// The words that say which fields a packet has.
pub(crate) const PRESENCE: Range<usize> = 0..2;

/// The first word of metadata; the second follows.
pub(crate) const METADATA: usize = 4;

/// Where a field stands: in how many words from which on, the most significant first. What fills no word lies `shift` bits from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) word: usize,
    pub(crate) words: usize,
    pub(crate) shift: u32,
}

/// Where a field stands.
pub(crate) const fn location(field: Field) -> Location {
    let (word, shift) = match field {
        Field::InPort => (2, 0),
        Field::InPhyPort => (3, 0),
        Field::Metadata => (METADATA, 0),
        Field::EthDst => (6, 0),
        Field::EthSrc => (8, 0),
        Field::EthType => (10, 16),
        Field::VlanPcp => (10, 13),
        Field::VlanVid => (10, 0),
        Field::IpProto => (11, 16),
        Field::IpDscp => (11, 8),
        Field::IpEcn | Field::ArpOp => (11, 0),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::Icmpv4Type | Field::Icmpv6Type => (12, 16),
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::Icmpv4Code | Field::Icmpv6Code => (12, 0),
        Field::MplsLabel => (13, 4),
        Field::MplsTc => (13, 1),
        Field::MplsBos | Field::Ipv6Flabel => (13, 0),
        Field::Ipv4Src | Field::ArpSpa | Field::Ipv6Src => (14, 0),
        Field::Ipv4Dst | Field::ArpTpa | Field::Ipv6Dst => (18, 0),
        Field::TunnelId => (22, 0),
        Field::Ipv6Exthdr | Field::PbbIsid => (24, 0),
        Field::Ipv6NdTarget | Field::ArpSha => (25, 0),
        Field::ArpTha => (27, 0),
        Field::Ipv6NdSll | Field::Ipv6NdTll => (29, 0),
    };
    Location { word, words: field.bits().div_ceil(32) as usize, shift }
}

/// The word and the bit that say whether a packet has a field.
pub(crate) const fn presence(field: Field) -> (usize, u32) {
    let number = field.number() as usize;
    (number / 32, 1 << (number % 32))
}

/// Writes bits of a value where a field stands; the others stay.
#[inline(always)]
pub(crate) fn put(words: &mut Words, field: Field, value: u128, mask: u128) {
    let Location { word, words: count, shift } = location(field);
    let mut below = 32 * count as u32;
    for place in words.iter_mut().skip(word).take(count) {
        below -= 32;
        let (value, mask) = ((value >> below) as u32, (mask >> below) as u32);
        *place = *place & !(mask << shift) | (value & mask) << shift;
    }
}

/// The value that stands where a field does.
#[inline(always)]
pub(crate) fn value(words: &Words, field: Field) -> u128 {
    let Location { word, words: count, shift } = location(field);
    let all = words.iter().skip(word).take(count).fold(0, |value: u128, part| value << 32 | u128::from(*part));
    all >> shift & field.ones()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::field::Needs;

    /// What a packet has to be so that it has a field: the values of other fields, all the way down (section 7.2.3.8).
    fn needed(field: Field) -> Vec<(Field, &'static [u128])> {
        match field.needs() {
            Needs::OneOf(other, values) => [vec![(other, values)], needed(other)].concat(),
            Needs::Nothing | Needs::Any(_) | Needs::Tag => Vec::new(),
        }
    }

    /// Whether a packet may have both: none needs what excludes the other.
    fn meet(one: Field, other: Field) -> bool {
        let others = needed(other);
        needed(one).iter().all(|(field, values)| {
            let same = others.iter().filter(|(needed, _)| needed == field);
            same.clone().all(|(_, wanted)| values.iter().any(|value| wanted.contains(value)))
        })
    }

    #[test]
    fn fields_that_meet_share_no_bit() {
        let bits = |field: Field| {
            let mut words = [0; WORDS];
            put(&mut words, field, field.ones(), field.ones());
            words
        };
        for one in Field::ALL {
            for other in Field::ALL.iter().filter(|other| *other != one && meet(*one, **other)) {
                let shared = bits(*one).iter().zip(bits(*other)).any(|(one, other)| one & other != 0);
                assert!(!shared, "{} and {}", one.name(), other.name());
            }
        }
    }

    #[test]
    fn what_is_put_is_the_value() {
        for field in Field::ALL {
            for bit in 0..field.bits() {
                let mut words = [0; WORDS];
                put(&mut words, *field, 1 << bit, field.ones());
                assert_eq!(value(&words, *field), 1 << bit, "{}", field.name());
                assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
                assert_eq!(words[..2], [0, 0], "{} is not what says which fields there are", field.name());
            }
        }
    }
}
