//! IPv6 extension headers (RFC 8200 section 4), and what the field `ipv6_exthdr` says of them (OpenFlow 1.3.5 section 7.2.3.8).

/// What stands between an IPv6 header and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Bits of `ipv6_exthdr`.
    pub(crate) seen: u16,
    /// Where the number of the last protocol stands.
    pub(crate) protocol_at: usize,
    pub(crate) protocol: u8,
    /// What is carried; nothing in later fragments, or where the chain breaks off.
    pub(crate) carried: Option<usize>,
    pub(crate) routed: bool,
    pub(crate) fragment: bool,
}

const NO_NEXT: u16 = 1;
const ESP: u16 = 1 << 1;
const AUTH: u16 = 1 << 2;
const DEST: u16 = 1 << 3;
const FRAGMENT: u16 = 1 << 4;
const ROUTER: u16 = 1 << 5;
const HOP: u16 = 1 << 6;
const REPEATED: u16 = 1 << 7;
const DISORDERED: u16 = 1 << 8;

/// The bit of a header, and its place in the order that RFC 8200 section 4.1 recommends; destination options have two.
fn header(protocol: u8, after_routing: bool) -> Option<(u16, u8)> {
    Some(match protocol {
        0 => (HOP, 1),
        60 if after_routing => (DEST, 6),
        60 => (DEST, 2),
        43 => (ROUTER, 3),
        44 => (FRAGMENT, 4),
        51 => (AUTH, 5),
        50 => (ESP, 6),
        59 => (NO_NEXT, 7),
        _ => return None,
    })
}

/// Walks the headers behind the IPv6 header at `start`. `bytes` ends where the packet does.
pub(crate) fn walk(bytes: &[u8], start: usize) -> Chain {
    let get = |at: usize| bytes.get(at).copied();
    let mut chain = Chain {
        seen: 0,
        protocol_at: start + 6,
        protocol: get(start + 6).unwrap_or(59),
        carried: None,
        routed: false,
        fragment: false,
    };
    let mut at = start + 40;
    let (mut last, mut destinations) = (0, 0);
    while let Some((bit, place)) = header(chain.protocol, last >= 3) {
        destinations += u8::from(bit == DEST);
        if chain.seen & bit != 0 && (bit != DEST || destinations > 2) {
            chain.seen |= REPEATED;
        }
        if place < last {
            chain.seen |= DISORDERED;
        }
        chain.seen |= bit;
        last = last.max(place);
        // What is encrypted, and nothing, end the chain.
        if matches!(bit, ESP | NO_NEXT) {
            return chain;
        }
        let (Some(next), Some(length)) = (get(at), get(at + 1)) else { return chain };
        let length = match bit {
            FRAGMENT => 8,
            AUTH => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        if bit == ROUTER {
            chain.routed |= get(at + 3).is_some_and(|left| left > 0);
        }
        if bit == FRAGMENT {
            let (Some(high), Some(low)) = (get(at + 2), get(at + 3)) else { return chain };
            let offset = u16::from_be_bytes([high, low]);
            chain.fragment |= offset & 0xfff9 != 0;
            if offset & 0xfff8 != 0 {
                // What follows is the middle of something: only its protocol is known.
                chain.protocol_at = at;
                chain.protocol = next;
                return chain;
            }
        }
        chain.protocol_at = at;
        chain.protocol = next;
        at += length;
        if at > bytes.len() {
            return chain;
        }
    }
    chain.carried = Some(at);
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv6 header and these extension headers, each of eight bytes, before a protocol.
    fn chain(headers: &[u8], protocol: u8) -> Chain {
        let mut bytes = vec![0; 40];
        let numbers: Vec<u8> = headers.iter().copied().chain([protocol]).collect();
        bytes[6] = numbers[0];
        for next in &numbers[1..] {
            bytes.extend([*next, 0, 0, 0, 0, 0, 0, 0]);
        }
        bytes.extend([0; 8]);
        walk(&bytes, 0)
    }

    #[test]
    fn the_bits_of_section_7_2_3_8() {
        assert_eq!(chain(&[], 6).seen, 0);
        assert_eq!(chain(&[0], 17).seen, HOP);
        // In the order that RFC 8200 recommends, destination options before and after routing.
        let all = chain(&[0, 60, 43, 44, 60], 6);
        assert_eq!((all.seen, all.protocol, all.carried), (HOP | DEST | ROUTER | FRAGMENT, 6, Some(80)));
        assert_eq!(chain(&[44, 0], 6).seen, FRAGMENT | HOP | DISORDERED);
        assert_eq!(chain(&[43, 43], 6).seen, ROUTER | REPEATED);
        assert_eq!(chain(&[60, 60, 60], 6).seen, DEST | REPEATED);
        assert_eq!((chain(&[], 59).seen, chain(&[], 59).carried), (NO_NEXT, None));
        assert_eq!((chain(&[0], 50).seen, chain(&[0], 50).protocol), (HOP | ESP, 50));
    }

    #[test]
    fn a_later_fragment_carries_nothing_that_is_known() {
        let mut bytes = vec![0; 56];
        bytes[6] = 44;
        bytes[40] = 17;
        let whole = walk(&bytes, 0);
        assert_eq!((whole.carried, whole.fragment), (Some(48), false));
        bytes[43] = 1;
        assert_eq!((walk(&bytes, 0).carried, walk(&bytes, 0).fragment), (Some(48), true));
        bytes[43] = 8;
        let later = walk(&bytes, 0);
        assert_eq!((later.carried, later.fragment, later.protocol), (None, true, 17));
        // One that breaks off.
        assert_eq!(walk(&bytes[..42], 0).carried, None);
    }
}
