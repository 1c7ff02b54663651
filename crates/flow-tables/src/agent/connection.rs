//! One controller's connection.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_openflow::flow::PacketInReason;
use weir_openflow::message::{AsyncConfig, Hello, Role, VERSION};
use weir_openflow::multipart::{Part, kind};
use weir_openflow::{Body, Framing, Message, Reassembly, Reply};

use crate::switch::Switch;
use crate::tables::FlowId;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBecause {
    /// The two speak no version in common.
    Incompatible,
    /// What came is not cut into messages.
    BadFrame,
    /// It was silent, and did not answer.
    Silent,
    /// It does not take what it is told.
    TooSlow,
    /// It is not there any more.
    Gone,
}

/// What a connection was told, and what it was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that it was sent.
    pub packets: u64,
    /// Packets that it was not sent, because others waited.
    pub packets_dropped: u64,
}

/// How many bytes of flows a part of a long reply is made of, more or less.
const PART: usize = 32 << 10;

/// Flows that are still to be told. Those that end meanwhile are left out, and those that come too.
#[derive(Debug)]
struct Dump {
    xid: u32,
    flows: std::vec::IntoIter<FlowId>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) framing: Framing,
    pub(super) reassembly: Reassembly,
    pub(super) role: Role,
    pub(super) config: AsyncConfig,
    /// Packets that it was sent, and those that it was not: workers that only read the switch count these, too.
    packets: u64,
    packets_dropped: AtomicU64,
    /// See [`super::Agent::set_aside`].
    pub(super) is_aside: bool,
    greeted: bool,
    closing: Option<ClosedBecause>,
    output: Vec<u8>,
    /// How much of `output` was sent already.
    start: usize,
    dump: Option<Dump>,
    last_heard: u64,
    probed: bool,
}

impl Connection {
    pub(super) fn new(most_parts: usize, now: u64) -> Connection {
        let mut connection = Connection {
            framing: Framing::default(),
            reassembly: Reassembly::new(most_parts),
            role: Role::Equal,
            config: AsyncConfig::default(),
            packets: 0,
            packets_dropped: AtomicU64::new(0),
            is_aside: false,
            greeted: false,
            closing: None,
            output: Vec::new(),
            start: 0,
            dump: None,
            last_heard: now,
            probed: false,
        };
        connection.send(&Message::new(1, Body::Hello(Hello::only(VERSION))));
        connection
    }

    pub(super) fn greet(&mut self) {
        self.greeted = true;
    }

    pub(super) fn is_greeted(&self) -> bool {
        self.greeted
    }

    pub(super) fn is_ready(&self) -> bool {
        self.greeted && self.closing.is_none()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    pub(super) fn closing(&self) -> Option<ClosedBecause> {
        self.closing
    }

    pub(super) fn close(&mut self, reason: ClosedBecause) {
        self.closing.get_or_insert(reason);
        self.dump = None;
    }

    pub(super) fn output(&self) -> &[u8] {
        self.output.get(self.start..).unwrap_or_default()
    }

    /// Whether the next request may be read: replies are in the order of requests, and do not pile up. While a long
    /// reply goes on, as much as this always waits.
    pub(super) fn may_read(&self, high_water: usize) -> bool {
        debug_assert!(self.dump.is_none() || self.output().len() >= high_water);
        self.output().len() < high_water
    }

    pub(super) fn send(&mut self, message: &Message) {
        // What is told fits in a message: flows and groups that do not are refused when they come.
        if let Ok(bytes) = message.write() {
            self.output.extend_from_slice(&bytes);
        }
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.start = (self.start + count).min(self.output.len());
        if self.start == self.output.len() {
            self.output.clear();
            self.start = 0;
        } else if self.start > self.output.len() / 2 {
            self.output.drain(..self.start);
            self.start = 0;
        }
    }

    /// Whether it wants news of this kind for this reason, in its role.
    pub(super) fn wants(&self, which: impl Fn(&AsyncConfig) -> [u32; 2], reason: u32) -> bool {
        let [as_master, as_slave] = which(&self.config);
        let mask = if self.role == Role::Slave { as_slave } else { as_master };
        self.is_ready() && mask >> reason & 1 != 0
    }

    /// News that must not be lost. Who does not take them is given up.
    pub(super) fn news(&mut self, body: Body, most: usize) {
        if self.output().len() > most {
            self.close(ClosedBecause::TooSlow);
            return;
        }
        self.send(&Message::new(0, body));
    }

    /// Whether it wants packets that come to controllers for this reason.
    pub(super) fn wants_packet(&self, reason: PacketInReason) -> bool {
        self.wants(|config| config.packet_in, reason as u32)
    }

    /// Whether so little waits that a packet may.
    pub(super) fn has_room(&self, high_water: usize) -> bool {
        self.output().len() <= high_water
    }

    /// A packet is lost for which there is no room.
    pub(super) fn count_dropped(&self) {
        self.packets_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics { packets: self.packets, packets_dropped: self.packets_dropped.load(Ordering::Relaxed) }
    }

    /// A packet, which may be lost. Whether it was not.
    pub(super) fn packet(&mut self, body: Body, high_water: usize) -> bool {
        if !self.has_room(high_water) {
            self.count_dropped();
            return false;
        }
        self.packets += 1;
        self.send(&Message::new(0, body));
        true
    }

    pub(super) fn heard(&mut self, now: u64) {
        self.last_heard = self.last_heard.max(now);
        self.probed = false;
    }

    pub(super) fn next_probe(&self, probe: u64) -> Option<u64> {
        let periods = if self.probed { 2 } else { 1 };
        self.closing.is_none().then(|| self.last_heard.saturating_add(probe.saturating_mul(periods)))
    }

    /// Asks a silent peer whether it is there, and gives up one that does not answer (section 6.3.2).
    pub(super) fn probe(&mut self, probe: u64, now: u64) {
        if self.next_probe(probe).is_none_or(|at| now < at) {
            return;
        }
        if self.probed {
            self.close(ClosedBecause::Silent);
        } else {
            self.probed = true;
            self.send(&Message::new(0, Body::EchoRequest(Vec::new())));
        }
    }

    /// Begins to tell flows.
    pub(super) fn tell(&mut self, xid: u32, flows: Vec<FlowId>) {
        self.dump = Some(Dump { xid, flows: flows.into_iter() });
    }

    /// Goes on telling flows while there is room.
    pub(super) fn go_on(&mut self, switch: &Switch, high_water: usize, now: u64) {
        while self.output().len() < high_water {
            let Some(dump) = &mut self.dump else { return };
            let (mut body, mut more) = (Vec::new(), true);
            while body.len() < PART {
                let Some(id) = dump.flows.next() else {
                    more = false;
                    break;
                };
                let Some(stats) = switch.tables.flow_stats(id, now) else { continue };
                // One flow is one part, of which only the body is wanted.
                let item = Reply::Flow(vec![stats]).parts().pop().map(|part| part.body);
                let item = item.unwrap_or_default();
                if body.len() + item.len() > weir_openflow::multipart::MAX_BODY {
                    let part = Part { kind: kind::FLOW, more: true, body: std::mem::take(&mut body) };
                    self.output.extend(Message::new(dump.xid, Body::MultipartReply(part)).write().unwrap_or_default());
                }
                body.extend_from_slice(&item);
            }
            let xid = dump.xid;
            if !more {
                self.dump = None;
            }
            self.send(&Message::new(xid, Body::MultipartReply(Part { kind: kind::FLOW, more, body })));
        }
    }
}
