//! A batch of packets and the rules of a list.

use std::sync::Arc;

use weir_acl::numbered::Numbered;
use weir_acl::recent::BETWEEN;
use weir_net::VrfId;
use weir_packet::{Batch, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_table::classifier::{BATCH, Keys};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use super::Side;
use super::key::{FOUR, Fronts, Key, SIX, Words};
use super::rule::Action;
use super::tables::{Brief, Deed, List, Log, Logged};
use crate::fast::by_interface::ByInterface;
use weir_table::counters::WorkerCounters;

/// What becomes of packets, as masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    pub(super) denied: u64,
    pub(super) policed: u64,
    /// They go on, and are looked up in the VRF that [`Enforcer::chosen`] says.
    pub(super) redirected: u64,
}

/// What one stage judges by.
pub(super) struct Judge {
    pub(super) kernel: Kernel,
    taken: Taken,
    found: [u32; BATCH],
    pub(super) enforcer: Enforcer,
}

/// The packets of a batch that rules are for.
#[derive(Default)]
struct Taken {
    fronts: Fronts,
    four: Those<FOUR>,
    six: Those<SIX>,
}

/// Those of one family: which they are, how long, and their keys.
struct Those<const W: usize> {
    slots: [u8; BATCH],
    bytes: [u32; BATCH],
    keys: Keys<W>,
    count: usize,
}

impl<const W: usize> Default for Those<W> {
    fn default() -> Those<W> {
        Those { slots: [0; BATCH], bytes: [0; BATCH], keys: Keys::default(), count: 0 }
    }
}

impl<const W: usize> Those<W> {
    /// Notes which one stands at a place, and how long it is.
    #[inline(always)]
    fn set(&mut self, at: usize, slot: Slot, bytes: usize) {
        self.slots[at % BATCH] = slot.index() as u8;
        self.bytes[at % BATCH] = bytes as u32;
    }

    /// Takes one out, whose place the last one gets.
    fn remove(&mut self, n: usize) {
        self.count -= 1;
        self.slots[n % BATCH] = self.slots[self.count % BATCH];
        self.bytes[n % BATCH] = self.bytes[self.count % BATCH];
        self.keys.set(n, self.keys.get(self.count));
    }
}

/// What is done as rules say.
pub(super) struct Enforcer {
    counters: Arc<WorkerCounters>,
    log: Arc<Log>,
    side: Side,
    /// When the next packet may be kept in mind.
    next: u64,
    /// The VRFs of packets that were redirected last, by slot.
    pub(super) chosen: [VrfId; BATCH],
}

impl Judge {
    pub(super) fn new(kernel: Kernel, side: Side, counters: Arc<WorkerCounters>, log: Arc<Log>) -> Judge {
        let enforcer = Enforcer { counters, log, side, next: 0, chosen: [0; BATCH] };
        Judge { kernel, taken: Taken::default(), found: [0; BATCH], enforcer }
    }

    /// Judges the packets in a mask by a list. What is not IP goes on.
    #[inline(always)]
    pub(super) fn judge(
        &mut self,
        list: &List,
        batch: &mut Batch,
        mask: u64,
        packets: &ByInterface,
        now: u64,
    ) -> Verdicts {
        let Judge { kernel, taken, found, enforcer } = self;
        match packets.is_untagged {
            true => taken.take(
                (*kernel, batch, mask),
                #[inline(always)]
                |_| Ethernet::LEN,
            ),
            false => taken.take(
                (*kernel, batch, mask),
                #[inline(always)]
                |slot| packets.l3[slot.index()].into(),
            ),
        };
        let mut verdicts = Verdicts::default();
        let Taken { four, six, .. } = taken;
        if four.count > 0 {
            list.four.classifier.lookup_batch(*kernel, &four.keys, four.count, found);
            enforcer.carry_out((list, &list.four), found, four, (batch, packets, now), &mut verdicts);
        }
        if six.count > 0 {
            list.six.classifier.lookup_batch(*kernel, &six.keys, six.count, found);
            enforcer.carry_out((list, &list.six), found, six, (batch, packets, now), &mut verdicts);
        }
        verdicts
    }
}

impl Taken {
    /// Takes the packets in a mask, whose network headers begin at `l3`, with their keys.
    #[inline(always)]
    fn take(&mut self, (kernel, batch, mask): (Kernel, &Batch, u64), l3: impl Fn(Slot) -> usize) {
        let Taken { fronts, four, six } = self;
        let (mut others, mut count) = (0, 0);
        batch.each_ref_in(
            mask,
            #[inline(always)]
            |slot, packet| {
                let l3 = l3(slot);
                if u16::from_be_bytes(*packet.window(l3.wrapping_sub(2))) == ethernet::IPV4 {
                    let (bytes, words) = (packet.len(), Words::of(kernel, packet, l3));
                    four.set(count, slot, bytes);
                    four.keys.set(count, fronts.take(count, words));
                    count += 1;
                } else {
                    others |= slot.bit();
                }
            },
        );
        (four.count, six.count) = (count, 0);
        let unusual = fronts.unusual(count);
        if unusual | others != 0 {
            self.take_others(batch, (unusual, others), l3);
        }
    }

    /// Makes the keys of packets that are not as most are: of some of those of IPv4, and of all others.
    #[inline(never)]
    fn take_others(&mut self, batch: &Batch, (unusual, others): (u64, u64), l3: impl Fn(Slot) -> usize) {
        let Taken { four, six, .. } = self;
        // The last ones first, as the last packet of all takes the place of one that is cut short.
        let mut left = unusual;
        while left != 0 {
            let n = BATCH - 1 - left.leading_zeros() as usize;
            left &= !(1 << n);
            let slot = Slot::new(four.slots[n].into());
            match batch.get(slot).map(|packet| Key::of(packet, l3(slot))) {
                Some(Key::Four(key)) => four.keys.set(n, key),
                _ => four.remove(n),
            }
        }
        batch.each_ref_in(others, |slot, packet| {
            if let Key::Six(key) = Key::of(packet, l3(slot)) {
                six.set(six.count, slot, packet.len());
                six.keys.set(six.count, key);
                six.count += 1;
            }
        });
    }
}

impl Enforcer {
    #[inline(always)]
    fn carry_out<const W: usize>(
        &mut self,
        (list, rules): (&List, &Numbered<W, Brief>),
        found: &[u32; BATCH],
        those: &Those<W>,
        (batch, packets, now): (&mut Batch, &ByInterface, u64),
        verdicts: &mut Verdicts,
    ) {
        let (tally, default) = (self.counters.view(self.counters.places()), list.default_brief());
        let rules = rules.rules();
        let brief = |found: u32| rules.get(found as usize).copied().unwrap_or(default);
        let mut more = 0_u64;
        // What each rule does is as random as packets: to ask each of them would cost more by wrong guesses than to note it.
        for (n, (found, bytes)) in found.iter().zip(&those.bytes).enumerate().take(those.count) {
            let brief = brief(*found);
            tally.count(brief.place(), 1, u64::from(*bytes));
            more |= u64::from(!brief.is_plain()) << n;
        }
        for n in Slots(more).map(Slot::index) {
            let (rule, bit) = (brief(found[n]).rule, 1 << (those.slots[n] % 64));
            self.carry_out_more((list, list.deed(rule)), bit, (&mut *batch, packets, now), verdicts);
        }
    }

    /// What is not just to let a packet go on.
    #[inline(never)]
    fn carry_out_more(
        &mut self,
        (list, deed): (&List, &Deed),
        bit: u64,
        (batch, packets, now): (&mut Batch, &ByInterface, u64),
        verdicts: &mut Verdicts,
    ) {
        let mut bytes = 0;
        batch.each_in(bit, |slot, packet, _| {
            let l3 = usize::from(packets.l3[slot.index()]);
            bytes = packet.len();
            if deed.is_logged && now >= self.next {
                self.next = now.saturating_add(BETWEEN);
                let (interface, front) = (packets.interfaces[slot.index()], *packet.window(l3));
                let (list, place, side) = (Arc::clone(&list.name), deed.place, self.side);
                self.log.keep(Logged { at: now, list, place, interface, side, front });
            }
            if let Some(dscp) = deed.set_dscp {
                set_dscp(packet, l3, dscp);
            }
        });
        if deed.action == Action::Deny {
            verdicts.denied |= bit;
        } else if deed.police.as_ref().is_some_and(|police| !police.admits(now, bytes)) {
            verdicts.policed |= bit;
        } else if let Some(vrf) = deed.redirect {
            verdicts.redirected |= bit;
            self.chosen[bit.trailing_zeros() as usize % BATCH] = vrf;
        }
    }
}

/// Gives a packet, whose network header begins at `l3`, another DSCP; what marks congestion stays (RFC 3168). The checksum is as right, or as
/// wrong, as it was (RFC 1624).
fn set_dscp(packet: &mut Packet, l3: usize, dscp: u8) {
    if u16::from_be_bytes(*packet.window(l3.wrapping_sub(2))) == ethernet::IPV6 {
        if let Some(ip) = Ipv6::view_mut(packet.window_mut::<{ Ipv6::LEN }>(l3)) {
            let class = dscp << 2 | ip.traffic_class() & 3;
            ip.set_traffic_class(class);
        }
    } else if let Some(ip) = Ipv4::view_mut(packet.window_mut::<{ Ipv4::LEN }>(l3)) {
        ip.set_tos(dscp << 2 | ip.tos & 3);
    }
}
