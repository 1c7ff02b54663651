//! Packets of the generator through the fault injector: what struck them is known, and comes back as figures.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{Frame, options, run};
use weir_flowstat::models::{Identity, Signature};
use weir_flowstat::{Fields, Model, Report};
use weir_measure::signature::{Form, Signer};
use weir_packet::{Batch, HeapPool, Pool};
use weir_port_mem::{FaultCounts, Faults, MemPort};
use weir_stage::{Port, Rx};

/// Packets of each stream.
const COUNT: u64 = 4000;

/// Nanoseconds between packets.
const APART: u64 = 1_000;

/// Two streams in turn, in frames of 64 bytes.
fn sent() -> Vec<Frame> {
    let signers = [0, 1].map(|stream| Signer::new(Form::Full, stream, &[]));
    let frame = |n: u64| {
        let mut data = vec![0x55; 60];
        assert!(signers[(n % 2) as usize].write(&mut data, n / 2, n * APART));
        Frame { time: (n * APART) as i64, length: 60, data, file: 0 }
    };
    (0..2 * COUNT).map(frame).collect()
}

fn drain(rx: &mut dyn Rx, pool: &mut dyn Pool, now: u64, got: &mut Vec<Frame>) {
    let mut batch = Batch::new();
    while rx.receive(&mut batch, pool, now).packets > 0 {
        batch.each(|_, packet, _| {
            let data = packet.bytes().to_vec();
            got.push(Frame { time: now as i64, length: data.len() as u32, data, file: 0 });
        });
        pool.free_batch(&mut batch, u64::MAX);
    }
}

/// What comes out of a port at which packets meet faults, and what struck them.
fn through(faults: Faults, sent: &[Frame]) -> (Vec<Frame>, FaultCounts) {
    let mut pool = HeapPool::new(16_384, 2048);
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(faults);
    let (mut rx, _tx) = port.open(1, 1, &pool).unwrap();
    let rx = rx.first_mut().unwrap();
    let mut got = Vec::new();
    for frame in sent {
        handle.send(frame.data.clone());
        drain(&mut **rx, &mut pool, frame.time as u64, &mut got);
    }
    handle.end();
    let mut now = sent.len() as u64 * APART;
    while !rx.exhausted() {
        now = rx.next_at().unwrap_or(now).max(now);
        drain(&mut **rx, &mut pool, now, &mut got);
    }
    (got, handle.faults())
}

fn analysed(model: Box<dyn Model>, faults: Faults) -> (Report, FaultCounts) {
    let sent = sent();
    let (received, struck) = through(Faults { seed: 11, receive_only: true, ..faults }, &sent);
    let mut options = options(model);
    options.by = Fields::parse("signature").unwrap();
    let report = run(&options, &sent, &received);
    assert_eq!(report.total.sent, 2 * COUNT);
    assert_eq!(report.total.ambiguous, 0);
    assert_eq!(report.streams.iter().map(|stream| stream.report.lost).sum::<u64>(), report.total.lost);
    (report, struck)
}

fn both(faults: Faults, check: impl Fn(&Report, FaultCounts)) {
    for model in [Box::new(Signature) as Box<dyn Model>, Box::new(Identity::default())] {
        let (report, struck) = analysed(model, faults);
        check(&report, struck);
    }
}

#[test]
fn loss() {
    both(Faults { drop: 0.03, ..Faults::default() }, |report, struck| {
        assert!(struck.dropped > 100);
        assert_eq!((report.total.lost, report.total.duplicated, report.total.unmatched), (struck.dropped, 0, 0));
    });
}

#[test]
fn copies() {
    both(Faults { duplicate: 0.02, ..Faults::default() }, |report, struck| {
        assert!(struck.duplicated > 50);
        assert_eq!((report.total.lost, report.total.duplicated), (0, struck.duplicated));
    });
}

#[test]
fn loss_and_copies_and_delays_together() {
    let faults = Faults { drop: 0.02, duplicate: 0.02, delay: 0.05, delay_time: 50 * APART, ..Faults::default() };
    both(faults, |report, struck| {
        assert_eq!((report.total.lost, report.total.duplicated), (struck.dropped, struck.duplicated));
        assert_eq!(report.total.matched, 2 * COUNT - struck.dropped);
    });
}

#[test]
fn delays() {
    both(Faults { delay: 0.1, delay_time: 64 * APART, ..Faults::default() }, |report, struck| {
        assert!(struck.delayed > 400 && report.total.lost == 0);
        let latency = report.total.latency_ns.unwrap();
        assert_eq!((latency.min, latency.p50, latency.max), (0, 0, 64_000));
        let in_time: u64 = report.streams.iter().map(|stream| stream.delays[0].1).sum();
        assert_eq!(latency.count - in_time, struck.delayed);
        assert!(report.streams.iter().all(|stream| stream.delays[0].0 == 0 && stream.delays.len() == 2));
    });
}

#[test]
fn reordering() {
    let sent = sent();
    let faults = Faults { reorder: 0.02, delay_time: u64::MAX / 2, seed: 3, receive_only: true, ..Faults::default() };
    let (received, struck) = through(faults, &sent);
    // One stream: whatever was held back was overtaken by a packet of it.
    let report = run(&options(Box::new(Identity::default())), &sent, &received);
    assert!(struck.reordered > 100);
    assert_eq!((report.total.reordered, report.total.lost), (struck.reordered, 0));
    let extent = report.total.reordering_extent.unwrap();
    assert_eq!(extent.count, struck.reordered);
    assert!(extent.min >= 1 && extent.max <= 2 * Faults::REORDER_DEPTH as i64, "{extent:?}");
}

/// A packet whose bits were changed is not the one that was sent, and neither is one that was cut.
#[test]
fn changes() {
    for faults in [Faults { corrupt: 0.02, ..Faults::default() }, Faults { truncate: 0.02, ..Faults::default() }] {
        let (report, struck) = analysed(Box::new(Identity::default()), faults);
        let changed = struck.corrupted + struck.truncated;
        assert!(changed > 50);
        assert_eq!((report.total.lost, report.total.unmatched), (changed, changed));
    }
    // The signature sees what strikes itself: 18 of 60 bytes.
    let (report, struck) = analysed(Box::new(Signature), Faults { corrupt: 0.1, ..Faults::default() });
    let seen = report.received.corrupt + report.received.unidentified;
    assert_eq!((report.total.lost, report.total.unmatched), (seen, 0));
    assert!(seen < struck.corrupted && seen > struck.corrupted / 8, "{seen} of {}", struck.corrupted);
}
