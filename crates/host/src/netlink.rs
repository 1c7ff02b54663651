//! Route netlink (RFC 3549): the messages and attributes that [`crate::links`] needs, as bytes.
//! Everything is in the byte order of the host, aligned to 4.

/// Message types of `linux/netlink.h` and `linux/rtnetlink.h`.
pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;
pub(crate) const NEW_LINK: u16 = 16;
pub(crate) const DEL_LINK: u16 = 17;
pub(crate) const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
pub(crate) const NEW_ADDRESS: u16 = 20;
pub(crate) const GET_ADDRESS: u16 = 22;

/// `NLM_F_DUMP_INTR`: what is dumped changed meanwhile, so that something may be missing.
pub(crate) const INTERRUPTED: u16 = 0x10;

/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`: send all of them.
const DUMP: u16 = 0x301;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

/// One message of a datagram: its type and what follows the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) body: &'a [u8],
}

/// The messages of a datagram. Ends at the first one that does not fit in what was received.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let body = rest.get(HEADER..length)?;
        let (kind, flags) = (u16_at(rest, 4)?, u16_at(rest, 6)?);
        rest = rest.get(align(length)..).unwrap_or_default();
        Some(Message { kind, flags, body })
    })
}

/// The attributes (type without its flag bits, payload) that follow a fixed part of `fixed` bytes.
pub(crate) fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    /// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER` say how to read, not what it is.
    const TYPE: u16 = 0x3fff;
    let mut rest = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE;
        let payload = rest.get(4..length)?;
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// A request for all of a kind and family (0: any): the header, and a fixed part of so many bytes that begins with the family.
pub(crate) fn question(kind: u16, family: u8, fixed: usize, sequence: u32) -> Vec<u8> {
    let length = (HEADER + fixed) as u32;
    let fields: [&[u8]; 4] = [&length.to_ne_bytes(), &kind.to_ne_bytes(), &DUMP.to_ne_bytes(), &sequence.to_ne_bytes()];
    let mut request = fields.concat();
    request.resize(HEADER, 0);
    request.push(family);
    request.resize(HEADER + fixed, 0);
    request
}

/// A request to put no program (descriptor -1) in the place of the one that is attached in a mode, and to say so.
pub(crate) fn remove_xdp_request(index: u32, mode: u32) -> Vec<u8> {
    /// `NLM_F_REQUEST | NLM_F_ACK`.
    const ACKNOWLEDGED: u16 = 0x5;
    /// `IFLA_XDP`, nested, and in it `IFLA_XDP_FD` and `IFLA_XDP_FLAGS`.
    const XDP: u16 = 43 | 0x8000;
    const FD: u16 = 1;
    const FLAGS: u16 = 3;
    let attribute = |kind: u16, value: [u8; 4]| [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat();
    let nested = [attribute(FD, (-1_i32).to_ne_bytes()), attribute(FLAGS, mode.to_ne_bytes())].concat();
    let xdp = [&20_u16.to_ne_bytes()[..], &XDP.to_ne_bytes(), &nested].concat();
    // `struct ifinfomsg`: only the number says anything.
    let fixed = [&[0; 4][..], &index.to_ne_bytes(), &[0; 8]].concat();
    let header = [
        &52_u32.to_ne_bytes()[..],
        &SET_LINK.to_ne_bytes(),
        &ACKNOWLEDGED.to_ne_bytes(),
        &1_u32.to_ne_bytes(),
        &[0; 4],
    ];
    [header.concat(), fixed, xdp].concat()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn align(length: usize) -> usize {
    length.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    #[test]
    fn messages_follow_one_another_at_multiples_of_four() {
        let datagram = [message(NEW_LINK, &[1, 2, 3]), message(DONE, &[])].concat();
        let found: Vec<_> = messages(&datagram).map(|m| (m.kind, m.body.to_vec())).collect();
        assert_eq!(found, [(NEW_LINK, vec![1, 2, 3]), (DONE, vec![])]);
    }

    #[test]
    fn a_length_that_lies_ends_the_walk() {
        for length in [0_u32, 1, 15, 17, 1 << 20, u32::MAX] {
            let mut datagram = message(NEW_LINK, &[]);
            datagram.splice(..4, length.to_ne_bytes());
            assert_eq!(messages(&datagram).count(), 0, "{length}");
        }
    }

    #[test]
    fn every_truncation_is_survived() {
        let datagram = message(NEW_LINK, &[7; 40]);
        for end in 0..datagram.len() {
            assert_eq!(messages(&datagram[..end]).count(), 0, "{end}");
        }
    }

    #[test]
    fn attributes_lose_their_flags_and_padding() {
        let mut body = vec![0xff; 16];
        body.extend([7, 0, 3, 0x80, b'a', b'b', 0, 0xee]);
        body.extend([8, 0, 4, 0, 1, 2, 3, 4]);
        body.extend([3, 0, 9, 0]);
        let found: Vec<_> = attributes(&body, 16).collect();
        assert_eq!(found, [(3, &b"ab\0"[..]), (4, &[1, 2, 3, 4][..])], "a length below 4 ends it");
    }

    #[test]
    fn a_program_is_removed_by_a_descriptor_that_is_none() {
        let request = remove_xdp_request(7, 4);
        let message = messages(&request).next().unwrap();
        assert_eq!((message.kind, message.body.len()), (SET_LINK, 36));
        assert_eq!(u32_at(message.body, 4), Some(7));
        let (kind, nested) = attributes(message.body, 16).next().unwrap();
        assert_eq!(kind, 43);
        let inner: Vec<_> = attributes(nested, 0).collect();
        assert_eq!(inner, [(1, &[0xff; 4][..]), (3, &4_u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn a_dump_is_requested_with_root_and_match() {
        let request = question(GET_LINK, 0, 16, 9);
        assert_eq!(u32_at(&request, 0), Some(32));
        assert_eq!(u16_at(&request, 4), Some(GET_LINK));
        assert_eq!(u16_at(&request, 6), Some(0x301));
        assert_eq!(u32_at(&request, 8), Some(9));
        assert!(request[12..].iter().all(|byte| *byte == 0));
    }
}
