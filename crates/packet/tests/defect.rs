//! A process of its own, because the count of defects is the process's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use weir_packet::{HeapPool, Pool};

#[test]
fn a_lost_packet_is_counted_and_goes_home() {
    let mut pool = HeapPool::new(4, 2048);
    let before = weir_packet::defects();
    drop(pool.alloc().unwrap());
    assert!(weir_packet::defects() > before);
    assert_eq!(pool.taken() - pool.at_hand(), 0);
}

#[test]
fn a_packet_may_outlive_its_pool() {
    let mut pool = HeapPool::new(4, 2048);
    let mut packet = pool.alloc().unwrap();
    drop(pool);
    assert!(packet.fill(&[7; 2048]));
    assert_eq!(packet.bytes(), [7; 2048]);
    drop(packet);
}

#[test]
fn a_buffer_given_to_another_pool_goes_home_all_the_same() {
    let (mut one, mut two) = (HeapPool::new(4, 2048), HeapPool::new(4, 2048));
    let before = weir_packet::defects();
    two.free(one.alloc().unwrap());
    assert!(weir_packet::defects() > before);
    assert_eq!(one.taken() - one.at_hand(), 0);
    assert_eq!(two.taken() + two.at_hand(), 0);
}
