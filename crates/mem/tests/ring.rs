//! The ring against a queue, between threads, and what it drops.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::prelude::*;
use weir_mem::ring;

#[derive(Clone, Debug)]
enum Act {
    Push(u32),
    PushMany(Vec<u32>),
    Pop,
    PopMany(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        any::<u32>().prop_map(Act::Push),
        prop::collection::vec(any::<u32>(), 0..20).prop_map(Act::PushMany),
        Just(Act::Pop),
        (0usize..20).prop_map(Act::PopMany),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_bounded_queue(capacity in 0usize..20, acts in prop::collection::vec(act(), 0..200)) {
        let (mut producer, mut consumer) = ring(capacity);
        let capacity = capacity.max(1).next_power_of_two();
        let mut twin = VecDeque::new();
        prop_assert_eq!((producer.capacity(), consumer.capacity()), (capacity, capacity));
        for act in acts {
            match act {
                Act::Push(item) if twin.len() < capacity => {
                    prop_assert_eq!(producer.push(item), Ok(()));
                    twin.push_back(item);
                }
                Act::Push(item) => prop_assert_eq!(producer.push(item), Err(item)),
                Act::PushMany(items) => {
                    let fit = items.len().min(capacity - twin.len());
                    let mut rest = items.iter().copied();
                    prop_assert_eq!(producer.push_from(&mut rest), fit);
                    prop_assert_eq!(rest.collect::<Vec<_>>(), &items[fit..]);
                    twin.extend(&items[..fit]);
                }
                Act::Pop => prop_assert_eq!(consumer.pop(), twin.pop_front()),
                Act::PopMany(max) => {
                    let mut taken = Vec::new();
                    let count = consumer.pop_into(max, |item| taken.push(item));
                    prop_assert_eq!(count, max.min(twin.len()));
                    prop_assert_eq!(taken, twin.drain(..count).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!((producer.len(), consumer.len()), (twin.len(), twin.len()));
            prop_assert_eq!(producer.room(), capacity - twin.len());
            prop_assert_eq!(consumer.ready(), twin.len());
            prop_assert_eq!((producer.is_empty(), consumer.is_empty()), (twin.is_empty(), twin.is_empty()));
        }
    }
}

#[test]
fn keeps_order_between_threads() {
    const ITEMS: u64 = 200_000;
    let (mut producer, mut consumer) = ring(64);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut items = (0..ITEMS).peekable();
            while items.peek().is_some() {
                // One by one and many at once.
                if producer.push_from(&mut items.by_ref().take(7)) == 0 {
                    std::thread::yield_now();
                }
                let Some(item) = items.next() else { break };
                let mut item = Err(item);
                while let Err(again) = item {
                    item = producer.push(again);
                }
            }
        });
        let mut next = 0;
        while next < ITEMS {
            let count = consumer.pop_into(5, |item| {
                assert_eq!(item, next);
                next += 1;
            });
            if count == 0 {
                std::thread::yield_now();
            }
            if let Some(item) = consumer.pop() {
                assert_eq!(item, next);
                next += 1;
            }
        }
    });
    assert!(consumer.pop().is_none());
}

#[test]
fn drops_what_is_inside() {
    let item = Arc::new(());
    let (mut producer, mut consumer) = ring(4);
    for _ in 0..3 {
        producer.push(Arc::clone(&item)).unwrap();
    }
    drop(consumer.pop());
    assert_eq!(Arc::strong_count(&item), 3);
    drop(producer);
    assert_eq!(Arc::strong_count(&item), 3);
    drop(consumer);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn a_panic_half_way_loses_and_doubles_nothing() {
    let (mut producer, mut consumer) = ring(8);
    let mut items = (0..8).inspect(|&item| assert!(item != 4, "stop"));
    assert!(catch_unwind(AssertUnwindSafe(|| producer.push_from(&mut items))).is_err());
    assert_eq!(producer.len(), 4);
    let mut taken = Vec::new();
    let stop = |item| {
        taken.push(item);
        assert!(item != 1, "stop");
    };
    assert!(catch_unwind(AssertUnwindSafe(|| consumer.pop_into(8, stop))).is_err());
    assert_eq!(taken, [0, 1]);
    consumer.pop_into(8, |item| taken.push(item));
    assert_eq!(taken, [0, 1, 2, 3]);
}
