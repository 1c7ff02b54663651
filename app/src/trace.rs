//! Following packets through the stages: the observer that workers tell, and what it remembers.
//!
//! Workers are never made to wait: the table of followed packets is made of atomics, and steps go to a bounded queue; what
//! finds no room there is counted.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use weir_engine::{Event, Observer, What};
use weir_filter::Filter;
use weir_stage::Fate;
use weir_wire::describe::Describe;

use weir_protocol::Step;

/// Packets that one trace may follow.
pub(crate) const MAX_PACKETS: u32 = 10_000;

/// Steps that wait to be sent to the client.
const QUEUE: usize = 4096;

/// Places in the table of packets that are on their way.
const SEATS: usize = 4096;

/// Places that one packet may sit in.
const PROBES: usize = 16;

/// Bytes of a packet by which a function knows what its stage decided.
const FRONT: usize = 64;

/// A step, and what a stage decided in it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The step; no words stand for a packet that is out of sight.
    pub(crate) step: Step,
    /// What was decided, where the packet left a stage by a way.
    pub(crate) decided: Option<Decision>,
}

/// A stage, and the packet that it let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The stage.
    pub(crate) stage: String,
    /// The way by which it left.
    pub(crate) way: String,
    /// When it left.
    pub(crate) then: u64,
    /// How it began then.
    pub(crate) packet: Vec<u8>,
}

/// Packets on their way, by the numbers that name their buffers. A packet is with one worker at a time, so nobody asks about
/// a number while another enters or removes it.
struct Followed {
    /// The buffer's number plus one; 0 where nobody sits.
    buffers: Vec<AtomicUsize>,
    /// The packet's number in the trace.
    numbers: Vec<AtomicU32>,
}

impl Followed {
    fn new() -> Followed {
        Followed {
            buffers: (0..SEATS).map(|_| AtomicUsize::new(0)).collect(),
            numbers: (0..SEATS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The places where a packet may sit.
    fn seats(&self, buffer: usize) -> impl Iterator<Item = (&AtomicUsize, &AtomicU32)> {
        // Buffers lie whole cache lines apart (Fibonacci hashing spreads them).
        let start = (buffer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        let all = self.buffers.iter().zip(&self.numbers);
        all.cycle().skip(start as usize % SEATS).take(PROBES)
    }

    fn enter(&self, buffer: usize, number: u32) -> bool {
        self.seats(buffer).any(|(seat, of)| {
            let free = seat.compare_exchange(0, buffer + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if free {
                of.store(number, Ordering::Release);
            }
            free
        })
    }

    fn number(&self, buffer: usize) -> Option<u32> {
        let mut seats = self.seats(buffer).filter(|(seat, _)| seat.load(Ordering::Acquire) == buffer + 1);
        seats.next().map(|(_, number)| number.load(Ordering::Acquire))
    }

    fn remove(&self, buffer: usize) {
        for (seat, _) in self.seats(buffer) {
            if seat.compare_exchange(buffer + 1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

/// Follows the first packets that match.
pub(crate) struct Tracer {
    filter: Filter,
    wanted: u32,
    /// Whether every worker tells: a packet is followed only where each step of it will be seen.
    open: AtomicBool,
    /// Packets that matched so far.
    started: AtomicU32,
    /// Followed packets that have come to their end.
    ended: AtomicU32,
    missed: AtomicU64,
    followed: Followed,
    names: Vec<(u16, String)>,
    steps: SyncSender<Seen>,
}

impl Tracer {
    /// A tracer of `count` packets, and where its steps come out.
    pub(crate) fn new(count: u32, filter: Filter, names: Vec<(u16, String)>) -> (Tracer, Receiver<Seen>) {
        let (steps, out) = sync_channel(QUEUE);
        // Workers put packets to it.
        filter.compile();
        let tracer = Tracer {
            filter,
            wanted: count.min(MAX_PACKETS),
            open: AtomicBool::new(false),
            started: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            missed: AtomicU64::new(0),
            followed: Followed::new(),
            names,
            steps,
        };
        (tracer, out)
    }

    /// Whether all packets have been followed to their ends.
    pub(crate) fn finished(&self) -> bool {
        self.ended.load(Ordering::Acquire) >= self.wanted
    }

    /// Packets followed so far.
    pub(crate) fn packets(&self) -> u32 {
        self.started.load(Ordering::Acquire).min(self.wanted)
    }

    /// Steps that were lost because the client was too slow.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn begin(&self, event: &Event<'_>) -> Option<u32> {
        let full = self.started.load(Ordering::Relaxed) >= self.wanted;
        if full || !self.open.load(Ordering::Acquire) || !self.filter.matches(event.bytes) {
            return None;
        }
        let number = self.started.fetch_add(1, Ordering::AcqRel) + 1;
        if number > self.wanted {
            return None;
        }
        if !self.followed.enter(event.packet, number) {
            self.missed.fetch_add(1, Ordering::Relaxed);
            self.ended.fetch_add(1, Ordering::AcqRel);
            return None;
        }
        Some(number)
    }

    /// A buffer that comes back in new hands carried a packet whose end nobody told.
    fn forget(&self, buffer: usize) {
        if self.followed.number(buffer).is_some() {
            self.followed.remove(buffer);
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn tell(&self, number: u32, event: &Event<'_>) {
        let (kind, place, way, fate) = self.words(event.what);
        let step = Step {
            packet: number,
            time: event.now,
            event: kind.to_owned(),
            place,
            way: way.to_owned(),
            fate: fate.to_owned(),
            why: String::new(),
            bytes: if event.bytes.is_empty() { String::new() } else { Describe(event.bytes).to_string() },
        };
        let decided = match event.what {
            What::Left { stage, way, fate: Fate::Way } => Some(Decision {
                stage: stage.to_owned(),
                way: way.to_owned(),
                then: event.now,
                packet: event.bytes.iter().take(FRONT).copied().collect(),
            }),
            _ => None,
        };
        if self.steps.try_send(Seen { step, decided }).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn words<'a>(&self, what: What<'a>) -> (&'static str, String, &'a str, &'static str) {
        match what {
            What::Received { port } => ("received", self.port(port), "", ""),
            What::Transmitted { port } => ("transmitted", self.port(port), "", ""),
            What::Crossed { out, into } => ("crossed", format!("{} -> {}", self.port(out), self.port(into)), "", ""),
            What::Left { stage, way, fate } => ("left", stage.to_owned(), way, fate_word(fate)),
            What::Taken { stage } => ("taken", stage.to_owned(), "", ""),
            What::Created { stage, reason } => ("created", stage.to_owned(), reason, ""),
            What::Dropped { place, reason } => ("dropped", place.to_owned(), reason, ""),
        }
    }

    fn port(&self, index: u16) -> String {
        let name = self.names.iter().find(|(other, _)| *other == index);
        name.map_or_else(|| format!("port {index}"), |(_, name)| name.clone())
    }
}

/// What became of a packet, in one word.
pub(crate) fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Way => "way",
        Fate::Drop => "drop",
        Fate::Consume => "consume",
        Fate::Create => "create",
        Fate::Again => "again",
    }
}

/// Whether a packet is no more after this.
fn is_end(what: What<'_>) -> bool {
    match what {
        What::Transmitted { .. } | What::Dropped { .. } => true,
        What::Left { fate, .. } => matches!(fate, Fate::Drop | Fate::Consume),
        What::Received { .. } | What::Crossed { .. } | What::Taken { .. } | What::Created { .. } => false,
    }
}

impl Observer for Tracer {
    fn event(&self, event: &Event<'_>) {
        let is_new = matches!(event.what, What::Received { .. } | What::Created { .. });
        let number = if is_new {
            self.forget(event.packet);
            self.begin(event)
        } else {
            self.followed.number(event.packet)
        };
        let Some(number) = number else { return };
        self.tell(number, event);
        if is_end(event.what) {
            self.followed.remove(event.packet);
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn all_tell(&self) {
        self.open.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn event<'a>(packet: usize, bytes: &'a [u8], what: What<'a>) -> Event<'a> {
        Event { now: 5, packet, bytes, what }
    }

    fn udp() -> Vec<u8> {
        weir_wire::build::UdpFrame::default().to_vec(&[0; 18])
    }

    fn tracer(count: u32, filter: &str) -> (Tracer, Receiver<Seen>) {
        let made = Tracer::new(count, Filter::parse(filter).unwrap(), vec![(0, "wan".to_owned())]);
        made.0.all_tell();
        made
    }

    #[test]
    fn nothing_is_followed_before_every_worker_tells() {
        let (tracer, steps) = Tracer::new(1, Filter::parse("udp").unwrap(), vec![]);
        let frame = udp();
        tracer.event(&event(64, &frame, What::Received { port: 0 }));
        tracer.all_tell();
        tracer.event(&event(64, &frame, What::Transmitted { port: 0 }));
        assert_eq!((tracer.packets(), steps.try_iter().count()), (0, 0));
        tracer.event(&event(128, &frame, What::Received { port: 0 }));
        tracer.event(&event(128, &frame, What::Transmitted { port: 0 }));
        assert!(tracer.finished());
        assert_eq!(steps.try_iter().count(), 2);
    }

    #[test]
    fn a_packet_is_followed_to_its_end() {
        let (tracer, steps) = tracer(1, "udp");
        let frame = udp();
        let (way, drop) = (Fate::Way, Fate::Drop);
        tracer.event(&event(64, &[0; 60], What::Received { port: 0 }));
        tracer.event(&event(128, &frame, What::Received { port: 0 }));
        tracer.event(&event(64, &[0; 60], What::Left { stage: "a", way: "x", fate: way }));
        tracer.event(&event(128, &frame, What::Left { stage: "a", way: "out", fate: way }));
        assert!(!tracer.finished());
        tracer.event(&event(128, &frame, What::Left { stage: "b", way: "no-route", fate: drop }));
        assert!(tracer.finished());
        tracer.event(&event(128, &frame, What::Received { port: 0 }));
        let steps: Vec<Step> = steps.try_iter().map(|seen| seen.step).collect();
        let seen: Vec<_> =
            steps.iter().map(|step| (step.packet, &*step.event, &*step.place, &*step.way, &*step.fate)).collect();
        assert_eq!(
            seen,
            [(1, "received", "wan", "", ""), (1, "left", "a", "out", "way"), (1, "left", "b", "no-route", "drop"),]
        );
        assert!(steps[0].bytes.contains("udp"));
        assert_eq!((tracer.packets(), tracer.missed()), (1, 0));
    }

    #[test]
    fn a_packet_out_of_sight_has_no_words() {
        let (tracer, steps) = tracer(1, "udp");
        let (frame, way) = (udp(), Fate::Way);
        tracer.event(&event(64, &frame, What::Received { port: 0 }));
        tracer.event(&event(64, &[], What::Taken { stage: "a" }));
        tracer.event(&event(64, &frame, What::Left { stage: "a", way: "out", fate: way }));
        let seen: Vec<Seen> = steps.try_iter().collect();
        assert_eq!((seen[1].step.event.as_str(), seen[1].step.bytes.as_str()), ("taken", ""));
        let decided = Decision {
            stage: "a".to_owned(),
            way: "out".to_owned(),
            then: seen[2].step.time,
            packet: frame[..frame.len().min(FRONT)].to_vec(),
        };
        assert_eq!((&seen[1].decided, &seen[2].decided), (&None, &Some(decided)));
    }

    #[test]
    fn a_buffer_in_new_hands_is_another_packet() {
        let (tracer, steps) = tracer(2, "");
        let frame = udp();
        tracer.event(&event(64, &frame, What::Received { port: 0 }));
        tracer.event(&event(64, &frame, What::Created { stage: "a", reason: "copy" }));
        tracer.event(&event(64, &frame, What::Transmitted { port: 9 }));
        let seen: Vec<_> = steps.try_iter().map(|seen| (seen.step.packet, seen.step.place)).collect();
        assert_eq!(seen, [(1, "wan".to_owned()), (2, "a".to_owned()), (2, "port 9".to_owned())]);
        assert!(tracer.finished());
    }

    #[test]
    fn a_slow_client_makes_nobody_wait() {
        let (tracer, steps) = tracer(MAX_PACKETS, "");
        let frame = udp();
        for n in 0..QUEUE {
            tracer.event(&event(64 * n, &frame, What::Received { port: 0 }));
            tracer.event(&event(64 * n, &frame, What::Transmitted { port: 0 }));
        }
        assert_eq!(tracer.missed(), QUEUE as u64);
        assert_eq!(steps.try_iter().count(), QUEUE);
    }

    #[test]
    fn workers_may_tell_at_once() {
        let (tracer, steps) = tracer(1000, "");
        let tracer = Arc::new(tracer);
        std::thread::scope(|scope| {
            for worker in 0..4_usize {
                let tracer = &tracer;
                scope.spawn(move || {
                    for n in 0..250 {
                        let id = (worker * 1000 + n) * 2048;
                        tracer.event(&event(id, &[0; 60], What::Received { port: 0 }));
                        tracer.event(&event(id, &[0; 60], What::Transmitted { port: 0 }));
                    }
                });
            }
        });
        assert!(tracer.finished());
        let steps: Vec<Step> = steps.try_iter().map(|seen| seen.step).collect();
        for number in 1..=1000 {
            let mine: Vec<&str> = steps.iter().filter(|s| s.packet == number).map(|s| s.event.as_str()).collect();
            assert_eq!(mine, ["received", "transmitted"]);
        }
    }
}
