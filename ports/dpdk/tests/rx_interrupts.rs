//! Receive interrupts of vhost and virtio_user: what a worker that sleeps at their queues is woken by. Without root, without huge pages.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Open, alone, folder, open, start, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_packet::{DATA_ROOM, Pool};
use weir_port_dpdk::DpdkPool;

const LONGEST: usize = 1514;

/// Whether the descriptor of a receive queue is readable.
fn tells(port: &Open) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(port.rx.descriptor().unwrap(), PollFlags::IN)];
    poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready == 1)
}

/// Listens, as a worker does that is about to sleep: then there is nothing more to come.
fn listen(port: &mut Open, pool: &mut DpdkPool) {
    wait("all is taken", || port.receive(LONGEST, pool).is_empty());
    wait("nothing is told", || {
        port.rx.listen(true);
        assert!(port.receive(LONGEST, pool).is_empty());
        !tells(port)
    });
}

/// Sends a frame; some drivers send when they are asked to receive.
fn send(from: &mut Open, number: u32, pool: &mut DpdkPool) {
    wait("it is sent", || from.send(number, LONGEST, pool));
    from.receive(LONGEST, pool);
}

fn take(to: &mut Open, number: u32, pool: &mut DpdkPool) {
    wait("it comes", || to.receive(LONGEST, pool) == [number]);
}

/// A queue tells what comes after it was listened to, each time, and nothing while nobody listens.
fn check_telling(from: &mut Open, to: &mut Open, pool: &mut DpdkPool) {
    for number in 0..20 {
        listen(to, pool);
        send(from, number, pool);
        wait("it tells", || tells(to));
        take(to, number, pool);
        // Who did not sleep, for the frame came before.
        to.rx.listen(true);
        to.rx.listen(false);
        for number in 100..103 {
            send(from, number, pool);
            take(to, number, pool);
        }
        assert!(!tells(to), "the peer is not asked to ring while nobody waits");
    }
}

/// In both directions.
fn check_both(ends: [&mut Open; 2], pool: &mut DpdkPool) {
    let [here, there] = ends;
    wait("there is a link", || here.port.link_up() && there.port.link_up());
    check_telling(here, there, pool);
    check_telling(there, here, pool);
}

fn device(template: &str) -> String {
    template.replace("SOCK", folder().join("peer.sock").to_str().unwrap())
}

/// A vhost port stays, its peer comes, goes and comes again: workers at both are woken, whoever listened first.
fn check_vhost(name: &str, stays: &str, comes: &str) {
    alone(name, &[], || {
        let (eal, mut pool) = start("rx-interrupts", DATA_ROOM);
        let mut here = open(&eal, &device(stays), &pool);
        for round in 0..3 {
            // It listens before there is anybody.
            listen(&mut here, &mut pool);
            let mut there = open(&eal, &device(comes), &pool);
            wait("it tells that somebody came", || tells(&here));
            check_both([&mut here, &mut there], &mut pool);
            // Whatever it does when its peer goes.
            if round % 2 == 0 {
                listen(&mut here, &mut pool);
                drop(there);
                wait("it tells that its peer went", || tells(&here));
            } else {
                here.rx.listen(false);
                drop(there);
            }
            wait("the link is down", || !here.port.link_up());
        }
        drop(here);
        assert_eq!(pool.taken(), pool.at_hand(), "everything is back");
    });
}

#[test]
fn vhost_and_virtio_user() {
    check_vhost("vhost_and_virtio_user", "vhost:SOCK", "virtio_user:SOCK");
}

#[test]
fn packed_rings() {
    check_vhost("packed_rings", "vhost:SOCK", "virtio_user:SOCK,packed_vq=1");
}

#[test]
fn vhost_connects() {
    check_vhost("vhost_connects", "vhost:SOCK,client=1", "virtio_user:SOCK,server=1");
}

/// A virtio_user port stays, its peer goes and comes again.
#[test]
fn virtio_user_listens() {
    alone("virtio_user_listens", &[], || {
        let (eal, mut pool) = start("listens", DATA_ROOM);
        // Who is there first waits for the other in its own time, and not when it is opened.
        let mut there = open(&eal, &device("vhost:SOCK,client=1"), &pool);
        let mut here = open(&eal, &device("virtio_user:SOCK,server=1"), &pool);
        check_both([&mut here, &mut there], &mut pool);
        for _ in 0..2 {
            here.rx.listen(true);
            drop(there);
            there = open(&eal, &device("vhost:SOCK,client=1"), &pool);
            check_both([&mut here, &mut there], &mut pool);
        }
        drop((here, there));
        assert_eq!(pool.taken(), pool.at_hand(), "everything is back");
    });
}

#[test]
fn others_are_looked_at() {
    alone("others_are_looked_at", &[], || {
        let (eal, pool) = start("others", DATA_ROOM);
        let memif = format!("memif:1,role=server,socket={}", folder().join("memif.sock").display());
        for device in ["null", "vdev:net_ring0", &memif] {
            assert!(open(&eal, device, &pool).rx.descriptor().is_none(), "{device}");
        }
    });
}
