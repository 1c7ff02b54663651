//! What is known of a packet, and whether a match lets it through: OpenFlow 1.3.5 section 5.3.

use std::ops::Range;

use weir_openflow::{Field, Match, Oxm};

use crate::words::{self, METADATA, Words, presence};

/// The value of each field that a packet has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub(crate) Words);

impl Fields {
    /// The words of metadata.
    #[inline]
    pub(crate) fn metadata(&self) -> [u32; 2] {
        [self.0[METADATA], self.0[METADATA + 1]]
    }

    /// Sets them.
    #[inline]
    pub(crate) fn set_metadata(&mut self, words: [u32; 2]) {
        [self.0[METADATA], self.0[METADATA + 1]] = words;
    }

    /// Writes some bits of metadata, as flows do (section 5.9).
    #[inline]
    pub(crate) fn write_metadata(&mut self, value: u64, mask: u64) {
        for (at, shift) in [(METADATA, 32), (METADATA + 1, 0)] {
            let (value, mask) = ((value >> shift) as u32, (mask >> shift) as u32);
            self.0[at] = self.0[at] & !mask | value & mask;
        }
    }

    /// A field's value; nothing if the packet does not have it.
    pub fn get(&self, field: Field) -> Option<u128> {
        let (word, bit) = presence(field);
        (self.0[word] & bit != 0).then(|| words::value(&self.0, field))
    }

    /// Gives a field a value. Of fields that no packet has together (a port of TCP and one of UDP) only one can have one.
    #[inline(always)]
    pub fn set(&mut self, field: Field, value: u128) {
        let (word, bit) = presence(field);
        self.0[word] |= bit;
        words::put(&mut self.0, field, value, field.ones());
    }

    /// Whether the packet has all that `matches` asks for. What is asked of a field that the packet does not have is not
    /// met; a mask without a bit asks nothing.
    pub fn meet(&self, matches: &Match) -> bool {
        matches.fields().iter().all(|oxm| {
            oxm.bits() == 0 || self.get(oxm.field).is_some_and(|value| (value ^ oxm.value) & oxm.bits() == 0)
        })
    }
}

/// A match without what may be written in several ways: sorted by field, masks of all ones as masks, masks of no bits
/// left out. Two matches with the same key let the same packets through.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Vec<(Field, u128, u128)>);

impl Key {
    /// The key of a match.
    pub fn of(matches: &Match) -> Key {
        let asked = matches.fields().iter().filter(|oxm| oxm.bits() != 0);
        let mut fields: Vec<_> = asked.map(|oxm| (oxm.field, oxm.value, oxm.bits())).collect();
        fields.sort_unstable();
        Key(fields)
    }

    /// Whether it lets everything through.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of a packet that has what it asks for, and nothing else.
    pub fn sample(&self) -> Fields {
        let mut fields = Fields::default();
        self.0.iter().for_each(|(field, value, _)| fields.set(*field, *value));
        fields
    }

    /// What it asks of each field: value and mask.
    pub(crate) fn asked(&self) -> &[(Field, u128, u128)] {
        &self.0
    }

    fn get(&self, field: Field) -> (u128, u128) {
        let found = self.0.iter().find(|(other, _, _)| *other == field);
        found.map_or((0, 0), |(_, value, mask)| (*value, *mask))
    }

    /// Whether every packet that meets `other` meets this one too: the test of flow modifications that are not strict
    /// (section 6.4).
    pub fn covers(&self, other: &Key) -> bool {
        self.0.iter().all(|(field, value, mask)| {
            let (others_value, others_mask) = other.get(*field);
            others_mask & mask == *mask && (others_value ^ value) & mask == 0
        })
    }

    /// Whether some packet may meet both (section 6.4): no field is asked to be two things.
    pub fn overlaps(&self, other: &Key) -> bool {
        self.0.iter().all(|(field, value, mask)| {
            let (others_value, others_mask) = other.get(*field);
            (others_value ^ value) & mask & others_mask == 0
        })
    }
}

/// The words that [`select_hash`] mixes.
pub(crate) const HASHED_WORDS: Range<usize> = 6..22;

/// The hash by which select groups choose: the same for all packets of a flow. It is of Ethernet addresses, type and VLAN, the MPLS label or (but for its last four bits) the IPv6 flow label,
/// IP or ARP addresses, protocol, and ports (of ICMP, type and code). Fields that the packet does not have are zeroes.
///
/// Sixteen words are mixed by NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, CRYPTO 1999): half as many products, none of which waits for another.
#[inline]
pub fn select_hash(fields: &Fields) -> u32 {
    /// Words, and what of them counts.
    const MIXED: [[(usize, u32); 2]; 8] = [
        [(6, u32::MAX), (7, u32::MAX)],
        [(8, u32::MAX), (9, u32::MAX)],
        [(10, 0xffff_1fff), (11, 0x00ff_0000)],
        [(12, u32::MAX), (13, 0x00ff_fff0)],
        [(14, u32::MAX), (15, u32::MAX)],
        [(16, u32::MAX), (17, u32::MAX)],
        [(18, u32::MAX), (19, u32::MAX)],
        [(20, u32::MAX), (21, u32::MAX)],
    ];
    let (mut sum, mut key) = (0u64, 0u64);
    for pair in MIXED {
        let [one, other] = pair.map(|(word, mask)| {
            key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
            u64::from((fields.0[word] & mask).wrapping_add((key >> 32) as u32))
        });
        sum = sum.wrapping_add(one.wrapping_mul(other));
    }
    // The finaliser of SplitMix64: every bit of the sum reaches every bit of the hash.
    sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((sum ^ sum >> 31) >> 32) as u32
}

/// A field with its value, for matches of what is told beside a packet.
pub(crate) fn exact(field: Field, value: u128) -> Oxm {
    Oxm::exact(field, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that are not the same for all packets of a flow, or say nothing about it.
    const APART: [Field; 15] = [
        Field::InPort,
        Field::InPhyPort,
        Field::Metadata,
        Field::TunnelId,
        Field::VlanPcp,
        Field::IpDscp,
        Field::IpEcn,
        Field::ArpOp,
        Field::ArpSha,
        Field::ArpTha,
        Field::MplsTc,
        Field::MplsBos,
        Field::Ipv6Exthdr,
        Field::PbbIsid,
        Field::Ipv6NdTarget,
    ];

    #[test]
    fn packets_of_a_flow_have_one_hash_and_others_another() {
        let none = select_hash(&Fields::default());
        for field in Field::ALL {
            for bit in 0..field.bits() {
                let mut fields = Fields::default();
                fields.set(*field, 1 << bit);
                let is_apart = APART.contains(field)
                    || matches!(field, Field::Ipv6NdSll | Field::Ipv6NdTll)
                    || *field == Field::Ipv6Flabel && bit < 4;
                assert_eq!(select_hash(&fields) == none, is_apart, "bit {bit} of {}", field.name());
            }
        }
    }
}
