//! By which interfaces packets come in, and what may come in there.

use weir_ip::{Ingress, InterfaceId, PortView};
use weir_packet::Packet;
use weir_wire::{Ethernet, View, ethernet};

use crate::rules::Rules;

/// The interfaces of the port of the packet before, at hand: packets of a batch mostly come by one port.
pub(super) struct IngressCache<'t> {
    rules: &'t Rules,
    ingress: &'t Ingress,
    port: u16,
    view: PortView<'t>,
    mac: u64,
    sides: Sides,
}

impl<'t> IngressCache<'t> {
    #[inline(always)]
    pub(super) fn new(rules: &'t Rules, ingress: &'t Ingress) -> IngressCache<'t> {
        let (port, sides) = (u16::MAX, Sides::NONE);
        IngressCache { rules, ingress, port, view: ingress.port(port), mac: u64::MAX, sides }
    }

    /// Where the network header begins of a packet that came by a port; `None` if it is for somebody else's station.
    #[inline(always)]
    pub(super) fn enter<const TAGGED: bool>(&mut self, port: u16, packet: &Packet) -> Option<usize> {
        let IngressCache { rules, ingress, .. } = *self;
        if port != self.port {
            (self.port, self.view, self.mac) = (port, ingress.port(port), ingress.mac_word(port));
            self.sides = Sides::of(rules, ingress, ingress.untagged_of(port));
        }
        if TAGGED {
            let entered = self.view.enter(packet.window(0));
            self.sides = Sides::of(rules, ingress, entered.interface);
            return entered.is_ours.then_some(usize::from(entered.l3));
        }
        (u64::from_le_bytes(*packet.window(0)) & MAC_BITS == self.mac).then_some(Ethernet::LEN)
    }

    /// The sides of the interface by which the packet before came.
    #[inline(always)]
    pub(super) fn sides(&self) -> Sides {
        self.sides
    }
}

/// On which sides of the relay an interface is: what the four bytes from the EtherType on must be there, as a little-endian word, and [`Sides::NEVER`]
/// where none may come.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) four: u32,
    pub(super) six: u32,
}

impl Sides {
    const NONE: Sides = Sides { four: Sides::NEVER, six: Sides::NEVER };
    /// What no word is of which the bits are taken that count.
    const NEVER: u32 = u32::MAX;
    /// The bits that count: the EtherType of IPv4, whose header is checked later; that of IPv6, and the version.
    pub(super) const FOUR: u32 = u32::from_le_bytes([0xff, 0xff, 0, 0]);
    pub(super) const SIX: u32 = u32::from_le_bytes([0xff, 0xff, 0xf0, 0]);
    /// The congestion marks of IPv6 (RFC 3168), the last two bits of the traffic class.
    pub(super) const ECN: u32 = u32::from_le_bytes([0, 0, 0, 0x30]);

    #[inline(always)]
    fn of(rules: &Rules, ingress: &Ingress, interface: InterfaceId) -> Sides {
        const FOUR: u32 = ethernet::IPV4.swap_bytes() as u32;
        const VERSION: u32 = u32::from_le_bytes([0, 0, 0x60, 0]);
        const SIX: u32 = ethernet::IPV6.swap_bytes() as u32 | VERSION;
        let vrf = ingress.vrf_of(interface);
        let is_four = rules.four.has(interface) && vrf == rules.vrfs[0];
        let is_six = rules.six.has(interface) && vrf == rules.vrfs[1];
        Sides { four: if is_four { FOUR } else { Sides::NEVER }, six: if is_six { SIX } else { Sides::NEVER } }
    }
}

/// The bits of a MAC address in a little-endian word.
const MAC_BITS: u64 = (1 << 48) - 1;
