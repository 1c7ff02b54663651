//! Of which VRFs packets are.

use weir_net::VrfId;
use weir_packet::{Batch, Key, Lanes, Slot, Slots};
use weir_simd::frame_check::BATCH;

use crate::Ingress;
use crate::fast::classify::Family;

/// Of which VRFs the packets of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of one.
    One(u16),
    /// Each of its own, as [`Vrfs`] says.
    Several,
}

/// The VRFs of packets, by slot.
pub(crate) struct Vrfs(pub(crate) [u16; BATCH]);

impl Default for Vrfs {
    fn default() -> Vrfs {
        Vrfs([0; BATCH])
    }
}

impl Vrfs {
    /// The VRF of a packet.
    pub(crate) fn of(&self, slot: Slot, scope: Scope) -> u16 {
        match scope {
            Scope::One(vrf) => vrf,
            Scope::Several => self.0[slot.index()],
        }
    }

    /// Notes the VRFs of packets without tags.
    #[inline(never)]
    pub(crate) fn note_untagged(&mut self, batch: &Batch, ingress: &Ingress) -> Scope {
        for slot in batch.slots() {
            self.0[slot.index()] = ingress.vrf_of_port(batch.lanes.port[slot]);
        }
        self.scope(batch.live())
    }

    /// Notes the VRFs that lists chose for the packets of a batch, which are of this scope otherwise.
    #[inline(never)]
    pub(crate) fn choose(&mut self, batch: &Batch, scope: Scope, key: Option<Key<Chosen>>) -> Scope {
        for slot in batch.slots() {
            self.0[slot.index()] = Chosen::of(&batch.lanes, slot, key).or(self.of(slot, scope));
        }
        self.scope(batch.live())
    }

    /// The scope of the packets in a mask.
    pub(crate) fn scope(&self, of: u64) -> Scope {
        let first = self.0[of.trailing_zeros() as usize % BATCH];
        match Slots(of).all(|slot| self.0[slot.index()] == first) {
            true => Scope::One(first),
            false => Scope::Several,
        }
    }

    /// The packets in a mask that are of the VRF of the first one, and that VRF.
    pub(crate) fn like_the_first(&self, of: u64) -> (u64, u16) {
        let first = self.0[of.trailing_zeros() as usize % BATCH];
        let alike = Slots(of).filter(|slot| self.0[slot.index()] == first).fold(0, |alike, slot| alike | slot.bit());
        (alike, first)
    }
}

/// The VRF that an access list chose for a packet to be looked up in, if any: the content of a claimed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen(pub(crate) Option<VrfId>);

impl From<u32> for Chosen {
    fn from(word: u32) -> Chosen {
        Chosen(word.checked_sub(1).map(|vrf| vrf as VrfId))
    }
}

impl From<Chosen> for u32 {
    fn from(chosen: Chosen) -> u32 {
        chosen.0.map_or(0, |vrf| u32::from(vrf) + 1)
    }
}

impl Chosen {
    /// The VRF in which a packet is looked up that came in by an interface of this one.
    pub(crate) fn or(self, vrf: VrfId) -> VrfId {
        self.0.unwrap_or(vrf)
    }

    /// What was chosen for a packet; nothing where there is no lane.
    pub(crate) fn of(lanes: &Lanes, slot: Slot, key: Option<Key<Chosen>>) -> Chosen {
        key.map_or(Chosen(None), |key| lanes.get(key, slot))
    }

    /// Whether anything was chosen for any packet of a batch.
    #[inline(always)]
    pub(crate) fn is_any(batch: &Batch, key: Option<Key<Chosen>>) -> bool {
        // As whole vectors; what slots without packets have may be old, which costs no more than a look.
        key.is_some_and(|key| batch.lanes.numbers(key).iter().fold(0, |any, word| any | word) != 0)
    }

    /// The packets in a mask for which was chosen what was for the first one, and that.
    pub(crate) fn like_the_first(batch: &Batch, of: u64, key: Key<Chosen>) -> (u64, Chosen) {
        let first: Chosen = batch.lanes.get(key, Slot::new(of.trailing_zeros() as usize));
        let alike = Slots(of).filter(|slot| batch.lanes.get(key, *slot) == first);
        (alike.fold(0, |alike, slot| alike | slot.bit()), first)
    }
}

/// What one worker of a pipeline tells the next of a packet that it checked: the content of a claimed lane. 0 is IPv4 of the default VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) vrf: u16,
    pub(crate) family: Family,
}

impl From<u32> for Known {
    fn from(word: u32) -> Known {
        Known { vrf: (word >> 1) as u16, family: if word & 1 == 0 { Family::Four } else { Family::Six } }
    }
}

impl From<Known> for u32 {
    fn from(known: Known) -> u32 {
        u32::from(known.vrf) << 1 | u32::from(known.family == Family::Six)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_survives_its_lane() {
        for vrf in [0, 1, 2, 1000, u16::MAX] {
            for family in [Family::Four, Family::Six] {
                let known = Known { vrf, family };
                assert_eq!(Known::from(u32::from(known)), known);
            }
        }
        assert_eq!(Known::from(0), Known { vrf: 0, family: Family::Four });
    }

    #[test]
    fn what_was_chosen_survives_its_lane() {
        for vrf in [None, Some(0), Some(1), Some(u16::MAX)] {
            assert_eq!(Chosen::from(u32::from(Chosen(vrf))), Chosen(vrf));
        }
        assert_eq!((Chosen::from(0), Chosen(None).or(7), Chosen(Some(3)).or(7)), (Chosen(None), 7, 3));
    }

    #[test]
    fn packets_are_parted_by_their_vrfs() {
        let mut vrfs = Vrfs::default();
        assert_eq!(vrfs.scope(u64::MAX), Scope::One(0));
        vrfs.0[3] = 7;
        vrfs.0[63] = 7;
        assert_eq!(vrfs.scope(u64::MAX), Scope::Several);
        assert_eq!(vrfs.scope(1 << 3 | 1 << 63), Scope::One(7));
        assert_eq!(vrfs.scope(1 << 3 | 1 << 2), Scope::Several);
        assert_eq!(vrfs.like_the_first(u64::MAX), (!(1 << 3 | 1 << 63), 0));
        assert_eq!(vrfs.like_the_first(!7), (1 << 3 | 1 << 63, 7));
        assert_eq!((vrfs.of(Slot::new(3), Scope::Several), vrfs.of(Slot::new(3), Scope::One(2))), (7, 2));
    }
}
