//! Hosts behind interfaces of each kind, and what they send and see.

use weir_wire::build::UdpFrame;
use weir_wire::{MacAddr, ethernet, ipv4};

use super::{PortSpec, Rig};

/// IEEE 802.1Q, and 802.1ad.
pub const C: u16 = 0x8100;
pub const S: u16 = 0x88a8;

pub const PORTS: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 1500), PortSpec("right", &["10.0.1.1/24"], 1500)];

/// Where packets come from and go to: a host behind each kind of interface.
pub struct Side {
    pub port: usize,
    pub tags: &'static [(u16, u16)],
    pub host: &'static str,
    pub mac: MacAddr,
    pub interface: &'static str,
}

pub const fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, last])
}

pub const SIDES: &[Side] = &[
    Side { port: 0, tags: &[], host: "10.0.0.9", mac: mac(0), interface: "left" },
    Side { port: 1, tags: &[], host: "10.0.1.9", mac: mac(1), interface: "right" },
    Side { port: 1, tags: &[(C, 100)], host: "10.1.0.9", mac: mac(2), interface: "right.100" },
    Side { port: 1, tags: &[(S, 100)], host: "10.1.1.9", mac: mac(3), interface: "right.s100" },
    Side { port: 1, tags: &[(S, 7), (C, 9)], host: "10.1.2.9", mac: mac(4), interface: "right.7.9" },
    Side { port: 1, tags: &[(S, 7), (C, 10)], host: "10.1.3.9", mac: mac(5), interface: "right.7.10" },
    Side { port: 1, tags: &[(0x9100, 4094), (S, 1)], host: "10.1.4.9", mac: mac(6), interface: "right.odd" },
    Side { port: 0, tags: &[(C, 4000)], host: "10.1.5.9", mac: mac(7), interface: "left.4000" },
];

/// A frame with tags put behind its MAC addresses.
pub fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(tpid, control)| [tpid.to_be_bytes(), control.to_be_bytes()]).flatten();
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}

/// A UDP packet from one side to another host.
pub fn from(rig: &Rig, side: &Side, destination: &str, payload: &[u8]) -> Vec<u8> {
    let frame = UdpFrame {
        source_mac: side.mac,
        destination_mac: rig.mac(side.port),
        source: side.host.parse().unwrap(),
        destination: destination.parse().unwrap(),
        ..UdpFrame::default()
    };
    tagged(&frame.to_vec(payload), side.tags)
}

/// What is to come out of a packet that was sent to a side: a hop less, and the side's header.
pub fn expected(rig: &Rig, sent: &[u8], from: &Side, to: &Side) -> Vec<u8> {
    let mut packet = sent[14 + 4 * from.tags.len()..].to_vec();
    packet[8] -= 1;
    ipv4::write_checksum(&mut packet);
    let mut frame = [to.mac.0, rig.mac(to.port).0].concat();
    frame.extend(ethernet::IPV4.to_be_bytes());
    frame.extend(packet);
    tagged(&frame, to.tags)
}
