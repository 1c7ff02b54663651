//! Whose frame it is, looked up by workers while the control side changes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use weir_mem::prefetch::prefetch_slice;
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
pub(crate) struct ByTags(Box<[OnceLock<Box<[AtomicU32]>>]>);

impl ByTags {
    pub(crate) fn new() -> ByTags {
        ByTags((0..VLANS).map(|_| OnceLock::new()).collect())
    }

    /// Says whose frames with these tags are. Only the control side does.
    pub(crate) fn set(&self, outer: u16, inner: u16, user: u32) {
        let Some(block) = self.0.get(usize::from(outer) % VLANS) else { return };
        let block = block.get_or_init(|| (0..VLANS).map(|_| AtomicU32::new(OTHERS)).collect());
        if let Some(word) = block.get(usize::from(inner) % VLANS) {
            // One word is all there is to see.
            word.store(user, Ordering::Relaxed);
        }
    }

    fn block(&self, frame: &Frame) -> Option<&[AtomicU32]> {
        self.0.get(usize::from(frame.vlans[0])).and_then(OnceLock::get).map(|block| &**block)
    }
}

/// Finds users of frames.
pub(crate) trait Find: Send + 'static {
    /// Asks for what [`Find::user`] will look at.
    fn prefetch(&self, packet: &Packet, frame: &Frame);

    /// The word of the user of a frame ([`weir_stage::ownership`]); [`OTHERS`] if it is nobody's.
    fn user(&self, packet: &Packet, frame: &Frame) -> u32;
}

/// By tags.
pub(crate) struct Tagged(pub(crate) Arc<ByTags>);

impl Find for Tagged {
    #[inline(always)]
    fn prefetch(&self, _packet: &Packet, frame: &Frame) {
        if let Some(block) = self.0.block(frame) {
            prefetch_slice(block, usize::from(frame.vlans[1]));
        }
    }

    #[inline(always)]
    fn user(&self, _packet: &Packet, frame: &Frame) -> u32 {
        let word = self.0.block(frame).and_then(|block| block.get(usize::from(frame.vlans[1])));
        word.map_or(OTHERS, |word| word.load(Ordering::Relaxed))
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
enum Address {
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
    #[inline(always)]
    fn prefetch(&self, packet: &Packet, frame: &Frame) {
        match self.address(packet, frame) {
            Some(Address::V4(address)) => self.v4.prefetch(address),
            Some(Address::V6(address)) => self.v6.prefetch(address),
            None => {}
        }
    }

    #[inline(always)]
    fn user(&self, packet: &Packet, frame: &Frame) -> u32 {
        match self.address(packet, frame) {
            Some(Address::V4(address)) => self.v4.lookup(address),
            Some(Address::V6(address)) => self.v6.lookup(address),
            None => OTHERS,
        }
    }
}

/// All frames are of one user.
pub(crate) struct One;

impl Find for One {
    #[inline(always)]
    fn prefetch(&self, _packet: &Packet, _frame: &Frame) {}

    #[inline(always)]
    fn user(&self, _packet: &Packet, _frame: &Frame) -> u32 {
        OTHERS
    }
}
