//! Interfaces: where packets of one kind enter and leave. A port has one for its untagged packets, by its own name; those with VLAN tags,
//! and loopbacks, are declared.

use weir_config::{ErrorKind, InterfaceAddress, OneOrMany, Place, PortName};

use crate::collection::Wrong;

crate::entry! {
    /// An interface: packets with one or two VLAN tags on a port (IEEE 802.1Q, 802.1ad), or in a VLAN of a bridge, or, without a port, a
    /// loopback. The untagged packets of a port belong to an interface of the port's name, which needs no declaration.
    pub struct InterfaceConfig by (name: String) {
        /// Its name, such as `lan.100`, which no port and no other interface has: it is what a reload knows it by.
        pub name: String = required, restart_process;
        /// The port, whose function the interface belongs to; or `bridge:NAME`, the routed side of the bridge of that name. Absent: a loopback,
        /// whose addresses are the function's own on every port.
        pub on: Option<PortName> = optional, live;
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
        /// The name of the function that it belongs to. It may be absent for a loopback where only one function has interfaces, and else where
        /// only one has the port.
        pub of: Option<String> = optional, live;
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
        let tag = |vlan: Option<u16>, tpid: Option<u16>, usual| {
            vlan.map(|vlan| TagInfo { tpid: tpid.unwrap_or(usual), vlan })
        };
        let usual = if self.inner_vlan.is_some() { SERVICE } else { CUSTOMER };
        tag(self.vlan, self.tpid, usual).into_iter().chain(tag(self.inner_vlan, self.inner_tpid, CUSTOMER)).collect()
    }

    /// What is wrong with it by itself: keys that are nothing without each other.
    pub fn wrong(&self) -> Vec<Wrong> {
        let missing = |field, problem| Wrong { kind: ErrorKind::Missing, ..Wrong::field(field, problem) };
        let mut wrong = Vec::new();
        if self.on.is_none() && self.vlan.is_some() {
            wrong.push(missing("on", "is missing: tags are those of packets on a port").remedy("name the port"));
        }
        if self.vlan.is_none() && self.tpid.is_some() {
            wrong.push(Wrong::field("tpid", "is that of no tag").remedy("write the VLAN, or leave it out"));
        }
        if self.inner_vlan.is_some() && self.vlan.is_none() {
            let problem = "is that of an inner tag, and there is no outer one";
            wrong.push(Wrong::field("inner_vlan", problem).remedy("write vlan, too"));
        }
        if self.inner_vlan.is_none() && self.inner_tpid.is_some() {
            wrong.push(Wrong::field("inner_tpid", "is that of no tag").remedy("write inner_vlan, or leave it out"));
        }
        for (key, tpid) in [("tpid", self.tpid), ("inner_tpid", self.inner_tpid)] {
            if tpid.is_some_and(|tpid| !can_announce(tpid)) {
                let problem = "announces what interfaces carry themselves, and not a tag";
                wrong.push(Wrong::field(key, problem).remedy("write another EtherType, such as 0x8100 or 0x88a8"));
            }
        }
        wrong
    }
}

/// Whether an EtherType can announce tags: it is not that of what interfaces carry themselves (IPv4, ARP, IPv6).
const fn can_announce(ethertype: u16) -> bool {
    !matches!(ethertype, 0x0800 | 0x0806 | 0x86dd)
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
    /// A declared interface that belongs to a function.
    pub fn of(config: &InterfaceConfig, function: String, place: Place) -> InterfaceInfo {
        InterfaceInfo {
            name: config.name.clone(),
            on: config.on.as_ref().map(ToString::to_string),
            of: function,
            tags: config.tags(),
            addresses: config.address.0.clone(),
            vrf: config.vrf.clone(),
            mtu: config.mtu,
            up: config.up,
            place,
        }
    }

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

    fn loopback() -> InterfaceConfig {
        InterfaceConfig {
            name: "lo".to_owned(),
            on: None,
            vlan: None,
            inner_vlan: None,
            tpid: None,
            inner_tpid: None,
            address: OneOrMany::default(),
            vrf: None,
            mtu: None,
            up: true,
            of: None,
        }
    }

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(InterfaceConfig::schema().defects(), Vec::<String>::new());
    }

    #[test]
    fn tags_are_announced_as_the_standards_say() {
        let tags = |vlan, inner_vlan, tpid, inner_tpid| {
            let config = InterfaceConfig { vlan, inner_vlan, tpid, inner_tpid, ..loopback() };
            config.tags().iter().map(|tag| (tag.tpid, tag.vlan)).collect::<Vec<_>>()
        };
        assert_eq!(tags(None, None, None, None), []);
        assert_eq!(tags(Some(7), None, None, None), [(0x8100, 7)]);
        assert_eq!(tags(Some(7), None, Some(0x88a8), None), [(0x88a8, 7)]);
        assert_eq!(tags(Some(7), Some(9), None, None), [(0x88a8, 7), (0x8100, 9)]);
        assert_eq!(tags(Some(7), Some(9), Some(0x9100), Some(0x88a8)), [(0x9100, 7), (0x88a8, 9)]);
    }

    #[test]
    fn keys_that_are_nothing_without_each_other_are_told() {
        let wrong = |config: InterfaceConfig| config.wrong().iter().map(|wrong| wrong.field).collect::<Vec<_>>();
        let on = Some(PortName::new("lan"));
        let tagged = InterfaceConfig { on, vlan: Some(7), ..loopback() };
        assert_eq!(wrong(loopback()), [""; 0]);
        assert_eq!(wrong(InterfaceConfig { tpid: Some(0x9100), inner_vlan: Some(9), ..tagged.clone() }), [""; 0]);
        assert_eq!(wrong(InterfaceConfig { on: None, ..tagged.clone() }), ["on"]);
        assert_eq!(wrong(InterfaceConfig { inner_tpid: Some(0x86dd), ..tagged.clone() }), ["inner_tpid"; 2]);
        let inner = InterfaceConfig { vlan: None, tpid: Some(0x0800), inner_vlan: Some(9), ..tagged };
        assert_eq!(wrong(inner), ["tpid", "inner_vlan", "tpid"]);
    }
}
