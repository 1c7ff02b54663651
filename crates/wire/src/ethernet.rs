//! Ethernet II (IEEE 802.3 with a type field): addresses, header, EtherType numbers.

use crate::{U16, View};
use std::fmt;
use std::str::FromStr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of an IEEE 802.1Q customer VLAN tag.
pub const CVLAN: u16 = 0x8100;
/// EtherType of an IEEE 802.1ad service VLAN tag.
pub const SVLAN: u16 = 0x88a8;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of outer VLAN tags before IEEE 802.1ad.
pub const OLD_SVLAN: u16 = 0x9100;
/// EtherType of MPLS unicast.
pub const MPLS: u16 = 0x8847;
/// EtherType of MPLS multicast, or of upstream-assigned labels (RFC 5332).
pub const MPLS_MULTICAST: u16 = 0x8848;
/// EtherType of PPPoE discovery.
pub const PPPOE_DISCOVERY: u16 = 0x8863;
/// EtherType of PPPoE sessions.
pub const PPPOE_SESSION: u16 = 0x8864;
/// EtherType of LLDP.
pub const LLDP: u16 = 0x88cc;
/// Values below this are a length (IEEE 802.3 section 3.2.6), not a type.
pub const FIRST_TYPE: u16 = 0x0600;

/// The usual name of an EtherType; `None` for those that Weir has no name for.
pub const fn ethertype_name(ethertype: u16) -> Option<&'static str> {
    Some(match ethertype {
        IPV4 => "ipv4",
        ARP => "arp",
        CVLAN => "vlan",
        SVLAN => "svlan",
        OLD_SVLAN => "svlan-9100",
        IPV6 => "ipv6",
        MPLS => "mpls",
        MPLS_MULTICAST => "mpls-multicast",
        PPPOE_DISCOVERY => "pppoe-discovery",
        PPPOE_SESSION => "pppoe-session",
        LLDP => "lldp",
        _ => return None,
    })
}

/// A 48-bit MAC address. Text form: six hexadecimal bytes, parted by `:` or `-`.
#[derive(
    FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones: every station of the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// All zeroes: no station; what ARP writes where an address is not known.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// Whether this is the broadcast address.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_bits() == Self::BROADCAST.to_bits()
    }

    /// Whether the group bit is set: multicast, of which broadcast is one.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether a station can own this address: neither a group nor all zeroes.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_group() && self.to_bits() != 0
    }

    /// The address as a number, first byte most significant; 48 bits are used.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address whose number is the low 48 bits of `bits`.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write six hexadecimal bytes such as 02:00:00:00:00:01")
    }
}

impl std::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut parts = text.split(separator);
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            let part = parts.next().ok_or(ParseMacError)?;
            // from_str_radix alone would let "+f" pass.
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(MacAddr(bytes)) }
    }
}

/// The Ethernet II header, 14 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ethernet {
    /// The station, or group of stations, that the frame is for.
    pub destination: MacAddr,
    /// The station that sent it.
    pub source: MacAddr,
    /// What follows; below [`FIRST_TYPE`] a length.
    pub ethertype: U16,
}

impl View for Ethernet {}

impl Ethernet {
    /// A header of these fields.
    pub const fn new(destination: MacAddr, source: MacAddr, ethertype: u16) -> Self {
        Ethernet { destination, source, ethertype: U16::new(ethertype) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_fields_lie_where_ieee_802_3_puts_them() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x06, 99];
        let (header, rest) = Ethernet::split(&bytes).unwrap();
        assert_eq!(header.destination, MacAddr([1, 2, 3, 4, 5, 6]));
        assert_eq!(header.source, MacAddr([7, 8, 9, 10, 11, 12]));
        assert_eq!(header.ethertype.get(), ARP);
        assert_eq!(rest, [99]);
        assert!(Ethernet::view(&bytes[..13]).is_none());
        assert_eq!(Ethernet::LEN, 14);
    }

    #[test]
    fn a_mutable_view_writes_through() {
        let mut bytes = [0; 14];
        let source = MacAddr([2, 0, 0, 0, 0, 7]);
        *Ethernet::view_mut(&mut bytes).unwrap() = Ethernet::new(MacAddr::BROADCAST, source, IPV6);
        assert_eq!(bytes, [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 7, 0x86, 0xdd]);
    }

    #[test]
    fn kinds_of_address() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_group());
        let multicast = MacAddr([1, 0, 0x5e, 0, 0, 1]);
        assert!(multicast.is_group() && !multicast.is_broadcast() && !multicast.is_unicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_group());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "02:00-00:00:00:01",
            "0g:00:00:00:00:01",
            "020000000001",
            "02:00:00:00:00:01 ",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
        assert_eq!("02-AB-00-00-00-01".parse(), Ok(MacAddr([2, 0xab, 0, 0, 0, 1])));
        assert_eq!(format!("{:>19}|", MacAddr([2, 0xab, 0, 0, 0, 1])), "  02:ab:00:00:00:01|");
    }

    proptest! {
        #[test]
        fn text_and_number_round_trip(bytes: [u8; 6]) {
            let address = MacAddr(bytes);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            prop_assert_eq!(MacAddr::from_bits(address.to_bits()), address);
        }

        #[test]
        fn any_text_is_answered(text: String) {
            let _ = text.parse::<MacAddr>();
        }
    }
}
