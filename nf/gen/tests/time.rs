//! When packets leave, and what is measured of those that come back: exact in virtual time.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::Rig;
use serde_json::{Value, json};
use weir_gen::Report;
use weir_port_mem::{Faults, MemPort};

const SECOND: u64 = 1_000_000_000;

/// The report of streams on a port that receives what it sends.
fn looped(faults: Faults, streams: &Value, nanos: u64) -> (Report, weir_port_mem::FaultCounts) {
    let port = MemPort::mirror("a").with_faults(faults);
    let mut rig = Rig::new(vec![("a", port)], &json!({ "streams": streams }));
    let report = rig.report_after(nanos);
    let counts = rig.handles[0].faults();
    (report, counts)
}

#[test]
fn a_rate_is_kept_exactly() {
    for (rate, size, count) in [("1 kpps", "64", 1000), ("333 kpps", "64", 333_000), ("1 Gbit/s", "1518", 81_275)] {
        let stream = json!([{ "port": "a", "rate": rate, "size": size, "duration": "1 s" }]);
        let (report, _) = looped(Faults::default(), &stream, SECOND + 1_000_000);
        let sent = &report.streams[0].sent;
        // Packets are due from 0 on, before the end: as many as fit, rounded up.
        assert_eq!((sent.packets, sent.done, sent.slipped_ns), (count, true, 0), "{rate}");
        let error = sent.pps / report.streams[0].asked_pps.unwrap() - 1.0;
        assert!(error.abs() < 0.0001, "{rate}: {error}");
    }
}

#[test]
fn gaps_are_what_was_asked_for() {
    let (report, _) = looped(Faults::default(), &json!([{ "port": "a", "rate": "10 kpps", "count": 1000 }]), SECOND);
    let gaps = report.streams[0].sent.gaps_ns.unwrap();
    assert_eq!((gaps.count, gaps.min, gaps.max), (999, 100_000, 100_000));
    let bursts = json!([{ "port": "a", "rate": "10 kpps", "gaps": "burst", "burst": 10, "count": 1000 }]);
    let (report, _) = looped(Faults::default(), &bursts, SECOND);
    let gaps = report.streams[0].sent.gaps_ns.unwrap();
    assert_eq!((gaps.min, gaps.p50, gaps.max, gaps.count), (0, 0, 1_000_000, 999));
    assert!((gaps.mean - 99.0 * 1_000_000.0 / 999.0).abs() < 1e-6);
}

#[test]
fn streams_share_a_port_each_at_its_rate() {
    let streams = json!([
        { "port": "a", "rate": "100 kpps", "duration": "100 ms" },
        { "port": "a", "rate": "33 kpps", "duration": "100 ms", "after": "50 ms" },
        { "port": "a", "rate": "1 kpps", "count": 7 },
    ]);
    let (report, _) = looped(Faults::default(), &streams, SECOND);
    let packets: Vec<u64> = report.streams.iter().map(|stream| stream.sent.packets).collect();
    assert_eq!(packets, [10_000, 3_300, 7]);
    assert!(report.done);
}

#[test]
fn counts_are_exact_at_full_speed() {
    for count in [1, 63, 64, 65, 1000] {
        let (report, _) =
            looped(Faults::default(), &json!([{ "port": "a", "count": count, "signature": true }]), 10_000_000);
        let stream = &report.streams[0];
        assert_eq!((stream.sent.packets, stream.received.as_ref().unwrap().received), (count, count));
    }
}

#[test]
fn latency_is_that_of_the_wire() {
    let faults = Faults { delay: 1.0, delay_time: 2_000_000, receive_only: true, ..Faults::default() };
    let stream = json!([{ "port": "a", "rate": "100 pps", "count": 50, "signature": true }]);
    let (report, _) = looped(faults, &stream, SECOND);
    let found = report.streams[0].received.as_ref().unwrap();
    let latency = found.latency_ns.unwrap();
    // The wire's time, and the loop of the virtual clock after which the port receives what it transmitted.
    let wire = 2_000_000 + 1_000;
    assert_eq!((latency.count, latency.min, latency.p50, latency.max), (50, wire, wire, wire));
    assert_eq!((found.pdv_ns.unwrap().max, found.ipdv_ns.unwrap().max), (0, 0));
}

#[test]
fn faults_come_back_as_figures() {
    let stream = json!([{ "port": "a", "rate": "100 kpps", "count": 20_000, "signature": true, "size": "128" }]);
    let cases = [
        Faults { drop: 0.01, seed: 3, ..Faults::default() },
        Faults { duplicate: 0.01, seed: 4, ..Faults::default() },
        Faults { corrupt: 0.01, seed: 5, ..Faults::default() },
        Faults { reorder: 0.01, seed: 6, ..Faults::default() },
    ];
    for faults in cases {
        let (report, counts) = looped(faults, &stream, SECOND);
        let found = report.streams[0].received.as_ref().unwrap();
        assert_eq!(found.sent, 20_000);
        // A copy may be struck again on the way in, so that only what is lost and what comes twice can be compared at once.
        assert_eq!(found.duplicated, counts.duplicated);
        if faults.corrupt > 0.0 {
            // A bit that is inverted in the headers is none of the signature's business; one in its last bytes hides it.
            let seen = found.corrupt + report.unsigned + report.unknown;
            assert!(seen > 0 && seen <= counts.corrupted, "{seen} of {}", counts.corrupted);
            assert_eq!(found.lost, seen);
        } else {
            assert_eq!(found.lost, counts.dropped);
        }
        let reordered = found.order.as_ref().unwrap().reordered;
        assert_eq!(reordered > 0, counts.reordered > 0);
    }
}

#[test]
fn what_the_port_refuses_is_waited_for() {
    let (port, handle) = MemPort::fed("a");
    let mut rig = Rig::new(vec![("a", port)], &json!({ "streams": [{ "port": "a", "count": 100 }] }));
    handle.set_tx(weir_port_mem::TxMode::Stuck);
    rig.run(1_000_000);
    assert_eq!(handle.received().len(), 0);
    handle.set_tx(weir_port_mem::TxMode::Normal);
    rig.run(1_000_000);
    assert_eq!(handle.received().len(), 100);
}
