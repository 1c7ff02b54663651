//! Clause by clause of RFC 8200 section 4, and random chains against a literal twin.

use super::*;
use crate::ipv6::FRAGMENT;
use proptest::prelude::*;

const UDP: u8 = 17;

/// A packet to a host or a group with these extension headers, each its number and its bytes behind the first.
fn packet(headers: &[(u8, Vec<u8>)], last: u8, to_group: bool) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    packet.extend([0x20; 16]);
    packet.extend([if to_group { 0xff } else { 0x20 }; 16]);
    let mut named_at = 6;
    for (kind, rest) in headers {
        packet[named_at] = *kind;
        named_at = packet.len();
        packet.push(0);
        packet.extend(rest);
    }
    packet[named_at] = last;
    packet.extend([9; 8]);
    let payload = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    packet
}

/// A header's bytes behind the first: its length, then options, filled up with padding.
fn with(options: &[u8]) -> Vec<u8> {
    let mut rest = [&[0], options].concat();
    let fill = (7 - rest.len() as isize).rem_euclid(8) as usize;
    rest.extend(match fill {
        0 => vec![],
        1 => vec![0],
        fill => [&[1, fill as u8 - 2][..], &vec![0; fill - 2]].concat(),
    });
    rest[0] = (rest.len() / 8) as u8;
    rest
}

fn go(packet: &[u8]) -> Result<Carried, Fault> {
    at_destination(packet, Limits::default())
}

#[test]
fn what_is_carried_is_found_behind_every_order_of_headers() {
    let headers = [
        (DESTINATION, with(&[])),
        (ROUTING, vec![0, 0, 0, 0, 0, 0, 0]),
        (DESTINATION, with(&[0x1e, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    ];
    let found = go(&packet(&headers, UDP, false)).unwrap();
    assert_eq!((found.protocol, found.at, found.named_at), (UDP, 40 + 8 + 8 + 16, 56));
    assert_eq!(go(&packet(&[], 59, false)).unwrap().protocol, 59);
    // What is not processed here, is what is carried: who does not know it answers with a Parameter Problem at `named_at`.
    for kind in [50, 51, 135, 139, 253] {
        let found = go(&packet(&[(DESTINATION, with(&[]))], kind, false)).unwrap();
        assert_eq!((found.protocol, found.at, found.named_at), (kind, 48, 40));
    }
    let found = go(&packet(&[(DESTINATION, with(&[])), (FRAGMENT, vec![0; 7])], UDP, false)).unwrap();
    assert_eq!((found.protocol, found.at, found.named_at), (FRAGMENT, 48, 40));
}

/// Section 4.3, 4.1: hop-by-hop options come first or not at all.
#[test]
fn misplaced_hop_by_hop_options_point_at_the_field_that_names_them() {
    let hop = || (HOP_BY_HOP, with(&[]));
    assert!(go(&packet(&[hop()], UDP, false)).is_ok());
    let wrong = Fault { why: Why::Misplaced, pointer: 40, code: Some(1) };
    assert_eq!(go(&packet(&[(DESTINATION, with(&[])), hop()], UDP, false)), Err(wrong));
    assert_eq!(go(&packet(&[hop(), hop()], UDP, false)), Err(wrong));
}

/// Section 4.2: every type of option, to a host and to a group, at the destination and on the way.
#[test]
fn options_that_are_not_known_are_treated_by_their_two_highest_bits() {
    for kind in 0..=255_u8 {
        for to_group in [false, true] {
            let options = with(&[PADN, 0, kind, 0]);
            let expected = match kind {
                PAD1 | PADN => None,
                _ => match kind >> 6 {
                    0b00 => None,
                    0b01 => Some(None),
                    0b10 => Some(Some(2)),
                    _ => Some((!to_group).then_some(2)),
                },
            };
            let expected = expected.map(|code| Fault { why: Why::Option, pointer: 40 + 4, code });
            let hop = packet(&[(HOP_BY_HOP, options.clone())], UDP, to_group);
            assert_eq!(in_transit(&hop, Limits::default()).err(), expected, "{kind:#x}");
            assert_eq!(go(&hop).err(), expected, "{kind:#x}");
            let own = packet(&[(DESTINATION, options)], UDP, to_group);
            assert_eq!(go(&own).err(), expected, "{kind:#x}");
            assert_eq!(in_transit(&own, Limits::default()), Ok(Asked::default()), "not the router's business");
        }
    }
}

/// RFC 2711.
#[test]
fn a_router_alert_is_told() {
    let alert = packet(&[(HOP_BY_HOP, with(&[5, 2, 0, 0]))], 58, true);
    assert_eq!(in_transit(&alert, Limits::default()), Ok(Asked { router_alert: Some(0) }));
    assert_eq!(go(&alert).unwrap().asked.router_alert, Some(0));
}

/// Section 4.4 and RFC 5095: every routing type, with and without segments left.
#[test]
fn routing_headers_are_ignored_once_they_are_used_up_and_refused_before() {
    for kind in 0..=255 {
        let header = |left| (ROUTING, [vec![2, kind, left], vec![0; 20]].concat());
        let found = go(&packet(&[header(0)], UDP, false)).unwrap();
        assert_eq!((found.protocol, found.at), (UDP, 64));
        let wrong = Fault { why: Why::Routing, pointer: 42, code: Some(0) };
        assert_eq!(go(&packet(&[header(1)], UDP, false)), Err(wrong));
        assert_eq!(in_transit(&packet(&[header(1)], UDP, false), Limits::default()), Ok(Asked::default()));
    }
}

#[test]
fn options_that_reach_beyond_their_header_point_at_their_length() {
    for (options, pointer) in [(vec![0, PADN, 6, 0, 0, 0, 0], 43), (vec![0, 0, 0, 0, 0, 0, 30], 47)] {
        let found = go(&packet(&[(DESTINATION, options.clone())], UDP, false));
        let expected = Fault { why: Why::OptionLength, pointer, code: Some(0) };
        assert_eq!(found, Err(expected), "{options:?}");
    }
}

/// RFC 8883: each bound has its code, and its pointer.
#[test]
fn bombs_of_extension_headers_end_at_the_bounds() {
    let limits = Limits { headers: 3, bytes: 64, options: 4 };
    let many = |count| packet(&vec![(DESTINATION, with(&[])); count], UDP, false);
    assert!(at_destination(&many(3), limits).is_ok());
    let wrong = Fault { why: Why::TooManyHeaders, pointer: 40 + 24, code: Some(8) };
    assert_eq!(at_destination(&many(4), limits), Err(wrong));
    let long = |units: usize| {
        packet(
            &[(
                DESTINATION,
                with(&vec![0x1e, (units * 8 - 4) as u8].into_iter().chain(vec![0; units * 8 - 4]).collect::<Vec<_>>()),
            )],
            UDP,
            false,
        )
    };
    assert!(at_destination(&long(8), limits).is_ok());
    let wrong = Fault { why: Why::TooLong, pointer: 40 + 64, code: Some(7) };
    assert_eq!(at_destination(&long(9), limits), Err(wrong));
    let padded = |count: usize| packet(&[(HOP_BY_HOP, with(&vec![0; count]))], UDP, false);
    assert!(at_destination(&padded(3), limits).is_ok(), "three, and one to fill up");
    let wrong = Fault { why: Why::TooManyOptions, pointer: 40 + 6, code: Some(9) };
    assert_eq!(at_destination(&padded(6), limits), Err(wrong));
    assert_eq!(in_transit(&padded(6), limits), Err(wrong));
}

#[test]
fn a_packet_that_ends_inside_a_header_is_dropped_silently() {
    let whole =
        packet(&[(HOP_BY_HOP, with(&[])), (DESTINATION, with(&[0x1e, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]))], UDP, false);
    for cut in 0..whole.len() {
        let found = go(&whole[..cut]);
        assert_eq!(found.is_ok(), cut >= 64, "{cut}");
        assert!(found.is_ok() || found.is_err_and(|fault| fault.why == Why::Truncated && fault.code.is_none()));
    }
    // What lies behind the payload is not the packet's.
    let mut short = whole.clone();
    short[5] = 8;
    assert_eq!(go(&short).unwrap_err().why, Why::Truncated);
}

/// The rules read off the RFC once more, with lists for everything.
fn twin(packet: &[u8], limits: Limits) -> Result<(u8, usize), (Why, usize, Option<u8>)> {
    let payload = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let packet = &packet[..packet.len().min(40 + payload)];
    let to_group = packet[24] == 0xff;
    let (mut named_at, mut at, mut seen) = (6, 40, Vec::new());
    loop {
        let kind = packet[named_at];
        if kind == 0 && named_at != 6 {
            return Err((Why::Misplaced, named_at, Some(1)));
        }
        if ![0, 43, 60].contains(&kind) {
            return Ok((kind, at));
        }
        if seen.len() == limits.headers {
            return Err((Why::TooManyHeaders, at, Some(8)));
        }
        if packet.len() < at + 2 || packet.len() < at + 8 + 8 * usize::from(packet[at + 1]) {
            return Err((Why::Truncated, at, None));
        }
        let end = at + 8 + 8 * usize::from(packet[at + 1]);
        if end - 40 > limits.bytes {
            return Err((Why::TooLong, 40 + limits.bytes, Some(7)));
        }
        seen.push(kind);
        if kind == 43 {
            if packet[at + 3] > 0 {
                return Err((Why::Routing, at + 2, Some(0)));
            }
        } else {
            let (mut here, mut count) = (at + 2, 0);
            while here < end {
                count += 1;
                if count > limits.options {
                    return Err((Why::TooManyOptions, here, Some(9)));
                }
                let option = packet[here];
                if option == 0 {
                    here += 1;
                    continue;
                }
                if here + 1 == end {
                    return Err((Why::OptionLength, here, Some(0)));
                }
                let after = here + 2 + usize::from(packet[here + 1]);
                if after > end {
                    return Err((Why::OptionLength, here + 1, Some(0)));
                }
                if option != 1 && (option >> 6) != 0 {
                    let told = option >> 6 == 2 || option >> 6 == 3 && !to_group;
                    return Err((Why::Option, here, told.then_some(2)));
                }
                here = after;
            }
        }
        (named_at, at) = (at, end);
    }
}

fn headers() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let kind = prop_oneof![Just(0_u8), Just(43), Just(60), Just(60), any::<u8>()];
    let option = prop_oneof![
        3 => Just(vec![0]),
        3 => (0_u8..5).prop_map(|n| [vec![1, n], vec![0; n.into()]].concat()),
        3 => (any::<u8>(), 0_u8..5).prop_map(|(kind, n)| [vec![kind, n], vec![0; n.into()]].concat()),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(kind, n)| vec![kind, n]),
    ];
    let options = proptest::collection::vec(option, 0..6).prop_map(|all| with(&all.concat()));
    let routing = (0_u8..4, 0_u8..2).prop_map(|(kind, left)| vec![0, kind, left, 0, 0, 0, 0]);
    let rest = prop_oneof![3 => options, 1 => routing];
    proptest::collection::vec((kind, rest), 0..6)
}

proptest! {
    #[test]
    fn agrees_with_its_twin(
        headers in headers(), last: u8, to_group: bool, cut in 0_usize..300, lengths in 0_usize..12, options in 1_usize..8,
    ) {
        let mut packet = packet(&headers, last, to_group);
        packet.truncate((40 + cut).max(40));
        let limits = Limits { headers: lengths / 2, bytes: lengths * 8, options };
        let found = at_destination(&packet, limits);
        let found = found.map(|carried| (carried.protocol, carried.at)).map_err(|fault| (fault.why, fault.pointer, fault.code));
        prop_assert_eq!(found, twin(&packet, limits));
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = at_destination(&bytes, Limits::default());
        let _ = in_transit(&bytes, Limits::default());
        let _ = crate::validity6::check_slice(&bytes);
    }
}
