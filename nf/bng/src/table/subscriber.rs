//! What a worker knows of a subscriber, in half a cache line:
//!
//! ```text
//! word 0  GRE key, the subscriber's number
//! word 1  first IPv4 source, its mask
//! word 2  the only MAC address as it lies in the packet (48 bits), ones; 0 if any may be used
//! word 3  user, scope of its addresses
//! ```
//!
//! and what is asked for where packets are rarer, elsewhere:
//!
//! ```text
//! word 0  first IPv6 source (first half of the address)
//! word 1  its mask
//! word 2  SVLAN, CVLAN, nothing, position of the port (16 bits each)
//! word 3  from which station packets of the first IPv6 source come, as its binding says it
//! ```
//!
//! The last word alone changes in place, as what it says does: it is read and written whole.

use std::sync::atomic::Ordering;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_wire::MacAddr;

use super::{Line, word};

/// Which line a subscriber is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tags {
    /// Position of the access port among the access ports.
    pub(crate) port: u8,
    /// VLAN identifier of the outer tag.
    pub(crate) svlan: u16,
    /// VLAN identifier of the inner tag.
    pub(crate) cvlan: u16,
}

/// IPv4 sources that are compared without a lookup: one prefix, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources4 {
    address: u32,
    mask: u32,
}

impl Sources4 {
    /// None: 0.0.0.0 alone would match, from which nothing may come (RFC 1812 section 5.3.7).
    pub(crate) const NONE: Sources4 = Sources4 { address: 0, mask: u32::MAX };

    /// All addresses of a prefix.
    pub(crate) fn of(prefix: Ipv4Net) -> Sources4 {
        Sources4 { address: prefix.network().to_bits(), mask: prefix.netmask().to_bits() }
    }
}

/// The same for IPv6, of which the first halves of addresses are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources6 {
    address: u64,
    mask: u64,
}

impl Sources6 {
    /// None: ::/64 alone would match, where there are no hosts (RFC 4291 section 2.5).
    pub(crate) const NONE: Sources6 = Sources6 { address: 0, mask: u64::MAX };

    /// All addresses of a prefix, which is no longer than 64 bits.
    pub(crate) fn of(prefix: Ipv6Net) -> Sources6 {
        let first_half = |address: std::net::Ipv6Addr| (address.to_bits() >> 64) as u64;
        Sources6 { address: first_half(prefix.network()), mask: first_half(prefix.netmask()) }
    }
}

/// What is to be known of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriberFields {
    /// Its number, below the limit of subscribers: the same as long as it is there, by which it is counted.
    pub(crate) number: u32,
    pub(crate) tags: Tags,
    /// GRE key; 0 with plain IP.
    pub(crate) key: u32,
    /// What parts its addresses from equal ones of others.
    pub(crate) scope: u32,
    /// The word of its user ([`weir_stage::ownership`]): who has it, and its number in schedulers.
    pub(crate) user: u32,
    pub(crate) ipv4: Sources4,
    pub(crate) ipv6: Sources6,
    /// The only MAC address that it may use.
    pub(crate) mac: Option<MacAddr>,
}

/// Set where a MAC address is fixed.
const HAS_MAC: u64 = 0xffff << 48;

impl SubscriberFields {
    pub(super) fn words(&self) -> [u64; 4] {
        let mac = self.mac.map_or(0, |mac| mac_word(mac) | HAS_MAC);
        [pair(self.key, self.number), pair(self.ipv4.address, self.ipv4.mask), mac, pair(self.user, self.scope)]
    }

    /// What is seldom asked for.
    pub(super) fn network_words(&self) -> [u64; 4] {
        let Tags { port, svlan, cvlan } = self.tags;
        let tags = u64::from(svlan) | u64::from(cvlan) << 16 | u64::from(port) << 48;
        [self.ipv6.address, self.ipv6.mask, tags, 0]
    }

    /// Half of the addresses of the first IPv6 source, if it has one binding: its mask is that which bindings go by.
    pub(super) fn network6(&self, mask: u64) -> Option<u64> {
        Some(self.ipv6.address).filter(|_| self.ipv6 != Sources6::NONE && self.ipv6.mask == mask)
    }
}

/// From which stations packets of a network come that has one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Senders(u64);

impl Senders {
    /// Nothing is known without a look at bindings.
    pub(crate) const UNKNOWN: Senders = Senders(0);
    /// Any.
    pub(crate) const ANY: Senders = Senders(3 << 62);

    /// The one with this MAC address, as it lies in the packet, as a little-endian word of 48 bits.
    pub(crate) const fn one(mac: u64) -> Senders {
        Senders(1 << 63 | mac & ((1 << 48) - 1))
    }

    #[inline(always)]
    const fn has(self, mac: u64) -> bool {
        let is_it = (self.0 ^ mac) << 16 == 0;
        self.0 >> 63 != 0 && (self.0 >> 62 == 3 || is_it)
    }
}

/// A subscriber as a worker found it. What it is asked for is read then.
#[derive(Clone, Copy)]
pub(crate) struct SubscriberRecord<'t> {
    line: &'t Line,
    networks: &'t [Line],
    place: u32,
}

impl<'t> SubscriberRecord<'t> {
    #[inline(always)]
    pub(super) fn new(line: &'t Line, networks: &'t [Line], place: u32) -> SubscriberRecord<'t> {
        SubscriberRecord { line, networks, place }
    }

    /// GRE key.
    #[inline(always)]
    pub(crate) fn key(self) -> u32 {
        word::<0>(self.line) as u32
    }

    /// The word of its user: who has it, and its number in schedulers.
    #[inline(always)]
    pub(crate) fn user(self) -> u32 {
        word::<3>(self.line) as u32
    }

    /// Bits in which an IPv4 source (in host order) and the source MAC address of a frame (as for
    /// [`may_send_from`](Self::may_send_from)) differ from what needs no further look: 0 if it is
    /// [the first source](Self::is_first_source4) and may be sent from there.
    #[inline(always)]
    pub(crate) fn differs(self, source: u32, mac: u64) -> u64 {
        let (sources, fixed) = (word::<1>(self.line), word::<2>(self.line));
        let address = source & (sources >> 32) as u32 ^ sources as u32;
        // All ones where an address is fixed, else 0.
        let counts = (fixed as i64 >> 63) as u64;
        u64::from(address) | ((fixed ^ mac) << 16) & counts
    }

    /// Whether an IPv4 source (in host order) is among those that need no lookup. Others are allowed where a binding of the
    /// [scope](Self::scope) says so, that is of this subscriber ([`BindingRecord::subscriber`](super::BindingRecord::subscriber)).
    #[inline(always)]
    pub(crate) fn is_first_source4(self, source: u32) -> bool {
        let sources = word::<1>(self.line);
        source & (sources >> 32) as u32 == sources as u32
    }

    /// The same for IPv6, given the first half of the address (in host order).
    #[inline(always)]
    pub(crate) fn is_first_source6(self, first_half: u64) -> bool {
        let line = self.networks.get(self.place as usize);
        line.is_some_and(|line| first_half & word::<1>(line) == word::<0>(line))
    }

    /// Whether an IPv6 packet, given the first half of its source (in host order), comes from the first network and, without a look at its binding,
    /// from a station (given as for [`may_send_from`](Self::may_send_from)) that the binding knows there.
    #[inline(always)]
    pub(crate) fn is_known_sender6(self, first_half: u64, mac: u64) -> bool {
        let line = self.networks.get(self.place as usize);
        line.is_some_and(|line| first_half & word::<1>(line) == word::<0>(line) && Senders(word::<3>(line)).has(mac))
    }

    /// Says from which stations packets of the first network come, if that is this one: half of its addresses.
    pub(super) fn set_senders6(self, network: u64, mask: u64, senders: Senders) {
        let Some(line) = self.networks.get(self.place as usize) else { return };
        if (word::<0>(line), word::<1>(line)) == (network, mask) {
            let [_, _, _, last] = line;
            last.store(senders.0, Ordering::Relaxed);
        }
    }

    /// Whether a frame from this address may come from the subscriber: any, unless one is fixed. Given as the 6 bytes lie in the
    /// packet, as a little-endian word of which the low 48 bits count.
    #[inline(always)]
    pub(crate) fn may_send_from(self, mac: u64) -> bool {
        let fixed = word::<2>(self.line);
        fixed & HAS_MAC == 0 || (fixed ^ mac) << 16 == 0
    }

    /// Its tags.
    #[cfg(test)]
    pub(crate) fn tags(self) -> Tags {
        let word = self.networks.get(self.place as usize).map_or(0, word::<2>);
        Tags { svlan: word as u16, cvlan: (word >> 16) as u16, port: (word >> 48) as u8 }
    }

    /// Its number, by which it is counted and which bindings refer to.
    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        (word::<0>(self.line) >> 32) as u32
    }

    /// The scope of its addresses.
    #[inline(always)]
    pub(crate) fn scope(self) -> u32 {
        (word::<3>(self.line) >> 32) as u32
    }
}

/// Two halves of a word, the first one low.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A MAC address as it lies in a packet, as a little-endian word.
pub(super) fn mac_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}
