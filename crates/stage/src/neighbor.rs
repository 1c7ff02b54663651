//! Neighbours of one function that stages of another send to: the one finds out what Ethernet addresses they have, and the other writes those into
//! packets.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Set in the word of a known Ethernet address, so that no address is the word of none.
const KNOWN: u64 = 1 << 48;

/// A neighbour that stages of one function send to, as another function knows it: its control side writes the Ethernet address as it learns, changes
/// or loses it, and workers read it, each packet's whole.
///
/// Workers say in turn that they have packets for it, so that who knows it keeps it fresh, or asks for it.
#[derive(Debug)]
pub struct FollowedNeighbor {
    interface: String,
    address: IpAddr,
    /// [`KNOWN`] and the octets, the first one lowest; 0 while it is not known.
    mac: AtomicU64,
    is_wanted: AtomicBool,
}

impl FollowedNeighbor {
    /// The neighbour with this address on the link of the interface of this name, of whom nobody has said anything yet.
    pub fn new(interface: impl Into<String>, address: IpAddr) -> FollowedNeighbor {
        let (mac, is_wanted) = (AtomicU64::new(0), AtomicBool::new(false));
        FollowedNeighbor { interface: interface.into(), address, mac, is_wanted }
    }

    /// The name of the interface on whose link it is.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Its Ethernet address, octets in the order in which they are sent; `None` while it is not known.
    #[inline]
    pub fn mac(&self) -> Option<[u8; 6]> {
        // Relaxed: one word is all there is to see.
        let word = self.mac.load(Ordering::Relaxed);
        let [a, b, c, d, e, f, ..] = word.to_le_bytes();
        (word & KNOWN != 0).then_some([a, b, c, d, e, f])
    }

    /// Says what its Ethernet address is from here on. Only the function that has the interface does.
    pub fn publish(&self, mac: Option<[u8; 6]>) {
        let word = mac.map_or(0, |[a, b, c, d, e, f]| KNOWN | u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        self.mac.store(word, Ordering::Relaxed);
    }

    /// There are packets for it.
    #[inline]
    pub fn want(&self) {
        // Read first: the line is written once for each look of the other side, and not for each batch.
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there were packets for it since the last call.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::Relaxed)
    }
}

/// An interface of another function that a configuration names, as a neighbour is on its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInterface {
    /// Its name.
    pub name: String,
    /// The path of the key that names it, for messages.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn neighbor() -> FollowedNeighbor {
        FollowedNeighbor::new("lan", "10.0.0.2".parse().unwrap())
    }

    #[test]
    fn what_is_published_is_read_whatever_the_address() {
        let neighbor = neighbor();
        assert_eq!(neighbor.mac(), None);
        for mac in [[0; 6], [0xff; 6], [2, 3, 4, 5, 6, 7]] {
            neighbor.publish(Some(mac));
            assert_eq!(neighbor.mac(), Some(mac));
        }
        neighbor.publish(None);
        assert_eq!(neighbor.mac(), None);
    }

    #[test]
    fn it_is_wanted_once_for_any_number_of_packets() {
        let neighbor = neighbor();
        assert!(!neighbor.take_wanted());
        (0..3).for_each(|_| neighbor.want());
        assert!(neighbor.take_wanted() && !neighbor.take_wanted());
        neighbor.want();
        assert!(neighbor.take_wanted());
    }

    /// Workers that read while it changes see one address or the other, or none, and never parts of two.
    #[test]
    fn workers_see_whole_addresses_while_they_change() {
        let (neighbor, addresses) = (neighbor(), [[2, 1, 1, 1, 1, 1], [2, 9, 9, 9, 9, 9]]);
        thread::scope(|scope| {
            let reader = || {
                let mut seen = [0_u32; 3];
                while seen.contains(&0) {
                    let mac = neighbor.mac();
                    let which = mac.map_or(Some(2), |mac| addresses.iter().position(|known| *known == mac));
                    seen[which.unwrap_or_else(|| panic!("{mac:?} was never published"))] += 1;
                }
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            while readers.iter().any(|reader| !reader.is_finished()) {
                for mac in [Some(addresses[0]), None, Some(addresses[1])] {
                    neighbor.publish(mac);
                    thread::yield_now();
                }
            }
        });
    }
}
