//! ARP for Ethernet and IPv4 (RFC 826).

use crate::{Ethernet, MacAddr, U16, U32, View, ethernet};
use std::net::Ipv4Addr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an ARP frame: Ethernet header and ARP packet, without padding.
pub const FRAME_LEN: usize = Ethernet::LEN + Arp::LEN;

const HARDWARE_ETHERNET: u16 = 1;

/// What an ARP packet wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// The ARP packet on the wire, 28 bytes, for 6-byte hardware and 4-byte protocol addresses.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Arp {
    /// `ar$hrd`: 1 for Ethernet.
    pub hardware: U16,
    /// `ar$pro`: the EtherType of the protocol.
    pub protocol: U16,
    /// `ar$hln`: bytes of a hardware address.
    pub hardware_length: u8,
    /// `ar$pln`: bytes of a protocol address.
    pub protocol_length: u8,
    /// `ar$op`: 1 request, 2 reply.
    pub operation: U16,
    /// `ar$sha`.
    pub sender_mac: MacAddr,
    /// `ar$spa`.
    pub sender: U32,
    /// `ar$tha`.
    pub target_mac: MacAddr,
    /// `ar$tpa`.
    pub target: U32,
}

impl View for Arp {}

/// What an ARP packet for Ethernet and IPv4 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpFields {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's hardware address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// The target's hardware address; without meaning in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target: Ipv4Addr,
}

impl ArpFields {
    /// What the packet at the start of `bytes` says; `None` if it is too short, is not for Ethernet and IPv4, or is
    /// neither request nor reply.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let arp = Arp::view(bytes)?;
        let known = arp.hardware.get() == HARDWARE_ETHERNET
            && arp.protocol.get() == ethernet::IPV4
            && arp.hardware_length == 6
            && arp.protocol_length == 4;
        let operation = match arp.operation.get() {
            1 if known => Operation::Request,
            2 if known => Operation::Reply,
            _ => return None,
        };
        Some(ArpFields {
            operation,
            sender_mac: arp.sender_mac,
            sender: Ipv4Addr::from_bits(arp.sender.get()),
            target_mac: arp.target_mac,
            target: Ipv4Addr::from_bits(arp.target.get()),
        })
    }

    /// The packet that says this.
    pub fn to_wire(&self) -> Arp {
        Arp {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: U16::new(ethernet::IPV4),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(match self.operation {
                Operation::Request => 1,
                Operation::Reply => 2,
            }),
            sender_mac: self.sender_mac,
            sender: U32::new(self.sender.to_bits()),
            target_mac: self.target_mac,
            target: U32::new(self.target.to_bits()),
        }
    }

    /// Writes the frame that carries this from its sender's MAC address to `destination`. Answers its length,
    /// [`FRAME_LEN`]; `None`, and nothing written, if `frame` is shorter. Padding to Ethernet's least length is the
    /// device's business.
    pub fn write(&self, destination: MacAddr, frame: &mut [u8]) -> Option<usize> {
        let frame = frame.get_mut(..FRAME_LEN)?;
        let (header, rest) = Ethernet::split_mut(frame)?;
        *header = Ethernet::new(destination, self.sender_mac, ethernet::ARP);
        *Arp::view_mut(rest)? = self.to_wire();
        Some(FRAME_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST: [u8; 42] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x06, // Ethernet
        0, 1, 0x08, 0, 6, 4, 0, 1, // fixed part, request
        2, 0, 0, 0, 0, 1, 192, 0, 2, 1, // sender
        0, 0, 0, 0, 0, 0, 192, 0, 2, 9, // target
    ];

    fn request() -> ArpFields {
        ArpFields {
            operation: Operation::Request,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender: Ipv4Addr::new(192, 0, 2, 1),
            target_mac: MacAddr::ZERO,
            target: Ipv4Addr::new(192, 0, 2, 9),
        }
    }

    #[test]
    fn a_request_is_the_bytes_of_rfc_826() {
        let mut frame = [0xaa; 60];
        assert_eq!(request().write(MacAddr::BROADCAST, &mut frame), Some(42));
        assert_eq!(frame[..42], REQUEST);
        assert_eq!(ArpFields::parse(&REQUEST[14..]), Some(request()));
        assert_eq!(request().write(MacAddr::BROADCAST, &mut [0; 41]), None);
    }

    #[test]
    fn other_hardware_protocols_lengths_and_operations_are_refused() {
        for (at, value) in [(15, 6), (16, 0x86), (18, 8), (19, 16), (21, 0), (21, 3), (20, 1)] {
            let mut frame = REQUEST;
            frame[at] = value;
            assert_eq!(ArpFields::parse(&frame[14..]), None, "byte {at} = {value}");
        }
        assert_eq!(ArpFields::parse(&REQUEST[14..41]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_and_what_parses_round_trips(mut bytes: [u8; 28], known: bool) {
            if known {
                bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
            }
            match ArpFields::parse(&bytes) {
                Some(fields) => prop_assert_eq!(fields.to_wire(), Arp::read_from_bytes(&bytes).unwrap()),
                None => prop_assert!(!known),
            }
        }
    }
}
