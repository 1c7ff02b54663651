//! Stage `NAME.sample`: takes samples of what comes in, before anything else is done with it.
//!
//! Of the packets of an interface, in the order in which a worker sees them, each block of N has one sample, at a place that is drawn when the block before it
//! has had its own (random n-out-of-N sampling, RFC 5475 section 5.2.2.1, with n = 1). So each packet is as likely to be taken as any other, nobody can
//! send in step, and of P packets P / N are taken, rounded down or up, and not only on average. In between a batch costs a subtraction for each interface.

use std::sync::Arc;

use weir_mem::{Producer, Published};
use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Random, Stage};

use super::{Places, Rates};
use crate::InterfaceId;
use crate::fast::by_interface::ByInterface;
use crate::tables::fib::Fib;
use weir_table::counters::WorkerCounters;

weir_stage::ways! {
    /// Ways out of [`Sampler`].
    pub(crate) enum Exit {
        /// Every packet goes on.
        Out => way "out",
    }
}

/// Bytes that are kept of a frame: what is told of a packet, and the headers of a tunnel in front of it. An Ethernet header with eight labels, the longest
/// IPv4 header and that of GRE are 114.
pub(super) const KEPT: usize = 256;

/// A packet that was taken, as the worker knows it.
pub(super) struct Sampled {
    /// The index of its port.
    pub(super) port: u16,
    pub(super) interface: InterfaceId,
    /// Where its network header begins; 0 of packets of [lines](crate::Lines), whose tags are none of an interface.
    pub(super) l3: u8,
    /// Bytes of the frame.
    pub(super) len: u32,
    pub(super) front: [u8; KEPT],
}

/// Where packets come in that a stage looks at.
pub(super) struct Entrance {
    pub(super) fib: Arc<Fib>,
    /// By ports on which [lines](crate::Lines) are: their packets are of the interface of the port.
    pub(super) have_lines: bool,
}

/// Where an interface is in its block of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block {
    /// Packets in a block; 0 before the first.
    rate: u32,
    /// Packets before the next one that is taken.
    before: u32,
    /// The place of that one in its block.
    place: u32,
}

impl Block {
    /// A first block.
    fn new(rate: u32, random: &mut Random) -> Block {
        let place = random.below(rate.into()) as u32;
        Block { rate, before: place, place }
    }

    /// The sample is taken: the next is in the block behind.
    fn go_on(&mut self, random: &mut Random) {
        let place = random.below(self.rate.into()) as u32;
        self.before = self.rate - 1 - self.place + place;
        self.place = place;
    }
}

/// Takes samples.
pub(crate) struct Sampler {
    rates: Arc<Published<Rates>>,
    entrance: Entrance,
    packets: ByInterface,
    taker: Taker,
}

/// What of it changes with each packet.
struct Taker {
    places: Places,
    /// By place of the interface.
    passed: Arc<WorkerCounters>,
    lost: Arc<WorkerCounters>,
    ring: Producer<Sampled>,
    /// Says that the stage is still there.
    _alive: Arc<()>,
    random: Random,
    /// By place of the interface.
    blocks: Vec<Block>,
}

impl Sampler {
    pub(super) fn new(
        (rates, entrance): (Arc<Published<Rates>>, Entrance),
        (places, passed, lost): (Places, Arc<WorkerCounters>, Arc<WorkerCounters>),
        (ring, alive): (Producer<Sampled>, Arc<()>),
        seed: u64,
    ) -> Sampler {
        let blocks = vec![Block::default(); places.count()];
        let taker = Taker { places, passed, lost, ring, _alive: alive, random: Random::new(seed), blocks };
        Sampler { rates, entrance, packets: ByInterface::default(), taker }
    }
}

/// Counts packets of an interface at its place, and at that of all.
#[inline(always)]
fn count(counters: &WorkerCounters, (place, all): (usize, usize), packets: u32) {
    let view = counters.view(counters.places());
    [place, all].into_iter().for_each(|place| view.count(place as u32, packets.into(), 0));
}

impl Taker {
    /// Some packets of an interface come by, of which one in `rate` is taken.
    #[inline(always)]
    fn come_by(&mut self, batch: &Batch, (some, interface): (u64, InterfaceId), rate: u32, packets: &ByInterface) {
        let place = self.places.of(interface);
        let Some(block) = self.blocks.get_mut(place) else { return };
        if block.rate != rate {
            *block = Block::new(rate, &mut self.random);
        }
        let coming = some.count_ones();
        count(&self.passed, (place, self.places.all()), coming);
        if block.before < coming {
            self.take(batch, (some, interface), packets);
        } else {
            block.before -= coming;
        }
    }

    /// Takes those that are at the drawn places.
    #[inline(never)]
    fn take(&mut self, batch: &Batch, (mut left, interface): (u64, InterfaceId), packets: &ByInterface) {
        let place = self.places.of(interface);
        let Some(block) = self.blocks.get_mut(place) else { return };
        while block.before < left.count_ones() {
            (0..block.before).for_each(|_| left &= left - 1);
            let this = left & left.wrapping_neg();
            left ^= this;
            block.go_on(&mut self.random);
            batch.each_ref_in(this, |slot, packet| {
                let mut front = [0; KEPT];
                front.iter_mut().zip(packet.bytes()).for_each(|(to, from)| *to = *from);
                let (l3, len, port) = (packets.l3[slot.index()], packet.len() as u32, batch.lanes.port[slot]);
                if self.ring.push(Sampled { port, interface, l3, len, front }).is_err() {
                    count(&self.lost, (place, self.places.all()), 1);
                }
            });
        }
        block.before -= left.count_ones();
    }
}

impl Stage for Sampler {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Sampler { rates, entrance, packets, taker } = self;
        let rates = rates.load(out.reader());
        match entrance.have_lines {
            true => packets.find_with_lines(entrance.fib.ingress(), batch),
            false => packets.find_out(None, entrance.fib.ingress(), batch),
        }
        let mut left = batch.live();
        while left != 0 {
            let (alike, interface) = packets.like_the_first(left);
            left &= !alike;
            let rate = rates.get(taker.places.of(interface)).copied().unwrap_or(0);
            if rate != 0 {
                taker.come_by(batch, (alike, interface), rate, packets);
            }
        }
    }
}

/// What [`Sampler`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each block has one sample, whatever the rate, and every place in it is taken as often as any other.
    #[test]
    fn of_each_block_one_packet_is_taken_at_any_place() {
        for rate in [1_u32, 2, 3, 7, 64] {
            let mut random = Random::new(rate.into());
            let mut block = Block::new(rate, &mut random);
            let (blocks, mut at) = (2000 * rate, 0_u64);
            let mut places = vec![0_u32; rate as usize];
            for n in 0..blocks {
                at += u64::from(block.before);
                assert_eq!(at / u64::from(rate), u64::from(n), "one in each block of {rate}");
                places[(at % u64::from(rate)) as usize] += 1;
                block.go_on(&mut random);
                at += 1;
            }
            // Each place is taken 2000 times of all, with a deviation of 45 at most.
            assert!(places.iter().all(|count| count.abs_diff(2000) < 6 * 45), "{rate}: {places:?}");
        }
    }
}
