//! Header layouts, checksums, parsing and building: bytes in, fields out.
//!
//! One protocol is one file. A header is a plain struct over the bytes where they lie ([`View`]): it exists only if the
//! bytes are long enough, its byte order is in its field types ([`U16`], [`U32`]), and nothing here can panic on any input.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ethernet`] | [`MacAddr`], the Ethernet II header, EtherType numbers |
//! | [`vlan`] | IEEE 802.1Q tags |
//! | [`mpls`], [`gre`], [`pppoe`] | labels and tunnels |
//! | [`vxlan`] | frames in UDP datagrams, RFC 7348 |
//! | [`arp`] | RFC 826 for Ethernet and IPv4 |
//! | [`ipv4`] | RFC 791 header, TTL and checksum arithmetic |
//! | [`ipv6`] | RFC 8200 header and extension headers |
//! | [`validity`] | is it valid IPv4? RFC 1812 section 5.2.2 |
//! | [`validity6`] | is it valid IPv6? RFC 8200 section 3 |
//! | [`extension`] | extension headers, one by one: RFC 8200 section 4 |
//! | [`options`] | RFC 791 options, one by one |
//! | [`martian`] | addresses that no packet may carry, RFC 1812 section 5.3.7 |
//! | [`martian6`] | the same for IPv6, RFC 6890 |
//! | [`nd`] | neighbour discovery, RFC 4861 |
//! | [`mld`] | multicast listeners, RFC 3810 and RFC 2710 |
//! | [`icmp`], [`udp`], [`tcp`] | what IPv4 carries |
//! | [`checksum`] | RFC 1071 sum, RFC 1624 update |
//! | [`flow`] | flow hash of an IPv4 or IPv6 packet |
//! | [`segments`] | segments of TCP that go to a kernel as one frame |
//! | [`spread`] | which frames belong together: by flow, addresses, tags, tunnel |
//! | [`build`] | whole frames, for generators and tests |
//! | [`describe`] | a frame in one line |

#![forbid(unsafe_code)]

pub mod arp;
pub mod build;
pub mod checksum;
pub mod describe;
pub mod ethernet;
pub mod extension;
pub mod flow;
pub mod gre;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod martian;
pub mod martian6;
pub mod mld;
pub mod mpls;
pub mod nd;
pub mod options;
pub mod port_sets;
pub mod pppoe;
pub mod segments;
pub mod spread;
pub mod tcp;
pub mod udp;
pub mod validity;
pub mod validity6;
pub mod vlan;
pub mod vxlan;

pub use ethernet::{Ethernet, MacAddr};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use zerocopy::network_endian::{U16, U32};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A fixed-size header that can be looked at, and changed, where it lies in a packet.
///
/// None of the four functions copies; each is a length check and a pointer. On a fixed window (`&[u8; 64]`) the check
/// is decided by the compiler.
pub trait View: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// Bytes that the header takes.
    const LEN: usize = size_of::<Self>();

    /// The header at the start of `bytes`; `None` if they are too few.
    #[inline(always)]
    fn view(bytes: &[u8]) -> Option<&Self> {
        Self::split(bytes).map(|(header, _)| header)
    }

    /// The header at the start of `bytes`, to be changed; `None` if they are too few.
    #[inline(always)]
    fn view_mut(bytes: &mut [u8]) -> Option<&mut Self> {
        Self::split_mut(bytes).map(|(header, _)| header)
    }

    /// The header at the start of `bytes` and all bytes after it; `None` if they are too few.
    #[inline(always)]
    fn split(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(bytes).ok()
    }

    /// As [`View::split`], to be changed.
    #[inline(always)]
    fn split_mut(bytes: &mut [u8]) -> Option<(&mut Self, &mut [u8])> {
        Self::mut_from_prefix(bytes).ok()
    }
}
