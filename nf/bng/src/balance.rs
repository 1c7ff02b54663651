//! Whose a packet is, for the stages `NAME.balance-up` and `NAME.balance-down`, where several workers share the subscribers.
//!
//! Both sides go by one rule ([`weir_stage::ownership`]), of which tables say the outcome: a byte for each pair of tags, a byte for each GRE key
//! below a bound; for other keys, and with plain IP, the record of the destination address. What is nobody's goes to the first worker, which
//! finds out why and drops it by name. ARP and neighbour discovery of customers go where their tags lead.

use std::sync::Arc;

use weir_packet::{BATCH, Batch, LaneId, Packet, Slots};
use weir_stage::ownership::Whose;
use weir_table::exact::Hash;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use crate::control::inner;
use crate::encap::{GRE_IPV4, TAGGED, TUNNEL as TUNNEL_BYTES};
use crate::frame::{NOT_PLAIN, is_tunnel, labels_of};
use crate::ports::Ports;
use crate::registry::half;
use crate::table::{BindingKey, Found, Subscribers};

/// Lanes that owners are found by.
pub(crate) const READS: &[LaneId] = &[LaneId::Port];

/// Balances packets from customers.
pub(crate) struct BalanceUp {
    subscribers: Arc<Subscribers>,
    ports: Arc<Ports>,
    /// What stands in the place of both tags' EtherTypes.
    tagged: u64,
}

/// Which bits of the eight bytes behind the MAC addresses are EtherTypes of tags.
const ETHERTYPES: u64 = 0xffff_0000_ffff_0000;

/// The bits of an identifier in a tag.
const VLAN: u16 = 0xfff;

impl BalanceUp {
    /// The outer tag has the EtherType `tpid`.
    pub(crate) fn new(subscribers: Arc<Subscribers>, ports: Arc<Ports>, tpid: u16) -> BalanceUp {
        let tagged = u64::from(tpid) << 48 | u64::from(ethernet::CVLAN) << 16;
        BalanceUp { subscribers, ports, tagged }
    }
}

impl Whose for BalanceUp {
    fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]) {
        let BalanceUp { subscribers, ports, tagged } = self;
        // Where the bytes of their tags lie; nobody has that at 0.
        let mut places = [0_u32; BATCH];
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let position = ports.ingress(batch.lanes.port[slot]).position;
                let [.., a, b, c, d, e, f, g, h] = packet.window::<{ TAGGED - 2 }>(0);
                let word = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                let (svlan, cvlan) = ((word >> 32) as u16 & VLAN, word as u16 & VLAN);
                if word & ETHERTYPES == *tagged && packet.len() >= TAGGED {
                    places[slot.index()] = subscribers.seek_owner(position, svlan, cvlan);
                }
            },
        );
        *owners = places.map(|at| subscribers.owner_at(at));
    }
}

/// Balances packets from the core.
pub(crate) struct BalanceDown {
    subscribers: Arc<Subscribers>,
    has_keys: bool,
}

/// What says whose a packet from the core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerKey {
    /// A GRE key that has a byte of its own.
    Key(u32),
    /// The key of a binding.
    Address(BindingKey),
    /// Nothing.
    Nobodys,
}

impl BalanceDown {
    /// Packets are in tunnels if subscribers have keys.
    pub(crate) fn new(subscribers: Arc<Subscribers>, has_keys: bool) -> BalanceDown {
        BalanceDown { subscribers, has_keys }
    }

    #[inline(always)]
    fn whose(&self, packet: &Packet) -> OwnerKey {
        let labels = labels_of(packet);
        let at = Ethernet::LEN + labels;
        if self.has_keys {
            let tunnel = packet.window::<TUNNEL_BYTES>(at);
            if labels != NOT_PLAIN
                && packet.len() >= at + TUNNEL_BYTES
                && let Some(key) = plain_key(tunnel)
                && self.subscribers.prefetch_key_owner(key)
            {
                return OwnerKey::Key(key);
            }
        } else if labels != NOT_PLAIN
            && let Some(key) = self.address(packet.bytes().get(at..).unwrap_or_default(), 0)
        {
            return OwnerKey::Address(key);
        }
        self.whose_else(packet)
    }

    /// The same for packets with options, IPv6, keys without a byte, and all that is wrong.
    #[cold]
    fn whose_else(&self, packet: &Packet) -> OwnerKey {
        let frame = packet.bytes();
        let Some(inner) = inner(frame, self.has_keys) else { return OwnerKey::Nobodys };
        if self.has_keys && self.subscribers.prefetch_key_owner(inner.scope) {
            return OwnerKey::Key(inner.scope);
        }
        let packet = frame.get(inner.at..).unwrap_or_default();
        self.address(packet, inner.scope).map_or(OwnerKey::Nobodys, OwnerKey::Address)
    }

    /// The key of the binding of a packet's destination.
    #[inline(always)]
    fn address(&self, packet: &[u8], scope: u32) -> Option<BindingKey> {
        match packet.first()? >> 4 {
            4 => Some(self.subscribers.key4(scope, Ipv4::view(packet)?.destination.get())),
            6 => Some(self.subscribers.key6(scope, half(Ipv6::view(packet)?.destination_addr()))),
            _ => None,
        }
    }

    /// Owners by the records of addresses, looked up in passes.
    fn by_address(&self, which: u64, keys: &[BindingKey; BATCH], hashes: &[Hash; BATCH], owners: &mut [u8; BATCH]) {
        let subscribers = &*self.subscribers;
        let mut found = [Found::NONE; BATCH];
        for slot in Slots(which) {
            let candidate = subscribers.candidate(hashes[slot.index()]);
            subscribers.prefetch_binding(candidate.place());
            found[slot.index()] = candidate;
        }
        for slot in Slots(which) {
            let at = slot.index();
            let likely = subscribers.binding(found[at].place()).filter(|binding| binding.is(keys[at]));
            let certain = || subscribers.find(keys[at], hashes[at]).and_then(|place| subscribers.binding(place));
            owners[at] = likely.or_else(certain).map_or(0, |binding| binding.owner());
        }
    }
}

/// The key of a tunnel without options, fragments and congestion marks, that carries IPv4.
#[inline(always)]
fn plain_key(tunnel: &[u8; TUNNEL_BYTES]) -> Option<u32> {
    let (outer, gre) = tunnel.split_first_chunk::<{ Ipv4::LEN }>()?;
    let (flags, key) = gre.split_first_chunk::<4>()?;
    let [version, ..] = outer;
    (*version == 0x45 && *flags == GRE_IPV4 && is_tunnel(outer)).then_some(u32::from_be_bytes(*key.first_chunk()?))
}

impl Whose for BalanceDown {
    fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]) {
        let subscribers = &*self.subscribers;
        let mut keys = [0_u32; BATCH];
        let mut addresses = [subscribers.key4(0, 0); BATCH];
        let mut hashes = [Hash::from_bits(0); BATCH];
        let (mut by_key, mut by_address) = (0, 0);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| match self.whose(packet) {
                OwnerKey::Key(key) => {
                    keys[slot.index()] = key;
                    by_key |= slot.bit();
                }
                OwnerKey::Address(key) => {
                    let hash = subscribers.hash(key);
                    subscribers.prefetch_bucket(hash);
                    (addresses[slot.index()], hashes[slot.index()]) = (key, hash);
                    by_address |= slot.bit();
                }
                OwnerKey::Nobodys => {}
            },
        );
        for slot in Slots(by_key) {
            owners[slot.index()] = subscribers.owner_by_key(keys[slot.index()]);
        }
        if by_address != 0 {
            self.by_address(by_address, &addresses, &hashes, owners);
        }
    }
}
