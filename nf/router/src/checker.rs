//! Checks batches of packets: all at once by a vector kernel, which tells the many that nothing speaks against.

use weir_packet::{Batch, Lane};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, NO_FRAME, Station};
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::fib::{Ingress, mac_word};

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

    /// The mask of packets that may be forwarded without a second look: those for the port that they came in by, or without
    /// `ingress` for any single station. `count` is the [reach] of the batch; `ask` is told each packet's destination address as
    /// soon as it is known, `approach` all of them before they are checked.
    #[inline(always)]
    pub(crate) fn check(
        &mut self,
        batch: &Batch,
        count: usize,
        ingress: Option<&Ingress>,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> u64 {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0u16; BATCH];
        let destinations = &mut self.destinations;
        batch.each_ref(|slot, packet| {
            let frame = packet.window(0);
            let destination = frame_check::destination_of(frame);
            ask(destination);
            destinations.0[slot.index()] = destination;
            frames[slot.index()] = frame;
            // Buffers are far shorter than 64 KiB.
            lengths[slot.index()] = packet.len() as u16;
        });
        approach(destinations.0.get(..count).unwrap_or_default());
        let Some(ingress) = ingress else {
            return frame_check::check(self.kernel, SINGLE, &frames, &lengths, &self.destinations, count);
        };
        let common = common_port(&batch.lanes.port).and_then(|port| ingress.station(port));
        let station = common.unwrap_or(Station::ANY);
        let good = frame_check::check(self.kernel, station, &frames, &lengths, &self.destinations, count);
        if common.is_some() { good } else { good & ours(batch, ingress) }
    }

    /// Finds out the destination addresses of packets that were checked before.
    #[inline(always)]
    pub(crate) fn gather(&mut self, batch: &Batch, count: usize, ask: impl Fn(u32), approach: impl FnOnce(&[u32])) {
        let destinations = &mut self.destinations;
        batch.each_ref(|slot, packet| {
            let destination = frame_check::destination_of(packet.window(0));
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
const SINGLE: Station = {
    let [high, low] = ethernet::IPV4.to_be_bytes();
    let (mut value, mut mask) = ([0; Ethernet::LEN], [0; Ethernet::LEN]);
    mask[0] = 1;
    (value[12], value[13]) = (high, low);
    (mask[12], mask[13]) = (0xff, 0xff);
    Station::pattern(value, mask)
};

/// The port that all packets of a batch came in by, if it is one.
#[inline(always)]
fn common_port(ports: &Lane<u16>) -> Option<u16> {
    let ports = ports.all();
    let first = ports[0];
    let differ = ports.iter().fold(0, |differ, port| differ | (port ^ first));
    (differ == 0).then_some(first)
}

/// The mask of packets to the station of the port that each came in by.
#[inline(never)]
fn ours(batch: &Batch, ingress: &Ingress) -> u64 {
    let mut ours = 0;
    batch.each_ref(|slot, packet| {
        let is_ours = mac_word(MacAddr(*packet.window(0))) == ingress.mac_word(batch.lanes.port[slot]);
        ours |= u64::from(is_ours) << slot.index();
    });
    ours
}
