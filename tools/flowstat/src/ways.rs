//! Which way packets run: whether a capture of what was sent holds the answers, too.
//!
//! Who captures at one side of a device sees both directions. What runs the other way was received before it was "sent", so that all of it
//! counts as lost. It is known by its Ethernet addresses: what is sent to the device goes to an address that the rest comes from.

use std::collections::HashMap;

use weir_capture::LinkType;

use crate::hash::Key;
use crate::packet::Packet;

/// Packets whose addresses are remembered at most.
const REMEMBERED: usize = 1 << 16;

/// Packets that are looked up at most: beyond, those that were remembered have long been seen.
const LOOKS: u32 = 1 << 18;

/// One packet in so many may run otherwise than the rest of its direction.
const FEW: u64 = 100;

type Mac = [u8; 6];

/// What is seen of the directions of packets.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// Addresses of packets that were sent: destination and source.
    remembered: HashMap<Key, (Mac, Mac)>,
    looks: u32,
    /// By address: packets to it that were found behind the device, and packets from it that had been received before they were sent.
    seen: HashMap<Mac, (u64, u64)>,
    forth: u64,
    back: u64,
}

impl Ways {
    /// A packet was sent.
    #[inline]
    pub(crate) fn remember(&mut self, key: Key, packet: &Packet<'_>) {
        if self.remembered.len() >= REMEMBERED || packet.link != LinkType::ETHERNET {
            return;
        }
        if let Some(both) = packet.data.first_chunk::<12>() {
            let [destination, source] = halves(both);
            self.remembered.insert(key, (destination, source));
        }
    }

    /// A packet that looks like one that was sent was received: behind that one, or before it.
    #[inline]
    pub(crate) fn see(&mut self, key: Key, behind: bool) {
        if self.looks == LOOKS {
            return;
        }
        self.looks += 1;
        let Some((destination, source)) = self.remembered.get(&key) else { return };
        if behind {
            self.forth += 1;
            self.seen.entry(*destination).or_default().0 += 1;
        } else {
            self.back += 1;
            self.seen.entry(*source).or_default().1 += 1;
        }
    }

    /// The filter that leaves one direction of what was sent, if it holds two: those of the one all go to an address, and those of the other
    /// all come from it.
    pub(crate) fn filter(&self) -> Option<String> {
        let (mac, (to, from)) = self.seen.iter().max_by_key(|(_, (to, from))| to + from)?;
        let nearly_all = |part: u64, whole: u64| whole > 0 && whole - part <= whole / FEW;
        let both = nearly_all(*to, self.forth) && nearly_all(*from, self.back);
        let [a, b, c, d, e, f] = mac;
        both.then(|| format!("ether dst {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))
    }
}

/// The two addresses at the beginning of a frame.
fn halves(both: &[u8; 12]) -> [Mac; 2] {
    let [a, b, c, d, e, f, rest @ ..] = *both;
    [[a, b, c, d, e, f], rest]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hasher;

    const HOST: Mac = [2, 0, 0, 0, 0, 1];
    const DEVICE: Mac = [2, 0, 0, 0, 0, 0xfe];

    /// So many packets each: to the device and found behind it, from the device and received before.
    fn seen(forth: u64, back: u64, from: Mac) -> Option<String> {
        let (mut ways, hasher) = (Ways::default(), Hasher::random());
        for n in 0..forth + back {
            let (destination, source) = if n < forth { (DEVICE, HOST) } else { (HOST, from) };
            let mut frame = [destination, source].concat();
            frame.extend(n.to_be_bytes());
            let key = hasher.key(&[&frame]);
            ways.remember(key, &Packet::new(&frame, 20, LinkType::ETHERNET, 0));
            ways.see(key, n < forth);
        }
        ways.filter()
    }

    #[test]
    fn two_directions_are_told_by_the_address_of_the_device() {
        assert_eq!(seen(100, 80, DEVICE).unwrap(), "ether dst 02:00:00:00:00:fe");
        // One direction, clocks that differ, and answers of somebody else are no second direction.
        assert_eq!(seen(100, 0, DEVICE), None);
        assert_eq!(seen(0, 100, DEVICE), None);
        assert_eq!(seen(100, 80, HOST), None);
    }
}
