//! What `weir bench cpp vxlan` measures: 64-byte frames into tunnels over either family, and out of them.

use std::net::{IpAddr, Ipv4Addr};

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::udp::Udp;
use weir_wire::vxlan::{HAS_VNI, HEADER as VXLAN, PORT};
use weir_wire::{Ethernet, Ipv4, MacAddr, View, ethernet, ipv4, validity};

use crate::tunnels::{FRONT4, FRONT6};

/// Frames in a round, each of a flow of its own.
const FRAMES: u64 = 1 << 16;

/// Bytes of a frame of 64 without its check sequence.
const PLAIN: usize = 60;

/// The next router, behind which the other ends are.
const NEXT: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// The segment.
const VNI: u32 = 0x00ab_cdef;

/// Ends over IPv4 and IPv6: the own one and the other one.
const FOUR: [&str; 2] = ["203.0.113.1", "203.0.113.9"];
const SIX: [&str; 2] = ["2001:db8:2::1", "2001:db8:2::9"];

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    vec![
        case("encap", "64-byte frames of 65,536 flows into a tunnel over IPv4", ("out", "in", FOUR), |_, _, _| {
            Ok(into(FRONT4))
        }),
        case("encap-ipv6", "the same over IPv6", ("out", "in", SIX), |_, _, _| Ok(into(FRONT6))),
        case(
            "decap",
            "64-byte frames of 65,536 flows out of a tunnel over IPv4",
            ("in", "out", FOUR),
            |_, ports, _| Ok(from(ports, FRONT4)),
        ),
        case("decap-ipv6", "the same over IPv6", ("in", "out", SIX), |_, ports, _| Ok(from(ports, FRONT6))),
    ]
}

/// Packets in tunnels are at one port, and frames at the other.
fn case(
    name: &'static str,
    help: &'static str,
    (outside, inside, [source, remote]): (&str, &str, [&str; 2]),
    prepare: Prepare,
) -> Case {
    let script = format!(
        "vxlan {{ ports = {{ '{outside}' }},\n\
         tunnels = {{ ['{inside}'] = {{ vni = {VNI}, source = '{source}', remote = '{remote}' }} }},\n\
         routes = {{ ['203.0.113.0/24'] = '{via}%{outside}', ['2001:db8:2::/48'] = 'fe80::2%{outside}' }},\n\
         neighbors = {{ ['{via}%{outside}'] = '{NEXT}', ['fe80::2%{outside}'] = '{NEXT}' }} }}",
        via = if outside == "in" { "192.0.2.2" } else { "198.51.100.2" },
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

/// The frame of a number: a UDP packet of a flow of its own.
fn plain(n: u64) -> Vec<u8> {
    let mut random = Random::new(n);
    let frame = UdpFrame {
        source: Ipv4Addr::from_bits(10 << 24 | random.below(1 << 24) as u32),
        source_port: random.next() as u16,
        ..UdpFrame::default()
    };
    let mut bytes = vec![0; PLAIN];
    frame.write_around(&mut bytes);
    bytes
}

fn copy(bytes: &mut [u8; HEADER], frame: &[u8]) -> usize {
    bytes.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
    frame.len()
}

/// Whether a frame is one of those that were sent.
fn is_plain(frame: &[u8]) -> bool {
    let packet = frame.get(Ethernet::LEN..).unwrap_or_default();
    frame.len() == PLAIN
        && validity::check_slice(packet).is_ok()
        && Ipv4::view(packet).is_some_and(|ip| ip.source.get() >> 24 == 10 && ip.ttl == UdpFrame::default().ttl)
}

/// Traffic into a tunnel with so many bytes in front of each frame.
fn into(front: usize) -> Traffic {
    let frame = |n: u64, bytes: &mut [u8; HEADER]| copy(bytes, &plain(n));
    let check = move |frame: &[u8]| {
        let (outer, inner) = frame.split_at_checked(front).ok_or("a frame came out that is short")?;
        let (_, datagram) = outer.split_at(front - Udp::LEN - VXLAN);
        let [_, _, a, b, c, d, _, _, flags, _, _, _, e, f, g, _] = *datagram else {
            return Err("a frame came out without a VXLAN header".to_owned());
        };
        let (port, length, vni) = ([a, b], [c, d], [0, e, f, g]);
        let is_right = u16::from_be_bytes(port) == PORT
            && usize::from(u16::from_be_bytes(length)) == Udp::LEN + VXLAN + PLAIN
            && flags == HAS_VNI
            && u32::from_be_bytes(vni) == VNI
            && is_plain(inner);
        if is_right { Ok(()) } else { Err(format!("a frame of {} bytes came out wrong", frame.len())) }
    };
    Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) }
}

/// Traffic out of a tunnel with so many bytes in front of each frame.
fn from(ports: &[PortInfo], front: usize) -> Traffic {
    let mac = ports.iter().find(|port| port.name == "in").map_or(MacAddr::ZERO, |port| MacAddr(port.facts.mac));
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| copy(bytes, &[outer(mac, front), plain(n)].concat());
    let check = |frame: &[u8]| match is_plain(frame) {
        true => Ok(()),
        false => Err(format!("a frame of {} bytes came out wrong", frame.len())),
    };
    Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) }
}

/// What is in front of a frame in a tunnel, from the other end.
fn outer(mac: MacAddr, front: usize) -> Vec<u8> {
    let mut all = [mac.0, NEXT.0].concat();
    let datagram = (Udp::LEN + VXLAN + PLAIN) as u16;
    let end = |text: &str| text.parse::<IpAddr>();
    if front == FRONT6 {
        all.extend(ethernet::IPV6.to_be_bytes());
        all.extend([0x60, 0, 0, 0]);
        all.extend(datagram.to_be_bytes());
        all.extend([ipv4::UDP, 64]);
    } else {
        all.extend(ethernet::IPV4.to_be_bytes());
        all.extend([0x45, 0]);
        all.extend((Ipv4::LEN as u16 + datagram).to_be_bytes());
        all.extend([0, 0, 0x40, 0, 64, ipv4::UDP, 0, 0]);
    }
    let [own, remote] = if front == FRONT6 { SIX } else { FOUR };
    for address in [remote, own].into_iter().filter_map(|text| end(text).ok()) {
        match address {
            IpAddr::V4(address) => all.extend(address.octets()),
            IpAddr::V6(address) => all.extend(address.octets()),
        }
    }
    if let Some(packet) = all.get_mut(Ethernet::LEN..).filter(|_| front == FRONT4) {
        ipv4::write_checksum(packet);
    }
    all.extend([0xc0, 0]);
    all.extend(PORT.to_be_bytes());
    all.extend(datagram.to_be_bytes());
    all.extend([0, 0, HAS_VNI, 0, 0, 0]);
    all.extend((VNI << 8).to_be_bytes());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::vxlan::carried;

    /// What is sent out of a tunnel is what is expected of a frame into one, and is found in it.
    #[test]
    fn frames_of_cases_are_in_tunnels() {
        for (front, ethertype) in [(FRONT4, ethernet::IPV4), (FRONT6, ethernet::IPV6)] {
            for n in 0..1000 {
                let frame = [outer(NEXT, front), plain(n)].concat();
                let found = carried(ethertype, &frame[Ethernet::LEN..], PORT, |_| true).unwrap().unwrap();
                assert_eq!((found.vni, found.frame), (VNI, &plain(n)[..]));
                assert_eq!((into(front).check)(&frame), Ok(()));
                let [mut short, mut other] = [frame.clone(), frame];
                short.pop();
                other[front - 4] ^= 1;
                assert!((into(front).check)(&short).is_err() && (into(front).check)(&other).is_err());
            }
        }
        assert!(is_plain(&plain(7)) && !is_plain(&outer(NEXT, FRONT4)));
    }
}
