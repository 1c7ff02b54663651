//! What the relay counts in all, by the names that the tools around Snabb's lwAFTR know. Bytes are those of Ethernet frames without tags and
//! check sequence; `in` is counted when packets are put together, `out` before they are fragmented.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

macro_rules! counts {
    ($( $(#[doc = $help:expr])+ $name:ident = $text:literal ),+ $(,)?) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Count {
            $( $(#[doc = $help])+ $name ),+
        }

        /// All of them, by their numbers.
        pub(crate) const COUNTS: &[(Count, &str)] = &[$( (Count::$name, $text) ),+];
    };
}

counts! {
    /// IPv4 packets from the Internet.
    InFour = "in-ipv4",
    /// IPv6 packets from the side of the customers.
    InSix = "in-ipv6",
    /// IPv4 packets to the Internet.
    OutFour = "out-ipv4",
    /// IPv6 packets to customers.
    OutSix = "out-ipv6",
    /// IPv4 packets from customer to customer.
    Hairpin = "hairpin-ipv4",
    /// ICMPv4 errors that were sent.
    ErrorFour = "out-icmpv4-error",
    /// ICMPv6 errors that were sent.
    ErrorSix = "out-icmpv6-error",
    /// All that was dropped which came from the Internet.
    DropFour = "drop-all-ipv4-iface",
    /// All that was dropped which came from the side of the customers.
    DropSix = "drop-all-ipv6-iface",
    /// To an address and port that no softwire has.
    NoDestination = "drop-no-dest-softwire-ipv4",
    /// From a tunnel that is no softwire's.
    NoSource = "drop-no-source-softwire-ipv6",
    /// At the end of their TTL.
    TtlZero = "drop-ttl-zero-ipv4",
    /// Too long and not to be fragmented.
    OverMtu = "drop-over-mtu-but-dont-fragment-ipv4",
    /// ICMPv4 that is not let in.
    PolicyInFour = "drop-in-by-policy-icmpv4",
    /// ICMPv6 that is not let in.
    PolicyInSix = "drop-in-by-policy-icmpv6",
    /// ICMPv4 errors that were not sent, as the configuration says.
    PolicyOutFour = "drop-out-by-policy-icmpv4",
    /// ICMPv6 errors that were not sent, as the configuration says.
    PolicyOutSix = "drop-out-by-policy-icmpv6",
    /// ICMPv4 errors that were not sent, as there were too many.
    RateFour = "drop-over-rate-limit-icmpv4",
    /// ICMPv6 errors that were not sent, as there were too many.
    RateSix = "drop-over-rate-limit-icmpv6",
    /// ICMPv4 with a wrong checksum.
    BadChecksum = "drop-bad-checksum-icmpv4",
    /// Not IPv4, from an interface of the side of IPv4.
    MisplacedSix = "drop-misplaced-not-ipv4",
    /// Not IPv6, from an interface of the side of IPv6.
    MisplacedFour = "drop-misplaced-not-ipv6",
    /// IPv6 to the relay's prefixes that is from no tunnel.
    UnknownSix = "drop-unknown-protocol-ipv6",
    /// Time exceeded that is not about hop limits.
    NotHopLimit = "drop-over-time-but-not-hop-limit-icmpv6",
    /// ICMPv6 of other kinds than those that are translated.
    UnknownIcmpSix = "drop-unknown-protocol-icmpv6",
    /// What the ingress filter of the side of IPv4 kept out.
    FilteredInFour = "drop-in-filter-ipv4",
    /// What the ingress filter of the side of IPv6 kept out.
    FilteredInSix = "drop-in-filter-ipv6",
    /// What the egress filter of the side of IPv4 kept in.
    FilteredOutFour = "drop-out-filter-ipv4",
    /// What the egress filter of the side of IPv6 kept in.
    FilteredOutSix = "drop-out-filter-ipv6",
    /// IPv4 fragments that were put together with others, or wait.
    FragmentInFour = "in-ipv4-frag-needs-reassembly",
    /// IPv4 packets that were put together.
    ReassembledFour = "in-ipv4-frag-reassembled",
    /// IPv4 packets that came whole.
    WholeFour = "in-ipv4-frag-reassembly-unneeded",
    /// IPv6 fragments that were put together with others, or wait.
    FragmentInSix = "in-ipv6-frag-needs-reassembly",
    /// IPv6 packets that were put together.
    ReassembledSix = "in-ipv6-frag-reassembled",
    /// IPv6 packets that came whole.
    WholeSix = "in-ipv6-frag-reassembly-unneeded",
    /// IPv4 fragments that were sent.
    FragmentOutFour = "out-ipv4-frag",
    /// IPv4 packets that were sent whole.
    OutWholeFour = "out-ipv4-frag-not",
    /// IPv6 fragments that were sent.
    FragmentOutSix = "out-ipv6-frag",
    /// IPv6 packets that were sent whole.
    OutWholeSix = "out-ipv6-frag-not",
}

/// What one worker has counted, packets and bytes of each: it alone writes.
pub(crate) struct Tally([[AtomicU64; 2]; COUNTS.len()]);

impl Default for Tally {
    fn default() -> Tally {
        Tally(std::array::from_fn(|_| <[AtomicU64; 2]>::default()))
    }
}

impl Tally {
    /// Counts packets of so many bytes together.
    pub(crate) fn add(&self, count: Count, packets: u64, bytes: u64) {
        if let Some(pair) = self.0.get(count as usize) {
            for (word, more) in pair.iter().zip([packets, bytes]) {
                word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
            }
        }
    }

    /// Counts a packet.
    pub(crate) fn one(&self, count: Count, bytes: u64) {
        self.add(count, 1, bytes);
    }
}

/// What all workers have counted.
#[derive(Default)]
pub(crate) struct Tallies(Mutex<Vec<Arc<Tally>>>);

impl Tallies {
    /// For one more stage: one that another has left, if there is any.
    pub(crate) fn acquire(&self) -> Arc<Tally> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = all.iter().find(|tally| Arc::strong_count(tally) == 1) {
            return Arc::clone(left);
        }
        let fresh = Arc::<Tally>::default();
        all.push(Arc::clone(&fresh));
        fresh
    }

    /// Packets and bytes of each count.
    pub(crate) fn sums(&self) -> Vec<(&'static str, u64, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |count: Count, part: usize| {
            let words = all.iter().filter_map(|tally| tally.0.get(count as usize)?.get(part));
            words.fold(0, |sum: u64, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
        };
        COUNTS.iter().map(|&(count, name)| (name, sum(count, 0), sum(count, 1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_where_their_numbers_say_and_workers_are_added() {
        assert!(COUNTS.iter().enumerate().all(|(n, (count, _))| *count as usize == n));
        let tallies = Tallies::default();
        let (one, two) = (tallies.acquire(), tallies.acquire());
        one.one(Count::InSix, 100);
        two.add(Count::InSix, 2, 250);
        let of = |name: &str| tallies.sums().into_iter().find(|row| row.0 == name);
        assert_eq!(of("in-ipv6"), Some(("in-ipv6", 3, 350)));
        drop(one);
        tallies.acquire().one(Count::InSix, 1);
        assert_eq!((of("in-ipv6"), tallies.0.lock().unwrap().len()), (Some(("in-ipv6", 4, 351)), 2));
    }
}
