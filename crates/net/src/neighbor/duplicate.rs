//! What there is to tell of stations that use the router's own addresses: seldom enough, however often they are heard.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::family::Family;
use crate::interface::InterfaceId;
use weir_wire::MacAddr;

const SECOND: u64 = 1_000_000_000;

/// After so long the same station is told of again, in nanoseconds.
pub const AGAIN: u64 = 600 * SECOND;

/// After so long another station with the same address is told of.
pub const ANOTHER: u64 = 10 * SECOND;

/// Stations heard using own addresses, the last one for each.
#[derive(Debug)]
pub struct Duplicates<A = Ipv4Addr> {
    rivals: BTreeMap<(InterfaceId, A), Rival>,
}

impl<A> Default for Duplicates<A> {
    fn default() -> Self {
        Duplicates { rivals: BTreeMap::new() }
    }
}

/// A station that uses an own address, to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate<A = Ipv4Addr> {
    /// The interface on which it was heard.
    pub interface: InterfaceId,
    /// The address that both use.
    pub address: A,
    /// Its MAC address.
    pub mac: MacAddr,
    /// How often such stations were heard since they were told of last.
    pub times: u64,
}

#[derive(Debug)]
struct Rival {
    mac: MacAddr,
    /// Heard so often since it was told of.
    times: u64,
    /// When it was told of, and which it was.
    told: Option<(u64, MacAddr)>,
}

impl<A: Family> Duplicates<A> {
    /// A station with this MAC address was heard using an own address.
    pub fn heard(&mut self, interface: InterfaceId, address: A, mac: MacAddr) {
        let rival = self.rivals.entry((interface, address)).or_insert(Rival { mac, times: 0, told: None });
        rival.mac = mac;
        rival.times = rival.times.saturating_add(1);
    }

    /// The address is not the router's any more.
    pub fn forget(&mut self, interface: InterfaceId, address: A) {
        self.rivals.remove(&(interface, address));
    }

    /// What is to be told at `now` (nanoseconds).
    pub fn tell(&mut self, now: u64) -> Vec<Duplicate<A>> {
        let due = self.rivals.iter_mut().filter(|(_, rival)| rival.is_due(now));
        due.map(|(&(interface, address), rival)| {
            rival.told = Some((now, rival.mac));
            Duplicate { interface, address, mac: rival.mac, times: std::mem::take(&mut rival.times) }
        })
        .collect()
    }

    /// Own addresses that another station was heard using.
    pub fn len(&self) -> usize {
        self.rivals.len()
    }

    /// Whether nobody was heard.
    pub fn is_empty(&self) -> bool {
        self.rivals.is_empty()
    }
}

impl Rival {
    fn is_due(&self, now: u64) -> bool {
        let waits = |(at, mac): (u64, MacAddr)| now.saturating_sub(at) < if mac == self.mac { AGAIN } else { ANOTHER };
        self.times > 0 && !self.told.is_some_and(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const ONE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    #[test]
    fn each_station_is_told_of_at_once_and_then_seldom() {
        let mut duplicates = Duplicates::default();
        let told = |mac, times| vec![Duplicate { interface: 1, address: OWN, mac, times }];
        duplicates.heard(1, OWN, ONE);
        assert_eq!(duplicates.tell(5), told(ONE, 1));
        for second in 1..600 {
            duplicates.heard(1, OWN, ONE);
            assert_eq!(duplicates.tell(5 + second * SECOND), []);
        }
        assert_eq!(duplicates.tell(5 + AGAIN), told(ONE, 599));
        assert_eq!(duplicates.tell(5 + 3 * AGAIN), [], "it was not heard again");
        assert_eq!(duplicates.len(), 1);
    }

    #[test]
    fn stations_that_take_turns_do_not_fill_the_log() {
        let mut duplicates = Duplicates::default();
        let mut lines = 0;
        for n in 0..10_000_u64 {
            duplicates.heard(1, OWN, if n % 2 == 0 { ONE } else { OTHER });
            lines += duplicates.tell(n * SECOND / 100).len();
        }
        // 100 seconds, one in each ten.
        assert_eq!(lines, 10);
        duplicates.forget(1, OWN);
        assert!(duplicates.is_empty());
    }
}
