//! What is written for collectors: byte by byte, and as tshark reads it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod bytes;
mod flows;
mod tshark;

use weir_stage::flows::{HEAD, InterfaceCounters, InterfaceKind};
use weir_stage::{FlowHop, Output, Sample};

/// A frame with an Ethernet header, one tag, and `packet` behind it.
pub(crate) fn sample(packet: &[u8], ethertype: u16, len: u32, hop: FlowHop) -> Sample {
    let mut head = [0; HEAD];
    let frame =
        [[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 100].as_slice(), &ethertype.to_be_bytes(), packet].concat();
    let kept = frame.len().min(HEAD);
    head[..kept].copy_from_slice(&frame[..kept]);
    Sample { len, stripped: 0, head, l3: 18, input: 4, vlans: [100, 0], vrf: 0, hop, pool: 5000, lost: 3 }
}

/// A frame with an Ethernet header and a tunnel of 40 bytes, of which `packet` is told that was inside, of a customer's with two tags.
pub(crate) fn tunnelled(packet: &[u8], hop: FlowHop) -> Sample {
    let mut head = [0; HEAD];
    head[..packet.len()].copy_from_slice(packet);
    Sample { len: 254, stripped: 54, head, l3: 0, vlans: [100, 9], ..sample(&[], 0x0800, 0, hop) }
}

pub(crate) fn hop(next_hop: Option<&str>) -> FlowHop {
    let next_hop = next_hop.map(|text| text.parse().unwrap());
    FlowHop { output: Output::Interface(6), vrf: 2, next_hop, vlans: [200, 7], source_len: 24, destination_len: 16 }
}

/// An IPv4 packet of TCP from 10.0.0.1:1000 to 192.0.2.9:443, 200 bytes long by its header, with these flags.
pub(crate) fn tcp4(flags: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0x28, 0, 200, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9];
    packet.extend([0x03, 0xe8, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet
}

/// An IPv6 packet with a destination options header and ICMPv6 of type 128, code 0.
pub(crate) fn icmp6() -> Vec<u8> {
    let mut packet = vec![0x6a, 0xb1, 0x23, 0x45, 0, 16, 60, 64];
    for end in [1, 9] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    packet.extend([58, 0, 1, 4, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]);
    packet
}

/// An interface that is up, with some counters.
pub(crate) fn interface() -> InterfaceCounters {
    InterfaceCounters {
        id: 4,
        name: "lan.100".to_owned(),
        kind: InterfaceKind::Vlan,
        enabled: true,
        up: true,
        received: [11, 1100],
        sent: [22, 5_000_000_000],
    }
}
