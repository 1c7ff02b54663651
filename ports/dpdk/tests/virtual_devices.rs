//! Devices that need neither root nor a peer.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{alone, capture, folder, frame, number, open, start, try_open, wait};
use weir_packet::{Burst, DATA_ROOM, HeapPool, Pool, defects};
use weir_port_dpdk::PortConfig;
use weir_port_dpdk::eal::Eal;

#[test]
fn null_is_endless_and_blank() {
    alone("null_is_endless_and_blank", &[], || {
        let (eal, mut pool) = start("null", DATA_ROOM);
        assert!(Eal::version().starts_with("DPDK "));
        let before = pool.taken() - pool.at_hand();
        let mut null = open(&eal, "null:size=200", &pool);
        assert!(null.port.link_up());
        // Dirty buffers go round.
        assert!(null.send(5, 1500, &mut pool));
        for _ in 0..1000 {
            let got = null.rx.receive(&mut null.batch, &mut pool, 1);
            assert_eq!((got.packets, got.bytes), (64, 64 * 200));
            assert!(null.batch.slots().all(|slot| null.batch.get(slot).unwrap().bytes() == [0; 200]));
            let mut burst = Burst::new();
            assert_eq!(null.batch.move_to_burst(u64::MAX, &mut burst), 64);
            let sent = null.tx.transmit(&mut burst, &mut pool, 1);
            assert_eq!((sent.packets, sent.bytes, burst.len()), (64, 64 * 200, 0));
        }
        let stats = null.port.stats();
        assert_eq!((stats.missed, stats.in_rings), (None, Some(0)));
        assert_eq!(pool.taken() - pool.at_hand(), before, "every buffer is back");
        let mut silent = open(&eal, "null:no-rx=1", &pool);
        assert_eq!(silent.rx.receive(&mut silent.batch, &mut pool, 1).packets, 0);
    });
}

#[test]
fn null_leaves_what_was_in_buffers_where_asked() {
    alone("null_leaves_what_was_in_buffers_where_asked", &[], || {
        let (eal, mut pool) = start("left", DATA_ROOM);
        let mut null = open(&eal, "null:size=60,blank=0", &pool);
        // The buffer that was put back last is taken first.
        assert!(null.send(0, 60, &mut pool));
        assert_eq!(null.rx.receive(&mut null.batch, &mut pool, 1).packets, 64);
        let as_sent = |slot| null.batch.get(slot).unwrap().bytes() == frame(0, 60);
        assert_eq!(null.batch.slots().filter(|slot| as_sent(*slot)).count(), 1);
    });
}

#[test]
fn no_more_are_received_at_once_than_was_said() {
    alone("no_more_are_received_at_once_than_was_said", &[], || {
        let (eal, mut pool) = start("bursts", DATA_ROOM);
        let config = PortConfig { burst: 5, max_wait: 7_000, ..PortConfig::default() };
        let mut null = try_open(&eal, "null", config, &pool).unwrap();
        // What is in a batch already makes room for no more.
        for all in [5, 10, 15] {
            assert_eq!(null.rx.receive(&mut null.batch, &mut pool, 1).packets, 5);
            assert_eq!(null.batch.len(), all);
        }
        assert_eq!(null.tx.max_wait(), 7_000);
    });
}

#[test]
fn what_is_larger_than_a_buffer_is_lost_by_name() {
    alone("what_is_larger_than_a_buffer_is_lost_by_name", &[], || {
        let (eal, mut pool) = start("large", DATA_ROOM);
        // This driver claims a length without looking at the buffer.
        let mut null = open(&eal, "null:size=3000", &pool);
        let before = pool.taken() - pool.at_hand();
        assert_eq!(null.rx.receive(&mut null.batch, &mut pool, 1).packets, 0);
        let lost: Vec<_> = null.rx.lost().into_iter().map(|(reason, _, n)| (reason, n)).collect();
        assert_eq!(lost, [("long", 0), ("unfit", 64)]);
        assert_eq!(pool.taken() - pool.at_hand(), before);
    });
}

#[test]
fn a_ring_gives_back_what_it_got() {
    alone("a_ring_gives_back_what_it_got", &[], || {
        let (eal, mut pool) = start("ring", DATA_ROOM);
        let mut ring = open(&eal, "vdev:net_ring0", &pool);
        for round in 0..100_u32 {
            let mut burst = Burst::new();
            assert!(pool.alloc_burst(64, &mut burst));
            for (packet, n) in burst.packets_mut().iter_mut().zip(round * 64..) {
                assert!(packet.fill(&frame(n, 1500)));
            }
            assert_eq!(ring.tx.transmit(&mut burst, &mut pool, 0).packets, 64);
            let back = ring.receive(1500, &mut pool);
            assert!(back.into_iter().eq(round * 64..(round + 1) * 64));
        }
        assert_eq!(defects(), 0);
    });
}

#[test]
fn buffers_of_another_pool_are_copied() {
    alone("buffers_of_another_pool_are_copied", &[], || {
        let (eal, mut pool) = start("mixed", DATA_ROOM);
        let mut heap = HeapPool::new(64, DATA_ROOM);
        let mut ring = open(&eal, "vdev:net_ring0", &pool);
        let mut burst = Burst::new();
        for n in 0..6 {
            let mut packet = if n % 2 == 0 { heap.alloc() } else { pool.alloc() }.unwrap();
            assert!(packet.fill(&frame(n, 1500)));
            burst.push(packet).unwrap();
        }
        assert_eq!(ring.tx.transmit(&mut burst, &mut heap, 0).packets, 6);
        assert_eq!(heap.taken() - heap.at_hand(), 0, "the heap's went home");
        assert_eq!(ring.receive(1500, &mut pool), [0, 1, 2, 3, 4, 5]);
        let foreign = heap.alloc().unwrap();
        pool.free(foreign);
        assert_eq!(defects(), 1, "a buffer in the wrong pool goes home as a defect");
    });
}

#[test]
fn the_pool_is_whole() {
    alone("the_pool_is_whole", &[], || {
        let (eal, mut pool) = start("pool", 1000);
        let registered = std::thread::scope(|scope| {
            let (eal, mut another) = (&eal, pool.another());
            let worker = scope.spawn(move || {
                let known = eal.register_thread();
                let mut burst = Burst::new();
                for _ in 0..1000 {
                    assert!(another.alloc_burst(Burst::ROOM, &mut burst));
                    another.free_burst(&mut burst);
                }
                known.is_some()
            });
            worker.join().unwrap()
        });
        assert!(registered);
        assert_eq!(pool.data_room(), 1024, "rounded up");
        assert_eq!((pool.capacity(), pool.taken()), (common::BUFFERS, 0));
        let mut all = Vec::new();
        while let Some(packet) = pool.alloc() {
            assert_eq!((packet.len(), packet.headroom(), packet.room()), (0, 128, 1024));
            assert!(packet.window::<128>(0).iter().all(|byte| *byte == 0), "nothing from before");
            all.push(packet);
        }
        assert_eq!(all.len(), common::BUFFERS);
        let mut burst = Burst::new();
        assert!(!pool.alloc_burst(1, &mut burst), "nothing left");
        assert_eq!(pool.taken() - pool.at_hand(), common::BUFFERS);
        drop(all.pop());
        assert_eq!((defects(), pool.taken() - pool.at_hand()), (1, common::BUFFERS - 1), "lost, and home all the same");
        all.into_iter().for_each(|packet| pool.free(packet));
        assert_eq!(pool.taken(), pool.at_hand());
        drop(pool.another());
        assert!(pool.alloc_burst(128, &mut burst));
        pool.free_burst(&mut burst);
    });
}

#[test]
fn captures_are_read_and_written() {
    alone("captures_are_read_and_written", &[], || {
        let (input, output) = (folder().join("in.pcap"), folder().join("out.pcap"));
        std::fs::write(&input, capture((0..500).map(|n| frame(n, 1500)))).unwrap();
        let (eal, mut pool) = start("pcap", DATA_ROOM);
        let device = format!("vdev:net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
        let mut port = open(&eal, &device, &pool);
        let mut arrived = 0;
        common::wait("all of the capture", || {
            let got = port.rx.receive(&mut port.batch, &mut pool, 1);
            arrived += got.packets;
            let mut burst = Burst::new();
            port.batch.move_to_burst(u64::MAX, &mut burst);
            assert_eq!(port.tx.transmit(&mut burst, &mut pool, 1).packets, got.packets);
            arrived == 500
        });
        drop(port);
        let written = std::fs::read(&output).unwrap();
        let mut rest = &written[24..];
        for n in 0..500 {
            let length = u32::from_ne_bytes(rest[8..12].try_into().unwrap()) as usize;
            assert_eq!(number(&rest[16..16 + length], 1500), Some(n));
            rest = &rest[16 + length..];
        }
        assert!(rest.is_empty());
    });
}

#[test]
fn a_chain_is_made_one_piece_or_lost_by_name() {
    alone("a_chain_is_made_one_piece_or_lost_by_name", &[], || {
        let input = folder().join("jumbo.pcap");
        std::fs::write(&input, capture([frame(1, 60), vec![7; 5000], frame(2, 60)].into_iter())).unwrap();
        let (eal, mut pool) = start("chain", DATA_ROOM);
        let before = pool.taken() - pool.at_hand();
        // This driver splits what is longer than a buffer, and checks no MTU.
        let mut port = open(&eal, &format!("vdev:net_pcap0,rx_pcap={}", input.display()), &pool);
        let mut numbers = Vec::new();
        common::wait("both short frames", || {
            numbers.extend(port.receive(60, &mut pool));
            numbers.len() == 2
        });
        assert_eq!(numbers, [1, 2]);
        assert_eq!(port.rx.lost()[0].2, 1, "5000 bytes fit no buffer of 2048");
        assert_eq!(pool.taken() - pool.at_hand(), before, "the whole chain is back");
    });
}

#[test]
fn devices_come_and_go() {
    alone("devices_come_and_go", &[], || {
        let (eal, mut pool) = start("replug", DATA_ROOM);
        for _ in 0..10 {
            let mut ring = open(&eal, "vdev:net_ring0", &pool);
            assert!(ring.send(1, 100, &mut pool));
            assert_eq!(ring.receive(100, &mut pool), [1]);
            ring.port.close();
            assert!(!ring.port.link_up());
            assert!(!ring.tx.alive());
            assert!(!ring.send(2, 100, &mut pool), "a closed port takes nothing");
            // The device is released by the last of its queues.
            assert!(ring.receive(100, &mut pool).is_empty());
        }
        let mut port = open(&eal, "null", &pool).port;
        port.close();
        let (rx, _tx) = port.open(2, 2, &pool).unwrap();
        assert_eq!(rx.len(), 2);
    });
}

/// A memif's two ends in one process go one right after the other, again and again, while a worker asks one of them for packets.
#[test]
fn both_ends_of_a_memif_go_at_once() {
    alone("both_ends_of_a_memif_go_at_once", &[], || {
        let (eal, pool) = start("both-ends", DATA_ROOM);
        let end = |role| format!("memif:3,role={role},socket={}", folder().join("both.sock").display());
        for _ in 0..300 {
            let mut server = open(&eal, &end("server"), &pool);
            let mut client = open(&eal, &end("client"), &pool);
            let going = AtomicBool::new(true);
            std::thread::scope(|scope| {
                let (server, going) = (&mut server, &going);
                let mut theirs = pool.another();
                let asking = scope.spawn(move || {
                    while going.load(Ordering::Relaxed) {
                        server.rx.receive(&mut server.batch, &mut *theirs, 0);
                    }
                });
                wait("the link is up", || client.port.link_up());
                drop(client);
                going.store(false, Ordering::Relaxed);
                asking.join().unwrap();
            });
            drop(server);
        }
    });
}
