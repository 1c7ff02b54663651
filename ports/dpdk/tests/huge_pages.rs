//! EAL in huge pages. Reserves some for the time of the test, and leaves them as they were; skipped with a
//! message where that cannot be done.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::peers::link;
use common::{alone, can_unshare, open, options, part, start, the_kernel_swallows_no_buffer};
use weir_packet::DATA_ROOM;
use weir_port_dpdk::Pages;
use weir_port_dpdk::eal::Memory;

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
                the_kernel_swallows_no_buffer(40, &eal, &mut pool);
            }
        }
        Some(_) => link(test, "memif:5,role=server,socket=SOCK", "memif:5,role=client,socket=SOCK,zero-copy=yes"),
    }
}
