//! Stage `gen.send`: makes the packets of the streams of one port.

use std::sync::Arc;

use weir_packet::{BATCH, Batch, Burst, Held};
use weir_stage::{Declaration, Out, Stage, ways};

use crate::resolve::{self, Asker};
use crate::shared::{Board, Content, Shared, Watch};
use crate::stream::Stream;

ways! {
    /// Ways out of [`Send`].
    pub enum Way {
        /// To the port.
        Out => way "out",
        /// A packet of a stream was due.
        Generated => create "generated",
        /// The Ethernet address of a next hop is not known: an ARP request or a neighbour solicitation.
        Asked => create "asked",
    }
}

/// How long after its last packet a worker stays awake for what comes back, nanoseconds.
const LINGER: u64 = 1_000_000_000;

/// How often it is looked whether next hops are known, nanoseconds.
const GLANCE: u64 = 1_000_000;

/// Makes the packets of the streams of one port.
pub(crate) struct Send {
    port: u16,
    mac: [u8; 6],
    streams: Vec<Stream>,
    /// The next hops of streams: (place in `streams`, place in the shared list).
    hops: Vec<(usize, usize)>,
    askers: Vec<Asker>,
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    board: Arc<Board>,
    started: bool,
    /// When the last stream ended.
    ended: Option<u64>,
    /// The stream that has its turn among those that are sent as fast as possible.
    turn: usize,
}

impl Send {
    pub(crate) fn new(
        port: u16,
        mac: [u8; 6],
        streams: Vec<Stream>,
        hops: Vec<(usize, usize)>,
        (shared, watch): (Arc<Shared>, Arc<Watch>),
    ) -> Send {
        let board = shared.add_board();
        let mut asked: Vec<usize> = (0..shared.hops.len()).collect();
        asked.retain(|&at| {
            shared.hops.get(at).is_some_and(|hop| hop.port == port) && hops.iter().any(|hop| hop.1 == at)
        });
        let askers = asked.into_iter().map(Asker::new).collect();
        Send { port, mac, streams, hops, askers, shared, watch, board, started: false, ended: None, turn: 0 }
    }

    /// Starts the schedules when all next hops are known; asks for them before.
    #[cold]
    fn start(&mut self, out: &mut Out<'_>) -> bool {
        let now = out.now();
        let Some(start) = self.shared.start_at(now, out.is_virtual()) else {
            for asker in &mut self.askers {
                let hop = self.shared.hops.get(asker.hop);
                let Some(hop) = hop.filter(|hop| hop.mac().is_none() && asker.is_due(now)) else { continue };
                let Some(mut packet) = out.alloc() else { break };
                resolve::write_question(&mut packet, self.mac, hop.own, hop.address);
                out.emit(Held::fresh(packet, self.port, now), Way::Out, Way::Asked);
            }
            return false;
        };
        for (stream, hop) in &self.hops {
            let mac = self.shared.hops.get(*hop).and_then(|hop| hop.mac());
            if let (Some(stream), Some(mac)) = (self.streams.get_mut(*stream), mac) {
                stream.send_to(mac);
            }
        }
        self.streams.iter_mut().for_each(|stream| stream.start(start));
        self.started = true;
        true
    }

    /// The stream that is due first, from the one whose turn it is on, and when the next one is due after it.
    fn first(&self) -> Option<(usize, u64, u64)> {
        let count = self.streams.len();
        let mut best: Option<(usize, u64)> = None;
        let mut second = u64::MAX;
        for n in 0..count {
            let at = (self.turn + n) % count;
            let due = self.streams.get(at).map_or(u64::MAX, Stream::due);
            match best {
                Some((_, first)) if due >= first => second = second.min(due),
                Some((_, first)) => (best, second) = (Some((at, due)), first),
                None => best = Some((at, due)),
            }
        }
        best.map(|(at, due)| (at, due, second))
    }

    #[inline]
    fn fill(&mut self, room: usize, stamp: u64, burst: &mut Burst, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        if let [stream] = self.streams.as_mut_slice() {
            stream.send(room, now, stamp, burst, out);
            return stream.due();
        }
        // Streams take turns in the order in which their packets are due.
        loop {
            let Some((at, due, second)) = self.first() else { return u64::MAX };
            let before = burst.len();
            if due > now || before >= room {
                return due;
            }
            let Some(stream) = self.streams.get_mut(at) else { return u64::MAX };
            let unpaced = stream.is_unpaced();
            stream.send(room - before, now.min(second), stamp, burst, out);
            if unpaced || burst.len() == before {
                // One that can always go on leaves the rest of the batch to the others.
                self.turn = (at + 1) % self.streams.len().max(1);
                return self.streams.iter().map(Stream::due).min().unwrap_or(u64::MAX).max(now);
            }
        }
    }

    #[cold]
    fn publish(&self) {
        self.shared.answer(&self.board, self.content());
    }

    fn content(&self) -> Content {
        let sent = self.streams.iter().map(|stream| (stream.number, stream.sent.clone())).collect();
        Content { sent, stalls: self.watch.stalls(), received: None }
    }

    /// Notes that all its streams have come to their end; returns when.
    fn end(&mut self, now: u64) -> u64 {
        if self.ended.is_none() {
            // In this order: who sees that all have finished sees their last numbers.
            self.publish();
            self.shared.finish(self.streams.len() as u64);
        }
        *self.ended.get_or_insert(now)
    }

    /// When to be called again: at once as long as anything may come, so that a stall is seen.
    fn next(&mut self, due: u64, out: &Out<'_>) -> u64 {
        let now = out.now();
        if due != u64::MAX || self.streams.iter().any(|stream| !stream.sent.done) {
            return if out.is_virtual() { due } else { now };
        }
        let ended = self.end(now);
        if !out.is_virtual() && now.saturating_sub(ended) < LINGER {
            return now;
        }
        self.watch.rest();
        // Nobody will call again.
        self.shared.answer_for_good(&self.board, self.content());
        u64::MAX
    }
}

/// What [`Send`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Way>().makes(Way::Generated)
}

impl Stage for Send {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}

    #[inline]
    fn make(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> u64 {
        if !out.is_virtual() {
            self.watch.see(out.now());
        }
        if self.shared.wants(&self.board) {
            self.publish();
        }
        if !self.started && !self.start(out) {
            return out.now() + GLANCE;
        }
        let room = out.room_at(Way::Out).min(BATCH);
        let mut burst = Burst::new();
        let stamp = out.read_clock();
        let due = self.fill(room, stamp, &mut burst, out);
        batch.fill_from_burst(&mut burst);
        self.next(due, out)
    }

    fn clear(&mut self, _give: &mut dyn FnMut(Held)) {
        self.publish();
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Scalar;
    use weir_stage::harness::Harness;

    use super::*;
    use crate::layers::{self, Around};
    use crate::load::{Gap, Load, Pace};
    use crate::size::Sizes;
    use crate::stream::{Content as Packets, Limit};
    use crate::template::Template;

    #[test]
    fn a_stream_that_ended_is_late_for_nothing() {
        let built = layers::build(&layers::usual(), Around { mac: [2; 6] }).ok().unwrap();
        let sizes = Sizes::parse("64").unwrap();
        let template = Template::new(&built, &sizes, None, None, (0, 0));
        let load = Load::Packets(1000);
        let timing = (load, Pace::constant(load), vec![Gap::behind(load, 64)]);
        let limit = Limit { count: 3, duration: u64::MAX / 2, after: 0 };
        let stream = Stream::new(0, Packets::Template(Box::new(template)), timing, limit, false);
        let (shared, watch) = (Shared::new(Vec::new(), 1), Arc::new(Watch::default()));
        let stage = Send::new(0, [2; 6], vec![stream], Vec::new(), (Arc::clone(&shared), watch));
        let mut harness = Harness::new(stage);
        // Due at 5, 6 and 7 ms; asked for long after, too.
        let made: Vec<usize> =
            [5, 6, 7, 8, 50, 500].map(|millis| harness.make(millis * 1_000_000).way("out").len()).to_vec();
        assert_eq!(made, [1, 1, 1, 0, 0, 0]);
        drop(harness.clear());
        let sent = shared.ask().0.remove(0).sent.remove(0).1;
        assert_eq!((sent.packets, sent.slipped, sent.latest, sent.done), (3, 0, 0, true));
    }
}
