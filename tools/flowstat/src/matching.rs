//! Finding the packets that were sent among those that were received.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use crate::bindings::Bindings;
use crate::clock::{Hull, Line};
use crate::options::Clock;
use crate::records::{AMBIGUOUS, Event, ReceivedRecord, SentRecord};
use crate::spool::{PARTS, Spool};
use crate::streams::Streams;
use crate::table::{Found, MAX_STREAMS, Sent, Table, Window};
use crate::ways::Ways;

/// How many packets ahead memory is asked for.
const AHEAD: usize = 24;

/// Bytes of memory that a part may take, however little is allowed.
const LEAST_PART: u64 = 64 << 20;

/// The stream of packets that were sent when nothing was captured behind the device.
const OUTSIDE: u32 = MAX_STREAMS - 1;

/// Clocks that were made the same may still differ by this, ns.
const TOLERANCE: i64 = 1_000;

/// What became of the packets, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) matched: u64,
    pub(crate) duplicated: u64,
    pub(crate) ambiguous: u64,
    /// Received, and nothing that looks like them was sent.
    pub(crate) unknown: u64,
    /// Received, and what looks like them was sent too long before.
    pub(crate) too_old: u64,
    /// Received, and what looks like them was sent after that.
    pub(crate) too_early: u64,
    pub(crate) outside_sent: u64,
    pub(crate) outside_received: u64,
}

/// What was learned of the captures before packets are matched.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) line: Line,
    /// Packets that the line rests on; `None` if it was not looked for.
    pub(crate) compared: Option<u64>,
    pub(crate) bindings: Bindings,
    /// What both captures cover.
    pub(crate) cover: Option<Cover>,
}

/// What both captures cover, in times of the sender's clock: from first to last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    /// What was sent then should have been received.
    sent: (i64, i64),
    /// What was received then should have been sent.
    received: (i64, i64),
}

fn within((first, last): (i64, i64), time: i64) -> bool {
    (first..=last).contains(&time)
}

/// Both captures, and what is to be made of them.
pub(crate) struct Matching<'a> {
    pub(crate) sent: Spool<SentRecord>,
    pub(crate) received: Spool<ReceivedRecord>,
    pub(crate) streams: &'a mut Streams,
    pub(crate) ways: &'a mut Ways,
    pub(crate) window: u64,
    pub(crate) clock: Clock,
    pub(crate) renames: bool,
    pub(crate) trim: bool,
    /// Bytes of memory that what was found may take.
    pub(crate) memory: u64,
    pub(crate) temp: &'a Path,
}

/// When the packets of a capture came.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(i64, i64)>);

impl Span {
    fn add(&mut self, time: i64) {
        let (first, last) = self.0.unwrap_or((time, time));
        self.0 = Some((first.min(time), last.max(time)));
    }
}

impl Matching<'_> {
    /// Finds out about clocks, flows and what both captures cover, from packets that cannot be mistaken for others.
    pub(crate) fn learn(&mut self) -> Result<Learned, String> {
        let mut learned = Learned { line: Line::SAME, compared: None, bindings: Bindings::default(), cover: None };
        self.check_parts()?;
        if self.clock == Clock::Same && !self.renames && !self.trim {
            return Ok(learned);
        }
        let (mut hull, mut bindings) = (Hull::default(), Bindings::default());
        let renames = self.renames;
        self.survey(|sent, record| {
            if let Some(sent) = sent {
                hull.add(sent.time, record.time);
                if renames {
                    bindings.learn(sent.stream, record.flow);
                }
            }
        })?;
        learned.bindings = bindings;
        if self.clock != Clock::Same {
            learned.compared = Some(hull.count());
            let line = if self.clock == Clock::Drift { hull.line() } else { hull.offset() };
            learned.line = line.unwrap_or(Line::SAME);
        }
        if self.trim {
            learned.cover = self.cover(learned.line)?;
        }
        Ok(learned)
    }

    /// Whether each part fits into memory. Keys are spread evenly, so one that does not is full of packets that all look alike.
    fn check_parts(&self) -> Result<(), String> {
        let allowed = self.memory.saturating_mul(4).max(LEAST_PART);
        let longest = (0..self.sent.parts()).map(|part| self.sent.len(part)).max().unwrap_or(0);
        let needed = Table::bytes_for(longest);
        if needed <= allowed {
            return Ok(());
        }
        Err(format!(
            "{longest} packets of what was sent have to be in memory at once, as packets do that look alike; they take {} MiB there, and \
             --memory allows {}: allow more, leave such packets out with --filter-sent, or choose a model that tells them apart",
            needed.div_ceil(1 << 20),
            allowed >> 20
        ))
    }

    /// Hands over each packet that was received, with the one that was sent if that is the only one that looks like it; its flow is in
    /// place of its stream.
    fn survey(&mut self, mut see: impl FnMut(Option<Sent>, &ReceivedRecord)) -> Result<(), String> {
        for part in 0..self.sent.parts() {
            let mut table = Table::new(self.sent.len(part))?;
            self.sent.read(part, |records| {
                for record in records {
                    let sent = Sent { time: record.time, stream: record.flow, number: record.number };
                    table.insert(record.key, sent);
                }
                Ok(())
            })?;
            self.received.read(part, |records| {
                for (n, record) in records.iter().enumerate() {
                    records.get(n + AHEAD).into_iter().for_each(|ahead| table.prefetch(ahead.key));
                    see(table.only(record.key), record);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// What both captures cover: the one from its first packet on, the other up to its last one, less the longest that any took.
    fn cover(&mut self, line: Line) -> Result<Option<Cover>, String> {
        let (mut longest, window) = (0, self.window);
        let (mut sent, mut received) = (Span::default(), Span::default());
        for part in 0..self.sent.parts() {
            self.sent.read(part, |records| {
                records.iter().for_each(|record| sent.add(record.time));
                Ok(())
            })?;
        }
        self.survey(|sent, record| {
            let now = line.corrected(record.time);
            received.add(now);
            let delay = sent.map_or(0, |sent| now.saturating_sub(sent.time));
            if u64::try_from(delay).is_ok_and(|delay| delay <= window) {
                longest = longest.max(delay);
            }
        })?;
        let cover = |((sent_first, sent_last), (first, last)): ((i64, i64), (i64, i64))| Cover {
            sent: (first, last.saturating_sub(longest)),
            received: (sent_first.saturating_add(longest), sent_last),
        };
        Ok(sent.0.zip(received.0).map(cover))
    }

    /// Matches all packets, and hands what was found to the streams in the order of arrival.
    pub(crate) fn run(&mut self, learned: &Learned) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let parts = self.sent.parts();
        if parts == 1 {
            let table = self.table(0, learned, &mut tally)?;
            self.streams.sent_all();
            let (streams, line) = (&mut *self.streams, learned.line);
            let take = |event: &Event| {
                streams.receive(event, &line);
                Ok(())
            };
            let window = Self::window(self.window, self.clock);
            tally = find(&mut self.received, 0, (table, self.ways), learned, window, tally, take)?;
            self.streams.received_all(&learned.line);
            return Ok(tally);
        }
        let mut events = Spool::new(PARTS, self.memory, self.temp);
        for part in 0..parts {
            let table = self.table(part, learned, &mut tally)?;
            let window = Self::window(self.window, self.clock);
            let take = |event: &Event| events.push(*event, part as u64);
            tally = find(&mut self.received, part, (table, self.ways), learned, window, tally, take)?;
            self.received.forget(part);
        }
        self.streams.sent_all();
        merge(&mut events, |event| self.streams.receive(event, &learned.line))?;
        self.streams.received_all(&learned.line);
        Ok(tally)
    }

    fn window(window: u64, clock: Clock) -> Window {
        let after = if clock == Clock::Same { 0 } else { TOLERANCE };
        Window { before: i64::try_from(window).unwrap_or(i64::MAX), after }
    }

    /// What was sent of a part, which is then forgotten.
    fn table(&mut self, part: usize, learned: &Learned, tally: &mut Tally) -> Result<Table, String> {
        let mut table = Table::new(self.sent.len(part))?;
        let streams = &mut self.streams;
        let key = |record: &SentRecord| learned.bindings.sent(record.key, record.flow);
        self.sent.read(part, |records| {
            for (n, record) in records.iter().enumerate() {
                records.get(n + AHEAD).into_iter().for_each(|ahead| table.prefetch(key(ahead)));
                let mut stream = record.stream;
                if let Some(cover) = learned.cover
                    && !within(cover.sent, record.time)
                {
                    streams.leave_out(record, record.time < cover.sent.0);
                    tally.outside_sent += 1;
                    stream = OUTSIDE;
                } else if learned.cover.is_some() {
                    streams.keep(record.stream, record.time);
                }
                table.insert(key(record), Sent { time: record.time, stream, number: record.number });
            }
            Ok(())
        })?;
        self.sent.forget(part);
        Ok(table)
    }
}

/// Looks a part of what was received up in the table of what was sent.
fn find(
    received: &mut Spool<ReceivedRecord>,
    part: usize,
    (mut table, ways): (Table, &mut Ways),
    learned: &Learned,
    window: Window,
    mut tally: Tally,
    mut take: impl FnMut(&Event) -> Result<(), String>,
) -> Result<Tally, String> {
    let key = |record: &ReceivedRecord| learned.bindings.received(record.key, record.flow);
    received.read(part, |records| {
        for (n, record) in records.iter().enumerate() {
            records.get(n + AHEAD).into_iter().for_each(|ahead| table.prefetch(key(ahead)));
            let now = learned.line.corrected(record.time);
            let found = table.find(key(record), now, window);
            match found {
                Found::Matched { .. } => ways.see(record.key, true),
                Found::TooEarly => ways.see(record.key, false),
                _ => {}
            }
            if let Some(event) = tally.judge(found, record, now, learned.cover) {
                take(&event)?;
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

impl Tally {
    /// Counts what a packet was found to be; answers what there is to tell its stream.
    #[inline]
    fn judge(&mut self, found: Found, record: &ReceivedRecord, now: i64, cover: Option<Cover>) -> Option<Event> {
        let (sent, is_ambiguous, count) = match found {
            Found::Matched { sent, ambiguous } => (sent, ambiguous, &mut self.matched),
            Found::Duplicate { sent, ambiguous } => (sent, ambiguous, &mut self.duplicated),
            // Where only one capture reaches to, packets are expected to be missing in the other.
            _ if cover.is_some_and(|cover| !within(cover.received, now)) => {
                self.outside_received += 1;
                return None;
            }
            Found::Unknown => {
                self.unknown += 1;
                return None;
            }
            Found::TooOld => {
                self.too_old += 1;
                return None;
            }
            Found::TooEarly => {
                self.too_early += 1;
                return None;
            }
        };
        if sent.stream == OUTSIDE {
            self.outside_received += 1;
            return None;
        }
        *count += 1;
        self.ambiguous += u64::from(is_ambiguous);
        let flag = if is_ambiguous { AMBIGUOUS } else { 0 };
        Some(Event {
            received: record.time,
            delay: now.wrapping_sub(sent.time),
            place: record.place,
            length: record.length,
            stream: sent.stream | flag,
            number: sent.number,
        })
    }
}

/// Hands out the events of all parts in the order of arrival.
fn merge(events: &mut Spool<Event>, mut take: impl FnMut(&Event)) -> Result<(), String> {
    let mut heads = BinaryHeap::new();
    let mut cursors = Vec::new();
    for part in 0..events.parts() {
        let mut cursor = events.cursor(part)?;
        let head = cursor.next()?;
        heads.extend(head.map(|event| Reverse((event.place, part))));
        cursors.push((cursor, head));
    }
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((_, part)) = *head;
        let Some((cursor, event)) = cursors.get_mut(part) else { break };
        event.iter().for_each(&mut take);
        *event = cursor.next()?;
        match event {
            Some(event) => *head = Reverse((event.place, part)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
    }
    Ok(())
}
