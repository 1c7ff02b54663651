//! The fault injector, in both directions.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use std::collections::HashMap;

use common::{assert_home, drain, open_one, pool, transmit};
use proptest::prelude::*;
use weir_packet::{HeapPool, Pool};
use weir_port_mem::{FaultPort, Faults, MemPort};
use weir_stage::Port;

/// Frames of 64 bytes, each with its number at both ends.
fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|n| [&n.to_be_bytes()[..], &[0x55; 56], &n.to_be_bytes()].concat()).collect()
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[..4].try_into().unwrap())
}

/// What comes in through the faults, every 100 us.
fn receive(faults: Faults, count: u32) -> Vec<Vec<u8>> {
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(faults);
    let (mut rx, tx) = open_one(&mut port, &pool);
    let mut got = Vec::new();
    let mut now = 0;
    for chunk in numbered(count).chunks(50) {
        handle.send_all(chunk.to_vec());
        got.extend(drain(&mut *rx, &mut pool, now));
        let out = pool.taken() - pool.at_hand();
        assert_eq!(port.stats().in_rings, Some(out as u64), "what is held back is reported");
        now += 100_000;
    }
    handle.end();
    while !rx.exhausted() {
        now = rx.next_at().unwrap_or(now).max(now);
        got.extend(drain(&mut *rx, &mut pool, now));
    }
    assert_eq!(port.stats().in_rings, Some(0));
    drop((rx, tx));
    assert_home(&pool);
    got
}

/// What goes out through the faults, every 100 us.
fn send(faults: Faults, count: u32) -> Vec<Vec<u8>> {
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(faults);
    let (rx, mut tx) = open_one(&mut port, &pool);
    for (n, chunk) in numbered(count).chunks(50).enumerate() {
        assert_eq!(transmit(&mut *tx, &mut pool, chunk, 100_000 * n as u64), chunk.len() as u64);
        let out = pool.taken() - pool.at_hand();
        assert_eq!(port.stats().in_rings, Some(out as u64), "what is held back is reported");
    }
    tx.flush();
    assert_eq!(port.stats().in_rings, Some(0));
    drop((rx, tx));
    assert_home(&pool);
    handle.received()
}

fn both(faults: Faults, count: u32) -> [Vec<Vec<u8>>; 2] {
    [receive(faults, count), send(faults, count)]
}

fn near(found: usize, odds: f64, of: u32) -> bool {
    // Six standard deviations of a binomial distribution.
    let (n, found) = (f64::from(of), found as f64);
    (found - n * odds).abs() <= 6.0 * (n * odds * (1.0 - odds)).sqrt()
}

#[test]
fn drops_its_share_and_keeps_the_order() {
    for got in both(Faults { seed: 1, drop: 0.1, ..Faults::default() }, 5000) {
        assert!(near(5000 - got.len(), 0.1, 5000), "{} of 5000", got.len());
        assert!(got.is_sorted_by_key(|frame| number(frame)));
        assert!(got.iter().all(|frame| *frame == numbered(number(frame) + 1)[number(frame) as usize]));
    }
    for got in both(Faults { drop: 1.0, ..Faults::default() }, 300) {
        assert!(got.is_empty());
    }
}

#[test]
fn duplicates_are_whole_and_adjacent() {
    for got in both(Faults { seed: 2, duplicate: 0.2, ..Faults::default() }, 5000) {
        assert!(near(got.len() - 5000, 0.2, 5000));
        let mut once = got.clone();
        once.dedup();
        assert_eq!(once, numbered(5000));
    }
}

#[test]
fn without_buffers_there_are_no_duplicates_and_no_harm() {
    let mut pool = HeapPool::new(1, 2048);
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(Faults { duplicate: 1.0, ..Faults::default() });
    let (mut rx, _tx) = open_one(&mut port, &pool);
    handle.send_all(numbered(5));
    assert_eq!(drain(&mut *rx, &mut pool, 0), numbered(5));
}

#[test]
fn truncated_frames_are_beginnings() {
    for got in both(Faults { seed: 3, truncate: 0.3, ..Faults::default() }, 5000) {
        let sent = numbered(5000);
        assert_eq!(got.len(), sent.len());
        assert!(got.iter().zip(&sent).all(|(got, sent)| !got.is_empty() && sent.starts_with(got)));
        assert!(near(got.iter().filter(|got| got.len() < 64).count(), 0.3, 5000));
        assert!((1..64).all(|len| got.iter().any(|got| got.len() == len)), "every length occurs");
    }
}

#[test]
fn corruption_inverts_one_bit_anywhere() {
    for got in both(Faults { seed: 4, corrupt: 0.5, ..Faults::default() }, 5000) {
        let sent = numbered(5000);
        let mut bits = [0; 512];
        let mut struck = 0;
        for (got, sent) in got.iter().zip(&sent) {
            let differ = |bit: &usize| (got[bit / 8] ^ sent[bit / 8]) >> (bit % 8) & 1 == 1;
            let wrong: Vec<usize> = (0..512).filter(differ).collect();
            assert!(wrong.len() <= 1);
            struck += wrong.len();
            wrong.iter().for_each(|&bit| bits[bit] += 1);
        }
        assert!(near(struck, 0.5, 5000));
        assert!(bits.iter().filter(|&&count| count > 0).count() > 450, "all over the frame");
    }
}

#[test]
fn reordered_packets_are_overtaken_by_a_few() {
    for got in both(Faults { seed: 5, reorder: 0.05, ..Faults::default() }, 5000) {
        let mut numbers: Vec<u32> = got.iter().map(|frame| number(frame)).collect();
        // A packet is late if one that was sent after it came before it.
        let late: Vec<usize> =
            (1..numbers.len()).filter(|&at| numbers[..at].iter().rev().take(64).any(|&n| n > numbers[at])).collect();
        assert!((150..320).contains(&late.len()), "{} of 5000 are late", late.len());
        for at in late {
            let overtook = numbers[..at].iter().filter(|&&n| n > numbers[at]).count();
            // Those that overtook may themselves have been late, and one call's packets come together.
            assert!(overtook <= 2 * Faults::REORDER_DEPTH as usize, "{overtook} packets overtook");
        }
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..5000), "none is lost");
    }
}

#[test]
fn delayed_packets_come_when_their_time_has_come() {
    let faults = Faults { seed: 6, delay: 1.0, delay_time: 250_000, ..Faults::default() };
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(faults);
    let (mut rx, mut tx) = open_one(&mut port, &pool);
    handle.send_all(numbered(3));
    assert!(drain(&mut *rx, &mut pool, 1000).is_empty());
    assert_eq!((rx.next_at(), rx.exhausted()), (Some(251_000), false));
    assert!(drain(&mut *rx, &mut pool, 250_999).is_empty());
    assert_eq!(drain(&mut *rx, &mut pool, 251_000), numbered(3));
    assert_eq!(transmit(&mut *tx, &mut pool, &numbered(3), 1000), 3);
    assert!(handle.received().is_empty());
    assert_eq!(transmit(&mut *tx, &mut pool, &numbered(1), 251_000), 1);
    assert_eq!(handle.received(), numbered(3));
    tx.flush();
    assert_eq!(handle.received(), numbered(1));
}

#[test]
fn a_stuck_device_pushes_back_through_the_faults() {
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_faults(Faults { duplicate: 1.0, ..Faults::default() });
    let (_rx, mut tx) = open_one(&mut port, &pool);
    handle.set_tx(weir_port_mem::TxMode::Slow(3));
    let accepted: u64 = (0..100).map(|_| transmit(&mut *tx, &mut pool, &numbered(10), 0)).sum();
    assert!(accepted < 1000);
    handle.set_tx(weir_port_mem::TxMode::Normal);
    tx.flush();
    assert_eq!(handle.received().len() as u64, 2 * accepted);
}

#[test]
fn any_port_can_be_surrounded() {
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = FaultPort::new(Box::new(port), Faults { seed: 8, delay: 0.5, corrupt: 0.5, ..Faults::default() });
    let figures = port.figures();
    let (mut rx, tx) = open_one(&mut port, &pool);
    handle.send_all(numbered(100));
    let got = drain(&mut *rx, &mut pool, 0);
    assert_eq!((got.len() as u64, figures.held()), (100 - figures.counts().delayed, figures.counts().delayed));
    assert_eq!(port.stats().in_rings, Some(figures.held()));
    let wrong =
        got.iter().filter(|got| **got != numbered(number(got).min(100) + 1)[number(got).min(100) as usize]).count();
    assert!(wrong > 0 && wrong as u64 <= figures.counts().corrupted);
    drop((rx, tx));
    port.close();
    assert_eq!(port.stats().in_rings, Some(0));
    assert_home(&pool);
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let odds = || prop_oneof![Just(0.0), 0.0..0.3_f64];
    (any::<u64>(), odds(), odds(), odds(), odds(), odds(), odds(), 0..3_000_000_u64).prop_map(
        |(seed, drop, duplicate, truncate, corrupt, reorder, delay, delay_time)| Faults {
            seed,
            drop,
            duplicate,
            truncate,
            corrupt,
            reorder,
            delay,
            delay_time,
            receive_only: false,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_same_seed_gives_the_same_faults(faults in any_faults()) {
        prop_assert_eq!(receive(faults, 400), receive(faults, 400));
        prop_assert_eq!(send(faults, 400), send(faults, 400));
    }

    #[test]
    fn counts_tell_the_difference(faults in any_faults()) {
        // Without changed bytes, each packet comes never, once, or twice.
        let faults = Faults { truncate: 0.0, corrupt: 0.0, ..faults };
        let mut pool = pool();
        let (port, handle) = MemPort::fed("wan");
        let mut port = port.with_faults(faults);
        let (mut rx, _tx) = open_one(&mut port, &pool);
        handle.send_all(numbered(400));
        handle.end();
        let mut got: HashMap<u32, u32> = HashMap::new();
        let mut now = 0;
        while !rx.exhausted() {
            for frame in drain(&mut *rx, &mut pool, now) {
                *got.entry(number(&frame)).or_default() += 1;
            }
            now = rx.next_at().unwrap_or(now).max(now);
        }
        prop_assert!(got.values().all(|&times| times <= 2));
        let lost = rx.lost().iter().find(|(name, ..)| *name == "fault-drop").map_or(0, |lost| lost.2);
        prop_assert_eq!(lost, handle.faults().dropped);
        prop_assert_eq!(lost + got.len() as u64, 400);
        let twice = got.values().filter(|&&times| times == 2).count() as u64;
        prop_assert_eq!(twice, handle.faults().duplicated);
    }
}
