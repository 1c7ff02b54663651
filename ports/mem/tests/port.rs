//! Ports in memory from the outside.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use std::time::Duration;

use common::{assert_home, drain, frames, open_one, pool, transmit};
use weir_packet::{Batch, Burst, Pool};
use weir_port_mem::{Frames, Generated, HEADER, Loop, MemPort, Pace, Pattern, TxMode};
use weir_stage::Port;

#[test]
fn fed_frames_arrive_and_transmitted_ones_come_out() {
    let mut pool = pool();
    let (mut port, handle) = MemPort::fed("wan");
    let (mut rx, mut tx) = open_one(&mut port, &pool);
    let sent = frames(300);
    handle.send_all(sent.clone());
    assert_eq!(handle.waiting(), 300);
    assert_eq!(drain(&mut *rx, &mut pool, 7), sent);
    assert!(!rx.exhausted());
    handle.end();
    assert!(rx.exhausted());
    assert_eq!(transmit(&mut *tx, &mut pool, &sent, 8), 300);
    assert_eq!(handle.wait_received(300, Duration::from_secs(5)), sent);
    assert_eq!(handle.received(), Vec::<Vec<u8>>::new());
    assert_eq!(handle.report().packets, 300);
    assert_eq!(handle.report().bytes, sent.iter().map(Vec::len).sum::<usize>() as u64);
    drop((rx, tx));
    assert_home(&pool);
}

#[test]
fn frames_that_fit_no_buffer_are_lost_by_name() {
    let mut pool = pool();
    let (mut port, handle) = MemPort::fed("wan");
    let (mut rx, _tx) = open_one(&mut port, &pool);
    handle.send_all([vec![], vec![1; 2048], vec![2; 2049], vec![3]]);
    assert_eq!(drain(&mut *rx, &mut pool, 0), [vec![1; 2048], vec![3]]);
    assert_eq!(rx.lost().iter().map(|&(name, _, count)| (name, count)).collect::<Vec<_>>(), [("unfit", 2)]);
    assert_eq!(port.stats().rx_errors, Some(2));
}

#[test]
fn without_buffers_frames_wait() {
    let mut pool = weir_packet::HeapPool::new(3, 2048);
    let (mut port, handle) = MemPort::fed("wan");
    let (mut rx, _tx) = open_one(&mut port, &pool);
    handle.send_all(frames(5));
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, &mut pool, 0).packets, 3);
    assert_eq!(handle.waiting(), 2);
    pool.free_batch(&mut batch, u64::MAX);
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(5)[3..]);
}

#[test]
fn flows_keep_to_their_queue_and_nothing_is_lost() {
    let mut pool = pool();
    let (mut port, handle) = MemPort::fed("wan");
    handle.send_all(frames(100)); // before the queues exist
    let (mut rx, _tx) = port.open(4, 1, &pool).unwrap();
    handle.send_all(frames(100));
    let mut all: Vec<Vec<u8>> = Vec::new();
    for queue in &mut rx {
        let got = drain(&mut **queue, &mut pool, 0);
        assert_eq!(got[..got.len() / 2], got[got.len() / 2..], "the same flows came to this queue both times");
        assert!(!got.is_empty(), "100 flows miss a queue of four once in 10^12 times");
        all.extend(got);
    }
    let mut expected = [frames(100), frames(100)].concat();
    all.sort();
    expected.sort();
    assert_eq!(all, expected);
}

#[test]
fn the_outside_can_break_the_port() {
    let mut pool = pool();
    let (mut port, handle) = MemPort::fed("wan");
    let (mut rx, mut tx) = open_one(&mut port, &pool);
    handle.set_tx(TxMode::Slow(5));
    assert_eq!((tx.room(), transmit(&mut *tx, &mut pool, &frames(20), 0)), (5, 5));
    handle.set_tx(TxMode::Stuck);
    assert_eq!((tx.room(), transmit(&mut *tx, &mut pool, &frames(20), 0)), (0, 0));
    assert!(tx.alive());
    handle.set_tx(TxMode::Normal);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(20), 0), 20);
    assert_eq!(handle.received(), [&frames(20)[..5], &frames(20)[..]].concat());

    handle.send_all(frames(3));
    handle.set_link(false);
    assert!(!port.link_up() && tx.alive());
    assert_eq!(drain(&mut *rx, &mut pool, 0).len(), 0);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(20), 0), 20);
    assert!(handle.received().is_empty());
    handle.set_link(true);
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(3));

    handle.disappear();
    handle.send_all(frames(3));
    assert!(!port.link_up() && !tx.alive());
    assert_eq!(drain(&mut *rx, &mut pool, 0).len(), 0);
    assert_eq!((tx.room(), transmit(&mut *tx, &mut pool, &frames(20), 0)), (0, 0));
}

#[test]
fn a_bounded_outbox_counts_what_it_does_not_keep() {
    let mut pool = pool();
    let (port, handle) = MemPort::fed("wan");
    let mut port = port.with_keeping(10);
    let (_rx, mut tx) = open_one(&mut port, &pool);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(25), 0), 25);
    assert_eq!((handle.received(), handle.report().not_kept), (frames(10), 15));
}

#[test]
fn replays_repeat_in_order_and_end() {
    let mut pool = pool();
    let mut port = MemPort::frames("wan", frames(10), Pace { count: Some(25), ..Pace::default() });
    let (mut rx, tx) = open_one(&mut port, &pool);
    assert!(!rx.exhausted());
    let expected: Vec<Vec<u8>> = frames(10).into_iter().cycle().take(25).collect();
    assert_eq!(drain(&mut *rx, &mut pool, 0), expected);
    assert!(rx.exhausted());
    assert_eq!(port.stats().in_rings, Some(Loop::DEPTH as u64 - 25));
    drop((rx, tx));
    port.close();
    assert_home(&pool);
}

#[test]
fn an_empty_replay_is_exhausted_at_once() {
    let mut pool = pool();
    let mut port = MemPort::frames("wan", vec![], Pace::default());
    let (mut rx, _tx) = open_one(&mut port, &pool);
    assert!(rx.exhausted());
    assert_eq!(drain(&mut *rx, &mut pool, 0).len(), 0);
}

#[test]
fn a_rate_is_kept_exactly() {
    // The definition: packet n is due n / rate after the first call.
    for rate in [1_u64, 3, 1000, 999_983, 1_000_000_000, 3_000_000_000] {
        let mut pool = pool();
        let mut port = MemPort::frames("wan", frames(1), Pace { rate: Some(rate), ..Pace::default() });
        let (mut rx, mut tx) = open_one(&mut port, &pool);
        let start = 1_000;
        let (mut now, mut got) = (start, 0_u128);
        for _ in 0..40 {
            let mut batch = Batch::new();
            loop {
                let more = rx.receive(&mut batch, &mut pool, now).packets;
                got += u128::from(more);
                pool.free_batch(&mut batch, u64::MAX);
                if more == 0 {
                    break;
                }
            }
            let elapsed = u128::from(now - start);
            let due = (0..).take_while(|n| n * 1_000_000_000 / u128::from(rate) <= elapsed).count() as u128;
            assert_eq!(got, due, "at {rate} packets per second, {elapsed} ns after the start");
            let next = rx.next_at().unwrap();
            assert!(next > now);
            // Just before the next is due, nothing comes; at that time it does.
            now = if (now - start) % 2 == 0 && next - 1 > now { next - 1 } else { next };
        }
        let mut burst = Burst::new();
        tx.transmit(&mut burst, &mut pool, now);
    }
}

#[test]
fn buffers_go_round_least_recently_used_first() {
    let mut pool = pool();
    let recycle = Loop::new(Loop::DEPTH);
    let header = |number: u64| {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&number.to_be_bytes());
        header
    };
    let pattern = Generated::new(60, None, header);
    let patterns: Vec<Box<dyn Pattern>> = vec![Box::new(pattern)];
    let check = Box::new(|frame: &[u8]| {
        let number = u64::from_be_bytes(frame[..8].try_into().unwrap());
        if number < 64 * 200 && frame.len() == 60 { Ok(()) } else { Err(format!("packet {number} is wrong")) }
    });
    let mut port = MemPort::replay("wan", patterns, Pace::default())
        .with_loops(std::slice::from_ref(&recycle))
        .with_check(1024, check);
    let (mut rx, mut tx) = open_one(&mut port, &pool);
    let mut batch = Batch::new();
    let mut burst = Burst::new();
    let mut last_seen = std::collections::HashMap::new();
    for round in 0..200_u64 {
        assert_eq!(rx.receive(&mut batch, &mut pool, round).packets, 64);
        batch.each(|slot, packet, _| {
            let handed = round * 64 + slot.index() as u64;
            if let Some(before) = last_seen.insert(packet.id(), handed) {
                assert!(handed - before >= Loop::DEPTH as u64 - 64, "a buffer came back after {}", handed - before);
            }
            packet.window_mut::<8>(0)[0] = 0xff; // what the path changes is restored
        });
        // One in 16 takes a side exit and goes home.
        pool.free_batch(&mut batch, 0x8000_8000_8000_8000 & (round % 2).wrapping_neg());
        batch.each(|_, packet, _| packet.window_mut::<8>(0)[0] = 0);
        batch.move_to_burst(u64::MAX, &mut burst);
        let there = burst.len() as u64;
        assert_eq!(tx.transmit(&mut burst, &mut pool, round).packets, there);
    }
    assert!(recycle.fewest() >= Loop::DEPTH);
    let report = port.handle().report();
    assert_eq!((report.checked, report.failed), (report.packets / 1024, 0));
    assert!(report.checked > 10);
    drop((rx, tx));
    port.close();
    drop(recycle);
    assert_home(&pool);
}

#[test]
fn a_check_sees_one_in_so_many_and_tells_what_is_wrong() {
    let mut pool = pool();
    let check =
        Box::new(|frame: &[u8]| if frame.len().is_multiple_of(2) { Ok(()) } else { Err(format!("{}", frame.len())) });
    let mut port = MemPort::null("wan").with_check(3, check);
    let (_rx, mut tx) = open_one(&mut port, &pool);
    let sent: Vec<Vec<u8>> = (0..100).map(|n| vec![0; 60 + n]).collect();
    // In bursts of different lengths: the third, sixth, ... packet is checked whatever the bursts.
    assert_eq!(sent.chunks(7).map(|some| transmit(&mut *tx, &mut pool, some, 0)).sum::<u64>(), 100);
    let report = port.handle().report();
    assert_eq!((report.packets, report.checked, report.failed), (100, 33, 16));
    assert_eq!(report.failures[..3], ["65".to_owned(), "71".to_owned(), "77".to_owned()]);
    assert_eq!(report.failures.len(), 16);
}

#[test]
fn header_restoring_equals_whole_copies() {
    let mut pool = pool();
    let mut set = frames(50);
    set.iter_mut().for_each(|frame| frame[HEADER..].fill(0xaa));
    let mut patterns = [Frames::whole(set.clone()), Frames::headers(set.clone())];
    let mut burst = Burst::new();
    assert!(pool.alloc_burst(64, &mut burst));
    for first in [0_u64, 64, 128, 3, 1 << 40] {
        for pattern in &mut patterns {
            burst.packets_mut().iter_mut().for_each(|packet| {
                packet.bytes_mut().iter_mut().take(20).for_each(|byte| *byte = !*byte);
                if packet.len() % 3 == 0 {
                    packet.trim_front(14);
                }
            });
            let bytes = pattern.write(first, burst.packets_mut());
            assert_eq!(bytes, burst.packets().iter().map(|packet| packet.len() as u64).sum::<u64>());
            for (n, packet) in burst.packets().iter().enumerate() {
                assert_eq!(packet.bytes(), set[(first as usize + n) % 50]);
            }
        }
    }
    pool.free_burst(&mut burst);
}

#[test]
fn a_mirror_returns_what_it_took_within_its_room() {
    let mut pool = pool();
    let mut port = MemPort::mirror("wan");
    let (mut rx, mut tx) = open_one(&mut port, &pool);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(2000), 0), 1024);
    assert_eq!((tx.room(), port.stats().in_rings), (0, Some(1024)));
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(2000)[..1024]);
    transmit(&mut *tx, &mut pool, &frames(5), 0);
    drop((rx, tx));
    port.close();
    assert_home(&pool);
}

#[test]
fn too_many_queues_and_too_long_frames_are_refused() {
    let pool = pool();
    let patterns: Vec<Box<dyn Pattern>> = vec![Box::new(Frames::whole(frames(1)))];
    let error = MemPort::replay("wan", patterns, Pace::default()).open(2, 1, &pool).err().unwrap();
    assert!(error.0.contains("2 receive and 1 transmit queues were asked for"), "{error}");
    let error = MemPort::frames("wan", vec![vec![0; 2049]], Pace::default()).open(1, 1, &pool).err().unwrap();
    assert!(error.0.contains("2049 bytes"), "{error}");
}

#[test]
fn a_mac_is_local_and_follows_from_the_name() {
    let mac = |name| MemPort::null(name).facts().mac;
    assert_eq!(mac("wan"), mac("wan"));
    assert_ne!(mac("wan"), mac("lan"));
    assert_eq!(mac("wan")[0], 0x02);
}
