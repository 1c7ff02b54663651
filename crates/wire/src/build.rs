//! Whole frames: what a generator sends and a test feeds.

use crate::{Ethernet, Ipv4, MacAddr, U16, U32, View, ethernet, ipv4, udp};
use std::net::Ipv4Addr;

/// Bytes before the data of a frame that [`UdpFrame`] writes.
pub const UDP_OVERHEAD: usize = Ethernet::LEN + Ipv4::LEN + udp::Udp::LEN;

/// A UDP datagram in IPv4 in Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Source MAC address.
    pub source_mac: MacAddr,
    /// Destination MAC address.
    pub destination_mac: MacAddr,
    /// Source IPv4 address.
    pub source: Ipv4Addr,
    /// Destination IPv4 address.
    pub destination: Ipv4Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Hops to live.
    pub ttl: u8,
}

impl Default for UdpFrame {
    /// From 198.18.0.1 to 198.19.0.1 (RFC 2544 appendix C.2.2), the discard port, TTL 64, locally administered MACs.
    fn default() -> Self {
        UdpFrame {
            source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            source: Ipv4Addr::new(198, 18, 0, 1),
            destination: Ipv4Addr::new(198, 19, 0, 1),
            source_port: 0xc020,
            destination_port: 9,
            ttl: 64,
        }
    }
}

impl UdpFrame {
    /// Writes headers and checksums around the data that fill `frame` from byte [`UDP_OVERHEAD`] on. Answers `false`, and
    /// writes nothing of use, if the frame is shorter than that or its IPv4 packet longer than 65,535 bytes.
    pub fn write_around(&self, frame: &mut [u8]) -> bool {
        self.try_write(frame).is_some()
    }

    /// A frame that carries `data`; empty if they exceed 65,507 bytes.
    pub fn to_vec(&self, data: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; UDP_OVERHEAD];
        frame.extend_from_slice(data);
        if self.write_around(&mut frame) { frame } else { Vec::new() }
    }

    fn try_write(&self, frame: &mut [u8]) -> Option<()> {
        let (ethernet, packet) = Ethernet::split_mut(frame)?;
        *ethernet = Ethernet::new(self.destination_mac, self.source_mac, ethernet::IPV4);
        let total_length = u16::try_from(packet.len()).ok()?;
        let (ip, datagram) = Ipv4::split_mut(packet)?;
        *ip = Ipv4 {
            version_ihl: 0x45,
            tos: 0,
            total_length: U16::new(total_length),
            identification: U16::ZERO,
            flags_offset: U16::ZERO,
            ttl: self.ttl,
            protocol: ipv4::UDP,
            checksum: U16::ZERO,
            source: U32::new(self.source.to_bits()),
            destination: U32::new(self.destination.to_bits()),
        };
        let length = U16::new(u16::try_from(datagram.len()).ok()?);
        *udp::Udp::view_mut(datagram)? = udp::Udp {
            source: U16::new(self.source_port),
            destination: U16::new(self.destination_port),
            length,
            checksum: U16::ZERO,
        };
        let sum = udp::checksum(ip, datagram);
        udp::Udp::view_mut(datagram)?.checksum = U16::new(sum);
        ipv4::write_checksum(packet).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_valid() {
        let template = UdpFrame::default();
        for length in 0..300 {
            let data = vec![0x5a; length];
            let frame = template.to_vec(&data);
            assert_eq!(frame.len(), UDP_OVERHEAD + length);
            let packet = &frame[14..];
            assert_eq!(crate::validity::check_slice(packet), Ok(()));
            let ip = Ipv4::view(packet).unwrap();
            assert_eq!((ip.source_addr(), ip.destination_addr(), ip.ttl), (template.source, template.destination, 64));
            assert!(udp::is_valid(ip, &packet[20..]));
            assert_ne!(udp::Udp::view(&packet[20..]).unwrap().checksum, U16::ZERO);
            assert_eq!(packet[28..], data);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(!UdpFrame::default().write_around(&mut [0; UDP_OVERHEAD - 1]));
        assert!(UdpFrame::default().to_vec(&vec![0; 65_508]).is_empty());
        assert_eq!(UdpFrame::default().to_vec(&vec![0; 65_507]).len(), 65_549);
    }
}
