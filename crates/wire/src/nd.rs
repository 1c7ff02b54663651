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

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
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
