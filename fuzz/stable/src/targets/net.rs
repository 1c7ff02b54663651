//! IPv4 packets on the slow path: errors about them, replies to them, fragments of them.

use std::net::Ipv4Addr;

use weir_net::fragment::Fragments;
use weir_net::icmp::{MAX_ERROR, Problem, echo_reply, may_report, write_error};
use weir_wire::{Ipv4, View, checksum, ipv4, validity};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "net",
    help: "IPv4 packets that the slow path answers, reports or fragments; the first two bytes are an MTU",
    run,
    tokens: &[&[0x45, 0x00], &[0x46], &[0x4f], &[0x20, 0x00], &[0x40, 0x00], &[8, 0], &[0x94, 4, 0, 0], &[131, 7, 4]],
    text: false,
    inputs: 2_000_000,
    deep: 40,
};

const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn run(input: &[u8]) -> bool {
    let Some((mtu, packet)) = input.split_first_chunk::<2>() else { return false };
    let mut packet = packet.to_vec();
    // Few changed packets have a right checksum, and without one nothing happens to them.
    ipv4::write_checksum(&mut packet);
    let reportable = may_report(&packet, false, |_| false).is_ok();
    report(&packet, reportable);
    if validity::check_slice(&packet).is_err() {
        return false;
    }
    fragments(&packet, u16::from_be_bytes(*mtu));
    let before = packet.clone();
    match echo_reply(&mut packet, ROUTER) {
        Ok(()) => {
            assert_eq!(validity::check_slice(&packet), Ok(()), "the reply is not valid");
            assert!(ipv4::payload(&packet).is_some_and(checksum::is_valid), "the reply's checksum is wrong");
        }
        Err(_) => assert_eq!(packet, before, "what is no request was changed"),
    }
    true
}

/// An error about the packet is a valid packet of bounded length that quotes it.
fn report(packet: &[u8], reportable: bool) {
    let mut out = [0; MAX_ERROR];
    let written = write_error(Problem::TtlExceeded, packet, ROUTER, 1, &mut out);
    let whole = ipv4::header(packet).is_some();
    assert!(written.is_some() || !(reportable && whole), "no error can be written about a packet that may be reported");
    let Some(error) = written.and_then(|length| out.get(..length)) else { return };
    assert_eq!(validity::check_slice(error), Ok(()), "the error is not valid");
    assert!(ipv4::payload(error).is_some_and(checksum::is_valid), "the error's checksum is wrong");
    let quoted = ipv4::payload(error).and_then(|message| message.get(8..)).unwrap_or_default();
    assert!(quoted.len() >= ipv4::header(packet).map_or(0, <[u8]>::len), "the header is not quoted whole");
    assert!(packet.starts_with(quoted), "the quotation is wrong");
}

/// Fragments are valid, fit, and together are the packet.
fn fragments(packet: &[u8], mtu: u16) {
    let Ok(fragments) = Fragments::new(packet, mtu) else { return };
    let start = Ipv4::view(packet).map_or(0, Ipv4::fragment_offset);
    let mut together = Vec::new();
    for fragment in fragments {
        assert!(fragment.total_len() <= usize::from(mtu), "a fragment is longer than the MTU");
        assert_eq!(fragment.offset(), start + together.len(), "the offset is wrong");
        let mut bytes = vec![0; fragment.total_len()];
        assert_eq!(fragment.write(&mut bytes), Some(bytes.len()));
        assert_eq!(validity::check_slice(&bytes), Ok(()), "the fragment is not valid");
        together.extend_from_slice(fragment.payload());
    }
    assert_eq!(Some(together.as_slice()), ipv4::payload(packet), "the fragments are not the packet");
}
