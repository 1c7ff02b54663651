//! Streams: packets that have something in common, and what became of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher as StdHasher};

use weir_measure::{Rules, Series, StreamStats, TokenBucket};

use crate::clock::Line;
use crate::hash::{Hasher, Key};
use crate::records::{AMBIGUOUS, Event, SentRecord};
use crate::table::MAX_STREAMS;

/// Streams that are told apart at most.
const MOST: usize = 1 << 22;
const _: () = assert!(MOST < MAX_STREAMS as usize);

/// Up to so many streams have figures as precise as can be; beyond, those of each have bounds.
const PRECISE: usize = 64;

/// Bytes that the distributions of all streams together may take, if each has as many values as it may.
const FOR_VALUES: usize = 512 << 20;

/// Distributions of a stream, and bytes for each value in one, vectors that grow included.
const PER_VALUE: usize = 7 * 24;

/// A rate that streams are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bits per second, of frames as they were captured.
    pub rate: u64,
    /// Bytes.
    pub burst: u64,
}

impl Profile {
    fn bucket(self) -> Box<TokenBucket> {
        Box::new(TokenBucket::new(self.rate, self.burst))
    }
}

/// Packets of a stream that are taken in together.
const TOGETHER: usize = 16;

/// Packets of a stream that wait for others.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    count: usize,
    events: [Event; TOGETHER],
}

/// Keys are evenly spread already.
#[derive(Clone, Copy, Debug, Default)]
struct Even(u64);

impl StdHasher for Even {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |low| u64::from_ne_bytes(*low));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

/// All streams.
#[derive(Debug)]
pub(crate) struct Streams {
    ids: HashMap<Key, u32, BuildHasherDefault<Even>>,
    /// What the packets of each have in common, as the fields wrote it.
    keys: Vec<Box<[u8]>>,
    pub(crate) sent: Vec<Sending>,
    pub(crate) received: Vec<Option<Box<Receiving>>>,
    /// What arrived and is not yet taken in, where streams are many: [`TOGETHER`] packets of a stream cost hardly more than one, for
    /// whose sake all that is known of the stream must come from memory.
    waiting: Vec<Waiting>,
    profile: Option<Profile>,
    /// When the first packet of all was sent, ns: the zero of all series.
    zero: Option<i64>,
}

/// What was sent of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sending {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) bucket: Option<Box<TokenBucket>>,
    pub(crate) series: Series,
    /// Packets before those that both captures cover, and after.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// When the first and the last of those were sent that both captures cover, where others are left out.
    pub(crate) covered: Option<(i64, i64)>,
}

/// What arrived of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub(crate) stats: StreamStats,
    pub(crate) ambiguous: u64,
    pub(crate) bytes: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) bucket: Option<Box<TokenBucket>>,
    /// By the time of arrival.
    pub(crate) series: Series,
    /// First copies, by the time of sending.
    pub(crate) arrived: Series,
}

impl Streams {
    pub(crate) fn new(profile: Option<Profile>) -> Streams {
        let (sent, received, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Streams { ids: HashMap::default(), keys: Vec::new(), sent, received, waiting, profile, zero: None }
    }

    /// The stream whose packets have `key` in common.
    #[inline]
    pub(crate) fn id(&mut self, key: &[u8], hasher: &Hasher) -> Result<u32, String> {
        if key.is_empty() && !self.keys.is_empty() {
            return Ok(0);
        }
        let next = self.keys.len();
        let id = *self.ids.entry(hasher.key(&[key])).or_insert(next as u32);
        if id as usize == next {
            if next >= MOST {
                return Err(format!(
                    "there are more than {MOST} streams; tell them apart by less (--by), or leave packets out (--filter-sent)"
                ));
            }
            self.keys.push(key.into());
            let bucket = self.profile.map(Profile::bucket);
            self.sent.push(Sending { bucket, ..Sending::default() });
        }
        Ok(id)
    }

    /// Counts a packet of a stream that was sent; returns its number within it.
    #[inline]
    pub(crate) fn send(&mut self, stream: u32, time: i64, length: u32) -> Result<u32, String> {
        let zero = *self.zero.get_or_insert(time);
        let Some(sending) = self.sent.get_mut(stream as usize) else { return Ok(0) };
        let number = sending.packets;
        if number == 0 {
            sending.first = time;
        }
        sending.packets =
            number.checked_add(1).ok_or_else(|| format!("a stream has more than {} packets", u32::MAX))?;
        sending.bytes += u64::from(length);
        sending.last = time;
        sending.series.add(time.wrapping_sub(zero), length);
        if let Some(bucket) = &mut sending.bucket {
            bucket.take(length, time);
        }
        Ok(number)
    }

    /// Takes back a packet that was sent before, or after, what both captures cover.
    pub(crate) fn leave_out(&mut self, record: &SentRecord, before: bool) {
        if let Some(sending) = self.sent.get_mut(record.stream as usize) {
            *(if before { &mut sending.before } else { &mut sending.after }) += 1;
            sending.bytes -= u64::from(record.length);
            sending.series.take_back(record.time.wrapping_sub(self.zero.unwrap_or(0)), record.length);
        }
    }

    /// Notes that a packet that was sent lies within what both captures cover.
    pub(crate) fn keep(&mut self, stream: u32, time: i64) {
        if let Some(sending) = self.sent.get_mut(stream as usize) {
            let (first, last) = sending.covered.unwrap_or((time, time));
            sending.covered = Some((first.min(time), last.max(time)));
        }
    }

    /// What the packets of a stream have in common.
    pub(crate) fn key(&self, stream: usize) -> &[u8] {
        self.keys.get(stream).map_or(&[], |key| key)
    }

    /// When the first packet of all was sent.
    pub(crate) fn zero(&self) -> i64 {
        self.zero.unwrap_or(0)
    }

    /// Makes ready for what arrives: all has been sent.
    pub(crate) fn sent_all(&mut self) {
        self.ids = HashMap::default();
        self.received = self.sent.iter().map(|_| None).collect();
        if self.sent.len() > PRECISE {
            self.waiting = vec![Waiting::default(); self.sent.len()];
        }
    }

    /// How the statistics of a stream are kept: exactly where streams are few, in bounds where they are many.
    pub(crate) fn rules(&self, sending: &Sending) -> Rules {
        let many = self.sent.len() > PRECISE;
        let distinct = many.then(|| (FOR_VALUES / PER_VALUE / self.sent.len().max(1)).clamp(128, 4096));
        let remembered = if self.sent.len() > 10_000 { 64 } else { 1024 };
        // The window reaches over the whole stream, at a bit for each packet.
        Rules { first: sending.before.into(), window: sending.packets as usize, wait: None, remembered, distinct }
    }

    /// Takes a packet that arrived, in the order of arrival.
    #[inline]
    pub(crate) fn receive(&mut self, event: &Event, line: &Line) {
        let stream = (event.stream & !AMBIGUOUS) as usize;
        let Some(waiting) = self.waiting.get_mut(stream) else { return self.take(stream, event, line) };
        if let Some(place) = waiting.events.get_mut(waiting.count) {
            *place = *event;
        }
        waiting.count += 1;
        if waiting.count == TOGETHER {
            self.take_waiting(stream, line);
        }
    }

    /// Nothing more arrives.
    pub(crate) fn received_all(&mut self, line: &Line) {
        for stream in 0..self.waiting.len() {
            self.take_waiting(stream, line);
        }
        self.waiting = Vec::new();
    }

    fn take_waiting(&mut self, stream: usize, line: &Line) {
        let Some(waiting) = self.waiting.get_mut(stream) else { return };
        let Waiting { count, events } = std::mem::replace(waiting, Waiting { count: 0, ..*waiting });
        events.iter().take(count).for_each(|event| self.take(stream, event, line));
    }

    #[inline]
    fn take(&mut self, stream: usize, event: &Event, line: &Line) {
        if self.received.get(stream).is_some_and(Option::is_none) {
            self.begin(stream, event);
        }
        if let Some(Some(receiving)) = self.received.get_mut(stream) {
            receiving.take(event, line.corrected(event.received), self.zero.unwrap_or(0));
        }
    }

    #[cold]
    fn begin(&mut self, stream: usize, event: &Event) {
        let stats = self.sent.get(stream).map(|sending| StreamStats::new(self.rules(sending)));
        let bucket = self.profile.map(Profile::bucket);
        let receiving = stats.map(|stats| Box::new(Receiving::new(stats, event.received, bucket)));
        self.received.get_mut(stream).into_iter().for_each(|slot| slot.clone_from(&receiving));
    }
}

impl Receiving {
    fn new(stats: StreamStats, first: i64, bucket: Option<Box<TokenBucket>>) -> Receiving {
        let (series, arrived) = (Series::default(), Series::default());
        Receiving { stats, ambiguous: 0, bytes: 0, first, last: first, bucket, series, arrived }
    }

    #[inline]
    fn take(&mut self, event: &Event, corrected: i64, zero: i64) {
        let before = self.stats.counts().received;
        self.stats.record(event.number.into(), Some(event.delay), event.received as u64);
        self.stats.record_place(event.place.into());
        self.ambiguous += u64::from(event.stream & AMBIGUOUS != 0);
        self.bytes += u64::from(event.length);
        self.last = event.received;
        self.series.add(corrected.wrapping_sub(zero), event.length);
        if self.stats.counts().received != before {
            self.arrived.add(corrected.wrapping_sub(event.delay).wrapping_sub(zero), event.length);
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.take(event.length, event.received);
        }
    }
}
