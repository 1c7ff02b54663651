//! Interfaces: where packets of one kind enter and leave. A port has one for its untagged packets, by its own name; those with VLAN tags,
//! and loopbacks, are declared.

use weir_config::{InterfaceAddress, OneOrMany, Place, PortName, config};

config! {
    /// An interface: packets with one or two VLAN tags on a port (IEEE 802.1Q, 802.1ad), or in a VLAN of a bridge, or, without a port, a
    /// loopback. The untagged packets of a port belong to an interface of the port's name, which needs no declaration.
    pub struct InterfaceConfig {
        /// The port, whose function the interface belongs to; or `bridge:NAME`, the routed side of the bridge of that name. Absent: a loopback,
        /// whose addresses are the function's own on every port.
        pub on: Option<PortName> = optional, live;
        /// The name of the function that it belongs to. It may be absent for a loopback where only one function has interfaces, and else where
        /// only one has the port.
        pub of: Option<String> = optional, live;
        /// The VLAN: the identifier in the tag, or in the outer one of two. On a bridge, its VLAN of that number; none on one that takes no
        /// notice of tags.
        pub vlan: Option<u16> = optional, live, range(1..=4094);
        /// The identifier in the inner tag, where there are two: the customer's VLAN.
        pub inner_vlan: Option<u16> = optional, live, range(1..=4094);
        /// The tag protocol identifier (EtherType) of the tag, or of the outer one of two; 0x8100 of one tag and 0x88a8 of the outer of two
        /// when absent.
        pub tpid: Option<u16> = optional, live, range(0x0600..=0xffff);
        /// That of the inner tag; 0x8100 when absent.
        pub inner_tpid: Option<u16> = optional, live, range(0x0600..=0xffff);
        /// Addresses of the interface, each with the length of its network: `"192.0.2.1/24"`.
        pub address: OneOrMany<InterfaceAddress> = empty, live;
        /// The VRF that it is in, one of those that its function has; the default one when absent.
        pub vrf: Option<String> = optional, live;
        /// The largest IP packet that leaves by the interface, in bytes; that of the port when absent, which it cannot exceed.
        pub mtu: Option<u16> = optional, live, range(68..=9198);
        /// Whether it is up as far as the configuration is concerned: nothing comes or goes by one that is not.
        pub up: bool = default(true), live;
    }
}

/// A VLAN tag: what announces it, and its VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagInfo {
    /// Tag protocol identifier: the EtherType in front of the tag.
    pub tpid: u16,
    /// VLAN identifier, 1..=4094.
    pub vlan: u16,
}

/// TPID of a customer's tag (IEEE 802.1Q).
const CUSTOMER: u16 = 0x8100;
/// TPID of a service tag (IEEE 802.1ad).
const SERVICE: u16 = 0x88a8;

impl InterfaceConfig {
    /// Its tags, the outer one first: none for a loopback.
    pub fn tags(&self) -> Vec<TagInfo> {
        tags((self.vlan, self.tpid), (self.inner_vlan, self.inner_tpid))
    }
}

/// Whether an EtherType can announce tags: it is not that of what interfaces carry themselves (IPv4, ARP, IPv6).
pub const fn can_announce(ethertype: u16) -> bool {
    !matches!(ethertype, 0x0800 | 0x0806 | 0x86dd)
}

/// The tags of an interface, the outer one first, of which VLAN and TPID are given, or left to what is usual.
pub fn tags(outer: (Option<u16>, Option<u16>), inner: (Option<u16>, Option<u16>)) -> Vec<TagInfo> {
    let tag = |(vlan, tpid): (Option<u16>, Option<u16>), usual| {
        vlan.map(|vlan| TagInfo { tpid: tpid.unwrap_or(usual), vlan })
    };
    let usual = if inner.0.is_some() { SERVICE } else { CUSTOMER };
    tag(outer, usual).into_iter().chain(tag(inner, CUSTOMER)).collect()
}

/// A declared interface as functions see it.
#[derive(Clone, Debug)]
pub struct InterfaceInfo {
    /// Its name, which no port and no other interface has.
    pub name: String,
    /// The name of its port; `None` for a loopback.
    pub on: Option<String>,
    /// The name of the function that it belongs to; empty where the untagged packets of a port are nobody's.
    pub of: String,
    /// Its tags, the outer one first.
    pub tags: Vec<TagInfo>,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// The name of its VRF; `None`: the default one.
    pub vrf: Option<String>,
    /// The largest IP packet, bytes; `None`: as its port.
    pub mtu: Option<u16>,
    /// Whether it is meant to be up.
    pub up: bool,
    /// Where it is declared.
    pub place: Place,
}

impl InterfaceInfo {
    /// Whether it stands for the untagged packets of a port: so it is told whose those are where functions share the port.
    pub fn is_untagged(&self) -> bool {
        self.on.is_some() && self.tags.is_empty()
    }
}

/// Bytes that a VLAN tag takes in a frame.
pub const TAG_LEN: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(InterfaceConfig::schema().defects(), Vec::<String>::new());
    }

    #[test]
    fn tags_are_announced_as_the_standards_say() {
        let tags = |vlan, inner_vlan, tpid, inner_tpid| {
            let tags = super::tags((vlan, tpid), (inner_vlan, inner_tpid));
            tags.iter().map(|tag| (tag.tpid, tag.vlan)).collect::<Vec<_>>()
        };
        assert_eq!(tags(None, None, None, None), []);
        assert_eq!(tags(Some(7), None, None, None), [(0x8100, 7)]);
        assert_eq!(tags(Some(7), None, Some(0x88a8), None), [(0x88a8, 7)]);
        assert_eq!(tags(Some(7), Some(9), None, None), [(0x88a8, 7), (0x8100, 9)]);
        assert_eq!(tags(Some(7), Some(9), Some(0x9100), Some(0x88a8)), [(0x9100, 7), (0x88a8, 9)]);
    }
}
