//! IPv6 by hand: packets from their definitions, and what a router sent.

use std::net::Ipv6Addr;

use weir_wire::MacAddr;
use weir_wire::nd::{self, Body, Flags, Message};

use super::{PortSpec, Rig, SECOND};

/// Two ports with a network each, the second one too narrow for what the first one carries.
pub const TWO6: &[PortSpec] =
    &[PortSpec("left", &["2001:db8:0:1::1/64"], 9000), PortSpec("right", &["2001:db8:0:2::1/64"], 1400)];

/// The host on the left, and that on the right.
pub const LEFT: &str = "2001:db8:0:1::9";
pub const RIGHT: &str = "2001:db8:0:2::9";
pub const LEFT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 0]);
pub const RIGHT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 1]);

pub fn ip6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The checksum over the pseudo header of RFC 8200 section 8.1 and a message, word by word.
pub fn sum6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, message: &[u8]) -> u16 {
    let mut all = [source.octets(), destination.octets()].concat();
    all.extend((message.len() as u32).to_be_bytes());
    all.extend([0, 0, 0, next]);
    all.extend(message);
    if all.len() % 2 == 1 {
        all.push(0);
    }
    let sum = all.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).fold(0, |sum, word| {
        let sum: u32 = sum + word;
        (sum & 0xffff) + (sum >> 16)
    });
    !(sum as u16)
}

/// An ICMPv6 message with its checksum.
pub fn icmp6(source: &str, destination: &str, kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let sum = sum6(ip6(source), ip6(destination), 58, &message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

/// An IPv6 packet.
pub fn packet6(source: &str, destination: &str, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, hops]);
    packet.extend(ip6(source).octets());
    packet.extend(ip6(destination).octets());
    packet.extend(payload);
    packet
}

/// A frame from a host on a port to the router, or to a group.
pub fn frame6(rig: &Rig, port: usize, packet: &[u8]) -> Vec<u8> {
    let destination = Ipv6Addr::from_octets(packet[24..40].try_into().unwrap());
    let to = if destination.is_multicast() { nd::group_mac(destination) } else { rig.mac(port) };
    let from = [LEFT_MAC, RIGHT_MAC, MacAddr([2, 0, 0, 0, 9, 2])][port];
    [&to.0[..], &from.0, &[0x86, 0xdd], packet].concat()
}

/// The same of UDP, 64 hops, with a payload of so many bytes.
pub fn udp6(rig: &Rig, port: usize, source: &str, destination: &str, hops: u8, payload: usize) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0x20, 0, 9];
    datagram.extend((8 + payload as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend((0..payload).map(|n| n as u8));
    let sum = sum6(ip6(source), ip6(destination), 17, &datagram).to_be_bytes();
    datagram[6..8].copy_from_slice(&sum);
    frame6(rig, port, &packet6(source, destination, 17, hops, &datagram))
}

/// Whether a frame is whole: lengths, and the checksum of what it carries if that is ICMPv6.
pub fn assert_sound(frame: &[u8]) {
    let packet = &frame[14..];
    assert_eq!((packet[0] >> 4, &frame[12..14]), (6, &[0x86, 0xdd][..]));
    let length = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    assert_eq!(packet.len(), length);
    if packet[6] == 58 {
        let [source, destination] = [8, 24].map(|at| Ipv6Addr::from_octets(packet[at..at + 16].try_into().unwrap()));
        assert_eq!(sum6(source, destination, 58, &packet[40..]), 0, "its checksum");
    }
}

/// The ICMPv6 error of RFC 4443 section 3 that the router sends to a host on the left, about a frame from there.
pub fn error6(rig: &Rig, from: &str, about: &[u8], kind: u8, code: u8, rest: u32) -> Vec<u8> {
    let quote = &about[14..];
    let quote = &quote[..quote.len().min(1280 - 48)];
    let back = Ipv6Addr::from_octets(about[22..38].try_into().unwrap()).to_string();
    let message = icmp6(from, &back, kind, code, rest.to_be_bytes(), quote);
    let packet = packet6(from, &back, 58, 64, &message);
    [&LEFT_MAC.0[..], &rig.mac(0).0, &[0x86, 0xdd], &packet].concat()
}

/// Whether a frame is of neighbour discovery or multicast listeners.
fn is_of_the_link(frame: &[u8]) -> bool {
    let link = 130..=143;
    frame[20] == 58 && link.contains(&frame[54]) || frame[20] == 0 && frame[54] == 58 && link.contains(&frame[62])
}

impl Rig {
    /// The IPv6 packets that a port sent since the last call, without neighbour discovery and multicast listeners; all are sound.
    pub fn sent_six(&mut self, port: usize) -> Vec<Vec<u8>> {
        let all = self.sent(port).into_iter().filter(|frame| frame[12..14] == [0x86, 0xdd]);
        all.filter(|frame| !is_of_the_link(frame)).inspect(|frame| assert_sound(frame)).collect()
    }

    /// The messages of neighbours that a port sent since the last call, with their Ethernet destination.
    pub fn sent_nd(&mut self, port: usize) -> Vec<(MacAddr, Message)> {
        let frames = self.sent(port).into_iter();
        let message = |frame: Vec<u8>| Some((MacAddr(frame[..6].try_into().unwrap()), nd::parse(&frame[14..])?));
        frames.filter_map(message).collect()
    }

    /// The link-local address of a port's interface.
    pub fn link_local(&self, port: usize) -> Ipv6Addr {
        nd::link_local(self.mac(port))
    }

    /// Sends a message of a neighbour to a port.
    pub fn nd(&mut self, port: usize, from: MacAddr, message: &Message) {
        let to = message.group().unwrap_or(self.mac(port));
        let mut frame = vec![0; nd::FRAME_LEN + 8];
        let length = message.write(&mut frame, from, to).unwrap();
        frame.truncate(length);
        self.send(port, frame);
        self.settle();
    }

    /// Answers as the host `address` with `mac` would that was asked by `to`.
    pub fn nd_reply(&mut self, port: usize, address: &str, mac: MacAddr, to: Ipv6Addr) {
        let flags = Flags { router: false, solicited: true, over: true };
        let body = Body::Advertisement { target: ip6(address), link: Some(mac), flags };
        self.nd(port, mac, &Message { source: ip6(address), destination: to, body });
    }

    /// Lets the router say all that it says at the start, and forgets that.
    pub fn quiet(mut self) -> Rig {
        self.run(20 * SECOND);
        (0..self.handles.len()).for_each(|port| drop(self.sent(port)));
        self
    }
}
