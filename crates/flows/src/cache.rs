//! Samples of one flow put together, until it has ended or was long enough under way.

use std::collections::HashMap;

use weir_stage::Sample;

use crate::FlowKey;
use crate::key::Part;

/// Bounds of a cache, times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows at once; a sample of a further one is a flow of its own.
    pub flows: usize,
    /// How long a flow goes on at most until it is told of (RFC 5470 section 5.1.1).
    pub active: u64,
    /// How long no sample of a flow came when it counts as ended.
    pub inactive: u64,
}

/// Why a flow is told of: the numbers of `flowEndReason` (IANA, IPFIX information elements, 136).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// No sample of it came for a while.
    Idle = 1,
    /// It goes on, and was long enough under way.
    Active = 2,
    /// Weir stops, or exports elsewhere from now on.
    Forced = 4,
    /// There was no room for it.
    NoRoom = 5,
}

/// A flow that is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub key: FlowKey,
    /// Packets that were sampled.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
    /// All flags of TCP that were seen in them.
    pub flags: u8,
    /// When the first of them came, milliseconds.
    pub first: u64,
    /// When the last of them came.
    pub last: u64,
    /// Why.
    pub reason: EndReason,
}

/// Flows that have not ended.
#[derive(Debug)]
pub struct Cache {
    limits: Limits,
    flows: HashMap<FlowKey, State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    packets: u64,
    bytes: u64,
    flags: u8,
    first: u64,
    last: u64,
}

impl State {
    fn of(part: Part, time: u64) -> State {
        State { packets: 1, bytes: part.bytes, flags: part.flags, first: time, last: time }
    }

    fn add(&mut self, part: Part, time: u64) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.flags |= part.flags;
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    fn end(self, key: FlowKey, reason: EndReason) -> Ended {
        let State { packets, bytes, flags, first, last } = self;
        Ended { key, packets, bytes, flags, first, last, reason }
    }
}

impl Cache {
    /// One without flows.
    pub fn new(limits: Limits) -> Cache {
        Cache { limits, flows: HashMap::new() }
    }

    /// How many flows there are, and how many there may be.
    pub fn load(&self) -> (usize, usize) {
        (self.flows.len(), self.limits.flows)
    }

    /// Adds a sample, which was taken at `time`, milliseconds of any clock; what is no IP packet is in no flow. Answers the flow if it is told of at once.
    pub fn add(&mut self, sample: &Sample, time: u64) -> Option<Ended> {
        let (key, part) = FlowKey::of(sample)?;
        if let Some(state) = self.flows.get_mut(&key) {
            state.add(part, time);
            return None;
        }
        let state = State::of(part, time);
        if self.flows.len() >= self.limits.flows {
            return Some(state.end(key, EndReason::NoRoom));
        }
        self.flows.insert(key, state);
        None
    }

    /// Takes out the flows that are to be told of at `now`, milliseconds of the same clock.
    pub fn expire(&mut self, now: u64) -> Vec<Ended> {
        let Limits { active, inactive, .. } = self.limits;
        let why = |state: &State| {
            if now.saturating_sub(state.last) >= inactive {
                return Some(EndReason::Idle);
            }
            (now.saturating_sub(state.first) >= active).then_some(EndReason::Active)
        };
        let ended: Vec<Ended> =
            self.flows.iter().filter_map(|(key, state)| Some(state.end(*key, why(state)?))).collect();
        for ended in &ended {
            self.flows.remove(&ended.key);
        }
        ended
    }

    /// Takes out all flows.
    pub fn end(&mut self) -> Vec<Ended> {
        self.flows.drain().map(|(key, state)| state.end(key, EndReason::Forced)).collect()
    }
}
