//! A frame in one line, for traces and logs.
//!
//! ```
//! use weir_wire::{build::UdpFrame, describe::Describe};
//! let frame = UdpFrame::default().to_vec(&[0; 18]);
//! let line = Describe(&frame).to_string();
//! assert_eq!(
//!     line,
//!     "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 ipv4 198.18.0.1 > 198.19.0.1 ttl 64 udp 49184 > 9 len 18"
//! );
//! ```

use crate::arp::{ArpFields, Operation};
use crate::icmp::Icmp;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::vlan::Vlan;
use crate::{Ethernet, Ipv4, View, ethernet, icmp, ipv4, tcp, validity, vlan};
use std::fmt::{self, Display, Formatter};
use std::net::Ipv6Addr;

/// Shows the Ethernet frame it holds in one line of at most a few hundred characters. Answers for any bytes; what is cut
/// short says `[short]`, and a bad IPv4 packet says what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Describe<'f>(pub &'f [u8]);

/// Shows an IPv4 packet without a link header as [`Describe`] shows a frame.
#[derive(Clone, Copy, Debug)]
pub struct DescribeIpv4<'f>(pub &'f [u8]);

/// More tags than this are not taken apart.
const MAX_TAGS: usize = 4;

impl Display for Describe<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((header, mut rest)) = Ethernet::split(self.0) else {
            return write!(f, "eth [short] len {}", self.0.len());
        };
        write!(f, "eth {} > {} ", header.source, header.destination)?;
        let mut ethertype = header.ethertype.get();
        for _ in 0..MAX_TAGS {
            let Some((tag, after)) = Vlan::split(rest).filter(|_| vlan::is_tag(ethertype)) else { break };
            let name = if ethertype == ethernet::SVLAN { "svlan" } else { "vlan" };
            write!(f, "{name} {} ", tag.id())?;
            (ethertype, rest) = (tag.ethertype.get(), after);
        }
        match ethertype {
            ethernet::IPV4 => DescribeIpv4(rest).fmt(f),
            ethernet::IPV6 => ipv6(f, rest),
            ethernet::ARP => arp(f, rest),
            length if length < ethernet::FIRST_TYPE => write!(f, "802.3 len {length}"),
            other => match ethernet::ethertype_name(other) {
                Some(name) => write!(f, "{name} len {}", rest.len()),
                None => write!(f, "ethertype 0x{other:04x} len {}", rest.len()),
            },
        }
    }
}

impl Display for DescribeIpv4<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(ip) = Ipv4::view(self.0) else { return write!(f, "ipv4 [short] len {}", self.0.len()) };
        write!(f, "ipv4 {} > {} ttl {} ", ip.source_addr(), ip.destination_addr(), ip.ttl)?;
        if let Err(defect) = validity::check_slice(self.0) {
            write!(f, "[{}] ", defect.name())?;
        }
        if ip.has_options() {
            write!(f, "options {} ", ip.header_len().saturating_sub(Ipv4::LEN))?;
        }
        if ip.is_fragment() {
            let more = if ip.more_fragments() { "+" } else { "" };
            write!(f, "frag {}@{}{more} ", ip.identification, ip.fragment_offset())?;
        }
        let end = ip.total_len().min(self.0.len());
        let payload = self.0.get(ip.header_len().max(Ipv4::LEN)..end).unwrap_or_default();
        if ip.fragment_offset() > 0 {
            return write!(f, "{} len {}", Protocol(ip.protocol), payload.len());
        }
        match ip.protocol {
            ipv4::UDP => udp(f, payload),
            ipv4::TCP => tcp_segment(f, payload),
            ipv4::ICMP => icmp_message(f, payload),
            other => write!(f, "{} len {}", Protocol(other), payload.len()),
        }
    }
}

struct Protocol(u8);

impl Display for Protocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match ipv4::protocol_name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

fn udp(f: &mut Formatter<'_>, payload: &[u8]) -> fmt::Result {
    match Udp::split(payload) {
        Some((udp, data)) => write!(f, "udp {} > {} len {}", udp.source, udp.destination, data.len()),
        None => write!(f, "udp [short] len {}", payload.len()),
    }
}

fn tcp_segment(f: &mut Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let Some(segment) = Tcp::view(payload) else { return write!(f, "tcp [short] len {}", payload.len()) };
    let flags: String = tcp::flag_letters(segment.flags).collect();
    let data = payload.len().saturating_sub(segment.header_len());
    write!(f, "tcp {} > {} [{flags}] seq {} len {data}", segment.source, segment.destination, segment.sequence)
}

fn icmp_message(f: &mut Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let Some((header, data)) = Icmp::split(payload) else {
        return write!(f, "icmp [short] len {}", payload.len());
    };
    match icmp::name(header.kind, header.code) {
        Some(name) => write!(f, "icmp {name}")?,
        None => write!(f, "icmp type {} code {}", header.kind, header.code)?,
    }
    match (header.kind, header.code) {
        (icmp::ECHO | icmp::ECHO_REPLY, _) => {
            write!(f, " id {} seq {}", header.echo_identifier(), header.echo_sequence())?;
        }
        (icmp::DESTINATION_UNREACHABLE, icmp::FRAGMENTATION_NEEDED) => write!(f, " mtu {}", header.next_hop_mtu())?,
        _ => {}
    }
    write!(f, " len {}", data.len())
}

fn arp(f: &mut Formatter<'_>, packet: &[u8]) -> fmt::Result {
    let Some(arp) = ArpFields::parse(packet) else { return write!(f, "arp [not ethernet-ipv4] len {}", packet.len()) };
    match arp.operation {
        Operation::Request => write!(f, "arp who-has {} tell {}", arp.target, arp.sender),
        Operation::Reply => write!(f, "arp {} is-at {}", arp.sender, arp.sender_mac),
    }
}

fn ipv6(f: &mut Formatter<'_>, packet: &[u8]) -> fmt::Result {
    let Some(header) = packet.first_chunk::<40>() else { return write!(f, "ipv6 [short] len {}", packet.len()) };
    let [_, _, _, _, _, _, next, hops, addresses @ ..] = header;
    let address = |half: Option<&[u8; 16]>| half.map_or(Ipv6Addr::UNSPECIFIED, |bytes| Ipv6Addr::from(*bytes));
    let (source, destination) = (address(addresses.first_chunk()), address(addresses.last_chunk()));
    write!(f, "ipv6 {source} > {destination} hops {hops} {} len {}", Protocol(*next), packet.len() - header.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::UdpFrame;
    use crate::{MacAddr, U16};
    use proptest::prelude::*;

    const MACS: &str = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 ";

    fn frame(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut frame = UdpFrame::default().to_vec(&[0; 32]);
        change(&mut frame);
        if frame.len() >= 34 && frame[12..14] == [8, 0] {
            ipv4::write_checksum(&mut frame[14..]);
        }
        let line = Describe(&frame).to_string();
        line.strip_prefix(MACS).map(str::to_owned).unwrap_or(line)
    }

    #[test]
    fn each_protocol_has_its_line() {
        let ip = "ipv4 198.18.0.1 > 198.19.0.1 ttl 64 ";
        let cases: [(&str, String); 8] = [
            ("udp 49184 > 9 len 32", frame(|_| ())),
            ("udp 49184 > 9 len 32", frame(|f| f.extend([0; 9]))),
            (
                "icmp echo id 8 seq 0 len 32",
                frame(|f| {
                    f[23] = 1;
                    f[34..42].copy_from_slice(&[8, 0, 0, 0, 0, 8, 0, 0]);
                }),
            ),
            (
                "icmp fragmentation-needed mtu 1400 len 32",
                frame(|f| {
                    f[23] = 1;
                    f[34..42].copy_from_slice(&[3, 4, 0, 0, 0, 0, 5, 0x78]);
                }),
            ),
            (
                "tcp 49184 > 9 [SA] seq 7 len 20",
                frame(|f| {
                    f[23] = 6;
                    f[38..48].copy_from_slice(&[0, 0, 0, 7, 0, 0, 0, 0, 0x50, 0x12]);
                }),
            ),
            ("ospf len 40", frame(|f| f[23] = 89)),
            ("frag 0@8+ udp len 40", frame(|f| f[20..22].copy_from_slice(&[0x20, 1]))),
            ("frag 0@0+ udp 49184 > 9 len 32", frame(|f| f[20] = 0x20)),
        ];
        for (expected, line) in cases {
            assert_eq!(line, format!("{ip}{expected}"));
        }
        assert_eq!(frame(|f| f[14] = 0x65), format!("{ip}[ip-version] udp 49184 > 9 len 32"));
        assert_eq!(
            frame(|f| {
                f[14] = 0x46;
                f[40..42].copy_from_slice(&[0, 1]);
            }),
            format!("{ip}options 4 udp 40 > 1 len 28")
        );
    }

    #[test]
    fn links_have_their_lines() {
        assert_eq!(frame(|f| f.truncate(13)), "eth [short] len 13");
        assert_eq!(frame(|f| f.truncate(20)), "ipv4 [short] len 6");
        assert_eq!(frame(|f| f[12..14].copy_from_slice(&[0, 60])), "802.3 len 60");
        assert_eq!(frame(|f| f[12..14].copy_from_slice(&[0x12, 0x34])), "ethertype 0x1234 len 60");
        assert_eq!(frame(|f| f[12..14].copy_from_slice(&[0x88, 0xcc])), "lldp len 60");
        let tagged = frame(|f| {
            f.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]);
        });
        assert_eq!(tagged, "svlan 7 vlan 9 ipv4 198.18.0.1 > 198.19.0.1 ttl 64 udp 49184 > 9 len 32");
        let six = frame(|f| {
            f[12..14].copy_from_slice(&[0x86, 0xdd]);
            f[14..54].fill(0);
            f[20..22].copy_from_slice(&[17, 63]);
            f[37] = 1;
            f[53] = 2;
        });
        assert_eq!(six, "ipv6 ::1 > ::2 hops 63 udp len 20");
    }

    #[test]
    fn arp_tells_who_asks() {
        let mut fields = ArpFields {
            operation: Operation::Request,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender: [10, 0, 0, 1].into(),
            target_mac: MacAddr::ZERO,
            target: [10, 0, 0, 2].into(),
        };
        let mut frame = [0; 42];
        fields.write(MacAddr::BROADCAST, &mut frame).unwrap();
        let line = Describe(&frame).to_string();
        assert_eq!(line, "eth 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff arp who-has 10.0.0.2 tell 10.0.0.1");
        fields.operation = Operation::Reply;
        fields.write(MacAddr::BROADCAST, &mut frame).unwrap();
        assert!(Describe(&frame).to_string().ends_with("arp 10.0.0.1 is-at 02:00:00:00:00:01"));
        frame[14] = 9;
        assert!(Describe(&frame).to_string().ends_with("arp [not ethernet-ipv4] len 28"));
    }

    proptest! {
        #[test]
        fn any_bytes_give_one_line(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0usize..6, protocol in 0usize..4) {
            if bytes.len() > 34 {
                let ethertype = [ethernet::IPV4, ethernet::IPV4, ethernet::ARP, ethernet::IPV6, ethernet::CVLAN, 0x1234][kind];
                bytes[12..14].copy_from_slice(U16::new(ethertype).to_bytes().as_slice());
                bytes[23] = [1, 6, 17, 50][protocol];
            }
            for length in 0..=bytes.len() {
                let line = Describe(&bytes[..length]).to_string();
                prop_assert!(line.len() < 300 && !line.contains('\n'));
            }
        }
    }
}
