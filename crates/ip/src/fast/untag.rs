//! For a function that has packets before the network layer, and whose stages know no VLAN tags: [`Inward`] finds the interface that a frame
//! came in by, counts it and takes the tags off, within the function's first stage or as a stage `NAME.untag` of its own before a balancer. What
//! the function then leaves to the layer gets them back from the stage `NAME.tag`.

use std::sync::Arc;

use weir_packet::{Batch, Key, LaneId, Packet, Slot, Slots};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, View};

use crate::fast::received::Received;
use crate::fast::scope::{Scope, Vrfs};
use crate::tables::fib::Fib;
use crate::tags::{TAG_LEN, Tags};
use crate::{INSIDE, InterfaceId};

weir_stage::ways! {
    /// Ways out of [`Untag`].
    pub(crate) enum Exit {
        /// Without tags, by an interface of the default VRF: for the function.
        Out => way "out",
        /// By an interface of another VRF or one that is down, with tags that no interface has, or for another station: for the network layer.
        Layer => way "layer",
    }
}

weir_stage::ways! {
    /// Ways out of [`Retag`].
    pub(crate) enum Back {
        /// With the tags that it came with.
        Out => way "out",
        /// Its interface is gone by now.
        UnknownTag => drop "unknown-tag",
        /// Its buffer has no room for its tags.
        NoHeadroom => drop "no-headroom",
    }
}

/// The interface whose tags were taken off a packet; none if it had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untagged(Option<InterfaceId>);

impl From<u32> for Untagged {
    fn from(word: u32) -> Untagged {
        Untagged(word.checked_sub(1).map(|interface| interface as u16))
    }
}

impl From<Untagged> for u32 {
    fn from(untagged: Untagged) -> u32 {
        untagged.0.map_or(0, |interface| u32::from(interface) + 1)
    }
}

/// Tells by which interfaces the packets of a batch came in, and takes their tags off: for one stage of a function.
pub struct Inward {
    fib: Arc<Fib>,
    received: Received,
    vrfs: Vrfs,
    key: Key<Untagged>,
}

/// How the packets of a batch came in.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The port of all, if it is one.
    port: Option<u16>,
    is_counted: bool,
    /// The mask of those that are the network layer's: by an interface of another VRF or one that is down, with tags that no interface has, or
    /// tagged and for another station. What comes from [inside](INSIDE) is not.
    pub of_the_layer: u64,
}

impl Inward {
    pub(crate) fn new(fib: Arc<Fib>, received: Received, key: Key<Untagged>) -> Inward {
        Inward { fib, received, vrfs: Vrfs::default(), key }
    }

    /// What is known of packets whose tags were taken off.
    pub fn key(&self) -> Key<Untagged> {
        self.key
    }

    /// Finds the interfaces of a batch, and takes the tags off what is not [the layer's](Came::of_the_layer).
    #[inline(always)]
    pub fn enter(&mut self, batch: &mut Batch) -> Came {
        let entered = self.received.enter(batch, self.fib.ingress(), &mut self.vrfs);
        batch.lanes.numbers_mut(self.key).fill(0);
        if entered.is_tagged {
            return Came { port: entered.port, is_counted: true, of_the_layer: self.untag_all(batch) };
        }
        let is_usual = entered.scope == Scope::One(0) && entered.port.is_some_and(|port| self.is_open(port));
        let of_the_layer = if is_usual { 0 } else { self.not_ours(batch, entered.scope) };
        Came { port: entered.port, is_counted: false, of_the_layer }
    }

    /// Counts the packets of a batch that has so many bytes by their interfaces.
    #[inline(always)]
    pub fn count(&self, batch: &Batch, came: Came, bytes: u64) {
        if !came.is_counted {
            self.received.count_untagged(batch, came.port, bytes, self.fib.ingress());
        }
    }

    /// Takes tags off; answers which packets are the layer's.
    #[inline(never)]
    fn untag_all(&self, batch: &mut Batch) -> u64 {
        let mut of_the_layer = 0;
        batch.each(|slot, packet, lanes| match self.untag(packet, lanes.port[slot]) {
            Some(untagged) => lanes.set(self.key, slot, untagged),
            None => of_the_layer |= slot.bit(),
        });
        of_the_layer
    }

    /// Takes the tags off a packet that came in by a port; `None`, and nothing done, if it is the layer's.
    fn untag(&self, packet: &mut Packet, port: u16) -> Option<Untagged> {
        if port == INSIDE {
            return Some(Untagged(None));
        }
        let ingress = self.fib.ingress();
        let entered = ingress.enter(port, packet.window(0));
        let room = usize::from(entered.l3) - Ethernet::LEN;
        if ingress.vrf_of(entered.interface) != 0 {
            return None;
        }
        if room == 0 {
            return self.is_open(port).then_some(Untagged(None));
        }
        let addresses: [u8; 12] = *packet.window(0);
        if !entered.is_ours || packet.len() < usize::from(entered.l3) || !packet.trim_front(room) {
            return None;
        }
        *packet.window_mut(0) = addresses;
        Some(Untagged(Some(entered.interface).filter(|_| entered.interface != ingress.untagged_of(port))))
    }

    /// Of packets without tags, which are the layer's.
    #[inline(never)]
    fn not_ours(&self, batch: &Batch, scope: Scope) -> u64 {
        let is_ours = |slot: Slot| match batch.lanes.port[slot] {
            INSIDE => true,
            port => self.vrfs.of(slot, scope) == 0 && self.is_open(port),
        };
        batch.slots().filter(|slot| !is_ours(*slot)).fold(0, |mask, slot| mask | slot.bit())
    }

    /// Whether packets without tags may come in by a port.
    #[inline(always)]
    fn is_open(&self, port: u16) -> bool {
        self.fib.ingress().station(port).is_some()
    }
}

/// Takes tags off, before a stage that tells packets apart by what is behind them.
pub(crate) struct Untag(Inward);

impl Untag {
    pub(crate) fn new(inward: Inward) -> Untag {
        Untag(inward)
    }
}

impl Stage for Untag {
    fn declare(&self) -> Declaration {
        untag_declaration(self.0.key)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let came = self.0.enter(batch);
        let mut bytes = 0;
        batch.each_ref(|_, packet| bytes += packet.len() as u64);
        self.0.count(batch, came, bytes);
        Slots(came.of_the_layer).for_each(|slot| out.answer(slot, Exit::Layer));
    }
}

/// What [`Untag`] declares.
pub(crate) fn untag_declaration(key: Key<Untagged>) -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3, key.into()])
}

/// Puts tags back.
pub(crate) struct Retag {
    fib: Arc<Fib>,
    key: Key<Untagged>,
}

impl Retag {
    pub(crate) fn new(fib: Arc<Fib>, key: Key<Untagged>) -> Retag {
        Retag { fib, key }
    }

    /// Puts the tags of an interface in front of a packet.
    fn retag(&self, packet: &mut Packet, interface: InterfaceId) -> Result<(), Back> {
        let tags = self.fib.ingress().tags_of(interface).filter(|tags| *tags != Tags::NONE).ok_or(Back::UnknownTag)?;
        let addresses: [u8; 12] = *packet.window(0);
        let [.., high, low] = *packet.window::<{ Ethernet::LEN }>(0);
        if !packet.prepend(TAG_LEN * tags.count()) {
            return Err(Back::NoHeadroom);
        }
        *packet.window_mut(0) = addresses;
        let front = tags.bytes(u16::from_be_bytes([high, low]));
        let behind = packet.bytes_mut().get_mut(addresses.len()..tags.header_len()).unwrap_or_default();
        behind.iter_mut().zip(front).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

impl Stage for Retag {
    fn declare(&self) -> Declaration {
        retag_declaration(self.key)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.each(|slot, packet, lanes| {
            if let Untagged(Some(interface)) = lanes.get(self.key, slot)
                && let Err(exit) = self.retag(packet, interface)
            {
                out.answer(slot, exit);
            }
        });
    }
}

/// What [`Retag`] declares.
pub(crate) fn retag_declaration(key: Key<Untagged>) -> Declaration {
    Declaration::of::<Back>().reads(&[key.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_survive_their_lane() {
        for untagged in [Untagged(None), Untagged(Some(0)), Untagged(Some(1)), Untagged(Some(u16::MAX - 1))] {
            assert_eq!(Untagged::from(u32::from(untagged)), untagged);
        }
        assert_eq!(Untagged::from(0), Untagged(None));
    }
}
