//! The slow twin: what the gateway does with a frame, on vectors of bytes and by the words of the RFCs.

use weir_wire::MacAddr;

use super::rig::*;

/// RFC 1071.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !sum as u16
}

/// Writes the checksum of the IPv4 header at the start.
pub(super) fn seal(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..length.min(packet.len())]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn address(bytes: &[u8], at: usize) -> [u8; 4] {
    bytes[at..at + 4].try_into().unwrap()
}

/// RFC 1812 section 5.2.2.
fn defect(packet: &[u8]) -> Option<&'static str> {
    if packet.len() < 20 {
        return Some("ip-too-short");
    }
    if packet[0] >> 4 != 4 {
        return Some("ip-version");
    }
    let header = usize::from(packet[0] & 15) * 4;
    if header < 20 {
        return Some("ip-header-length");
    }
    if header > packet.len() {
        return Some("ip-truncated");
    }
    if checksum(&packet[..header]) != 0 {
        return Some("ip-checksum");
    }
    if usize::from(word(packet, 2)) < header {
        return Some("ip-total-length");
    }
    (usize::from(word(packet, 2)) > packet.len()).then_some("ip-truncated")
}

/// RFC 1812 section 5.3.7, RFC 3927 section 7.
fn forbidden(source: [u8; 4], destination: [u8; 4]) -> Option<&'static str> {
    let local = |address: [u8; 4]| address[..2] == [169, 254];
    match (source, destination) {
        (_, [224..=239, ..]) => Some("multicast"),
        (_, [255, 255, 255, 255]) => Some("broadcast"),
        ([0 | 127 | 224..=255, ..], _) => Some("martian-source"),
        (_, [0 | 127 | 240..=255, ..]) => Some("martian-destination"),
        _ if local(source) || local(destination) => Some("link-local"),
        _ => None,
    }
}

fn covers(prefix: [u8; 4], length: u8, address: [u8; 4]) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    u32::from_be_bytes(prefix) & mask == u32::from_be_bytes(address) & mask
}

/// The way of a customer's frame, and its bytes when it leaves.
pub(super) fn up(tunnel: bool, frame: &[u8]) -> (&'static str, Vec<u8>) {
    match up_or_not(tunnel, frame) {
        Ok(bytes) => ("port[1]", bytes),
        Err(way) => (way, frame.to_vec()),
    }
}

fn up_or_not(tunnel: bool, frame: &[u8]) -> Result<Vec<u8>, &'static str> {
    if frame.len() < 14 {
        return Err("too-short");
    }
    let group = frame[0] & 1 == 1;
    if frame[..6] != ACCESS.0 && !group {
        return Err("not-for-us");
    }
    if word(frame, 12) != TPID {
        return Err("no-svlan");
    }
    if frame.len() < 18 {
        return Err("too-short");
    }
    if word(frame, 16) != 0x8100 {
        return Err("no-cvlan");
    }
    if frame.len() < 22 {
        return Err("too-short");
    }
    let (svlan, cvlan) = (word(frame, 14) & 0xfff, word(frame, 18) & 0xfff);
    let all = lines();
    let line = all.iter().find(|line| (line.svlan, line.cvlan) == (svlan, cvlan)).ok_or("unknown-subscriber")?;
    if line.mac.is_some_and(|mac| frame[6..12] != mac.0) {
        return Err("wrong-mac");
    }
    let packet = &frame[22..];
    match word(frame, 20) {
        0x0800 => {}
        0x0806 => return Err("arp"),
        0x86dd if packet.len() > 40 && packet[6] == 58 && (133..=137).contains(&packet[40]) => return Err("nd"),
        0x86dd => return Err("ipv6"),
        _ => return Err("unknown-ethertype"),
    }
    if let Some(defect) = defect(packet) {
        return Err(defect);
    }
    let (source, destination) = (address(packet, 12), address(packet, 16));
    if let Some(forbidden) = forbidden(source, destination) {
        return Err(forbidden);
    }
    if group {
        return Err("link-broadcast");
    }
    let scope = |line: &Line| if tunnel { line.key } else { 0 };
    // A learned address counts for the subscriber that it is bound to.
    let learned = || {
        let same = |other: &&Line| scope(other) == scope(line);
        all.iter().filter(same).any(|other| other.learned == Some(source) && other.key == line.key)
    };
    let bound = || {
        // With one address space, an address is whose who was entered last.
        let last = all.iter().rev().find(|other| scope(other) == scope(line) && bindings(other).contains(&source));
        last.is_some_and(|other| (other.svlan, other.cvlan) == (line.svlan, line.cvlan))
    };
    if !covers(line.source, line.length, source) && !learned() && !bound() {
        return Err("unknown-source");
    }
    if destination == OWN {
        return Err("local");
    }
    let routes = ROUTES.iter().filter(|(prefix, length, _)| covers(*prefix, *length, destination));
    let (_, _, gateway) = routes.max_by_key(|(_, length, _)| *length).ok_or("no-route")?;
    let gateway = &gateways()[*gateway];
    if packet[8] < 2 {
        return Err("ttl-expired");
    }
    let next = gateway.mac.ok_or("unresolved")?;
    let total = usize::from(word(packet, 2));
    let overhead = if tunnel { 28 + 4 * gateway.labels.len() } else { 0 };
    if total + overhead > usize::from(gateway.mtu) {
        return Err("too-big");
    }
    let mut packet = packet[..total].to_vec();
    packet[8] -= 1;
    seal(&mut packet);
    let mut bytes = [next.0, CORE.0].concat();
    if !tunnel {
        bytes.extend([8, 0]);
        bytes.extend(packet);
        return Ok(bytes);
    }
    bytes.extend(if gateway.labels.is_empty() { [8, 0] } else { [0x88, 0x47] });
    for (n, &(label, class, ttl)) in gateway.labels.iter().enumerate() {
        let bottom = u32::from(n + 1 == gateway.labels.len());
        bytes.extend((label << 12 | u32::from(class) << 9 | bottom << 8 | u32::from(ttl)).to_be_bytes());
    }
    let mut outer = vec![0x45, packet[1] & 0xfc];
    outer.extend((total as u16 + 28).to_be_bytes());
    outer.extend([0, 0, 0x40, 0, 64, 47, 0, 0]);
    outer.extend(LOCAL);
    outer.extend(gateway.address);
    seal(&mut outer);
    bytes.extend(outer);
    bytes.extend([0x20, 0, 8, 0]);
    bytes.extend(line.key.to_be_bytes());
    bytes.extend(packet);
    Ok(bytes)
}

/// Addresses of a subscriber that have a binding.
fn bindings(line: &Line) -> Vec<[u8; 4]> {
    let first = if line.length == 32 { line.source } else { first_host(line.source) };
    std::iter::once(first).chain(line.learned).collect()
}

/// The way of a frame from the core, and its bytes when it leaves.
pub(super) fn down(tunnel: bool, frame: &[u8]) -> (&'static str, Vec<u8>) {
    match down_or_not(tunnel, frame) {
        Ok(bytes) => ("port[0]", bytes),
        Err(way) => (way, frame.to_vec()),
    }
}

/// Whether an IPv6 packet is from or to a link-local or unspecified address, or neighbour discovery.
fn is_of_link(packet: &[u8]) -> bool {
    let of_link = |at: usize| packet[at] == 0xfe && packet[at + 1] & 0xc0 == 0x80 || packet[at..at + 16] == [0; 16];
    let discovery = packet.len() > 40 && packet[6] == 58 && (133..=137).contains(&packet[40]);
    packet.len() >= 40 && (discovery || of_link(8) || of_link(24))
}

fn down_or_not(tunnel: bool, frame: &[u8]) -> Result<Vec<u8>, &'static str> {
    if frame.len() < 14 {
        return Err("too-short");
    }
    let is_arp = word(frame, 12) == 0x0806;
    let is_six_to_group = word(frame, 12) == 0x86dd && frame[0] & 1 == 1;
    if frame[..6] != CORE.0 && !(is_arp && frame[..6] == [0xff; 6]) && !is_six_to_group {
        return Err("not-for-us");
    }
    let mut at = 14;
    match word(frame, 12) {
        0x0800 => {}
        0x0806 => return Err("arp"),
        // IPv6 outside of tunnels is of the link, if it is not a customer's.
        0x86dd if tunnel || is_six_to_group || is_of_link(&frame[14..]) => return Err("local"),
        0x86dd => return Err("ipv6"),
        0x8847 => loop {
            if at == 14 + 32 {
                return Err("mpls-too-deep");
            }
            if frame.len() < at + 4 {
                return Err("mpls-truncated");
            }
            at += 4;
            if frame[at - 2] & 1 == 1 {
                break;
            }
        },
        _ => return Err("unknown-ethertype"),
    }
    let mut packet = &frame[at..];
    let (mut key, mut congested) = (0, false);
    if tunnel {
        if defect(packet).is_some() {
            return Err("outer-ip-invalid");
        }
        let (source, destination) = (address(packet, 12), address(packet, 16));
        if matches!(source, [0 | 127 | 224..=255, ..] | [169, 254, ..]) {
            return Err("outer-ip-invalid");
        }
        if destination != LOCAL {
            return Err(if destination == OWN { "local" } else { "outer-destination" });
        }
        if packet[9] != 47 {
            return Err("local");
        }
        if word(packet, 6) & 0x3fff != 0 {
            return Err("fragment");
        }
        congested = packet[1] & 3 == 3;
        packet = &packet[usize::from(packet[0] & 15) * 4..usize::from(word(packet, 2))];
        if packet.len() < 8 {
            return Err("gre-truncated");
        }
        match word(packet, 0) {
            flags if flags & 0x8000 != 0 => return Err("gre-checksum"),
            flags if flags & 0x1000 != 0 => return Err("gre-sequence"),
            flags if flags & 0x4fff != 0 => return Err("gre-flags"),
            0 => return Err("gre-no-key"),
            _ => {}
        }
        match word(packet, 2) {
            0x0800 => {}
            0x86dd => return Err("ipv6"),
            _ => return Err("gre-protocol"),
        }
        key = u32::from_be_bytes(address(packet, 4));
        packet = &packet[8..];
    }
    if let Some(defect) = defect(packet) {
        return Err(defect);
    }
    let (source, destination) = (address(packet, 12), address(packet, 16));
    if let Some(forbidden) = forbidden(source, destination) {
        return Err(forbidden);
    }
    if !tunnel && destination == OWN {
        return Err("local");
    }
    let all = lines();
    let here = |line: &&Line| (!tunnel || line.key == key) && bindings(line).contains(&destination);
    let line = all.iter().rev().find(here).ok_or("unresolved")?;
    if packet[8] < 2 {
        return Err("ttl-expired");
    }
    if congested && packet[1] & 3 == 0 {
        return Err("congestion");
    }
    let host: MacAddr = line.host.ok_or("unresolved")?;
    let total = usize::from(word(packet, 2));
    if total > usize::from(MTU) {
        return Err("too-big");
    }
    let mut packet = packet[..total].to_vec();
    packet[8] -= 1;
    let dscp = remarked(packet[1] >> 2);
    packet[1] = dscp << 2 | if congested { 3 } else { packet[1] & 3 };
    seal(&mut packet);
    let mut bytes = [host.0, ACCESS.0].concat();
    bytes.extend(TPID.to_be_bytes());
    let priority = u16::from(priority(dscp)) << 13;
    bytes.extend((priority | line.svlan).to_be_bytes());
    bytes.extend([0x81, 0]);
    bytes.extend((priority | line.cvlan).to_be_bytes());
    bytes.extend([8, 0]);
    bytes.extend(packet);
    Ok(bytes)
}
