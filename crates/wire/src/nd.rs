//! Neighbour solicitations and advertisements (RFC 4861 sections 4.3 and 4.4): who has an IPv6 address, on Ethernet.

use std::net::Ipv6Addr;

use crate::checksum::Sum;
use crate::ipv6::ICMPV6;
use crate::{Ethernet, Ipv6, MacAddr, View, ethernet};

/// Bytes of the frames that are written here: Ethernet, IPv6, the message, and one option with an Ethernet address.
pub const FRAME_LEN: usize = Ethernet::LEN + IPV6 + MESSAGE + OPTION;

const IPV6: usize = Ipv6::LEN;
const MESSAGE: usize = 24;
const OPTION: usize = 8;

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;
/// A router does not pass these on, so that one with another hop limit is forged (RFC 4861 section 7.1).
const HOP_LIMIT: u8 = 255;
/// The advertisement was asked for, and replaces what was known.
const SOLICITED_OVERRIDE: u8 = 0x60;

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// `from` asks for the Ethernet address of `target`.
    Solicitation {
        /// Who asks.
        from: Ipv6Addr,
        /// Whose address it is about.
        target: Ipv6Addr,
        /// The Ethernet address of who asks, if he says so.
        link: Option<MacAddr>,
    },
    /// Somebody says what the Ethernet address of `target` is.
    Advertisement {
        /// Whose address it is about.
        target: Ipv6Addr,
        /// The Ethernet address, if he says so; else that of the frame.
        link: Option<MacAddr>,
    },
}

/// Whom a solicitation for an address is sent to: the solicited-node multicast address (RFC 4291 section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.to_bits() & 0xff_ffff)
}

/// The Ethernet address of an IPv6 multicast group (RFC 2464 section 7).
pub fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Writes the question of `mac`, which has the address `own`, for the Ethernet address of `target`; its length, or `None` where
/// `frame` is too short.
pub fn write_solicitation(frame: &mut [u8], mac: MacAddr, own: Ipv6Addr, target: Ipv6Addr) -> Option<usize> {
    let group = solicited_node(target);
    let to = (group_mac(group), group);
    write(frame, (mac, own), to, (SOLICITATION, 0), target, (SOURCE_LINK_ADDRESS, mac))
}

/// Writes the answer to a question of `asker`: `target` has the address `mac`; its length, or `None` where `frame` is too short.
pub fn write_advertisement(
    frame: &mut [u8],
    mac: MacAddr,
    target: Ipv6Addr,
    asker: MacAddr,
    asking: Ipv6Addr,
) -> Option<usize> {
    let to = (asker, asking);
    write(frame, (mac, target), to, (ADVERTISEMENT, SOLICITED_OVERRIDE), target, (TARGET_LINK_ADDRESS, mac))
}

fn write(
    frame: &mut [u8],
    from: (MacAddr, Ipv6Addr),
    to: (MacAddr, Ipv6Addr),
    (kind, flags): (u8, u8),
    target: Ipv6Addr,
    (option, link): (u8, MacAddr),
) -> Option<usize> {
    let frame = frame.get_mut(..FRAME_LEN)?;
    let (header, packet) = Ethernet::split_mut(frame)?;
    *header = Ethernet::new(to.0, from.0, ethernet::IPV6);
    let (ip, message) = packet.split_at_mut_checked(IPV6)?;
    let length = (MESSAGE + OPTION) as u16;
    let fixed = [0x60, 0, 0, 0, (length >> 8) as u8, length as u8, ICMPV6, HOP_LIMIT];
    put(ip, [&fixed[..], &from.1.octets(), &to.1.octets()]);
    let start = [kind, 0, 0, 0, flags, 0, 0, 0];
    let option = [option, 1]; // in units of 8 bytes
    put(message, [&start[..], &target.octets(), &option, &link.0]);
    let sum = pseudo(from.1, to.1, message.len()).bytes(message).checksum().to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    Some(FRAME_LEN)
}

/// Writes pieces one behind the other.
fn put<'p>(to: &mut [u8], pieces: impl IntoIterator<Item = &'p [u8]>) {
    to.iter_mut().zip(pieces.into_iter().flatten()).for_each(|(to, from)| *to = *from);
}

fn pseudo(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> Sum {
    Sum::new().bytes(&from.octets()).bytes(&to.octets()).word(len as u16).word(u16::from(ICMPV6))
}

/// What an IPv6 packet says about neighbours; `None` for any other, and for one that is not valid (RFC 4861 section 7.1).
pub fn parse(packet: &[u8]) -> Option<Message> {
    let (ip, rest) = packet.split_at_checked(IPV6)?;
    let [first, _, _, _, high, low, ICMPV6, HOP_LIMIT, addresses @ ..] = ip else { return None };
    let (from, to) = addresses.split_at_checked(16)?;
    let address = |bytes: &[u8]| Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?));
    let (from, to) = (address(from)?, address(to)?);
    let message = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
    let valid = pseudo(from, to, message.len()).bytes(message).fold() == 0xffff;
    let (fixed, options) = message.split_at_checked(MESSAGE)?;
    let [kind, 0, ..] = fixed else { return None };
    let target = address(fixed.get(8..)?)?;
    if first >> 4 != 6 || !valid || target.is_multicast() {
        return None;
    }
    match *kind {
        SOLICITATION => Some(Message::Solicitation { from, target, link: link(options, SOURCE_LINK_ADDRESS) }),
        ADVERTISEMENT => Some(Message::Advertisement { target, link: link(options, TARGET_LINK_ADDRESS) }),
        _ => None,
    }
}

/// What a host that asks for routers says (RFC 4861 section 4.1): its address, if it has one, and its Ethernet address, if it says so.
/// `None` for any other packet, and for one that is not valid (section 6.1.1).
pub fn parse_router_solicitation(packet: &[u8]) -> Option<(Ipv6Addr, Option<MacAddr>)> {
    const LEAST: usize = 8;
    let (fixed, rest) = Ipv6::split(packet)?;
    let message = rest.get(..usize::from(fixed.payload_length.get()))?;
    let (from, to) = (fixed.source_addr(), fixed.destination_addr());
    let is_solicitation = matches!(message, [ROUTER_SOLICITATION, 0, ..]) && message.len() >= LEAST;
    let is_nd = fixed.version() == 6 && fixed.next_header == ICMPV6 && fixed.hop_limit == HOP_LIMIT;
    if !is_solicitation || !is_nd || pseudo(from, to, message.len()).bytes(message).fold() != 0xffff {
        return None;
    }
    let link = link(message.get(LEAST..)?, SOURCE_LINK_ADDRESS);
    // "If the IP source address is the unspecified address, there is no source link-layer address option in the message."
    (!from.is_unspecified() || link.is_none()).then_some((from, link))
}

/// What a router tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its link-local address.
    pub own: Ipv6Addr,
    /// Whom it tells.
    pub to: (MacAddr, Ipv6Addr),
    /// Seconds for which it is a default router; 0 is none.
    pub lifetime: u16,
    /// Bytes of the longest IPv6 packet.
    pub mtu: u32,
    /// Networks of 64 bits in which hosts may take addresses (RFC 4862), by their first half.
    pub networks: &'a [u64],
}

/// Bytes of a frame with an advertisement of so many networks.
pub const fn router_advertisement_len(networks: usize) -> usize {
    Ethernet::LEN + IPV6 + 16 + 2 * OPTION + networks * 4 * OPTION
}

/// Writes a router advertisement (RFC 4861 section 4.2), with the lifetimes of section 6.2.1; its length, or `None` where `frame` is too
/// short.
pub fn write_router_advertisement(frame: &mut [u8], says: &RouterAdvertisement<'_>) -> Option<usize> {
    const HOPS: u8 = 64;
    const VALID: u32 = 2_592_000;
    const PREFERRED: u32 = 604_800;
    /// On this link, and to be used for autoconfiguration.
    const ON_LINK_AUTONOMOUS: u8 = 0xc0;
    let total = router_advertisement_len(says.networks.len());
    let frame = frame.get_mut(..total)?;
    let (header, packet) = Ethernet::split_mut(frame)?;
    *header = Ethernet::new(says.to.0, says.mac, ethernet::IPV6);
    let (ip, message) = packet.split_at_mut_checked(IPV6)?;
    let length = u16::try_from(message.len()).ok()?.to_be_bytes();
    let fixed = [0x60, 0, 0, 0, length[0], length[1], ICMPV6, HOP_LIMIT];
    put(ip, [&fixed[..], &says.own.octets(), &says.to.1.octets()]);
    let mut bytes = vec![ROUTER_ADVERTISEMENT, 0, 0, 0, HOPS, 0];
    bytes.extend(says.lifetime.to_be_bytes());
    bytes.extend([0; 8]); // reachable time and retransmission timer are the hosts' own
    bytes.extend([SOURCE_LINK_ADDRESS, 1]);
    bytes.extend(says.mac.0);
    bytes.extend([MTU, 1, 0, 0]);
    bytes.extend(says.mtu.to_be_bytes());
    for network in says.networks {
        bytes.extend([PREFIX_INFORMATION, 4, 64, ON_LINK_AUTONOMOUS]);
        bytes.extend(VALID.to_be_bytes());
        bytes.extend(PREFERRED.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(network.to_be_bytes());
        bytes.extend([0; 8]);
    }
    put(message, [&bytes[..]]);
    let sum = pseudo(says.own, says.to.1, message.len()).bytes(message).checksum().to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    Some(total)
}

/// The link-local address that a station with this Ethernet address gives itself (RFC 4291 appendix A, RFC 2464 section 5).
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(0xfe80 << 112 | identifier as u128)
}

/// The Ethernet address of the first option of a kind.
fn link(options: &[u8], wanted: u8) -> Option<MacAddr> {
    let mut rest = options;
    while let [kind, units, ..] = *rest {
        let len = usize::from(units) * 8;
        let option = rest.get(..len).filter(|_| len > 0)?;
        if kind == wanted {
            return option.get(2..8)?.first_chunk().map(|mac| MacAddr(*mac));
        }
        rest = rest.get(len..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn a_router_advertisement_lies_as_rfc_4861_draws_it() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        assert_eq!(link_local(mac), "fe80::ff:fe00:1".parse::<Ipv6Addr>().unwrap());
        let to: Ipv6Addr = "fe80::9".parse().unwrap();
        let says = RouterAdvertisement {
            mac,
            own: link_local(mac),
            to: (MacAddr([2, 0, 0, 0, 0, 9]), to),
            lifetime: 1800,
            mtu: 1500,
            networks: &[0x2001_0db8_0000_0007],
        };
        let mut frame = [0xee; 200];
        let len = write_router_advertisement(&mut frame, &says).unwrap();
        assert_eq!((len, router_advertisement_len(1)), (14 + 40 + 16 + 8 + 8 + 32, len));
        assert!(write_router_advertisement(&mut frame[..len - 1].to_vec(), &says).is_none());
        let packet = &frame[14..len];
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 64, 58, 255]);
        let message = &packet[40..];
        assert_eq!(pseudo(says.own, to, message.len()).bytes(message).fold(), 0xffff);
        assert_eq!(message[..2], [134, 0]);
        assert_eq!(message[4..16], [64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(message[16..32], [1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
        assert_eq!(message[32..48], [3, 4, 64, 0xc0, 0, 0x27, 0x8d, 0, 0, 9, 0x3a, 0x80, 0, 0, 0, 0]);
        assert_eq!(message[48..], [0x20, 1, 0xd, 0xb8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    fn router_solicitation(from: Ipv6Addr, option: &[u8]) -> Vec<u8> {
        let to: Ipv6Addr = "ff02::2".parse().unwrap();
        let mut message = [&[133, 0, 0, 0, 0, 0, 0, 0][..], option].concat();
        let sum = pseudo(from, to, message.len()).bytes(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let fixed = [0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
        [&fixed[..], &from.octets(), &to.octets(), &message].concat()
    }

    #[test]
    fn router_solicitations_are_read() {
        let (nobody, host): (Ipv6Addr, Ipv6Addr) = (Ipv6Addr::UNSPECIFIED, "fe80::9".parse().unwrap());
        let option = [1, 1, 2, 0, 0, 0, 0, 9];
        assert_eq!(parse_router_solicitation(&router_solicitation(nobody, &[])), Some((nobody, None)));
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let valid = router_solicitation(host, &option);
        assert_eq!(parse_router_solicitation(&valid), Some((host, Some(mac))));
        assert_eq!(parse_router_solicitation(&router_solicitation(nobody, &option)), None);
        assert!((0..valid.len()).all(|len| parse_router_solicitation(&valid[..len]).is_none()));
        for bit in (0..valid.len() * 8).filter(|bit| !(4..32).contains(bit)) {
            let mut broken = valid.clone();
            broken[bit / 8] ^= 1 << (7 - bit % 8);
            assert_eq!(parse_router_solicitation(&broken), None, "bit {bit}");
        }
    }

    #[test]
    fn a_solicitation_goes_to_the_solicited_node() {
        // RFC 4291 section 2.7.1: 4037::01:800:200e:8c6c has the solicited-node address ff02::1:ff0e:8c6c.
        assert_eq!(solicited_node(ip("4037::01:800:200e:8c6c")), ip("ff02::1:ff0e:8c6c"));
        let mut frame = [0; FRAME_LEN];
        assert_eq!(write_solicitation(&mut frame, OWN, ip("2001:db8::1"), ip("2001:db8::2")), Some(86));
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        let expected = Message::Solicitation { from: ip("2001:db8::1"), target: ip("2001:db8::2"), link: Some(OWN) };
        assert_eq!(parse(&frame[14..]), Some(expected));
    }

    #[test]
    fn an_advertisement_goes_back() {
        let mut frame = [0; FRAME_LEN];
        write_advertisement(&mut frame, OWN, ip("2001:db8::1"), OTHER, ip("2001:db8::2")).unwrap();
        assert_eq!(frame[..6], OTHER.0);
        let expected = Message::Advertisement { target: ip("2001:db8::1"), link: Some(OWN) };
        assert_eq!(parse(&frame[14..]), Some(expected));
        assert_eq!(write_advertisement(&mut [0; 85], OWN, ip("::1"), OTHER, ip("::2")), None);
    }

    #[test]
    fn what_was_forwarded_or_changed_is_refused() {
        let mut frame = [0; FRAME_LEN];
        write_solicitation(&mut frame, OWN, ip("2001:db8::1"), ip("2001:db8::2"));
        for (at, bit) in [(21, 1), (20, 1), (57, 1), (80, 0x10), (14, 0x10)] {
            let mut other = frame;
            other[at] ^= bit;
            assert_eq!(parse(&other[14..]), None, "byte {at}");
        }
        assert_eq!(parse(&frame[14..85]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), start: bool) {
            if start && bytes.len() > 8 {
                bytes[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 32, 58, 255]);
            }
            parse(&bytes);
            link(&bytes, 1);
        }
    }
}
