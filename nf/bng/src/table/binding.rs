//! Where an address is, in half a cache line.
//!
//! ```text
//! word 0  address, or the first half of an IPv6 prefix
//! word 1  scope (32 bits), number of the subscriber (20 bits), the worker that has it (10 bits), family
//! word 2  MAC address as it lies in the packet (48 bits), position of the port, flags
//! word 3  both tags as they lie in the packet, from the outer one's EtherType to the inner one's identifier
//! ```
//!
//! The second half of an IPv6 host's address lies elsewhere, at the same place.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_wire::MacAddr;

use super::subscriber::{Senders, Tags, mac_word};
use super::{Line, NUMBER_BITS, word};

/// An address that a subscriber has, or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first half of the addresses of an IPv6 network.
    V6(u64),
    /// An IPv6 host.
    Host6(Ipv6Addr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4(address) => address.fmt(f),
            Address::V6(half) => Ipv6Addr::from_bits(u128::from(*half) << 64).fmt(f),
            Address::Host6(address) => address.fmt(f),
        }
    }
}

/// What a binding is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BindingKey {
    /// Scope (32 bits), nothing (30 bits), family.
    high: u64,
    low: u64,
    /// The second half of the address of an IPv6 host.
    host: u64,
}

const V6: u64 = 1 << 63;
const HOST6: u64 = 1 << 62;

/// What is of the key in a record's word 1.
const OF_KEY: u64 = V6 | HOST6 | u32::MAX as u64;

/// The bits of a subscriber's number.
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// Where its owner begins, behind it.
const OWNER: u32 = 32 + NUMBER_BITS;

impl BindingKey {
    /// The key of an address or prefix.
    pub(crate) fn new(scope: u32, address: Address) -> BindingKey {
        match address {
            Address::V4(address) => BindingKey::new4(scope, address.to_bits()),
            Address::V6(half) => BindingKey::new6(scope, half),
            Address::Host6(address) => BindingKey::new_host6(scope, address.to_bits()),
        }
    }

    #[inline(always)]
    pub(super) const fn new4(scope: u32, address: u32) -> BindingKey {
        BindingKey { high: scope as u64, low: address as u64, host: 0 }
    }

    #[inline(always)]
    pub(super) const fn new6(scope: u32, half: u64) -> BindingKey {
        BindingKey { high: scope as u64 | V6, low: half, host: 0 }
    }

    pub(super) const fn new_host6(scope: u32, address: u128) -> BindingKey {
        BindingKey { high: scope as u64 | HOST6, low: (address >> 64) as u64, host: address as u64 }
    }

    /// The first half of the addresses of an IPv6 network, if it is the key of one.
    pub(super) fn half6(self) -> Option<u64> {
        (self.high & (V6 | HOST6) == V6).then_some(self.low)
    }

    /// The key of the network that an IPv6 host is in.
    pub(crate) fn network6(self) -> BindingKey {
        BindingKey::new6(self.scope(), self.low)
    }

    /// Whether it is that of an IPv6 host.
    pub(crate) const fn is_host6(self) -> bool {
        self.high & HOST6 != 0
    }

    /// The scope, if it is the key of an IPv4 address.
    pub(super) const fn scope4(self) -> Option<u32> {
        if self.high & (V6 | HOST6) == 0 { Some(self.scope()) } else { None }
    }

    /// The address or prefix.
    pub(crate) fn address(self) -> Address {
        match self.high & (V6 | HOST6) {
            0 => Address::V4(Ipv4Addr::from_bits(self.low as u32)),
            V6 => Address::V6(self.low),
            _ => Address::Host6(Ipv6Addr::from_bits(u128::from(self.low) << 64 | u128::from(self.host))),
        }
    }

    /// The scope.
    pub(crate) const fn scope(self) -> u32 {
        self.high as u32
    }

    /// The second half of the address of an IPv6 host.
    pub(super) const fn host(self) -> u64 {
        self.host
    }

    /// What is hashed.
    #[inline(always)]
    pub(super) const fn words(self) -> (u64, u64) {
        // An odd factor moves all bits of a host's half: hosts are told apart by the low ones, as scopes are.
        (self.high ^ self.host.wrapping_mul(0x9e37_79b9_7f4a_7c15), self.low)
    }
}

/// What is to be known of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindingFields {
    pub(crate) key: BindingKey,
    /// Whom packets to the address are sent to; unknown at first.
    pub(crate) mac: Option<MacAddr>,
    pub(crate) tags: Tags,
    /// EtherType of the outer tag.
    pub(crate) tpid: u16,
    /// Number of the subscriber.
    pub(crate) subscriber: u32,
    /// The worker that has the subscriber.
    pub(crate) owner: u8,
    /// What stations there are, where it is an IPv6 network.
    pub(crate) stations: Stations,
}

/// The stations in an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stations {
    /// It is routed to one, which need not be the one that sends; or it is no IPv6 network.
    Routed,
    /// One, in a network where there may be more.
    One,
    /// Several: each address has a binding of its own.
    Several,
}

const HAS_MAC: u64 = 1 << 56;
const IS_LINK: u64 = 1 << 57;
const IS_SHARED: u64 = 1 << 58;

impl BindingFields {
    pub(super) fn words(&self) -> [u64; 4] {
        let Tags { port, svlan, cvlan } = self.tags;
        let [a, b] = self.tpid.to_be_bytes();
        let [c, d] = svlan.to_be_bytes();
        let [e, f] = weir_wire::ethernet::CVLAN.to_be_bytes();
        let [g, h] = cvlan.to_be_bytes();
        let mac = self.mac.map_or(0, |mac| mac_word(mac) | HAS_MAC);
        let stations = match self.stations {
            Stations::Routed => 0,
            Stations::One => IS_LINK,
            Stations::Several => IS_LINK | IS_SHARED,
        };
        [
            self.key.low,
            self.key.high | u64::from(self.subscriber & NUMBER) << 32 | u64::from(self.owner) << OWNER,
            mac | u64::from(port) << 48 | stations,
            u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        ]
    }
}

/// A binding as a worker found it. What it is asked for is read then, from one line.
#[derive(Clone, Copy)]
pub(crate) struct BindingRecord<'t>(&'t Line);

impl<'t> BindingRecord<'t> {
    #[inline(always)]
    pub(super) fn new(line: &'t Line) -> BindingRecord<'t> {
        BindingRecord(line)
    }

    /// Whether it is that of a key; of an IPv6 host, whether it is of its network.
    #[inline(always)]
    pub(crate) fn is(self, key: BindingKey) -> bool {
        (word::<0>(self.0) ^ key.low) | (word::<1>(self.0) ^ key.high) & OF_KEY == 0
    }

    /// Whether packets of its IPv6 network come from a station with this MAC address (as [`mac_word`](Self::mac_word)). Where it is
    /// [shared](Self::is_shared), each address has a binding that says it.
    #[inline(always)]
    pub(crate) fn is_from(self, mac: u64) -> bool {
        let word = word::<2>(self.0);
        let is_its = (word ^ mac) << 16 == 0 && word & IS_SHARED == 0;
        word & HAS_MAC != 0 && (word & IS_LINK == 0 || is_its)
    }

    /// From which stations packets of its IPv6 network come, as far as [`is_from`](Self::is_from) says it of all.
    pub(super) fn senders(self) -> Senders {
        match (self.is_resolved() && !self.is_shared(), self.is_link()) {
            (false, _) => Senders::UNKNOWN,
            (true, false) => Senders::ANY,
            (true, true) => Senders::one(self.mac_word()),
        }
    }

    /// The tags of its subscriber.
    pub(super) fn tags(self) -> Tags {
        let [_, _, c, d, _, _, g, h] = self.tags_word().to_le_bytes();
        Tags { port: self.port(), svlan: u16::from_be_bytes([c, d]), cvlan: u16::from_be_bytes([g, h]) }
    }

    /// Whether it is an IPv6 network in which there may be several stations.
    pub(crate) fn is_link(self) -> bool {
        word::<2>(self.0) & IS_LINK != 0
    }

    /// Whether it is an IPv6 network in which there are several stations.
    #[inline(always)]
    pub(crate) fn is_shared(self) -> bool {
        word::<2>(self.0) & IS_SHARED != 0
    }

    /// Whether packets can be sent there: its MAC address is known.
    #[inline(always)]
    pub(crate) fn is_resolved(self) -> bool {
        word::<2>(self.0) & HAS_MAC != 0
    }

    /// The MAC address as it lies in the packet, as a little-endian word of 48 bits; the upper 16 are 0.
    #[inline(always)]
    pub(crate) fn mac_word(self) -> u64 {
        word::<2>(self.0) << 16 >> 16
    }

    /// Position of the port among the access ports.
    #[inline(always)]
    pub(crate) fn port(self) -> u8 {
        (word::<2>(self.0) >> 48) as u8
    }

    /// Both tags as they lie in the packet behind the MAC addresses, as a little-endian word: EtherType and control information of the
    /// outer tag, then of the inner one, with priority 0. Priorities belong into the upper three bits of bytes 2 and 6.
    #[inline(always)]
    pub(crate) fn tags_word(self) -> u64 {
        word::<3>(self.0)
    }

    /// Number of the subscriber, by which it is counted.
    #[inline(always)]
    pub(crate) fn subscriber(self) -> u32 {
        (word::<1>(self.0) >> 32) as u32 & NUMBER
    }

    /// The worker that has the subscriber.
    #[inline(always)]
    pub(crate) fn owner(self) -> u8 {
        (word::<1>(self.0) >> OWNER) as u8
    }
}
