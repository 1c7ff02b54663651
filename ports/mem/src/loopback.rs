//! A port whose outside is a mirror: what is transmitted is received.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_packet::{Batch, Burst, Packet, Pool};
use weir_stage::{Rx, Traffic, Tx};

use crate::handle::Shared;

/// Packets between a transmit queue and the receive queue of the same number, at most.
const ROOM: usize = 1024;

/// The cable from a transmit queue back to a receive queue.
#[derive(Clone)]
pub(crate) struct Mirror(Arc<Wire>);

struct Wire {
    shared: Arc<Shared>,
    state: Mutex<State>,
}

struct State {
    packets: VecDeque<Packet>,
    home: Box<dyn Pool>,
}

impl Mirror {
    pub(crate) fn new(shared: Arc<Shared>, pool: &dyn Pool) -> Mirror {
        let state = State { packets: VecDeque::with_capacity(ROOM), home: pool.another() };
        Mirror(Arc::new(Wire { shared, state: Mutex::new(state) }))
    }

    /// Packets on the cable.
    pub(crate) fn len(&self) -> usize {
        self.lock().packets.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.packets.drain(..).for_each(|packet| self.home.free(packet));
    }
}

impl Tx for Mirror {
    fn transmit(&mut self, burst: &mut Burst, _pool: &mut dyn Pool, _now: u64) -> Traffic {
        let most = self.room();
        let mut state = self.lock();
        Traffic::drain(burst, most, |mut packet| {
            packet.set_offload(0, 0); // a cable carries bytes, not flags
            state.packets.push_back(packet);
        })
    }

    fn room(&mut self) -> usize {
        self.0.shared.accepts().min(ROOM.saturating_sub(self.len())).min(Burst::ROOM)
    }

    fn alive(&mut self) -> bool {
        !self.0.shared.gone.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Rx for Mirror {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        if !self.0.shared.up() {
            return traffic;
        }
        let mut state = self.lock();
        while batch.room() > 0
            && let Some(packet) = state.packets.pop_front()
        {
            let bytes = packet.len() as u64;
            match batch.push(packet) {
                Ok(_) => {
                    traffic.packets += 1;
                    traffic.bytes += bytes;
                }
                Err(packet) => pool.free(packet),
            }
        }
        traffic
    }

    /// What is transmitted may yet come, but nothing by itself.
    fn exhausted(&self) -> bool {
        self.len() == 0
    }
}
