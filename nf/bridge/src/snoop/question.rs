//! The questions of a querier: IGMP version 3 (RFC 3376 section 4.1) and MLD version 2 (RFC 3810 section 5.1). Hosts that know older versions read them as theirs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::checksum::{Sum, checksum};
use weir_wire::ethernet;
use weir_wire::ipv6::ICMPV6;

use super::IGMP;

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const MEMBERSHIP_QUERY: u8 = 0x11;
const LISTENER_QUERY: u8 = 130;

/// A router alert (RFC 2113; RFC 2711, with padding), which both have.
const ALERT: [u8; 4] = [0x94, 4, 0, 0];
const ALERT6: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Who asks, and what of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) mac: [u8; 6],
    pub(crate) source: IpAddr,
    /// Answers have to come within this time, nanoseconds.
    pub(crate) within: u64,
    /// The robustness variable, and the interval of questions, nanoseconds.
    pub(crate) robustness: u8,
    pub(crate) interval: u64,
}

/// The frame, without a tag, that asks for a group, or for all of the family of the source.
pub(crate) fn frame(asking: &Asking, group: Option<IpAddr>) -> Vec<u8> {
    match asking.source {
        IpAddr::V4(source) => {
            let group = group.and_then(|group| if let IpAddr::V4(group) = group { Some(group) } else { None });
            frame4(asking, source, group)
        }
        IpAddr::V6(source) => {
            let group = group.and_then(|group| if let IpAddr::V6(group) = group { Some(group) } else { None });
            frame6(asking, source, group)
        }
    }
}

fn frame4(asking: &Asking, source: Ipv4Addr, group: Option<Ipv4Addr>) -> Vec<u8> {
    // Section 4.1.1: in tenths of a second.
    let code = code8(asking.within / 100_000_000);
    let asked = group.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
    let last = [asking.robustness & 7, code8(asking.interval / 1_000_000_000), 0, 0];
    let mut message = [&[MEMBERSHIP_QUERY, code, 0, 0][..], &asked, &last].concat();
    put(&mut message, 2, checksum);
    // Section 4.1.12: general queries go to all hosts, others to the group.
    let to = group.unwrap_or(ALL_HOSTS);
    let len = (20 + ALERT.len() + message.len()) as u16;
    // Section 4: "a TTL of 1, an IP Precedence of Internetwork Control", and a router alert.
    let [l0, l1] = len.to_be_bytes();
    let front = [0x46, 0xc0, l0, l1, 0, 0, 0, 0, 1, IGMP, 0, 0];
    let mut header = [&front[..], &source.octets(), &to.octets(), &ALERT].concat();
    put(&mut header, 10, checksum);
    let [_, b, c, d] = to.octets();
    let ethernet = [[1, 0, 0x5e, b & 127, c, d], asking.mac].concat();
    [&ethernet[..], &ethernet::IPV4.to_be_bytes(), &header, &message].concat()
}

fn frame6(asking: &Asking, source: Ipv6Addr, group: Option<Ipv6Addr>) -> Vec<u8> {
    // Section 5.1.3: in thousandths of a second; what is as long as to be told by a mantissa is no time of answers here.
    let [w0, w1] = ((asking.within / 1_000_000).min(0x7fff) as u16).to_be_bytes();
    let asked = group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets();
    let last = [asking.robustness & 7, code8(asking.interval / 1_000_000_000), 0, 0];
    let mut message = [&[LISTENER_QUERY, 0, 0, 0, w0, w1, 0, 0][..], &asked, &last].concat();
    let to = group.unwrap_or(ALL_NODES);
    put(&mut message, 2, |message| {
        let pseudo = Sum::new().bytes(&source.octets()).bytes(&to.octets()).word(message.len() as u16);
        pseudo.word(u16::from(ICMPV6)).bytes(message).checksum()
    });
    let [l0, l1] = ((ALERT6.len() + message.len()) as u16).to_be_bytes();
    // Section 5: a hop limit of 1 and a router alert in hop-by-hop options.
    let header = [&[0x60, 0, 0, 0, l0, l1, 0, 1][..], &source.octets(), &to.octets(), &ALERT6].concat();
    let [.., a, b, c, d] = to.octets();
    let ethernet = [[0x33, 0x33, a, b, c, d], asking.mac].concat();
    [&ethernet[..], &ethernet::IPV6.to_be_bytes(), &header, &message].concat()
}

/// Writes a sum over all of it to a place that was 0 before.
fn put(bytes: &mut [u8], at: usize, sum: impl Fn(&[u8]) -> u16) {
    let sum = sum(bytes).to_be_bytes();
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&sum);
    }
}

/// A number as one byte has it (RFC 3376 sections 4.1.1 and 4.1.7): below 128 as it is, then a mantissa of four bits behind a 1, and an exponent. What is between two
/// such numbers is the smaller one.
fn code8(number: u64) -> u8 {
    if number < 128 {
        return number as u8;
    }
    let exponent = (0..8).find(|exponent| number >> (exponent + 3) < 32).unwrap_or(7);
    let mantissa = (number >> (exponent + 3)).min(31) as u8 & 15;
    0x80 | (exponent as u8) << 4 | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_tells_a_number_as_the_rfc_has_it() {
        // RFC 3376 section 4.1.1: "Max Resp Time = (mant | 0x10) << (exp + 3)".
        let value = |code: u8| match code {
            0..128 => u64::from(code),
            _ => u64::from(code & 15 | 16) << ((code >> 4 & 7) + 3),
        };
        for number in 0..40_000 {
            let told = value(code8(number));
            let larger = (0..=255).map(value).filter(|other| *other > told).min();
            let is_largest = told <= number && larger.is_none_or(|larger| larger > number);
            assert!(is_largest, "{number} as {told}");
        }
    }
}
