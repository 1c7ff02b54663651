//! Buffers in memory of which nobody has reserved huge pages: the kernel makes some of it, and where it does not, they are in pages of 4 KiB.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{BUFFERS, all_but_the_last, alone, can_unshare, options, part, the_kernel_swallows_no_buffer};
use rustix::thread::disable_transparent_huge_pages;
use weir_packet::{DATA_ROOM, Pool};
use weir_port_dpdk::eal::{Eal, EalOptions, Memory};
use weir_port_dpdk::{DpdkPool, Pages};

/// Bytes of EAL's memory that this process sees by entries for huge pages, as the kernel tells.
fn in_huge_pages() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let of_eal = maps.lines().skip_while(|line| !line.contains("memfd:nohuge"));
    let kilobytes = of_eal.filter_map(|line| line.strip_prefix("ShmemPmdMapped:")).next().unwrap();
    kilobytes.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Whether this kernel makes huge pages when it is asked (Linux 6.1).
fn makes_huge_pages() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    version >= (6, 1) && Path::new("/sys/kernel/mm/transparent_hugepage").exists()
}

fn start(name: &str) -> (Arc<Eal>, DpdkPool) {
    let eal = Arc::new(Eal::start(&EalOptions { memory: Memory::Ordinary, ..options(name) }).unwrap());
    assert!(!eal.huge_pages());
    let pool = DpdkPool::create(&eal, BUFFERS, DATA_ROOM).unwrap();
    (eal, pool)
}

/// All buffers come, none twice and none in another, and go back.
fn all_buffers_are_there(pool: &mut DpdkPool) {
    let mut bursts = all_but_the_last(0, pool);
    for (number, packet) in bursts.iter_mut().flat_map(|burst| burst.packets_mut()).enumerate() {
        assert!(packet.fill(&[number as u8; DATA_ROOM]), "buffer {number}");
    }
    assert!(pool.alloc().is_none(), "these were all");
    for (number, packet) in bursts.iter().flat_map(|burst| burst.packets()).enumerate() {
        assert!(packet.bytes().iter().all(|&byte| byte == number as u8), "buffer {number}");
    }
    bursts.iter_mut().for_each(|burst| pool.free_burst(burst));
    assert_eq!(pool.taken() - pool.at_hand(), 0);
}

/// Starts EAL in a process of its own that was prepared, and tries the buffers; by AF_XDP, too, where this is root.
fn works(test: &str, prepare: impl Fn(), expect: impl Fn(Pages, usize)) {
    let is_root = can_unshare();
    if part().is_none() && !is_root {
        eprintln!("{test}: without AF_XDP: needs root (a network namespace)");
    }
    alone(test, if is_root { &["unshare", "-n"] } else { &[] }, || {
        prepare();
        let (eal, mut pool) = start("ordinary");
        expect(pool.pages(), in_huge_pages());
        all_buffers_are_there(&mut pool);
        if is_root {
            the_kernel_swallows_no_buffer(47, &eal, &mut pool);
        }
    });
}

#[test]
fn the_kernel_makes_huge_pages_of_it() {
    let test = "the_kernel_makes_huge_pages_of_it";
    if !makes_huge_pages() {
        eprintln!("{test}: skipped: this kernel makes no huge pages when it is asked (Linux 6.1)");
        return;
    }
    let all = BUFFERS * DATA_ROOM;
    works(test, || {}, |pages, huge| assert!(pages == Pages::Made && huge >= all, "{pages}: {huge} of {all} bytes"));
}

#[test]
fn where_the_kernel_makes_none_it_is_in_small_pages() {
    let test = "where_the_kernel_makes_none_it_is_in_small_pages";
    works(
        test,
        || disable_transparent_huge_pages(true).unwrap(),
        |pages, huge| assert_eq!((pages, huge), (Pages::Small, 0)),
    );
}
