//! TCP (RFC 9293): the fixed header.

use crate::{U16, U32, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Flag: no more data.
pub const FIN: u8 = 0x01;
/// Flag: synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Flag: reset.
pub const RST: u8 = 0x04;
/// Flag: push.
pub const PSH: u8 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u8 = 0x20;

/// The fixed part of a TCP header, 20 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tcp {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Sequence number.
    pub sequence: U32,
    /// Acknowledgement number.
    pub acknowledgement: U32,
    /// Header length in words of four bytes (high four bits), and reserved bits.
    pub data_offset: u8,
    /// [`FIN`], [`SYN`], [`RST`], [`PSH`], [`ACK`], [`URG`], and two of ECN.
    pub flags: u8,
    /// Receive window.
    pub window: U16,
    /// Checksum over pseudo header, header and data.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

impl View for Tcp {}

impl Tcp {
    /// Bytes of the header with its options, 0..=60; below 20 is a fault.
    pub const fn header_len(&self) -> usize {
        (self.data_offset >> 4) as usize * 4
    }
}

/// The flags as one letter each, in the order `SFRPAU`.
pub(crate) fn flag_letters(flags: u8) -> impl Iterator<Item = char> {
    let letters = [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, 'A'), (URG, 'U')];
    letters.into_iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, letter)| letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_rfc_9293_puts_them() {
        let bytes = [0, 80, 1, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x60, SYN | ACK, 0x10, 0, 0xab, 0xcd, 0, 3];
        let tcp = Tcp::view(&bytes).unwrap();
        assert_eq!((tcp.source.get(), tcp.destination.get()), (80, 256));
        assert_eq!((tcp.sequence.get(), tcp.acknowledgement.get()), (7, 9));
        assert_eq!((tcp.header_len(), tcp.flags, tcp.window.get()), (24, 0x12, 4096));
        assert_eq!((tcp.checksum.get(), tcp.urgent.get()), (0xabcd, 3));
        assert_eq!(flag_letters(tcp.flags).collect::<String>(), "SA");
        assert!(Tcp::view(&bytes[..19]).is_none());
    }
}
