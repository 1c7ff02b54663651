//! What kind of link a packet was captured on, and so what its bytes begin with.

use std::fmt;

/// A link type, by its number in the registry of draft-ietf-opsawg-pcaplinktype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: an address family of four bytes in the capturing host's order, then IP.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IPv4 or IPv6, nothing before it.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: an address family of four bytes in network order, then IP.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked, what the device `any` gives: 16 bytes, of which the last two are an EtherType.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IPv4, nothing before it.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6, nothing before it.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked, version 2: 20 bytes, of which the first two are an EtherType.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// What people call it, if it is one that they meet.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 | 108 => "BSD loopback",
            1 => "Ethernet",
            // What DLT_RAW is on some systems was written into files, too.
            12 | 14 | 101 => "raw IP",
            105 => "IEEE 802.11",
            113 => "Linux cooked, from the device any",
            127 => "radiotap",
            228 => "raw IPv4",
            229 => "raw IPv6",
            276 => "Linux cooked v2, from the device any",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    /// The number, and the name behind it in brackets if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
