//! IPv6 packets on the slow path: extension headers, errors about them, replies, fragments, neighbour discovery, multicast listeners.

use std::net::Ipv6Addr;

use weir_net::fragment::six::Fragments6;
use weir_net::icmp6::{MAX_ERROR, Problem, echo_reply, may_report, write_error};
use weir_net::neighbor::{Limits, Neighbors, Timing};
use weir_net::reassembly::six::{Part, join6, part_of};
use weir_net::{InterfaceAddress, Prefix};
use weir_wire::checksum::Sum;
use weir_wire::extension::{self, at_destination, in_transit};
use weir_wire::ipv6::{FRAGMENT, ICMPV6};
use weir_wire::{Ipv6, MacAddr, View, mld, nd, validity6};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "net6",
    help: "IPv6 packets that the slow path answers, reports, fragments or puts together, and what neighbours say; the first two bytes are an MTU",
    run,
    tokens: &[
        &[0x60, 0],
        &[58, 0],
        &[44, 0],
        &[43, 0],
        &[60, 0],
        &[0, 0, 5, 2, 0, 0],
        &[1, 1],
        &[2, 1],
        &[14, 1],
        &[135, 0],
        &[136, 0],
    ],
    text: false,
    inputs: 1_000_000,
    deep: 40,
};

const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn run(input: &[u8]) -> bool {
    let Some((mtu, packet)) = input.split_first_chunk::<2>() else { return false };
    let mut packet = packet.to_vec();
    write_checksum(&mut packet);
    report(&packet);
    if validity6::check_slice(&packet).is_err() {
        return false;
    }
    headers(&packet);
    fragments(&packet, u16::from_be_bytes(*mtu));
    neighbors(&packet);
    _ = mld::parse_query(&packet);
    let before = packet.clone();
    match echo_reply(&mut packet, ROUTER) {
        Some(length) => assert!(is_valid(packet.get(..length).unwrap_or_default()), "the reply is not valid"),
        None => assert_eq!(packet, before, "what is no request was changed"),
    }
    true
}

/// Where the message of an ICMPv6 packet is.
fn message(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let ip = Ipv6::view(packet)?;
    let upper = weir_wire::ipv6::upper(packet).filter(|upper| upper.whole && upper.protocol == ICMPV6)?;
    let end = Ipv6::LEN + usize::from(ip.payload_length.get());
    (upper.at + 4 <= end && end <= packet.len()).then_some(upper.at..end)
}

fn sum(packet: &[u8], message: &[u8]) -> Sum {
    let addresses = packet.get(8..40).unwrap_or_default();
    Sum::new().bytes(addresses).word(message.len() as u16).word(u16::from(ICMPV6)).bytes(message)
}

/// Few changed packets have a right checksum, and without one nothing happens to them.
fn write_checksum(packet: &mut [u8]) {
    let Some(range) = message(packet) else { return };
    let place = range.start + 2..range.start + 4;
    packet[place.clone()].fill(0);
    let sum = sum(packet, &packet[range]).checksum().to_be_bytes();
    packet[place].copy_from_slice(&sum);
}

fn is_valid(packet: &[u8]) -> bool {
    let sums = message(packet).is_some_and(|range| sum(packet, &packet[range]).fold() == 0xffff);
    sums && validity6::check_slice(packet) == Ok(())
}

/// An error about the packet is a valid packet of bounded length that quotes it.
fn report(packet: &[u8]) {
    let reportable = may_report(Problem::HopLimitExceeded, packet, false);
    let mut out = [0; MAX_ERROR];
    let written = write_error(Problem::HopLimitExceeded, packet, ROUTER, &mut out);
    assert!(written.is_some() || !reportable, "no error can be written about a packet that may be reported");
    let Some(error) = written.and_then(|length| out.get(..length)) else { return };
    assert!(is_valid(error), "the error is not valid");
    assert!(packet.starts_with(error.get(48..).unwrap_or_default()), "the quotation is wrong");
    assert!(!may_report(Problem::HopLimitExceeded, error, false), "an error about an error");
}

/// Faults point into the packet or at its end, and what stops a packet on its way stops it where it goes as well.
fn headers(packet: &[u8]) {
    let limits = extension::Limits::default();
    let (transit, own) = (in_transit(packet, limits), at_destination(packet, limits));
    if let Err(fault) = transit {
        assert_eq!(own, Err(fault));
    }
    match own {
        Ok(carried) => assert!(carried.at <= packet.len() && carried.named_at < carried.at),
        Err(fault) => assert!(fault.pointer <= packet.len(), "the pointer is outside"),
    }
}

/// Fragments are valid, fit, and together are the packet.
fn fragments(packet: &[u8], mtu: u16) {
    if let Ok(part) = part_of(packet) {
        assert!(
            at_destination(packet, extension::Limits { headers: 16, bytes: 1 << 16, options: 1 << 16 })
                .is_ok_and(|found| found.protocol == FRAGMENT)
        );
        assert!(part != Part::Atomic || join6([packet].into_iter()).is_some(), "an atomic fragment is no packet");
    }
    let whole = Ipv6::view(packet).map_or(0, |ip| Ipv6::LEN + usize::from(ip.payload_length.get()));
    let Ok(fragments) = Fragments6::new(packet, mtu, 7) else { return };
    let write = |fragment: weir_net::fragment::six::Fragment6<'_>| {
        let mut bytes = vec![0; fragment.total_len()];
        fragment.write(&mut bytes).map(|_| bytes)
    };
    let Some(pieces) = fragments.map(write).collect::<Option<Vec<_>>>() else { return };
    assert!(pieces.iter().all(|piece| piece.len() <= usize::from(mtu) && validity6::check_slice(piece) == Ok(())));
    // What is in front of a fragment header has to make sense to whoever joins the pieces.
    let Some(joined) = join6(pieces.iter().map(Vec::as_slice)) else { return };
    assert_eq!(joined, packet.get(..whole).unwrap_or_default(), "the fragments are not the packet");
}

/// Whatever neighbours say, the table stays within its bounds, and what is said again is what was heard.
fn neighbors(packet: &[u8]) {
    _ = nd::parse_router_solicitation(packet);
    let Some(message) = nd::parse(packet) else { return };
    let mut frame = [0; nd::FRAME_LEN + 8];
    let length = message.write(&mut frame, OTHER, OWN).unwrap_or_default();
    assert_eq!(frame.get(14..length).and_then(nd::parse), Some(message));
    let limits = Limits { per_port: 2, total: 2, incomplete: 1 };
    let (mut table, mut events) = (Neighbors::<Ipv6Addr>::new(Timing::for_ipv6(), limits), Vec::new());
    table.set_port(1, OWN);
    let own = Prefix::around(ROUTER, 128).and_then(|net| InterfaceAddress::new(1, net).ok());
    own.into_iter().for_each(|own| _ = table.add_own(0, own, &mut events));
    table.link_up(0, 1);
    for now in [0, 10_000_000_000, 20_000_000_000] {
        table.timer(now, &mut events);
        table.nd_received(now, 1, OTHER, &message, &mut events);
        table.resolve(now, 1, message.source, &mut events);
        assert!(table.len() <= 2 && events.len() < 100);
    }
}
