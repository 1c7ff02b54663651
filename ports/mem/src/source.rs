//! Receive queues: replay of a pattern, and what the outside sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{BATCH, Batch, Burst, Pool};
use weir_stage::{Rx, Traffic};

use crate::handle::Shared;
use crate::pattern::Pattern;
use crate::recycle::Loop;

/// How fast and how often a pattern is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Packets per second; `None`: as fast as they are received.
    pub rate: Option<u64>,
    /// Packets in all; `None`: for ever.
    pub count: Option<u64>,
    /// Packets in one receive at most; `None`: a whole batch.
    pub fill: Option<usize>,
}

impl Pace {
    /// The pace of those packets of a set of `all` that come behind the first `before` and not behind the first `after`; the
    /// parts of a whole add up to it.
    pub(crate) fn part(self, before: u64, after: u64, all: u64) -> Pace {
        let up_to = |number: u64, whole: u64| (u128::from(whole) * u128::from(number) / u128::from(all.max(1))) as u64;
        let part = |whole: u64| up_to(after, whole) - up_to(before, whole);
        Pace { rate: self.rate.map(|rate| part(rate).max(1)), count: self.count.map(part), ..self }
    }
}

/// A receive queue that replays a pattern from buffers that go round.
pub(crate) struct Replay {
    shared: Arc<Shared>,
    pattern: Box<dyn Pattern>,
    recycle: Loop,
    pace: Pace,
    sent: u64,
    /// When the first packet was asked for.
    start: Option<u64>,
    burst: Burst,
}

impl Replay {
    pub(crate) fn new(shared: Arc<Shared>, pattern: Box<dyn Pattern>, recycle: Loop, pace: Pace) -> Replay {
        let empty = pattern.period() == Some(0);
        let pace = if empty { Pace { count: Some(0), ..pace } } else { pace };
        Replay { shared, pattern, recycle, pace, sent: 0, start: None, burst: Burst::new() }
    }

    /// When packet number `number` is due: exactly, at any rate and for any time.
    fn due_at(&self, number: u64) -> Option<u64> {
        let (rate, start) = (self.pace.rate?.max(1), self.start?);
        let after = u128::from(number) * 1_000_000_000 / u128::from(rate);
        Some(start.saturating_add(u64::try_from(after).unwrap_or(u64::MAX)))
    }

    /// Packets that are due at `now`, at most a batch.
    #[inline(always)]
    fn due(&mut self, now: u64) -> usize {
        let left = self.pace.count.map_or(BATCH as u64, |count| count.saturating_sub(self.sent));
        let due = if self.pace.rate.is_some() { self.due_by_rate(now) } else { BATCH as u64 };
        let fill = self.pace.fill.unwrap_or(BATCH).clamp(1, BATCH);
        left.min(due).min(fill as u64) as usize
    }

    fn due_by_rate(&mut self, now: u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        let elapsed = u128::from(now.saturating_sub(start));
        // Packet n is due once n * 10^9 / rate, rounded down, has passed.
        let by_now = (elapsed + 1) * u128::from(self.pace.rate.unwrap_or(1).max(1));
        let by_now = by_now.div_ceil(1_000_000_000);
        u64::try_from(by_now).unwrap_or(u64::MAX).saturating_sub(self.sent)
    }
}

impl Rx for Replay {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        if !self.shared.up() {
            return Traffic::default();
        }
        let want = self.due(now).min(batch.room());
        if want == 0 {
            return Traffic::default();
        }
        self.recycle.take(want, &mut self.burst, pool);
        let packets = self.burst.len() as u64;
        let bytes = self.pattern.write(self.sent, self.burst.packets_mut());
        self.sent += packets;
        batch.fill_from_burst(&mut self.burst);
        Traffic { packets, bytes }
    }

    fn exhausted(&self) -> bool {
        self.pace.count.is_some_and(|count| self.sent >= count)
    }

    fn next_at(&self) -> Option<u64> {
        if self.exhausted() { None } else { self.due_at(self.sent) }
    }
}

/// A receive queue of frames that the outside sends.
pub(crate) struct Fed {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: usize,
}

impl Rx for Fed {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        if self.shared.waiting.load(Ordering::Acquire) == 0 || !self.shared.up() {
            return traffic;
        }
        let mut inbox = self.shared.inbox();
        let Some(frames) = inbox.queues.get_mut(self.queue) else { return traffic };
        while batch.room() > 0 && !frames.is_empty() {
            // Without a buffer the frame waits: nothing is lost in memory.
            let Some(mut packet) = pool.alloc() else { break };
            let Some(frame) = frames.pop_front() else {
                pool.free(packet);
                break;
            };
            self.shared.waiting.fetch_sub(1, Ordering::Release);
            if frame.is_empty() || !packet.fill(&frame) {
                self.shared.rx_unfit.fetch_add(1, Ordering::Relaxed);
                pool.free(packet);
                continue;
            }
            match batch.push(packet) {
                Ok(_) => {
                    traffic.packets += 1;
                    traffic.bytes += frame.len() as u64;
                }
                Err(packet) => pool.free(packet),
            }
        }
        traffic
    }

    fn exhausted(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire) && self.shared.waiting.load(Ordering::Acquire) == 0
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        // The figure is the port's, so one of its queues tells it.
        if self.queue > 0 {
            return Vec::new();
        }
        let unfit = self.shared.rx_unfit.load(Ordering::Relaxed);
        vec![("unfit", "The frame was empty, or longer than a buffer.", unfit)]
    }
}
