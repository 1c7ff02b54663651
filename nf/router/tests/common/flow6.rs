//! UDP packets of IPv6, flow by flow.

use std::net::Ipv6Addr;

use weir_wire::{MacAddr, ethernet};

use super::Rig;

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
        let addresses = [self.source.octets(), self.destination.octets()].concat();
        let pseudo = [&addresses[..], &u32::from(length).to_be_bytes(), &[0, 0, 0, 17], &datagram].concat();
        let sum: u32 =
            pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
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
