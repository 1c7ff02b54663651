//! What collectors of flows are told of packets that nobody meant.
#![allow(clippy::expect_used, reason = "what is broken here is a promise, and that is to be seen")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_flows::{Cache, DATAGRAM, Ipfix, Limits, Names, Sflow};
use weir_stage::flows::HEAD;
use weir_stage::{FlowHop, Output, Sample};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "flows",
    help: "frames that are sampled: before each its length, where its network header begins, and where it goes, a byte each",
    run,
    tokens: &[
        &[8, 0, 0x45],
        &[0x86, 0xdd, 0x60],
        &[0x81, 0],
        &[44, 0],
        &[0, 1],
        &[6],
        &[17],
        &[58],
        &[60, 14, 0],
        &[74, 14, 5],
    ],
    text: false,
    inputs: 100_000,
    deep: 40,
};

/// Flows at once: few, so that there is no room for some.
const FLOWS: usize = 3;

/// Bytes of a sample without what is variable of it: no datagram is longer by more than one.
const SAMPLE: usize = 512;

fn run(input: &[u8]) -> bool {
    let mut cache = Cache::new(Limits { flows: FLOWS, active: 100, inactive: 10 });
    let (mut ipfix, mut sflow) = (Ipfix::new(7, 1000), Sflow::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1, 1000));
    ipfix.describe(&Names { interfaces: vec![(0, "lan".to_owned())], vrfs: vec!["default".to_owned()] });
    let (mut told, mut now, mut rest, mut packets) = (Vec::new(), 0, input, 0);
    while let [length, l3, way, more @ ..] = rest {
        let (frame, more) = more.split_at(usize::from(*length).min(more.len()));
        let sample = sampled(frame, *l3, *way);
        sflow.sample(&sample);
        now += u64::from(*way);
        told.extend(cache.add(&sample, now));
        told.extend(cache.expire(now));
        assert!(cache.load().0 <= FLOWS, "more flows than there is room for");
        (rest, packets) = (more, packets + 1);
    }
    told.extend(cache.expire(u64::MAX));
    let of_ip: u64 = told.iter().map(|flow| flow.packets).sum();
    assert!(of_ip <= packets && told.iter().all(|flow| flow.bytes <= flow.packets * 256 && flow.first <= flow.last));
    told.iter().for_each(|flow| ipfix.flow(flow));
    assert_eq!(records_of_flows(&ipfix.take(1)), told.len(), "each flow is one record");
    let samples: usize = sflow.take(1).iter().map(|datagram| samples_of(datagram)).sum();
    assert_eq!(samples as u64, packets, "each sample is told once");
    of_ip > 0
}

/// A frame as the data path samples it.
fn sampled(frame: &[u8], l3: u8, way: u8) -> Sample {
    let mut head = [0; HEAD];
    head.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
    let next_hop = match way % 3 {
        0 => None,
        1 => Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from(way)))),
        _ => Some(IpAddr::V6(Ipv6Addr::from_bits(way.into()))),
    };
    let output = match way % 4 {
        0 => Output::Interface(way.into()),
        1 => Output::Here,
        2 => Output::Nowhere,
        _ => Output::Unknown,
    };
    let hop = FlowHop { output, vrf: way.into(), next_hop, vlans: [0; 2], source_len: 24, destination_len: 48 };
    let (input, stripped) = (u16::from(way) % 5, u16::from(way / 64 * 20));
    Sample { len: frame.len() as u32, stripped, head, l3, input, vlans: [0; 2], vrf: 0, hop, pool: 9, lost: 0 }
}

fn word(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).expect("a word where one is promised");
    usize::from(u16::from_be_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> usize {
    word(bytes, at) << 16 | word(bytes, at + 2)
}

/// Records of flows in messages of IPFIX, which are read as RFC 7011 section 3 says: by the templates that they bring.
fn records_of_flows(messages: &[Vec<u8>]) -> usize {
    let (mut templates, mut records) = (BTreeMap::new(), 0);
    for message in messages {
        assert!(message.len() <= DATAGRAM && word(message, 0) == 10 && word(message, 2) == message.len());
        let mut at = 16;
        while at < message.len() {
            let (set, length) = (word(message, at), word(message, at + 2));
            let body = message.get(at + 4..at + length).expect("a set is inside its message");
            match set {
                2 => templates.extend(templates_of(body)),
                3 => {}
                _ => {
                    // Those of options have names, whose lengths vary.
                    if let Some(&record) = templates.get(&set) {
                        assert_eq!(body.len() % record, 0, "a set of whole records");
                        records += body.len() / record;
                    }
                }
            }
            at += length;
        }
    }
    records
}

/// The numbers of templates, and the bytes of their records.
fn templates_of(set: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut all) = (0, Vec::new());
    while at < set.len() {
        let fields = word(set, at + 2);
        let length = (0..fields).map(|field| word(set, at + 6 + field * 4)).sum();
        all.push((word(set, at), length));
        at += 4 + fields * 4;
    }
    all
}

/// Samples in a datagram of sFlow version 5 by an agent with an IPv4 address, whose records follow each other.
fn samples_of(datagram: &[u8]) -> usize {
    assert!(datagram.len() <= DATAGRAM + SAMPLE && (long(datagram, 0), long(datagram, 4)) == (5, 1));
    let (count, mut at) = (long(datagram, 24), 28);
    for _ in 0..count {
        let length = long(datagram, at + 4);
        let sample = datagram.get(at + 8..at + 8 + length).expect("a sample is inside its datagram");
        let (records, mut inner) = (long(sample, 28), 32);
        for _ in 0..records {
            inner += 8 + long(sample, inner + 4);
        }
        assert_eq!(inner, length, "records fill their sample");
        at += 8 + length;
    }
    assert_eq!(at, datagram.len(), "samples fill their datagram");
    count
}
