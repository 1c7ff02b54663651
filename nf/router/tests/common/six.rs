//! IPv6 by hand: packets from their definitions, and what a router sent.

use std::net::Ipv6Addr;

use weir_wire::nd::{self, Body, Flags, Message};
use weir_wire::{MacAddr, ethernet};

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

/// The same of UDP, with a payload of so many bytes.
pub fn udp6(rig: &Rig, port: usize, source: &str, destination: &str, hops: u8, payload: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..payload).map(|n| n as u8).collect();
    Udp6 { hop_limit: hops, ..rig.udp6(port, source, destination) }.to_vec(&data)
}

/// A UDP packet in IPv6 in Ethernet.
#[derive(Clone, Copy)]
pub struct Udp6 {
    pub source_mac: MacAddr,
    pub destination_mac: MacAddr,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub label: u32,
    pub hop_limit: u8,
    pub source_port: u16,
}

impl Udp6 {
    /// A frame with its checksum (RFC 8200 section 8.1).
    pub fn to_vec(self, data: &[u8]) -> Vec<u8> {
        let length = (8 + data.len()) as u16;
        let mut datagram = [self.source_port.to_be_bytes(), 9_u16.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
        datagram.extend(data);
        // A sum of zero is sent as its other form: zero says that there is none.
        let sum = sum6(self.source, self.destination, 17, &datagram);
        datagram[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        self.around(17, &datagram)
    }

    /// A frame that carries something else.
    pub fn around(self, next_header: u8, payload: &[u8]) -> Vec<u8> {
        let start = (6 << 28 | self.label).to_be_bytes();
        let rest = [&(payload.len() as u16).to_be_bytes()[..], &[next_header, self.hop_limit]].concat();
        let ip = [&start[..], &rest, &self.source.octets(), &self.destination.octets(), payload].concat();
        [&self.destination_mac.0[..], &self.source_mac.0, &ethernet::IPV6.to_be_bytes(), &ip].concat()
    }
}

/// The frame that leaves by a port of the router when one is sent to a station there: as it was but for its link header and its hop limit
/// (RFC 8200 section 3).
pub fn forwarded6(frame: &[u8], source: MacAddr, destination: MacAddr) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
    frame[21] -= 1;
    frame
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

/// The answer of the host `address` with `mac` to a question of `to`.
pub fn answer6(address: &str, mac: MacAddr, to: Ipv6Addr) -> Message {
    let flags = Flags { router: false, solicited: true, over: true };
    let body = Body::Advertisement { target: ip6(address), link: Some(mac), flags };
    Message { source: ip6(address), destination: to, body }
}

impl Rig {
    /// A UDP frame of IPv6 to the router on a port.
    pub fn udp6(&self, port: usize, source: &str, destination: &str) -> Udp6 {
        Udp6 {
            source_mac: MacAddr([2, 0, 0, 0, 9, port as u8]),
            destination_mac: self.mac(port),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            label: 0,
            hop_limit: 64,
            source_port: 0xc020,
        }
    }

    /// The IPv6 packets that a port sent since the last call, without neighbour discovery and multicast listeners.
    pub fn sent_six(&mut self, port: usize) -> Vec<Vec<u8>> {
        let all = self.sent(port).into_iter().filter(|frame| frame[12..14] == [0x86, 0xdd]);
        all.filter(|frame| !is_of_the_link(frame)).collect()
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

    /// The frame of a message of a neighbour to a port.
    pub fn nd_frame(&self, port: usize, from: MacAddr, message: &Message) -> Vec<u8> {
        let to = message.group().unwrap_or(self.mac(port));
        let mut frame = vec![0; nd::FRAME_LEN + 8];
        let length = message.write(&mut frame, from, to).unwrap();
        frame.truncate(length);
        frame
    }

    /// Sends a message of a neighbour to a port, and lets the router hear it.
    pub fn nd(&mut self, port: usize, from: MacAddr, message: &Message) {
        let frame = self.nd_frame(port, from, message);
        self.send(port, frame);
        self.settle();
    }

    /// Answers as the host `address` with `mac` would that was asked by `to`.
    pub fn nd_reply(&mut self, port: usize, address: &str, mac: MacAddr, to: Ipv6Addr) {
        self.nd(port, mac, &answer6(address, mac, to));
    }

    /// Lets the router say all that it says at the start, and forgets that.
    pub fn quiet(mut self) -> Rig {
        self.run(20 * SECOND);
        (0..self.handles.len()).for_each(|port| drop(self.sent(port)));
        self
    }
}
