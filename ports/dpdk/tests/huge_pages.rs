//! EAL in huge pages. Reserves some for the time of the test, and leaves them as they were; skipped with a
//! message where that cannot be done.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::peers::link;
use common::{all_but_the_last, alone, can_unshare, cross, ip, open, options, part, start};
use weir_packet::{DATA_ROOM, Pool};
use weir_port_dpdk::eal::{Eal, Memory};
use weir_port_dpdk::{DpdkPool, Pages};

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Pages of 2 MB for the two processes of a test.
const PAGES: u32 = 200;

/// Reserved pages, given back when dropped.
struct Reservation {
    before: String,
}

impl Reservation {
    fn reserve() -> Option<Reservation> {
        let before = std::fs::read_to_string(RESERVED).ok()?;
        let wanted = before.trim().parse::<u32>().ok()? + PAGES;
        let pages = Reservation { before };
        std::fs::write(RESERVED, wanted.to_string()).ok()?;
        let now: u32 = std::fs::read_to_string(RESERVED).ok()?.trim().parse().ok()?;
        (now >= wanted).then_some(pages)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = std::fs::write(RESERVED, &self.before);
    }
}

/// One test, for the pages are reserved for one at a time.
#[test]
fn everything_works_in_huge_pages() {
    let test = "everything_works_in_huge_pages";
    match part().as_deref() {
        None => {
            let Some(_pages) = Reservation::reserve() else {
                eprintln!("{test}: skipped: cannot reserve {PAGES} huge pages of 2 MB");
                return;
            };
            if can_unshare() {
                alone(test, &["unshare", "-n"], || {});
            } else {
                alone(test, &[], || {});
            }
            // What needs memory that both processes can map.
            link(test, "memif:5,role=server,socket=SOCK", "memif:5,role=client,socket=SOCK,zero-copy=yes");
        }
        Some("alone") => {
            assert_eq!(options("x").memory, Memory::Auto);
            let (eal, mut pool) = start("huge", DATA_ROOM);
            assert!(eal.huge_pages(), "there are enough");
            assert_eq!(pool.pages(), Pages::Reserved);
            let mut ring = open(&eal, "vdev:net_ring0", &pool);
            assert!(ring.send(1, 1500, &mut pool));
            assert_eq!(ring.receive(1500, &mut pool), [1]);
            drop(ring);
            if can_unshare() {
                the_kernel_swallows_no_buffer(&eal, &mut pool);
            }
        }
        Some(_) => link(test, "memif:5,role=server,socket=SOCK", "memif:5,role=client,socket=SOCK,zero-copy=yes"),
    }
}

/// As the test of this name in `again.rs`.
fn the_kernel_swallows_no_buffer(eal: &Arc<Eal>, pool: &mut DpdkPool) {
    ip("link add va type veth peer name vb");
    let mut packet = open(eal, "af_packet:vb", pool);
    let mut first = all_but_the_last(40, pool);
    let mut xdp = open(eal, "af_xdp:va", pool);
    // So many that each buffer of the fill ring has its turn.
    cross(&mut packet, &mut xdp, 3000, 1514, pool);
    first.iter_mut().for_each(|burst| pool.free_burst(burst));
    assert_eq!(
        xdp.port.stats().in_rings,
        Some((pool.taken() - pool.at_hand()) as u64),
        "what is missing is in the rings"
    );
}
