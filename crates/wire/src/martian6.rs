//! IPv6 addresses that no packet on a link may carry, or that no router passes on: RFC 6890, RFC 4291, RFC 4007.
//!
//! Addresses are numbers in host order.

use std::net::Ipv6Addr;

/// The first so many bits of an address.
const fn first(address: u128, bits: u32) -> u128 {
    address >> (128 - bits)
}

/// Whether `address` is multicast, ff00::/8.
#[inline]
pub const fn is_multicast(address: u128) -> bool {
    address >> 120 == 0xff
}

/// Whether `address` is link-local unicast, fe80::/10. RFC 4291 section 2.5.6: "Routers must not forward any packets with Link-Local
/// source or destination addresses to other links."
#[inline]
pub const fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}

/// The scope of a multicast address (RFC 7346): 1 is the interface, 2 the link, 14 global. 0 and 15 are reserved.
#[inline]
pub const fn multicast_scope(address: u128) -> u8 {
    (address >> 112) as u8 & 0xf
}

/// Whether no packet may come from `address`: the unspecified address (which neighbour discovery and multicast listeners use on a link,
/// and ask for by its own name), loopback, multicast ("must not be used as source addresses", RFC 4291 section 2.7), and the IPv4-mapped
/// and IPv4-compatible forms, which RFC 6890 calls no source on any link.
#[inline]
pub const fn is_martian_source(address: u128) -> bool {
    is_multicast(address) || is_special(address)
}

/// Whether no packet may go to `address`: as [`is_martian_source`], but multicast, of which only what RFC 4291 section 2.7 and RFC 7346
/// reserve, or keep inside an interface, is no destination on a link.
#[inline]
pub const fn is_martian_destination(address: u128) -> bool {
    if is_multicast(address) { matches!(multicast_scope(address), 0 | 1) } else { is_special(address) }
}

/// ::, ::1, ::a.b.c.d (deprecated, RFC 4291 section 2.5.5.1) and ::ffff:a.b.c.d, which never leave a host (RFC 6890).
const fn is_special(address: u128) -> bool {
    first(address, 96) == 0 || first(address, 96) == 0xffff
}

/// One entry of the registry of special-purpose addresses (RFC 6890, as it stands).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// Its first address.
    pub prefix: Ipv6Addr,
    /// How many bits of it count.
    pub length: u8,
    /// What it is for.
    pub name: &'static str,
    /// Whether a packet may come from there.
    pub source: bool,
    /// Whether a packet may go there.
    pub destination: bool,
    /// Whether a router may pass on packets that do.
    pub forwardable: bool,
}

const fn special(prefix: u128, length: u8, name: &'static str, rules: [bool; 3]) -> Special {
    let [source, destination, forwardable] = rules;
    Special { prefix: Ipv6Addr::from_bits(prefix), length, name, source, destination, forwardable }
}

/// The registry: what RFC 6890 section 2.2.3 and the RFCs that add to it say of each prefix. Those for documentation, benchmarks and
/// the deprecated ones are not filtered by [`is_martian_source`], as the same ones of IPv4 are not: people build with them, and a
/// filter that is wanted is a route.
pub const SPECIAL: [Special; 14] = [
    special(1, 128, "loopback", [false, false, false]),
    special(0, 128, "unspecified", [true, false, false]),
    special(0xffff << 32, 96, "IPv4-mapped", [false, false, false]),
    special(0x0064_ff9b << 96, 96, "translation (RFC 6052)", [true, true, true]),
    special(0x0064_ff9b_0001 << 80, 48, "local translation (RFC 8215)", [true, true, true]),
    special(0x0100 << 112, 64, "discard only (RFC 6666)", [true, true, true]),
    special(0x2001 << 112, 32, "Teredo", [true, true, true]),
    special(0x2001_0002 << 96, 48, "benchmarks (RFC 5180)", [true, true, true]),
    special(0x2001_0db8 << 96, 32, "documentation", [false, false, false]),
    special(0x2001_0020 << 96, 28, "ORCHIDv2", [true, true, true]),
    special(0x2002 << 112, 16, "6to4", [true, true, true]),
    special(0xfc00 << 112, 7, "unique local", [true, true, true]),
    special(0xfe80 << 112, 10, "link-local", [true, true, false]),
    special(0xff00 << 112, 8, "multicast", [false, true, true]),
];

/// The entry of the registry that an address is in; the longest, should there be several.
pub fn special_of(address: Ipv6Addr) -> Option<&'static Special> {
    let is_in = |special: &&Special| {
        let shift = 128 - u32::from(special.length);
        (address.to_bits() ^ special.prefix.to_bits()).checked_shr(shift).unwrap_or(0) == 0
    };
    SPECIAL.iter().filter(is_in).max_by_key(|special| special.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last address of an entry, and those just outside.
    fn edges(special: &Special) -> [u128; 4] {
        let first = special.prefix.to_bits();
        let last = first | u128::MAX.checked_shr(u32::from(special.length)).unwrap_or(0);
        [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
    }

    /// RFC 6890: what may be no source is filtered as a source, and what may be no destination as a destination, at each edge of each
    /// entry; documentation is the one exception.
    #[test]
    fn every_entry_of_rfc_6890_at_each_of_its_edges() {
        for edge in SPECIAL.iter().flat_map(edges) {
            let address = Ipv6Addr::from_bits(edge);
            let special = special_of(address).filter(|special| special.name != "documentation");
            let compatible = edge >> 32 == 0;
            let source = special.is_none_or(|special| special.source) && !compatible;
            assert_eq!(is_martian_source(edge), !source, "{address}");
            let destination = special.is_none_or(|special| special.destination) && !compatible;
            if edge >> 120 != 0xff {
                assert_eq!(is_martian_destination(edge), !destination, "{address}");
            }
            assert_eq!(is_multicast(edge), address.is_multicast());
            assert_eq!(is_link_local(edge), address.is_unicast_link_local());
        }
    }

    /// RFC 4291 section 2.7 and RFC 7346: scope 0 is reserved, scope 1 stays inside an interface.
    #[test]
    fn multicast_goes_as_far_as_its_scope() {
        for scope in 0..16_u16 {
            let address = Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 0, 1).to_bits();
            assert_eq!(u16::from(multicast_scope(address)), scope);
            assert_eq!(is_martian_destination(address), scope < 2);
            assert!(is_martian_source(address));
        }
    }

    #[test]
    fn entries_are_found_by_the_longest_prefix() {
        let name = |text: &str| special_of(text.parse().unwrap()).map(|special| special.name);
        assert_eq!(name("2001:db8::1"), Some("documentation"));
        assert_eq!(name("2001:2::1"), Some("benchmarks (RFC 5180)"));
        assert_eq!(name("2001::1"), Some("Teredo"));
        assert_eq!(name("::1"), Some("loopback"));
        assert_eq!(name("fd00::1"), Some("unique local"));
        assert_eq!(name("2600::1"), None);
    }
}
