//! Whose frame it is, looked up by workers while the control side changes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use weir_mem::prefetch::prefetch_read;
use weir_packet::Packet;
use weir_sched::classify::Frame;
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::Lookup6;
use weir_wire::{Ipv4, Ipv6, View, ethernet};

/// The user of frames that belong to nobody else; its word is the same, as it has the first owner.
pub(crate) const OTHERS: u32 = 0;

/// VLAN identifiers, valid ones and others.
const VLANS: usize = 4096;

/// Users by the tags of their frames: a block of inner VLANs for each outer one that has users.
#[derive(Debug)]
pub(crate) struct ByTags(Box<[OnceLock<Block>; VLANS]>);

type Block = Box<[AtomicU32; VLANS]>;

impl ByTags {
    pub(crate) fn new() -> ByTags {
        ByTags(Box::new([const { OnceLock::new() }; VLANS]))
    }

    /// Says whose frames with these tags are. Only the control side does.
    pub(crate) fn set(&self, outer: u16, inner: u16, user: u32) {
        let block = &self.0[usize::from(outer) % VLANS];
        let block = block.get_or_init(|| Box::new([const { AtomicU32::new(OTHERS) }; VLANS]));
        // One word is all there is to see.
        block[usize::from(inner) % VLANS].store(user, Ordering::Relaxed);
    }

    /// The word of the user of a frame, if anybody has the outer VLAN.
    #[inline(always)]
    fn word(&self, frame: &Frame) -> Option<&AtomicU32> {
        let [outer, inner] = frame.vlans.map(usize::from);
        Some(&self.0[outer % VLANS].get()?[inner % VLANS])
    }
}

/// Finds users of frames: where they stand first, which is asked for, so that it is near when it is read.
pub(crate) trait Find: Send + 'static {
    /// Where a user stands.
    type Place<'f>: Copy + Default;

    /// Where the user of a frame stands.
    fn seek<'f>(&'f self, packet: &Packet, frame: &Frame) -> Self::Place<'f>;

    /// The word of the user who stands there ([`weir_stage::ownership`]); [`OTHERS`] if nobody does.
    fn user(&self, place: Self::Place<'_>) -> u32;
}

/// By tags.
pub(crate) struct Tagged(pub(crate) Arc<ByTags>);

impl Find for Tagged {
    type Place<'f> = Option<&'f AtomicU32>;

    #[inline(always)]
    fn seek<'f>(&'f self, _packet: &Packet, frame: &Frame) -> Option<&'f AtomicU32> {
        let word = self.0.word(frame);
        if let Some(word) = word {
            prefetch_read(word);
        }
        word
    }

    #[inline(always)]
    fn user(&self, place: Option<&AtomicU32>) -> u32 {
        place.map_or(OTHERS, |word| word.load(Ordering::Relaxed))
    }
}

/// By the longest prefix with the source or the destination address.
pub(crate) struct Addressed<A, B> {
    pub(crate) v4: Arc<A>,
    pub(crate) v6: Arc<B>,
    /// Whether the destination counts.
    pub(crate) destination: bool,
}

/// The address that counts.
#[derive(Clone, Copy)]
pub(crate) enum Address {
    V4(u32),
    V6(u128),
}

impl<A, B> Addressed<A, B> {
    #[inline(always)]
    fn address(&self, packet: &Packet, frame: &Frame) -> Option<Address> {
        let bytes = packet.bytes().get(frame.l3..)?;
        match frame.ethertype {
            ethernet::IPV4 => {
                let ip = Ipv4::view(bytes)?;
                let address = if self.destination { ip.destination_addr() } else { ip.source_addr() };
                Some(Address::V4(address.to_bits()))
            }
            ethernet::IPV6 => {
                let ip = Ipv6::view(bytes)?;
                let address = if self.destination { ip.destination_addr() } else { ip.source_addr() };
                Some(Address::V6(address.to_bits()))
            }
            _ => None,
        }
    }
}

impl<A: Lookup4 + 'static, B: Lookup6 + 'static> Find for Addressed<A, B> {
    type Place<'f> = Option<Address>;

    #[inline(always)]
    fn seek(&self, packet: &Packet, frame: &Frame) -> Option<Address> {
        let address = self.address(packet, frame);
        match address {
            Some(Address::V4(address)) => self.v4.prefetch(address),
            Some(Address::V6(address)) => self.v6.prefetch(address),
            None => {}
        }
        address
    }

    #[inline(always)]
    fn user(&self, place: Option<Address>) -> u32 {
        match place {
            Some(Address::V4(address)) => self.v4.lookup(address),
            Some(Address::V6(address)) => self.v6.lookup(address),
            None => OTHERS,
        }
    }
}

/// All frames are of one user.
pub(crate) struct One;

impl Find for One {
    type Place<'f> = ();

    #[inline(always)]
    fn seek(&self, _packet: &Packet, _frame: &Frame) {}

    #[inline(always)]
    fn user(&self, (): ()) -> u32 {
        OTHERS
    }
}
