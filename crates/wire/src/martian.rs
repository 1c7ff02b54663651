//! Addresses that no packet on a link may carry: RFC 1812 section 5.3.7, "Martian Address Filtering".
//!
//! Addresses are numbers in host order. Broadcast addresses of subnets depend on configuration and are not known here.

/// Whether `address` is multicast, 224.0.0.0/4.
#[inline]
pub const fn is_multicast(address: u32) -> bool {
    address >> 28 == 0xe
}

/// Whether `address` is the limited broadcast, 255.255.255.255.
#[inline]
pub const fn is_limited_broadcast(address: u32) -> bool {
    address == u32::MAX
}

/// Whether `address` is link-local, 169.254.0.0/16; RFC 3927 section 7: "A router MUST NOT forward a packet with an IPv4
/// Link-Local source or destination address".
#[inline]
pub const fn is_link_local(address: u32) -> bool {
    address >> 16 == 0xa9fe
}

/// Whether no packet may come from `address`: "An IP source address is invalid if it is a special IP address, as defined
/// in 4.2.2.11 or 5.3.7, or is not a unicast address." That is network 0, network 127, multicast (class D), class E, and
/// 255.255.255.255.
#[inline]
pub const fn is_martian_source(address: u32) -> bool {
    let network = address >> 24;
    network == 0 || network == 127 || network >= 224
}

/// Whether no packet may go to `address`: "A router SHOULD NOT forward any packet that has an invalid IP destination
/// address or a destination address on network 0 [...] on network 127", and "is a Class E address (except
/// 255.255.255.255)" is invalid. Multicast and the limited broadcast are legal destinations that a unicast router does
/// not forward either; ask for them by their own names.
#[inline]
pub const fn is_martian_destination(address: u32) -> bool {
    let network = address >> 24;
    network == 0 || network == 127 || network >= 240 && address != u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// (first, last, as source, as destination) of every range that the RFC names; all others are fine.
    const RANGES: [([u8; 4], [u8; 4], bool, bool); 5] = [
        ([0, 0, 0, 0], [0, 255, 255, 255], true, true),
        ([127, 0, 0, 0], [127, 255, 255, 255], true, true),
        ([224, 0, 0, 0], [239, 255, 255, 255], true, false),
        ([240, 0, 0, 0], [255, 255, 255, 254], true, true),
        ([255, 255, 255, 255], [255, 255, 255, 255], true, false),
    ];

    fn naive(address: u32) -> (bool, bool) {
        let address = Ipv4Addr::from_bits(address);
        let found =
            RANGES.iter().find(|(first, last, ..)| (Ipv4Addr::from(*first)..=(*last).into()).contains(&address));
        found.map_or((false, false), |&(_, _, source, destination)| (source, destination))
    }

    #[test]
    fn every_boundary_and_every_class_agrees_with_the_list() {
        let near_edges =
            RANGES.iter().flat_map(|(first, last, ..)| [u32::from_be_bytes(*first), u32::from_be_bytes(*last)]);
        let near_edges = near_edges.flat_map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)]);
        let every_slash_16 = (0..=u16::MAX).flat_map(|high| [u32::from(high) << 16, u32::from(high) << 16 | 0xffff]);
        for address in near_edges.chain(every_slash_16) {
            let found = (is_martian_source(address), is_martian_destination(address));
            assert_eq!(found, naive(address), "{}", Ipv4Addr::from_bits(address));
            let library = Ipv4Addr::from_bits(address);
            assert_eq!(is_multicast(address), library.is_multicast());
            assert_eq!(is_link_local(address), library.is_link_local());
            assert_eq!(is_limited_broadcast(address), library.is_broadcast());
        }
    }
}
