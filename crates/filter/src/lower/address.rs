//! Addresses and ports.

use super::{Direction, Layers, Protocol, directed, field};
use crate::ast::{Relation, Width};
use crate::error::FilterError;
use crate::names;
use crate::test::{Place, Test};

impl Layers {
    /// An IPv4 net. Without a protocol it may stand in IPv4, ARP or RARP; behind MPLS only in IPv4.
    pub(super) fn address4(
        &self,
        column: usize,
        over: Option<Protocol>,
        direction: Direction,
        net: (u32, u32),
    ) -> Result<Test, FilterError> {
        let ip = || self.address4_in(column, names::TYPE_IP, direction, net, (12, 16));
        let arp = |kind| self.address4_in(column, kind, direction, net, (14, 24));
        match over {
            Some(Protocol::Arp) => arp(names::TYPE_ARP),
            Some(Protocol::Rarp) => arp(names::TYPE_RARP),
            None if self.labels == 0 => Ok(ip()?.or(arp(names::TYPE_ARP)?).or(arp(names::TYPE_RARP)?)),
            _ => ip(),
        }
    }

    fn address4_in(
        &self,
        column: usize,
        kind: u32,
        direction: Direction,
        (address, mask): (u32, u32),
        (source, destination): (u32, u32),
    ) -> Result<Test, FilterError> {
        let kind = self.link_type(column, kind)?;
        Ok(directed(direction, |from| {
            let offset = if from { source } else { destination };
            masked(kind.clone(), self.network + offset, address, mask)
        }))
    }

    pub(super) fn address6(
        &self,
        column: usize,
        direction: Direction,
        (address, mask): (u128, u128),
    ) -> Result<Test, FilterError> {
        let kind = self.link_type(column, names::TYPE_IP6)?;
        Ok(directed(direction, |from| {
            let start = self.network + if from { 8 } else { 24 };
            let words = words(address).into_iter().zip(words(mask));
            (0_u32..)
                .zip(words)
                .fold(kind.clone(), |test, (index, (address, mask))| masked(test, start + 4 * index, address, mask))
        }))
    }

    pub(super) fn mac(&self, column: usize, direction: Direction, address: [u8; 6]) -> Result<Test, FilterError> {
        self.only_on_ethernet(column, "a MAC address")?;
        Ok(directed(direction, |from| self.mac_at(if from { 6 } else { 0 }, address)))
    }

    /// The MAC address at `offset` of the Ethernet header, its last four bytes first.
    pub(super) fn mac_at(&self, offset: u32, address: [u8; 6]) -> Test {
        let [a, b, c, d, e, f] = address;
        let start = self.header + offset;
        let low = u32::from_be_bytes([c, d, e, f]);
        let high = u32::from(u16::from_be_bytes([a, b]));
        field(start + 2, Width::Four, u32::MAX, low).and(field(start, Width::Two, u32::MAX, high))
    }

    /// Ports from `low` to `high`, right behind the IPv6 header or in the first fragment of IPv4.
    pub(super) fn ports(
        &self,
        column: usize,
        transport: Option<u8>,
        direction: Direction,
        (low, high): (u16, u16),
    ) -> Result<Test, FilterError> {
        let ports = |header: Place| directed(direction, |from| port(header.moved(if from { 0 } else { 2 }), low, high));
        let behind_ip6 = ports(Place::Frame(self.network + 40));
        let behind_ip4 = self.first_fragment().and(ports(self.behind_ipv4()));
        let six = self.transports(6, transport, &behind_ip6);
        let four = self.transports(9, transport, &behind_ip4);
        let six = self.link_type(column, names::TYPE_IP6)?.and(six);
        let four = self.link_type(column, names::TYPE_IP)?.and(four);
        Ok(six.or(four))
    }

    /// The protocol number at `offset` is `transport` (or any that has ports), and `ports` holds.
    fn transports(&self, offset: u32, transport: Option<u8>, ports: &Test) -> Test {
        let one = |number: u8| {
            let is = self.network(offset, Width::One, number.into());
            is.and(ports.clone())
        };
        match transport {
            Some(number) => one(number),
            None => one(names::SCTP).or(one(names::TCP)).or(one(names::UDP)),
        }
    }
}

/// `test`, and the masked word at `offset` equals `value`. What is masked away need not be in the frame.
fn masked(test: Test, offset: u32, value: u32, mask: u32) -> Test {
    if mask == 0 {
        return test;
    }
    test.and(field(offset, Width::Four, mask, value))
}

/// The port at `place` is from `low` to `high`.
fn port(place: Place, low: u16, high: u16) -> Test {
    let compare = |place, relation, value: u16| Test::Field {
        place,
        width: Width::Two,
        mask: u32::MAX,
        relation,
        value: value.into(),
    };
    if low == high {
        return compare(place, Relation::Equal, low);
    }
    compare(place, Relation::GreaterOrEqual, low).and(compare(place, Relation::LessOrEqual, high))
}

/// The four words of an IPv6 address.
fn words(address: u128) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address.to_be_bytes();
    [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]].map(u32::from_be_bytes)
}
