//! A fault injector around any queue: it drops, duplicates, reorders, truncates, corrupts and delays by a seed.
//!
//! What it holds back is inside the device as far as the account goes: it is counted in
//! [`in_rings`](weir_stage::DeviceStats::in_rings).

mod port;
mod rx;
mod tx;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_packet::Packet;
use weir_stage::Random;

pub use port::FaultPort;
pub(crate) use port::surround;
pub use rx::FaultRx;
pub use tx::FaultTx;

/// How likely each fault is, from 0 (never) to 1 (always), and the seed that decides.
///
/// Each packet meets the faults in the order of the fields; several may strike the same packet. The same seed and the same
/// packets give the same faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Where the pseudo-random numbers start.
    pub seed: u64,
    /// The packet is lost.
    pub drop: f64,
    /// A copy follows the packet.
    pub duplicate: f64,
    /// The packet is cut to a random shorter length, at least 1.
    pub truncate: f64,
    /// One random bit of the packet is inverted.
    pub corrupt: f64,
    /// One to [`Faults::REORDER_DEPTH`] later packets overtake the packet.
    pub reorder: f64,
    /// The packet is delayed by [`Faults::delay_time`].
    pub delay: f64,
    /// How long delayed packets are late, nanoseconds; reordered ones are late by that much at most.
    pub delay_time: u64,
    /// Whether only what is received is struck, and not what is transmitted: a port that receives what it transmits is one
    /// wire then, on which every packet is struck once.
    pub receive_only: bool,
}

impl Faults {
    /// Packets that overtake a reordered one at most.
    pub const REORDER_DEPTH: u64 = 16;

    /// Whether no fault can occur.
    pub fn is_none(&self) -> bool {
        [self.drop, self.duplicate, self.truncate, self.corrupt, self.reorder, self.delay]
            .iter()
            .all(|&odds| odds <= 0.0)
    }

    /// The same faults with a seed for one queue, so that queues differ.
    pub(crate) fn for_queue(&self, queue: usize, transmit: bool) -> Faults {
        let mut random = Random::new(self.seed ^ ((queue as u64) << 1 | u64::from(transmit)));
        Faults { seed: random.next(), ..*self }
    }
}

impl Default for Faults {
    /// No faults; if any is made likely, delays are of 1 ms.
    fn default() -> Faults {
        Faults {
            seed: 0,
            drop: 0.0,
            duplicate: 0.0,
            truncate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            delay: 0.0,
            delay_time: 1_000_000,
            receive_only: false,
        }
    }
}

/// Faults that have struck so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets lost.
    pub dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Copies that were due but for which no buffer was free.
    pub not_duplicated: u64,
    /// Packets cut.
    pub truncated: u64,
    /// Packets with an inverted bit.
    pub corrupted: u64,
    /// Packets held back so that others overtake.
    pub reordered: u64,
    /// Packets delayed.
    pub delayed: u64,
}

/// What the injectors around the queues of one port have done together.
#[derive(Debug, Default)]
pub struct FaultFigures {
    held: AtomicU64,
    dropped: AtomicU64,
    duplicated: AtomicU64,
    not_duplicated: AtomicU64,
    truncated: AtomicU64,
    corrupted: AtomicU64,
    reordered: AtomicU64,
    delayed: AtomicU64,
}

impl FaultFigures {
    /// Packets that are held back now.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Faults that have struck so far.
    pub fn counts(&self) -> FaultCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FaultCounts {
            dropped: read(&self.dropped),
            duplicated: read(&self.duplicated),
            not_duplicated: read(&self.not_duplicated),
            truncated: read(&self.truncated),
            corrupted: read(&self.corrupted),
            reordered: read(&self.reordered),
            delayed: read(&self.delayed),
        }
    }
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    drop: bool,
    duplicate: bool,
    late: Option<Late>,
}

/// Until when a packet is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Late {
    /// Packets that overtake it; `u64::MAX`: any number.
    behind: u64,
    /// For so long at most, nanoseconds.
    time: u64,
}

/// Decides about packets, changes their bytes, counts.
struct Injector {
    faults: Faults,
    random: Random,
    figures: Arc<FaultFigures>,
    /// Packets that are held back, of those in the figures.
    held: u64,
}

fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

impl Injector {
    fn new(faults: Faults, figures: &Arc<FaultFigures>) -> Injector {
        Injector { faults, random: Random::new(faults.seed), figures: Arc::clone(figures), held: 0 }
    }

    /// Tells how many packets are held back now.
    fn set_held(&mut self, held: usize) {
        let held = held as u64;
        if held != self.held {
            // Wrapping: the difference may be negative.
            self.figures.held.fetch_add(held.wrapping_sub(self.held), Ordering::Relaxed);
            self.held = held;
        }
    }

    /// Draws what happens to a packet, and changes its bytes where that is what happens.
    fn strike(&mut self, packet: &mut Packet) -> Verdict {
        let odds = self.faults;
        if self.random.chance(odds.drop) {
            count(&self.figures.dropped);
            return Verdict { drop: true, duplicate: false, late: None };
        }
        let duplicate = self.random.chance(odds.duplicate);
        if self.random.chance(odds.truncate) && packet.len() > 1 {
            let len = 1 + self.random.below(packet.len() as u64 - 1) as usize;
            if packet.set_len(len) {
                count(&self.figures.truncated);
            }
        }
        if self.random.chance(odds.corrupt) {
            self.corrupt(packet);
        }
        Verdict { drop: false, duplicate, late: self.lateness() }
    }

    fn corrupt(&mut self, packet: &mut Packet) {
        let bit = self.random.below(8 * packet.len() as u64);
        if let Some(byte) = packet.bytes_mut().get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
            count(&self.figures.corrupted);
        }
    }

    fn lateness(&mut self) -> Option<Late> {
        let time = self.faults.delay_time;
        if self.random.chance(self.faults.reorder) {
            count(&self.figures.reordered);
            return Some(Late { behind: 1 + self.random.below(Faults::REORDER_DEPTH), time });
        }
        if self.random.chance(self.faults.delay) {
            count(&self.figures.delayed);
            return Some(Late { behind: u64::MAX, time });
        }
        None
    }

    fn count_copy(&mut self, made: bool) {
        if made {
            count(&self.figures.duplicated);
        } else {
            count(&self.figures.not_duplicated);
        }
    }
}

/// A packet that is held back, as it is in a queue of either direction.
struct Waiting<P> {
    packet: P,
    /// How many were held back before it.
    place: u64,
    /// Packets that have yet to overtake it; of those in `Waiters::delayed` any number may.
    behind: u64,
    /// When it is released in any case.
    until: u64,
}

/// Packets that are held back. They are released in the order they came.
struct Waiters<P> {
    /// Those that only time releases. All wait equally long, so the first of them is due first.
    delayed: VecDeque<Waiting<P>>,
    /// Those that are released once so many others have overtaken them: few, as each waits for few.
    overtaken: VecDeque<Waiting<P>>,
    places: u64,
}

impl<P> Waiters<P> {
    fn new() -> Waiters<P> {
        Waiters { delayed: VecDeque::new(), overtaken: VecDeque::new(), places: 0 }
    }

    fn len(&self) -> usize {
        self.delayed.len() + self.overtaken.len()
    }

    fn add(&mut self, packet: P, late: Late, now: u64) {
        let until = now.saturating_add(late.time);
        let list = if late.behind == u64::MAX { &mut self.delayed } else { &mut self.overtaken };
        list.push_back(Waiting { packet, place: self.places, behind: late.behind, until });
        self.places += 1;
    }

    /// One packet has overtaken all of these.
    fn overtake(&mut self) {
        self.overtaken.iter_mut().for_each(|waiting| waiting.behind = waiting.behind.saturating_sub(1));
    }

    /// Releases those that have waited long enough, in the order they came.
    fn release(&mut self, now: u64) -> impl Iterator<Item = P> + '_ {
        std::iter::from_fn(move || {
            let is_due = |waiting: &Waiting<P>| waiting.behind == 0 || waiting.until <= now;
            let delayed = self.delayed.front().filter(|waiting| is_due(waiting)).map(|waiting| waiting.place);
            let at = self.overtaken.iter().position(is_due);
            let overtaken = at.and_then(|at| self.overtaken.get(at)).map(|waiting| waiting.place);
            let first = match (delayed, overtaken) {
                (Some(delayed), Some(overtaken)) if delayed < overtaken => self.delayed.pop_front(),
                (Some(_), None) => self.delayed.pop_front(),
                _ => at.and_then(|at| self.overtaken.remove(at)),
            };
            first.map(|waiting| waiting.packet)
        })
    }

    /// When the next is released at the latest.
    fn next_at(&self) -> Option<u64> {
        self.delayed.front().into_iter().chain(&self.overtaken).map(|waiting| waiting.until).min()
    }

    /// Takes all of them out.
    fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        self.delayed.drain(..).chain(self.overtaken.drain(..)).map(|waiting| waiting.packet)
    }
}
