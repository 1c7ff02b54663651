//! Samples and counters in datagrams of sFlow version 5 (sflow.org, "sFlow Version 5", July 2004). All of it is XDR: big-endian words of four bytes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_stage::flows::InterfaceCounters;
use weir_stage::{Output, Sample};
use weir_wire::ethernet;

use crate::{DATAGRAM, if_index};

/// Version of the protocol.
const VERSION: u32 = 5;

/// Kinds of samples, and of records in them (section 5.3).
const FLOW_SAMPLE: u32 = 1;
const COUNTERS_SAMPLE: u32 = 2;
const RAW_PACKET: u32 = 1;
const EXTENDED_SWITCH: u32 = 1001;
const EXTENDED_ROUTER: u32 = 1002;
const GENERIC_COUNTERS: u32 = 1;
const PORT_NAME: u32 = 1005;

/// What a raw packet begins with (section 5.3, `header_protocol`).
const ETHERNET: u32 = 1;
const IPV4: u32 = 11;
const IPV6: u32 = 12;

/// Bytes of a frame check sequence, which is counted and was taken off.
const CHECK: u32 = 4;

/// What a packet's output may be beside an interface (section 5.3, `interface`): dropped, or for the agent itself.
const DROPPED: u32 = 1 << 30;
const INTERNAL: u32 = 0x3fff_ffff;

/// Bytes in front of a datagram's samples at most: version, agent, its part, numbers of the datagram and of its samples, uptime.
const HEADER: usize = 40;

/// A counter that is not kept.
const UNKNOWN: u32 = u32::MAX;

/// A count as it goes on for collectors, for whom it never falls: where it begins anew here, it goes on there.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    last: u64,
    told: u32,
}

impl Count {
    fn follow(&mut self, now: u64) -> u32 {
        let more = if now < self.last { now } else { now - self.last };
        self.last = now;
        // Told in 32 bits, which wrap.
        self.told = self.told.wrapping_add(more as u32);
        self.told
    }
}

/// What was told of an interface, which is a source of samples of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    samples: u32,
    counters: u32,
    pool: Count,
    lost: Count,
}

/// Writes datagrams to a collector, or to several that get the same.
#[derive(Debug)]
pub struct Sflow {
    agent: IpAddr,
    part: u32,
    rate: u32,
    /// Datagrams that were written.
    datagrams: u32,
    /// By number of the interface.
    sources: BTreeMap<u16, Source>,
    waiting: Vec<Vec<u8>>,
    /// Samples of the datagram that is written, and how many they are.
    body: Vec<u8>,
    count: u32,
}

impl Sflow {
    /// Of a `part` of the agent by this address, where one of `rate` packets is sampled.
    pub fn new(agent: IpAddr, part: u32, rate: u32) -> Sflow {
        let (waiting, body) = (Vec::new(), Vec::new());
        Sflow { agent, part, rate, datagrams: 0, sources: BTreeMap::new(), waiting, body, count: 0 }
    }

    /// Writes a sample.
    pub fn sample(&mut self, sample: &Sample) {
        let source = self.sources.entry(sample.input).or_default();
        source.samples = source.samples.wrapping_add(1);
        let (pool, lost) = (source.pool.follow(sample.pool), source.lost.follow(sample.lost));
        let output = match sample.hop.output {
            Output::Interface(id) => if_index(id),
            Output::Here => INTERNAL,
            Output::Nowhere => DROPPED,
            Output::Unknown => 0,
        };
        let mut record = Words::default();
        let input = if_index(sample.input);
        record.words(&[source.samples, input, self.rate, pool, lost, input, output]);
        let mut records = vec![raw(sample), switched(sample)];
        records.extend(routed(sample));
        record.words(&[records.len() as u32]);
        records.iter().for_each(|inner| record.bytes(inner));
        self.put(FLOW_SAMPLE, &record.0);
    }

    /// Writes the counters of an interface.
    pub fn counters(&mut self, interface: &InterfaceCounters) {
        let source = self.sources.entry(interface.id).or_default();
        source.counters = source.counters.wrapping_add(1);
        let mut record = Words::default();
        record.words(&[source.counters, if_index(interface.id), 2]);
        record.record(GENERIC_COUNTERS, &generic(interface).0);
        let mut name = Words::default();
        name.opaque(interface.name.as_bytes());
        record.record(PORT_NAME, &name.0);
        self.put(COUNTERS_SAMPLE, &record.0);
    }

    /// The datagrams written, of which the last is ended, to be sent when the agent has been up for `uptime` milliseconds.
    pub fn take(&mut self, uptime: u32) -> Vec<Vec<u8>> {
        self.end();
        let mut datagrams = std::mem::take(&mut self.waiting);
        let at = self.uptime_at();
        for datagram in &mut datagrams {
            if let Some(time) = datagram.get_mut(at..at + 4) {
                time.copy_from_slice(&uptime.to_be_bytes());
            }
        }
        datagrams
    }

    fn put(&mut self, kind: u32, sample: &[u8]) {
        if self.count > 0 && HEADER + self.body.len() + 8 + sample.len() > DATAGRAM {
            self.end();
        }
        let mut words = Words(std::mem::take(&mut self.body));
        words.record(kind, sample);
        self.body = words.0;
        self.count += 1;
    }

    /// Where the uptime stands.
    fn uptime_at(&self) -> usize {
        self.agent_words().len() + 12
    }

    fn agent_words(&self) -> Vec<u8> {
        let mut words = Words::default();
        words.address(self.agent);
        words.0
    }

    fn end(&mut self) {
        if self.count == 0 {
            return;
        }
        self.datagrams = self.datagrams.wrapping_add(1);
        let mut words = Words::default();
        words.words(&[VERSION]);
        words.bytes(&self.agent_words());
        words.words(&[self.part, self.datagrams, 0, std::mem::take(&mut self.count)]);
        words.bytes(&std::mem::take(&mut self.body));
        self.waiting.push(words.0);
    }
}

/// Bytes in XDR.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_be_bytes()));
    }

    fn long(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A kind, a length, and what is of it.
    fn record(&mut self, kind: u32, record: &[u8]) {
        self.words(&[kind, record.len() as u32]);
        self.bytes(record);
    }

    /// Opaque bytes with their length, filled up to whole words.
    fn opaque(&mut self, bytes: &[u8]) {
        self.words(&[bytes.len() as u32]);
        self.bytes(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.words(&[1]);
                self.bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                self.words(&[2]);
                self.bytes(&address.octets());
            }
        }
    }
}

/// A record of its own.
fn record(kind: u32, content: &Words) -> Vec<u8> {
    let mut words = Words::default();
    words.record(kind, &content.0);
    words.0
}

/// The first bytes of the frame, or of what was in a tunnel: "the number of octets removed from the packet before extracting" them is told (section 5.3,
/// `stripped`), and the length of the whole frame.
fn raw(sample: &Sample) -> Vec<u8> {
    let protocol = match sample.ethertype() {
        _ if sample.stripped == 0 => ETHERNET,
        Some(ethernet::IPV6) => IPV6,
        _ => IPV4,
    };
    let mut words = Words::default();
    words.words(&[protocol, sample.len.saturating_add(CHECK), CHECK + u32::from(sample.stripped)]);
    words.opaque(sample.head());
    record(RAW_PACKET, &words)
}

/// Its outer VLAN on the way in, and on the way out as far as it goes there.
fn switched(sample: &Sample) -> Vec<u8> {
    let [[input, _], [output, _]] = [sample.vlans, sample.hop.vlans];
    let leaves = matches!(sample.hop.output, Output::Interface(_));
    let mut words = Words::default();
    words.words(&[input.into(), UNKNOWN, if leaves { output.into() } else { UNKNOWN }, UNKNOWN]);
    record(EXTENDED_SWITCH, &words)
}

/// Its next hop, and the prefixes of its addresses; `None` where it goes no way on from here.
fn routed(sample: &Sample) -> Option<Vec<u8>> {
    let Output::Interface(_) = sample.hop.output else { return None };
    let mut words = Words::default();
    // On the link there is none: an address of all zeros. One of no kind is allowed (section 5.3, `address`), but nfdump gives such samples up.
    let none = match sample.ethertype() {
        Some(ethernet::IPV6) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    words.address(sample.hop.next_hop.unwrap_or(none));
    words.words(&[sample.hop.source_len.into(), sample.hop.destination_len.into()]);
    Some(record(EXTENDED_ROUTER, &words))
}

/// The generic counters of an interface (RFC 2863).
fn generic(interface: &InterfaceCounters) -> Words {
    let mut words = Words::default();
    words.words(&[if_index(interface.id), interface.kind as u32]);
    words.long(0); // Its speed, which is not known.
    // Full duplex; up as it is meant to be (bit 0), and in operation (bit 1).
    words.words(&[1, u32::from(interface.enabled) | u32::from(interface.up) << 1]);
    // Of packets all are told as unicast: kinds are not told apart, and drops are counted by stage and reason.
    for ([packets, bytes], others) in [(interface.received, 5), (interface.sent, 4)] {
        words.long(bytes);
        words.words(&[packets as u32]);
        words.words([UNKNOWN; 5].get(..others).unwrap_or_default());
    }
    words.words(&[2]); // Not promiscuous.
    words
}
