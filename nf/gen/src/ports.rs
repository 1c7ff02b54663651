//! Port sets: the ports of a customer who shares an address with others.

use weir_wire::port_sets::PortSets;

/// So many blocks of so many ports, the blocks at even distances.
///
/// RFC 7597 section 5.1 divides the 16 bits of a port: `a` bits in front, of which not all are 0, then `k` bits that are the PSID, and `m` bits
/// behind. A set so is 2^a - 1 blocks of 2^m ports, 2^(16 - a) apart; with no bits in front it is one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortSet {
    first: u16,
    /// Ports in a block, less 1.
    more: u16,
    blocks: u16,
    distance: u16,
}

impl PortSet {
    /// The set of a PSID of `length` bits behind `offset` others. `None` where these are more than a port's bits, or the PSID has more.
    pub(crate) fn of_psid(psid: u16, length: u8, offset: u8) -> Option<PortSet> {
        PortSets::new(length, offset).filter(|sets| psid <= sets.highest())?;
        let behind = 16 - u32::from(length) - u32::from(offset);
        // At most 16 bits together; a set of all ports has 2^16, less 1.
        let (distance, block) = (1_u32 << (16 - u32::from(offset)), 1_u32 << behind);
        let start = u32::from(psid) << behind;
        Some(if offset == 0 {
            PortSet { first: start as u16, more: (block - 1) as u16, blocks: 1, distance: 0 }
        } else {
            let blocks = ((1_u32 << offset) - 1) as u16;
            PortSet { first: (distance + start) as u16, more: (block - 1) as u16, blocks, distance: distance as u16 }
        })
    }

    /// Ports from one to another.
    pub(crate) fn range(first: u16, last: u16) -> Option<PortSet> {
        Some(PortSet { first, more: last.checked_sub(first)?, blocks: 1, distance: 0 })
    }

    /// In one word.
    pub(crate) fn pack(self) -> u64 {
        let PortSet { first, more, blocks, distance } = self;
        u64::from(first) | u64::from(more) << 16 | u64::from(blocks) << 32 | u64::from(distance) << 48
    }
}

/// The port of a packed set that a random number stands for. Each is as likely as another, but for one part in 65,536.
#[inline(always)]
pub(crate) fn pick(set: u64, random: u64) -> u64 {
    let (first, more, blocks, distance) = (set & 0xffff, set >> 16 & 0xffff, set >> 32 & 0xffff, set >> 48);
    let block = ((random >> 32) * blocks) >> 32;
    let port = ((random & 0xffff_ffff) * (more + 1)) >> 32;
    first + block * distance + port
}

/// The port of a packed set that has no other.
pub(crate) fn only(set: u64) -> Option<u64> {
    (set >> 16 & 0xffff == 0 && set >> 32 & 0xffff == 1).then_some(set & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ports of a set, one by one, in the order of the random numbers that stand for them.
    fn ports(set: PortSet) -> Vec<u16> {
        let block = |block: u16| {
            let start = set.first + block * set.distance;
            start..=start + set.more
        };
        (0..set.blocks).flat_map(block).collect()
    }

    /// Every port of every PSID of every length and offset.
    #[test]
    fn sets_are_those_of_the_definition() {
        for offset in 0..=16_u8 {
            for length in 0..=16 - offset {
                let mut owner = vec![None; 1 << 16];
                for psid in 0..=((1_u32 << length) - 1) as u16 {
                    for port in ports(PortSet::of_psid(psid, length, offset).unwrap()) {
                        assert_eq!(owner[usize::from(port)].replace(psid), None, "{length} {offset} {port} twice");
                    }
                }
                for (port, owner) in owner.into_iter().enumerate() {
                    let expected = PortSets::new(length, offset).unwrap().psid(port as u16);
                    assert_eq!(owner, expected, "{length} {offset} {port}");
                }
            }
        }
        assert_eq!(PortSet::of_psid(0, 9, 8), None);
        assert_eq!(PortSet::of_psid(64, 6, 0), None);
        assert_eq!(PortSet::of_psid(1, 0, 0), None);
        assert_eq!(PortSet::range(2, 1), None);
    }

    #[test]
    fn any_port_of_a_set_may_be_picked_and_no_other() {
        let sets = [(0, 0, 0), (3, 6, 0), (63, 6, 0), (5, 4, 4), (0, 0, 16), (1, 1, 15), (54_192, 16, 0), (7, 3, 1)];
        let sets = sets.map(|(psid, length, offset)| PortSet::of_psid(psid, length, offset).unwrap());
        for set in sets.into_iter().chain([PortSet::range(1024, 2047).unwrap(), PortSet::range(0, 65_535).unwrap()]) {
            let all = ports(set);
            let mut random = crate::random::Random::new(1, 0);
            let mut counts = vec![0_u32; 1 << 16];
            let draws = 20 * all.len().max(1000);
            (0..draws).for_each(|_| counts[pick(set.pack(), random.next()) as usize] += 1);
            assert_eq!(all.iter().map(|port| counts[usize::from(*port)] as usize).sum::<usize>(), draws, "{set:?}");
            // A port that is left out of twenty times as many draws as there are ports has odds of 2 in a billion.
            let few = all.iter().filter(|port| counts[usize::from(**port)] == 0).count();
            assert_eq!(few, 0, "{set:?}");
            assert_eq!(pick(set.pack(), 0), u64::from(all[0]));
            assert_eq!(pick(set.pack(), u64::MAX), u64::from(all[all.len() - 1]));
        }
    }
}
