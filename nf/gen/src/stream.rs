//! A stream on its way: what is due, and what was sent.

use serde::{Deserialize, Serialize};
use weir_measure::{Distribution, Spread};
use weir_packet::{BATCH, Burst};
use weir_stage::Out;

use crate::load::{Gap, Load, Pace};
use crate::replay::Replay;
use crate::template::Template;

/// How far behind its schedule a stream catches up, nanoseconds. What is later is given up, and told: a burst of that much
/// more is not what was asked for.
const CATCH_UP: u64 = 10_000_000;

/// Where a stream's packets come from.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Template(Box<Template>),
    Replay(Replay),
}

/// When a stream ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Packets; `u64::MAX` for no end.
    pub(crate) count: u64,
    /// Nanoseconds of its schedule; `u64::MAX` for no end.
    pub(crate) duration: u64,
    /// When it begins, nanoseconds behind the start of all.
    pub(crate) after: u64,
}

/// A stream on its way.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Its number in the configuration.
    pub(crate) number: usize,
    content: Content,
    load: Load,
    pace: Pace,
    /// Behind frames of each shape.
    gaps: Vec<Gap>,
    limit: Limit,
    signed: bool,
    /// When its schedule starts, nanoseconds of the engine's clock.
    begin: u64,
    /// Shapes of packets that are due and wait for buffers.
    shapes: [u16; BATCH],
    ready: usize,
    pub(crate) sent: Sent,
}

/// What was sent of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// Bytes of frames without their check sequences.
    pub(crate) bytes: u64,
    /// When the first and the last packet left, nanoseconds of the engine's clock.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Nanoseconds that the schedule was put off by, because it could not be kept.
    pub(crate) slipped: u64,
    /// The longest that a packet was behind its time, nanoseconds.
    pub(crate) latest: u64,
    /// Times that no buffers were to be had.
    pub(crate) no_buffer: u64,
    /// From each batch to the next: between the last packet of one and the first of the other.
    gaps: Distribution,
    /// Packets that left together with the one before: distances of 0.
    together: u64,
    pub(crate) done: bool,
}

/// What there is to say of the sending of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct SentReport {
    /// Packets handed to the port.
    pub packets: u64,
    /// Their bytes, without check sequences.
    pub bytes: u64,
    /// Seconds that they took: from the first to the last, and the last one's share.
    pub seconds: f64,
    /// Packets per second in that time.
    pub pps: f64,
    /// Bits per second on the wire in that time, with check sequences, preambles and gaps.
    pub wire_bps: f64,
    /// Distances between packets as they were handed to the port, nanoseconds.
    pub gaps_ns: Option<Spread>,
    /// How long the schedule was put off in all because it could not be kept, nanoseconds. Not 0: the generator was the limit.
    pub slipped_ns: u64,
    /// The longest that a packet was late, nanoseconds.
    pub late_ns: u64,
    /// Times that no buffer was to be had.
    pub no_buffer: u64,
    /// Whether all was sent that was asked for.
    pub done: bool,
}

impl Sent {
    pub(crate) fn report(&self) -> SentReport {
        let span = self.last.saturating_sub(self.first) as f64;
        // From the first to the last there is one gap less than packets.
        let seconds = if self.packets > 1 { span * self.packets as f64 / (self.packets - 1) as f64 / 1e9 } else { 0.0 };
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let mut gaps = self.gaps.clone();
        gaps.record_run(0, self.together);
        let overhead = crate::load::PREAMBLE_AND_GAP + crate::load::CHECK_SEQUENCE;
        SentReport {
            packets: self.packets,
            bytes: self.bytes,
            seconds,
            pps: per_second(self.packets as f64),
            wire_bps: per_second((self.bytes + self.packets * overhead) as f64 * 8.0),
            gaps_ns: gaps.spread(),
            slipped_ns: self.slipped,
            late_ns: self.latest,
            no_buffer: self.no_buffer,
            done: self.done,
        }
    }
}

impl Stream {
    pub(crate) fn new(
        number: usize,
        content: Content,
        (load, pace, gaps): (Load, Pace, Vec<Gap>),
        limit: Limit,
        signed: bool,
    ) -> Stream {
        Stream {
            number,
            content,
            load,
            pace,
            gaps,
            limit,
            signed,
            begin: u64::MAX,
            shapes: [0; BATCH],
            ready: 0,
            sent: Sent::default(),
        }
    }

    /// Starts its schedule.
    pub(crate) fn start(&mut self, now: u64) {
        self.begin = now.saturating_add(self.limit.after);
    }

    /// Sends its packets to this Ethernet address.
    pub(crate) fn send_to(&mut self, mac: [u8; 6]) {
        if let Content::Template(template) = &mut self.content {
            template.patch(0, &mac);
        }
    }

    /// When it has something to do next; `u64::MAX` for never.
    #[inline(always)]
    pub(crate) fn due(&self) -> u64 {
        if self.sent.done {
            return u64::MAX;
        }
        if self.ready > 0 { self.begin } else { self.begin.saturating_add(self.pace.due()) }
    }

    /// Whether it is sent as fast as the port takes packets.
    pub(crate) fn is_unpaced(&self) -> bool {
        self.load == Load::Max && matches!(self.content, Content::Template(_))
    }

    /// Adds packets to `burst`, at most `most` of those that are due up to `until`; `stamp` is the time that they carry.
    #[inline]
    pub(crate) fn send(&mut self, most: usize, until: u64, stamp: u64, burst: &mut Burst, out: &mut Out<'_>) {
        if self.sent.done {
            return;
        }
        if self.ready == 0 {
            self.collect(most.min(BATCH), until, stamp);
        }
        let count = self.ready.min(most);
        if count == 0 || count < self.ready {
            return;
        }
        if !out.alloc_burst(count, burst) {
            self.sent.no_buffer += 1;
            return;
        }
        self.ready = 0;
        let at = burst.len() - count;
        let Some(packets) = burst.packets_mut().get_mut(at..) else { return };
        let bytes = match &mut self.content {
            Content::Template(template) => {
                template.write(packets, &self.shapes);
                if self.signed {
                    template.sign(packets, &self.shapes, self.sent.packets, stamp);
                }
                template.bytes(&self.shapes, count)
            }
            Content::Replay(replay) => replay.write(packets),
        };
        self.note(count as u64, bytes, stamp);
    }

    fn note(&mut self, count: u64, bytes: u64, stamp: u64) {
        let sent = &mut self.sent;
        if sent.packets == 0 {
            sent.first = stamp;
        } else {
            sent.gaps.record_count(stamp.saturating_sub(sent.last));
        }
        sent.together += count - 1;
        sent.packets += count;
        sent.bytes += bytes;
        sent.last = stamp;
        let over = self.begin.saturating_add(self.limit.duration) <= self.begin.saturating_add(self.pace.due());
        if self.sent.packets >= self.limit.count || over {
            self.sent.done = true;
        }
    }

    /// Draws the packets that are due.
    #[inline]
    fn collect(&mut self, most: usize, until: u64, now: u64) {
        let left = self.limit.count.saturating_sub(self.sent.packets);
        let most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut ready = 0;
        if self.is_unpaced() {
            if now < self.begin {
                return;
            }
            if now.saturating_sub(self.begin) >= self.limit.duration {
                self.sent.done = true;
                return;
            }
            self.draw_shapes(most);
            self.ready = most;
            return;
        }
        self.keep_up(now);
        let until = until.saturating_sub(self.begin);
        let end = self.limit.duration;
        while ready < most && self.pace.due() <= until && self.pace.due() < end && self.begin <= now {
            let shape = match &mut self.content {
                Content::Template(template) => template.next_shape(),
                Content::Replay(replay) => match replay.next_shape() {
                    Some(shape) => shape,
                    None => break,
                },
            };
            if let Some(place) = self.shapes.get_mut(ready) {
                *place = shape as u16;
            }
            match &mut self.content {
                Content::Replay(replay) if replay.is_recorded() => self.pace.set_due(replay.next_time()),
                _ => self.pace.pass(self.gaps.get(shape).copied().unwrap_or_default()),
            }
            ready += 1;
        }
        self.ready = ready;
        let over = match &self.content {
            Content::Replay(replay) => replay.is_over(),
            Content::Template(_) => false,
        };
        if ready == 0 && (over || (self.pace.due() >= end && now >= self.begin)) {
            self.sent.done = true;
        }
        if over {
            self.limit.count = self.sent.packets + ready as u64;
        }
    }

    fn draw_shapes(&mut self, count: usize) {
        let Content::Template(template) = &mut self.content else { return };
        if template.has_shapes() {
            for shape in self.shapes.iter_mut().take(count) {
                *shape = template.next_shape() as u16;
            }
        }
    }

    /// Notes how late it is, and gives up what is too late to catch up with.
    #[inline]
    fn keep_up(&mut self, now: u64) {
        let late = now.saturating_sub(self.begin.saturating_add(self.pace.due()));
        if late > self.sent.latest {
            self.sent.latest = late;
            if late > CATCH_UP {
                self.pace.slip(late);
                self.sent.slipped += late;
            }
        } else if late > CATCH_UP {
            self.pace.slip(late);
            self.sent.slipped += late;
        }
    }
}
