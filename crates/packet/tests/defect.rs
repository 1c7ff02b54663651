//! A process of its own, because the count of defects is the process's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use weir_packet::{HeapPool, Pool};

#[test]
fn a_lost_packet_is_counted_and_its_pool_shows_it() {
    let mut pool = HeapPool::new(4, 2048);
    let before = weir_packet::defects();
    drop(pool.alloc().unwrap());
    assert_eq!(weir_packet::defects() - before, 1);
    assert_eq!(pool.taken() - pool.at_hand(), 1);
}
