//! Checks batches of packets: IPv4 all at once by a vector kernel, which tells the many that nothing speaks against.

use weir_packet::{Batch, Lane, Packet, Slot};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, LinkPattern, NO_FRAME};
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::Ingress;
use crate::fast::lookups::l3_of;
use crate::ingress::{OneTag, mac_word};
use crate::tags::{FRONT_LEN, TAG_LEN};

/// What was found out about packets without tags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    /// The mask of packets that may be forwarded without a second look.
    pub(crate) good: u64,
    /// Bytes of all together that were looked at.
    pub(crate) bytes: u64,
}

/// The vector kernel, and what it finds out by the way.
pub(crate) struct Checker {
    pub(crate) kernel: Kernel,
    /// Destination addresses by slot, as of the last batch.
    pub(crate) destinations: Destinations,
}

impl Checker {
    pub(crate) fn new(kernel: Kernel) -> Checker {
        Checker { kernel, destinations: Destinations::default() }
    }

    /// Finds out which of the packets in `of` may be forwarded without a second look: IPv4 for the port that they came in by, which is `port`
    /// if it is one for all, or without `ingress` for any single station. `count` is the [reach] of the batch; `ask` is told each packet's
    /// destination address as soon as it is known, `approach` all of them before they are checked.
    #[inline(always)]
    pub(crate) fn check(
        &mut self,
        batch: &Batch,
        (of, count): (u64, usize),
        (ingress, port): (Option<&Ingress>, Option<u16>),
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Checked {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0u16; BATCH];
        let destinations = &mut self.destinations;
        batch.each_ref_in(of, |slot, packet| {
            let frame = packet.window(0);
            let destination = frame_check::destination_of(frame);
            ask(destination);
            destinations.0[slot.index()] = destination;
            frames[slot.index()] = frame;
            // Buffers are far shorter than 64 KiB.
            lengths[slot.index()] = packet.len() as u16;
        });
        approach(destinations.0.get(..count).unwrap_or_default());
        // By vectors: what slots without packets have is 0.
        let bytes = lengths.iter().fold(0u32, |sum, length| sum + u32::from(*length)).into();
        let Some(ingress) = ingress else {
            let good = frame_check::check(self.kernel, SINGLE, &frames, &lengths, &self.destinations, count);
            return Checked { good, bytes };
        };
        let common = port.and_then(|port| ingress.station(port));
        let station = common.unwrap_or(LinkPattern::ANY);
        let good = frame_check::check(self.kernel, station, &frames, &lengths, &self.destinations, count);
        let good = if common.is_some() { good } else { good & ours(batch, ingress) };
        Checked { good, bytes }
    }

    /// The same for packets whose network headers begin where `l3` says, and of which others know whom they are for: the mask of those in `of` that
    /// carry IPv4 with which nothing is wrong.
    #[inline(always)]
    pub(crate) fn check_tagged<'b>(
        &mut self,
        batch: &'b Batch,
        (of, count): (u64, usize),
        mut l3: impl FnMut(Slot, &'b Packet) -> usize,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> u64 {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0u16; BATCH];
        let destinations = &mut self.destinations;
        batch.each_ref_in(
            of,
            #[inline(always)]
            |slot, packet| {
                // As if the packet began 14 bytes before its network header: the last two of them are the EtherType.
                let skipped = l3(slot, packet).saturating_sub(Ethernet::LEN);
                let frame = packet.window(skipped);
                let destination = frame_check::destination_of(frame);
                ask(destination);
                destinations.0[slot.index()] = destination;
                frames[slot.index()] = frame;
                lengths[slot.index()] = packet.len().saturating_sub(skipped) as u16;
            },
        );
        approach(destinations.0.get(..count).unwrap_or_default());
        frame_check::check(self.kernel, LinkPattern::ANY, &frames, &lengths, &self.destinations, count)
    }

    /// The same for packets that are expected to have one tag: the mask of those in `of` that begin as it says and carry IPv4 with which nothing is
    /// wrong, and the bytes of all. `look` is shown how each begins, and answers whether anything speaks against it, in some bits; it may be shown a
    /// packet twice.
    #[inline(always)]
    pub(crate) fn check_one_tag(
        &mut self,
        batch: &Batch,
        (of, count): (u64, usize),
        tag: &OneTag<'_>,
        mut look: impl FnMut(Slot, &[u8; FRONT_LEN]) -> u32,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Checked {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0u16; BATCH];
        let (start, mut differs) = (tag.start, 0);
        let destinations = &mut self.destinations;
        let mut against = |slot, packet: &Packet| {
            // The first bytes are looked at here, what is behind them as in `check_tagged`.
            (u32::from_le_bytes(*packet.window(0)) ^ start) | look(slot, packet.window(0))
        };
        batch.each_ref_in(of, |slot, packet| {
            differs |= against(slot, packet);
            let frame = packet.window(TAG_LEN);
            let destination = frame_check::destination_of(frame);
            ask(destination);
            destinations.0[slot.index()] = destination;
            frames[slot.index()] = frame;
            lengths[slot.index()] = packet.len() as u16;
        });
        approach(destinations.0.get(..count).unwrap_or_default());
        let bytes = lengths.iter().fold(0u32, |sum, length| sum + u32::from(*length)).into();
        let link = tag.link.with_front((Ethernet::LEN + TAG_LEN) as u16);
        let good = frame_check::check(self.kernel, link, &frames, &lengths, &self.destinations, count);
        if differs == 0 {
            return Checked { good, bytes };
        }
        let mut strangers = 0;
        batch.each_ref_in(of, |slot, packet| strangers |= u64::from(against(slot, packet) != 0) << slot.index());
        Checked { good: good & !strangers, bytes }
    }

    /// Finds out the destination addresses of IPv4 packets that were checked before, those in `of`. Those of a `TAGGED` batch may have tags.
    #[inline(always)]
    pub(crate) fn gather<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        (of, count): (u64, usize),
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) {
        let destinations = &mut self.destinations;
        batch.each_ref_in(of, |slot, packet| {
            let l3 = l3_of::<TAGGED>(&batch.lanes, slot);
            let destination = frame_check::destination_of(packet.window(l3.saturating_sub(Ethernet::LEN)));
            ask(destination);
            destinations.0[slot.index()] = destination;
        });
        approach(destinations.0.get(..count).unwrap_or_default());
    }
}

/// One more than the last slot that is in use.
#[inline(always)]
pub(crate) fn reach(batch: &Batch) -> usize {
    BATCH - batch.live().leading_zeros() as usize
}

/// IPv4 to any single station: the bit for groups is clear.
const SINGLE: LinkPattern = {
    let [high, low] = ethernet::IPV4.to_be_bytes();
    let (mut value, mut mask) = ([0; Ethernet::LEN], [0; Ethernet::LEN]);
    mask[0] = 1;
    (value[12], value[13]) = (high, low);
    (mask[12], mask[13]) = (0xff, 0xff);
    LinkPattern::pattern(value, mask)
};

/// Whether packets of the batch, which came in by this port if by one, may belong to interfaces with tags.
#[inline(always)]
pub(crate) fn may_be_tagged(port: Option<u16>, ingress: &Ingress) -> bool {
    ingress.has_tags() && port.is_none_or(|port| ingress.port_has_tags(port))
}

/// The port that all packets of a batch came in by, if it is one.
#[inline(always)]
pub(crate) fn common_port(ports: &Lane<u16>) -> Option<u16> {
    let ports = ports.all();
    let first = ports[0];
    // As whole vectors: of a fold over single ports the compiler makes 64 comparisons where this is inlined.
    let (some, _) = ports.as_chunks::<16>();
    some.iter().all(|some| *some == [first; 16]).then_some(first)
}

/// The mask of packets to the station of the port that each came in by.
#[inline(never)]
pub(crate) fn ours(batch: &Batch, ingress: &Ingress) -> u64 {
    let mut ours = 0;
    batch.each_ref(|slot, packet| {
        let is_ours = mac_word(MacAddr(*packet.window(0))) == ingress.mac_word(batch.lanes.port[slot]);
        ours |= u64::from(is_ours) << slot.index();
    });
    ours
}

/// The mask of packets to single stations, whichever.
pub(crate) fn singles(batch: &Batch) -> u64 {
    let mut singles = 0;
    batch.each_ref(|slot, packet| {
        singles |= u64::from(!MacAddr(*packet.window(0)).is_group()) << slot.index();
    });
    singles
}
