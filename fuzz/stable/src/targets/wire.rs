//! Frames from the network: header views, validity, options, checksums, descriptions.

use weir_wire::arp::{Arp, ArpFields};
use weir_wire::describe::{Describe, DescribeIpv4};
use weir_wire::icmp::Icmp;
use weir_wire::tcp::Tcp;
use weir_wire::udp::Udp;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, View, checksum, flow, ipv4, segments, udp, validity};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "wire",
    help: "Ethernet frames, as the network delivers them",
    run,
    tokens: &[
        &[0x08, 0x00, 0x45, 0x00],
        &[0x08, 0x06, 0x00, 0x01],
        &[0x81, 0x00],
        &[0x88, 0xa8],
        &[0x86, 0xdd],
        &[0x46],
        &[0x4f],
        &[0x94, 4, 0, 0],
        &[131, 7, 4],
        &[1, 1, 1, 0],
    ],
    text: false,
    inputs: 1_000_000,
    deep: 30,
};

/// A description is a line of a trace: it must not fill a screen, whatever was received.
const LONGEST_LINE: usize = 1000;

fn run(input: &[u8]) -> bool {
    let line = Describe(input).to_string();
    assert!(line.len() <= LONGEST_LINE && !line.contains('\n'), "the description is no line: {line:?}");
    let Some((_, rest)) = Ethernet::split(input) else { return false };
    // The same bytes stand for every protocol, whatever the frame says.
    arp(rest);
    long_frames(input);
    for length in [Vlan::LEN, Icmp::LEN, Udp::LEN, Tcp::LEN, Ipv4::LEN] {
        views(rest, length);
    }
    let mut packet = rest.to_vec();
    let valid = ipv4_packet(&packet);
    // A checksum lets few changed packets through; what lies behind it is to be seen too.
    if !valid && ipv4::write_checksum(&mut packet) {
        return ipv4_packet(&packet);
    }
    valid
}

/// Two frames go to a kernel, each once; and one is cut as its own first bytes say, into nothing longer than it.
fn long_frames(frame: &[u8]) {
    let frames = [(0, frame), (0, frame)];
    let trains = segments::trains(&frames);
    assert_eq!(trains.iter().map(|train| train.places.len()).sum::<usize>(), frames.len());
    trains.iter().for_each(|train| drop(train.joined(&frames)));
    let [start, size, offset, ..] = *frame else { return };
    let left = segments::Left { start: start.into(), offset: offset.into(), size: size.into() };
    segments::finish(frame.to_vec(), left, &mut |segment| assert!(segment.len() <= frame.len()));
}

/// Views exist if the bytes are enough for them, and only then.
fn views(bytes: &[u8], length: usize) {
    let enough = bytes.len() >= length;
    let exists = match length {
        Vlan::LEN => Vlan::view(bytes).map(|tag| assert!(tag.id() < 4096 && tag.priority() < 8)).is_some(),
        Tcp::LEN => Tcp::view(bytes).is_some() && Ipv4::view(bytes).is_some(),
        _ => Icmp::view(bytes).is_some() && Udp::view(bytes).is_some(),
    };
    assert_eq!(exists, enough, "{length} bytes");
}

fn arp(bytes: &[u8]) {
    if let Some(fields) = ArpFields::parse(bytes) {
        assert_eq!(Some(&fields.to_wire()), Arp::view(bytes), "what was read is not what stands there");
    }
}

/// Whether the packet is valid; what is promised of valid packets is checked.
fn ipv4_packet(packet: &[u8]) -> bool {
    let line = DescribeIpv4(packet).to_string();
    assert!(line.len() <= LONGEST_LINE, "the description is no line: {line:?}");
    let mut window = [0xa5; 64];
    window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
    let verdict = validity::check(&window, packet.len());
    assert_eq!(verdict, validity::check_slice(packet), "bytes behind the packet were trusted");
    assert_eq!(flow::hash(&window, packet.len(), 7), flow::hash(&window, packet.len(), 7));
    let options = ipv4::options(packet);
    assert!(options.clone().count() <= 40);
    for option in options.flatten() {
        assert!(usize::from(option.offset) + option.bytes.len() <= ipv4::MAX_HEADER);
    }
    if verdict.is_err() {
        return false;
    }
    let header = ipv4::header(packet);
    let payload = ipv4::payload(packet);
    assert!(header.is_some_and(checksum::is_valid), "a valid packet has a valid header");
    let (Some(ip), Some(payload)) = (Ipv4::view(packet), payload) else {
        assert!(payload.is_some(), "a valid packet has a payload, if an empty one");
        return false;
    };
    let _ = udp::is_valid(ip, payload);
    hop(packet);
    true
}

/// One hop less, and the checksum is right still.
fn hop(packet: &[u8]) {
    let mut packet = packet.to_vec();
    let Some(ip) = Ipv4::view_mut(&mut packet) else { return };
    if ip.ttl > 0 && ip.decrement_ttl() {
        assert!(ipv4::header(&packet).is_some_and(checksum::is_valid), "a hop broke the checksum");
    }
}
