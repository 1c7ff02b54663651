//! UDP (RFC 768).

use crate::checksum::Sum;
use crate::{Ipv4, U16, View, ipv4};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The UDP header, 8 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Udp {
    /// Source port; 0 if unused.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Bytes of header and data.
    pub length: U16,
    /// Checksum over pseudo header, header and data; 0 if the sender computed none.
    pub checksum: U16,
}

impl View for Udp {}

/// The sum of the pseudo header that UDP and TCP prepend (RFC 768): addresses, protocol, and length of the segment.
pub fn pseudo_header(ip: &Ipv4, protocol: u8, length: u16) -> Sum {
    Sum::new().bytes(ip.source.as_bytes()).bytes(ip.destination.as_bytes()).word(u16::from(protocol)).word(length)
}

/// The checksum of a UDP datagram whose own checksum field is zero: "If the computed checksum is zero, it is transmitted
/// as all ones".
pub fn checksum(ip: &Ipv4, datagram: &[u8]) -> u16 {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    match pseudo_header(ip, ipv4::UDP, length).bytes(datagram).checksum() {
        0 => 0xffff,
        sum => sum,
    }
}

/// Whether the datagram's checksum is right, or absent.
pub fn is_valid(ip: &Ipv4, datagram: &[u8]) -> bool {
    let Some(udp) = Udp::view(datagram) else { return false };
    let Some(covered) = datagram.get(..usize::from(udp.length.get())) else { return false };
    let sum = pseudo_header(ip, ipv4::UDP, udp.length.get()).bytes(covered);
    covered.len() >= Udp::LEN && (udp.checksum == U16::ZERO || sum.fold() == 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::naive;
    use proptest::prelude::*;

    fn ip(source: [u8; 4], destination: [u8; 4]) -> Ipv4 {
        let mut bytes = [0; 20];
        bytes[12..16].copy_from_slice(&source);
        bytes[16..].copy_from_slice(&destination);
        *Ipv4::view(&bytes).unwrap()
    }

    #[test]
    fn fields_lie_where_rfc_768_puts_them() {
        let udp = Udp::view(&[0, 5, 0, 6, 0, 18, 0xab, 0xcd]).unwrap();
        let fields = (udp.source.get(), udp.destination.get(), udp.length.get(), udp.checksum.get());
        assert_eq!(fields, (5, 6, 18, 0xabcd));
        assert!(Udp::view(&[0; 7]).is_none());
    }

    proptest! {
        #[test]
        fn checksum_covers_the_pseudo_header(source: [u8; 4], destination: [u8; 4], data in proptest::collection::vec(any::<u8>(), 0..99), flip in 1u8..) {
            let length = (8 + data.len() as u16).to_be_bytes();
            let mut datagram = [&[1, 2, 3, 4, length[0], length[1], 0, 0][..], &data].concat();
            let pseudo = [&source[..], &destination, &[0, 17], &length].concat();
            let sum = checksum(&ip(source, destination), &datagram);
            let expected = naive(&[&pseudo[..], &datagram].concat());
            prop_assert_eq!(sum, if expected == 0 { 0xffff } else { expected });

            prop_assert!(is_valid(&ip(source, destination), &datagram), "no checksum is fine");
            datagram[6..8].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(is_valid(&ip(source, destination), &datagram));
            let padded = [&datagram[..], &[7]].concat();
            prop_assert!(is_valid(&ip(source, destination), &padded));
            datagram[0] ^= flip;
            prop_assert!(!is_valid(&ip(source, destination), &datagram));
        }

        #[test]
        fn any_bytes_are_answered(datagram: Vec<u8>) {
            is_valid(&ip([1; 4], [2; 4]), &datagram);
        }
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_all_ones() {
        let datagram = [0, 0, 0, 0, 0, 8, 0, 0];
        // Pseudo header 0x0000 + 0xffde + 0x0011 + 0x0008, datagram 0x0008: the sum is 0xffff.
        assert_eq!(checksum(&ip([0; 4], [0, 0, 0xff, 0xde]), &datagram), 0xffff);
    }
}
