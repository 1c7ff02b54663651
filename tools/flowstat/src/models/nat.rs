//! A translator of addresses and ports.

use weir_capture::decode::Layers;
use weir_wire::{ipv4, ipv6};

use crate::hash::Hasher;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};

/// Addresses and ports change, and with them checksums; TTL and link headers as in a router. What stays is the protocol, the
/// identification of IPv4, of TCP its numbers, flags and window, of UDP its length, of ICMP its type and sequence number, and the data.
///
/// Packets of which only one was sent that keeps just this show which flow became which. Once a flow is known, its packets are
/// looked for among those of its own only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nat {
    /// Bytes from the start of the transport header that are looked at; `None`: all.
    pub bytes: Option<usize>,
}

/// What a translator leaves as it is of a transport header and what follows, in two pieces.
fn kept(protocol: u8, transport: &[u8]) -> (&[u8], &[u8]) {
    let piece =
        |from: usize, to: usize| transport.get(from.min(transport.len())..to.min(transport.len())).unwrap_or_default();
    match protocol {
        // Sequence and acknowledgement numbers, offset, flags, window; then the urgent pointer and all behind it.
        ipv4::TCP => (piece(4, 16), piece(18, usize::MAX)),
        ipv4::UDP | ipv4::UDP_LITE => (piece(4, 6), piece(8, usize::MAX)),
        // Type and code; then what is behind the identifier, which stands for a port.
        ipv4::ICMP | ipv6::ICMPV6 => (piece(0, 2), piece(6, usize::MAX)),
        _ => (transport, &[]),
    }
}

impl Model for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn identify(&self, packet: &Packet<'_>, _: Side, hasher: &Hasher) -> Identity {
        let layers = packet.layers();
        let Some(ip) = layers.outer() else { return Identity::Unidentified };
        let claimed = ip
            .v4()
            .map_or_else(|| ip.v6().map_or(0, |six| 40 + six.payload_length.get() as usize), |four| four.total_len());
        let whole = (packet.length as usize).saturating_sub(ip.at()).min(claimed);
        let length = (ip.at() + whole).saturating_sub(ip.payload_at());
        let wanted = length.min(self.bytes.unwrap_or(usize::MAX));
        let Some(transport) = packet.data.get(ip.payload_at()..).and_then(|rest| rest.get(..wanted)) else {
            return Identity::Cut;
        };
        let (first, second) = match ip.fragment_offset() {
            0 => kept(ip.protocol(), transport),
            _ => (transport, &[][..]),
        };
        let mut known = [0; 12];
        let [version, protocol, l0, l1, l2, l3, i0, i1, i2, i3, f0, f1] = &mut known;
        (*version, *protocol) = (ip.version(), ip.protocol());
        [*l0, *l1, *l2, *l3] = (length as u32).to_be_bytes();
        [*i0, *i1, *i2, *i3] = ip.identification().unwrap_or(0).to_be_bytes();
        [*f0, *f1] = (ip.fragment_offset() as u16).to_be_bytes();
        Identity::Flow(hasher.key(&[&known, first, second]), flow(layers, hasher))
    }

    fn renames(&self) -> bool {
        true
    }

    fn unidentified(&self) -> &'static str {
        "are neither IPv4 nor IPv6, which this model does not know again"
    }
}

/// Addresses, protocol and ports of the outermost packet, hashed.
fn flow(layers: &Layers<'_>, hasher: &Hasher) -> u32 {
    let Some(ip) = layers.outer() else { return 0 };
    let transport = ip.payload();
    let names: &[u8] = match ip.protocol() {
        _ if ip.fragment_offset() > 0 => &[],
        ipv4::TCP | ipv4::UDP | ipv4::UDP_LITE => transport.get(..4).unwrap_or_default(),
        ipv4::ICMP | ipv6::ICMPV6 => transport.get(4..6).unwrap_or_default(),
        _ => &[],
    };
    hasher.key(&[ip.source(), ip.destination(), names, &[ip.protocol()]]).low() as u32
}
