//! Fragmentation of IPv4 packets (RFC 791 section 3.2; RFC 1812 section 4.2.2.7), and of IPv6 packets by their source ([`six`]).

pub mod six;

use std::fmt;
use weir_wire::ipv4::{self, MAX_HEADER, MAX_LENGTH};
use weir_wire::{Ipv4, U16, View};

/// Why a packet is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is longer than the MTU and its DF flag is set: answer "fragmentation needed".
    DontFragment,
    /// Its header, options or lengths are not valid.
    Invalid,
    /// It is a fragment that ends beyond the longest packet: the offsets of its pieces would not fit into their field.
    BeyondLongest,
    /// The MTU has no room for the header and 8 bytes; at the least MTU, 68 (RFC 791), there always is.
    MtuTooSmall,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::DontFragment => "the packet is longer than the MTU and must not be fragmented",
            Refused::Invalid => "the packet's header, options or lengths are not valid",
            Refused::BeyondLongest => "the fragment ends beyond 65,535 bytes, the longest packet",
            Refused::MtuTooSmall => "the MTU has no room for the header and 8 bytes of payload",
        })
    }
}

impl std::error::Error for Refused {}

/// An IPv4 header with its options.
#[derive(Clone, Copy)]
struct Header {
    bytes: [u8; MAX_HEADER],
    length: usize,
}

impl Header {
    fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut header = Header { bytes: [0; MAX_HEADER], length: bytes.len() };
        header.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(header)
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The header of the fragments after the first: only options whose copied flag is set, filled up to whole words with
    /// "end of option list".
    fn for_later_fragments(&self) -> Option<Self> {
        let mut later = Header { length: Ipv4::LEN, ..Header::copy_of(self.as_slice().get(..Ipv4::LEN)?)? };
        for option in ipv4::options(self.as_slice()) {
            let option = option.ok()?;
            if option.is_copied() {
                let end = later.length.checked_add(option.bytes.len())?;
                later.bytes.get_mut(later.length..end)?.copy_from_slice(option.bytes);
                later.length = end;
            }
        }
        later.length = later.length.next_multiple_of(4);
        let words = u8::try_from(later.length / 4).ok()?;
        Ipv4::view_mut(&mut later.bytes)?.version_ihl = 0x40 | words;
        Some(later)
    }
}

/// The fragments of one packet, in order.
pub struct Fragments<'p> {
    header: Header,
    later: Header,
    payload: &'p [u8],
    /// Payload bytes that went into fragments so far.
    done: usize,
    mtu: usize,
    finished: bool,
}

/// One fragment: a header of its own, and a part of the packet's payload.
pub struct Fragment<'p> {
    header: Header,
    payload: &'p [u8],
}

impl<'p> Fragments<'p> {
    /// Takes apart `packet`, a valid IPv4 packet (bytes after its total length are ignored), so that no piece is longer
    /// than `mtu` bytes. One that fits comes out as it is. A fragment can be fragmented again.
    ///
    /// # Errors
    /// The packet must not or can not be fragmented to that size.
    pub fn new(packet: &'p [u8], mtu: u16) -> Result<Self, Refused> {
        let header = ipv4::header(packet).and_then(Header::copy_of).ok_or(Refused::Invalid)?;
        let payload = ipv4::payload(packet).ok_or(Refused::Invalid)?;
        let ip = Ipv4::view(&header.bytes).ok_or(Refused::Invalid)?;
        let mtu = usize::from(mtu);
        let fits = ip.total_len() <= mtu;
        if !fits && ip.dont_fragment() {
            return Err(Refused::DontFragment);
        }
        if !fits && mtu < header.length + 8 {
            return Err(Refused::MtuTooSmall);
        }
        if ip.fragment_offset() + payload.len() > MAX_LENGTH {
            return Err(Refused::BeyondLongest);
        }
        let later = header.for_later_fragments().ok_or(Refused::Invalid)?;
        Ok(Fragments { header, later, payload, done: 0, mtu, finished: false })
    }

    fn step(&mut self) -> Option<Fragment<'p>> {
        let mut header = if self.done == 0 { self.header } else { self.later };
        let rest = self.payload.get(self.done..)?;
        let room = self.mtu.checked_sub(header.length)?;
        let last = rest.len() <= room;
        // "The number of fragment blocks": all but the last piece are whole units of 8 bytes.
        let take = if last { rest.len() } else { room & !7 };
        let original = Ipv4::view(&self.header.bytes)?;
        let offset = original.fragment_offset() + self.done;
        let fixed = Ipv4::view_mut(&mut header.bytes)?;
        fixed.total_length = U16::new(u16::try_from(header.length + take).ok()?);
        fixed.set_fragment(original.dont_fragment(), !last || original.more_fragments(), offset);
        ipv4::write_checksum(&mut header.bytes);
        self.done += take;
        self.finished = last;
        Some(Fragment { header, payload: rest.get(..take)? })
    }
}

impl<'p> Iterator for Fragments<'p> {
    type Item = Fragment<'p>;

    fn next(&mut self) -> Option<Fragment<'p>> {
        if self.finished { None } else { self.step() }
    }
}

impl Fragment<'_> {
    /// The header with its options; length, flags, offset and checksum are right.
    pub fn header(&self) -> &[u8] {
        self.header.as_slice()
    }

    /// The part of the payload that this fragment carries.
    pub const fn payload(&self) -> &[u8] {
        self.payload
    }

    /// Bytes of header and payload.
    pub const fn total_len(&self) -> usize {
        self.header.length + self.payload.len()
    }

    /// Where the payload belongs in the unfragmented packet, in bytes.
    pub fn offset(&self) -> usize {
        Ipv4::view(&self.header.bytes).map_or(0, Ipv4::fragment_offset)
    }

    /// Writes the fragment to the start of `out`. Answers its length; `None`, and nothing written, if there is no room.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.total_len())?;
        let (header, payload) = out.split_at_mut_checked(self.header.length)?;
        header.copy_from_slice(self.header());
        payload.copy_from_slice(self.payload);
        Some(self.total_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use weir_wire::validity;

    const COPIED: &[u8] = &[0x94, 4, 0, 0];
    const NOT_COPIED: &[u8] = &[7, 7, 4, 0, 0, 0, 0];
    const NOP: &[u8] = &[1];

    fn packet(options: &[&[u8]], payload: usize) -> Vec<u8> {
        let mut options = options.concat();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut packet = vec![0x45 + (options.len() / 4) as u8, 0xb8, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0];
        packet.extend([192, 0, 2, 1, 198, 51, 100, 7]);
        packet.extend(options);
        packet.extend((0..payload).map(|i| (i % 251) as u8));
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        ipv4::write_checksum(&mut packet);
        packet
    }

    fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
        let fragments = Fragments::new(packet, mtu).unwrap();
        fragments.map(|fragment| [fragment.header(), fragment.payload()].concat()).collect()
    }

    /// RFC 791's reassembly in its plainest form: sort by offset, no gaps, the header is the first fragment's.
    fn reassemble(fragments: &[Vec<u8>]) -> Vec<u8> {
        let mut parts = BTreeMap::new();
        for fragment in fragments {
            assert_eq!(validity::check_slice(fragment), Ok(()));
            let ip = Ipv4::view(fragment).unwrap();
            assert_eq!((ip.tos, ip.identification.get(), ip.ttl, ip.protocol), (0xb8, 0x1234, 64, 17));
            parts.insert(ip.fragment_offset(), fragment);
        }
        let last = parts.values().last().unwrap();
        let first = parts.values().next().unwrap();
        let mut whole = ipv4::header(first).unwrap().to_vec();
        for (offset, fragment) in &parts {
            assert_eq!(whole.len() - ipv4::header(first).unwrap().len(), *offset, "no gap, no overlap");
            let ip = Ipv4::view(fragment).unwrap();
            assert_eq!(ip.more_fragments(), fragment != last, "only the last has no more fragments");
            whole.extend(ipv4::payload(fragment).unwrap());
        }
        let total = whole.len() as u16;
        let ip = Ipv4::view_mut(&mut whole).unwrap();
        ip.total_length = U16::new(total);
        ip.set_fragment(false, false, 0);
        ipv4::write_checksum(&mut whole);
        whole
    }

    #[test]
    fn every_mtu_from_68_to_1500_restores_the_packet() {
        for options in [&[][..], &[COPIED], &[NOT_COPIED], &[COPIED, NOT_COPIED, NOP, COPIED]] {
            let packet = packet(options, 1473);
            for mtu in 68..=1500 {
                let pieces = fragments(&packet, mtu);
                assert!(pieces.iter().all(|piece| piece.len() <= usize::from(mtu)));
                assert_eq!(reassemble(&pieces), packet, "mtu {mtu}");
            }
        }
    }

    #[test]
    fn only_copied_options_go_into_later_fragments() {
        let pieces = fragments(&packet(&[NOP, NOT_COPIED, COPIED, NOT_COPIED], 200), 100);
        assert_eq!(ipv4::header(&pieces[0]).unwrap().len(), 40);
        for later in &pieces[1..] {
            assert_eq!(&ipv4::header(later).unwrap()[20..], COPIED);
        }
    }

    #[test]
    fn a_packet_that_fits_stays_as_it_is_even_with_df() {
        let mut whole = packet(&[COPIED], 50);
        Ipv4::view_mut(&mut whole).unwrap().set_fragment(true, false, 0);
        ipv4::write_checksum(&mut whole);
        assert_eq!(fragments(&whole, 74), [whole.clone()]);
        let padded = [&whole[..], &[0; 6]].concat();
        assert_eq!(fragments(&padded, 74), [whole.clone()]);
        assert_eq!(Fragments::new(&whole, 73).err(), Some(Refused::DontFragment));
    }

    #[test]
    fn what_can_not_be_fragmented_is_refused() {
        let refused = |packet: &[u8], mtu| Fragments::new(packet, mtu).err();
        let long = packet(&[COPIED; 10], 100);
        assert_eq!(refused(&long, 67), Some(Refused::MtuTooSmall));
        assert_eq!(refused(&long, 68), None);
        assert_eq!(refused(&long[..159], 100), Some(Refused::Invalid));
        assert_eq!(refused(&long[..10], 100), Some(Refused::Invalid));
        assert_eq!(refused(&packet(&[&[7, 1, 0, 0]], 100), 80), Some(Refused::Invalid));
        let mut beyond = packet(&[], 1000);
        Ipv4::view_mut(&mut beyond).unwrap().set_fragment(false, false, 65_528);
        assert_eq!(refused(&beyond, 500), Some(Refused::BeyondLongest));
    }

    #[test]
    fn writing_needs_room() {
        let packet = packet(&[], 100);
        let first = Fragments::new(&packet, 68).unwrap().next().unwrap();
        let mut out = [0xee; 80];
        assert_eq!(first.write(&mut out[..67]), None);
        assert_eq!(first.write(&mut out), Some(68));
        assert_eq!((first.offset(), &out[20..68]), (0, &packet[20..68]));
        assert_eq!(out[68..], [0xee; 12]);
    }

    proptest! {
        #[test]
        fn any_valid_packet_survives_two_rounds_of_fragmentation(
            length in 0usize..9_000,
            options in proptest::collection::vec(proptest::sample::select(vec![COPIED, NOT_COPIED, NOP]), 0..6),
            mtus in proptest::collection::vec(68u16..=1500, 2),
        ) {
            let packet = packet(&options, length);
            let pieces: Vec<_> = fragments(&packet, mtus[0]).iter().flat_map(|piece| fragments(piece, mtus[1])).collect();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= usize::from(mtus[0].min(mtus[1]))));
            prop_assert_eq!(reassemble(&pieces), packet);
        }

        #[test]
        fn any_bytes_are_answered(mut packet in proptest::collection::vec(any::<u8>(), 0..300), ihl in 5u8..16, mtu: u16) {
            let length = packet.len() as u16;
            if let [first, _, high, low, ..] = &mut packet[..] {
                (*first, [*high, *low]) = (0x40 | ihl, length.to_be_bytes());
            }
            if let Ok(pieces) = Fragments::new(&packet, mtu) {
                let payload: Vec<u8> = pieces.flat_map(|piece| piece.payload().to_vec()).collect();
                prop_assert_eq!(Some(&payload[..]), ipv4::payload(&packet));
            }
        }
    }
}
