//! Packets of every kind, three ports and their routes, and what a router does with all that: a plain model.

use weir_stage::Random;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, MacAddr, View, checksum, martian};

use super::{Ipv4Addr, PortSpec};

pub const PORTS: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24"], 1500),
    PortSpec("right", &["10.0.1.1/24"], 1500),
    PortSpec("small", &["10.0.2.1/24"], 576),
];

pub const ROUTES: &[(&str, &str)] = &[
    ("0.0.0.0/0", "10.0.1.9"),
    ("192.0.2.0/24", "10.0.1.8"),
    ("192.0.2.128/25", "10.0.2.9"),
    ("192.0.2.200/32", "10.0.0.9"),
    ("198.51.0.0/16", "10.0.2.8"),
    ("198.51.100.0/24", "10.0.1.77"),
];

/// Hosts that are known by hand; 10.0.1.77 and others are not.
pub const HOSTS: &[&str] = &["10.0.1.9", "10.0.1.8", "10.0.2.9", "10.0.2.8", "10.0.0.9"];

pub fn mac_of(host: &str) -> MacAddr {
    let [.., third, fourth] = host.parse::<Ipv4Addr>().unwrap().octets();
    MacAddr([2, 0, 0, 0, third, fourth])
}

pub const DESTINATIONS: &[[u8; 4]] = &[
    [8, 8, 8, 8],
    [192, 0, 2, 1],
    [192, 0, 2, 130],
    [192, 0, 2, 200],
    [198, 51, 7, 7],
    [198, 51, 100, 7],
    [10, 0, 0, 9],
    [10, 0, 1, 9],
    [10, 0, 1, 200],
    [10, 0, 2, 1],
    [10, 0, 1, 255],
    [224, 0, 0, 5],
    [255, 255, 255, 255],
    [127, 0, 0, 1],
    [169, 254, 3, 4],
];

/// A frame to the router on a port: IPv4 of any kind, at times ARP, of any length.
pub fn make(random: &mut Random, router: MacAddr, longest: usize) -> Vec<u8> {
    let options = if random.one_in(8) { random.position(11) * 4 } else { 0 };
    let payload = if random.one_in(4) { random.position(longest - 80) } else { random.position(120) };
    let mut frame = vec![0; 34 + options + payload];
    frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
    let to = if random.one_in(20) { MacAddr::BROADCAST } else { router };
    frame[..6].copy_from_slice(&to.0);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 0]);
    if random.one_in(20) {
        frame[13] = 6;
        frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1 + random.position(2) as u8]);
        return frame;
    }
    frame[14] = 0x45 + (options / 4) as u8;
    let total = (20 + options + payload) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    if !random.one_in(6) {
        frame[20..22].fill(0);
    }
    frame[22] = if random.one_in(8) { random.position(3) as u8 } else { 64 };
    frame[23] = [1, 6, 17, 17, 89][random.position(5)];
    frame[26..30].copy_from_slice(&[10, 0, 0, 9]);
    let to = DESTINATIONS[random.position(DESTINATIONS.len())];
    frame[30..34].copy_from_slice(&to);
    write_checksum(&mut frame[14..]);
    if frame[23] == 1 && random.one_in(2) && frame.len() >= 42 + options {
        let at = 34 + options;
        frame[at] = 8;
        frame[at + 2..at + 4].fill(0);
        let sum = checksum::checksum(&frame[at..]);
        frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Flips bits, cuts, lengthens or exchanges bytes.
pub fn mutate(random: &mut Random, frame: &mut Vec<u8>, longest: usize) {
    for _ in 0..=random.position(3) {
        let at = random.position(frame.len().min(64));
        match random.position(5) {
            0 => frame[at] ^= 1 << random.position(8),
            1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.position(5)],
            2 => frame.truncate(1 + random.position(frame.len())),
            3 => frame.resize((frame.len() + random.position(64)).min(longest), random.next() as u8),
            _ => {
                let other = random.position(frame.len());
                frame.swap(at, other);
            }
        }
    }
    if random.one_in(2) {
        write_checksum(frame.get_mut(14..).unwrap_or_default());
    }
}

/// What a router does with a packet, as plainly as can be said: the slow twin.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Out of this port to this host.
    Sent(usize, MacAddr),
    /// Not forwarded at once: dropped, answered, asked for, taken apart.
    Otherwise,
}

pub fn model(frame: &[u8], router: MacAddr) -> Verdict {
    if frame.len() < 34 || frame[..6] != router.0 || frame[12..14] != [8, 0] || frame[14] != 0x45 {
        return Verdict::Otherwise;
    }
    let ip = Ipv4::view(&frame[14..]).unwrap();
    let (source, destination) = (ip.source.get(), ip.destination.get());
    let sound = checksum::is_valid(&frame[14..34]) && (20..=frame.len() - 14).contains(&ip.total_len()) && ip.ttl >= 2;
    let strange = martian::is_martian_source(source)
        || martian::is_martian_destination(destination)
        || destination >> 28 >= 0xe
        || source >> 16 == 0xa9fe
        || destination >> 16 == 0xa9fe;
    if !sound || strange {
        return Verdict::Otherwise;
    }
    let address = Ipv4Addr::from_bits(destination);
    let [.., third, fourth] = address.octets();
    let on_link = address.octets()[..2] == [10, 0] && third < 3;
    let host = if on_link {
        if matches!(fourth, 0 | 1 | 255) {
            return Verdict::Otherwise;
        }
        address.to_string()
    } else {
        let around = ROUTES.iter().filter(|(prefix, _)| {
            let (net, length) = prefix.split_once('/').unwrap();
            let (net, length): (Ipv4Addr, u32) = (net.parse().unwrap(), length.parse().unwrap());
            length == 0 || net.to_bits() >> (32 - length) == destination >> (32 - length)
        });
        let best = around.max_by_key(|(prefix, _)| prefix.split_once('/').unwrap().1.parse::<u32>().unwrap()).unwrap();
        best.1.to_owned()
    };
    let port = usize::from(host.parse::<Ipv4Addr>().unwrap().octets()[2]);
    if !HOSTS.contains(&host.as_str()) || ip.total_len() > usize::from(PORTS[port].2) {
        return Verdict::Otherwise;
    }
    Verdict::Sent(port, mac_of(&host))
}

/// The frame that leaves by a port of the router when one is sent to a host there (RFC 1812 sections 5.3.1 and 4.2.2.5): as it was but for
/// the link header, the TTL, the checksum over it, and bytes behind the packet that would not fit.
pub fn forwarded(frame: &[u8], port: usize, source: MacAddr, destination: MacAddr) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
    frame[22] -= 1;
    write_checksum(&mut frame[14..]);
    if frame.len() > 14 + usize::from(PORTS[port].2) {
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        frame.truncate((14 + total).max(60));
    }
    frame
}
