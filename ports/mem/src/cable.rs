//! A cable between two ports of one process: what one transmits, the other receives.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_packet::{Batch, Burst, Packet, Pool};
use weir_stage::{PortError, Rx, Traffic, Tx};

use crate::flow::flow_of;

/// Packets in a receive ring of either end at most, as in the ring of a usual NIC.
pub(crate) const RING: usize = 1024;

/// The cables into which something is plugged, by name. Both ends name the cable in their device text, and know nothing else of each
/// other.
static CABLES: Mutex<Vec<(String, Weak<Cable>)>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Cable {
    ends: [End; 2],
}

/// One end: what has arrived there.
#[derive(Default)]
struct End {
    /// Whether a port is plugged in.
    plugged: AtomicBool,
    /// Packets that were lost since the ring was full.
    missed: AtomicU64,
    /// Packets in each ring, so that looking for one does not disturb who brings some.
    waiting: Mutex<Arc<[AtomicUsize]>>,
    rings: Mutex<Vec<VecDeque<Packet>>>,
}

/// A port's hold on one end of a cable.
pub(crate) struct Plug {
    cable: Arc<Cable>,
    side: usize,
    home: Box<dyn Pool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Packets are moved one by one, so what is behind these locks is sound at any moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cable {
    fn end(&self, side: usize) -> &End {
        let [one, other] = &self.ends;
        if side == 0 { one } else { other }
    }
}

impl Plug {
    /// Takes a free end of the cable `name`, with `queues` receive rings.
    ///
    /// # Errors
    ///
    /// Both ends are taken.
    pub(crate) fn new(name: &str, queues: usize, pool: &dyn Pool) -> Result<Plug, PortError> {
        let mut cables = lock(&CABLES);
        cables.retain(|(_, cable)| cable.strong_count() > 0);
        let known = cables.iter().find(|(other, _)| other == name).and_then(|(_, cable)| cable.upgrade());
        let cable = known.unwrap_or_else(|| {
            let cable = Arc::new(Cable::default());
            cables.push((name.to_owned(), Arc::downgrade(&cable)));
            cable
        });
        let free = |side: &usize| !cable.end(*side).plugged.swap(true, Ordering::Relaxed);
        let side = [0, 1].into_iter().find(free).ok_or_else(|| {
            PortError(format!(
                "mem:cable={name}: a cable has two ends, and both are taken; give this port another cable"
            ))
        })?;
        let end = cable.end(side);
        end.missed.store(0, Ordering::Relaxed);
        *lock(&end.waiting) = (0..queues).map(|_| AtomicUsize::new(0)).collect();
        *lock(&end.rings) = (0..queues).map(|_| VecDeque::with_capacity(RING)).collect();
        Ok(Plug { cable, side, home: pool.another() })
    }

    /// The receive queue of a ring.
    pub(crate) fn rx(&self, ring: usize) -> Box<dyn Rx> {
        let waiting = Arc::clone(&lock(&self.cable.end(self.side).waiting));
        Box::new(CableRx { cable: Arc::clone(&self.cable), side: self.side, ring, waiting })
    }

    /// A transmit queue.
    pub(crate) fn tx(&self) -> Box<dyn Tx> {
        Box::new(CableTx { cable: Arc::clone(&self.cable), to: 1 - self.side })
    }

    /// Whether a port is plugged into the other end.
    pub(crate) fn is_connected(&self) -> bool {
        self.cable.end(1 - self.side).plugged.load(Ordering::Relaxed)
    }

    /// Packets that were lost at this end since its ring was full.
    pub(crate) fn missed(&self) -> u64 {
        self.cable.end(self.side).missed.load(Ordering::Relaxed)
    }

    /// Packets that wait at this end.
    pub(crate) fn len(&self) -> usize {
        lock(&self.cable.end(self.side).rings).iter().map(VecDeque::len).sum()
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        let end = self.cable.end(self.side);
        // Without rings, what still comes is lost outside.
        let rings = std::mem::take(&mut *lock(&end.rings));
        rings.into_iter().flatten().for_each(|packet| self.home.free(packet));
        end.plugged.store(false, Ordering::Relaxed);
    }
}

struct CableTx {
    cable: Arc<Cable>,
    to: usize,
}

impl Tx for CableTx {
    /// A cable takes everything; what the far end has no room for is lost there, as in the ring of a NIC.
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let end = self.cable.end(self.to);
        let waiting = Arc::clone(&lock(&end.waiting));
        let mut rings = lock(&end.rings);
        let queues = rings.len();
        let traffic = Traffic::drain(burst, usize::MAX, |mut packet| {
            packet.set_offload(0, 0); // a cable carries bytes, not flags
            let ring = if queues > 1 { flow_of(packet.bytes()) as usize % queues } else { 0 };
            match rings.get_mut(ring).filter(|ring| ring.len() < RING) {
                Some(ring) => ring.push_back(packet),
                None => {
                    end.missed.fetch_add(u64::from(queues > 0), Ordering::Relaxed);
                    pool.free(packet);
                }
            }
        });
        for (ring, waiting) in rings.iter().zip(waiting.iter()) {
            waiting.store(ring.len(), Ordering::Relaxed);
        }
        traffic
    }
}

struct CableRx {
    cable: Arc<Cable>,
    side: usize,
    ring: usize,
    waiting: Arc<[AtomicUsize]>,
}

impl CableRx {
    /// Moves at most `most` packets out of the ring, without a look at them: the far end waits meanwhile.
    fn take(&self, most: usize, waiting: &AtomicUsize, burst: &mut Burst) {
        let mut rings = lock(&self.cable.end(self.side).rings);
        let Some(ring) = rings.get_mut(self.ring) else { return };
        while burst.len() < most
            && let Some(packet) = ring.pop_front()
        {
            if let Err(packet) = burst.push(packet) {
                ring.push_front(packet);
                break;
            }
        }
        waiting.store(ring.len(), Ordering::Relaxed);
    }
}

impl Rx for CableRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        let Some(waiting) = self.waiting.get(self.ring) else { return traffic };
        // A number that is out of date costs a turn of the loop.
        if waiting.load(Ordering::Relaxed) == 0 {
            return traffic;
        }
        let mut burst = Burst::new();
        self.take(batch.room(), waiting, &mut burst);
        // Another core has just written them: their lines are asked for all at once, headers first.
        burst.packets().iter().for_each(Packet::prefetch_header);
        burst.packets().iter().for_each(Packet::prefetch_data);
        burst.drain(|packet| {
            let bytes = packet.len() as u64;
            match batch.push(packet) {
                Ok(_) => {
                    traffic.packets += 1;
                    traffic.bytes += bytes;
                }
                Err(packet) => pool.free(packet),
            }
            Ok::<(), Packet>(())
        });
        traffic
    }

    /// Whoever is at the far end may yet send something; but then that one is not at its end.
    fn exhausted(&self) -> bool {
        self.waiting.get(self.ring).is_none_or(|waiting| waiting.load(Ordering::Relaxed) == 0)
    }
}
