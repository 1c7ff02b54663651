//! The lock-free parts under a model checker that tries every interleaving and every value a load may see:
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-mem --release --test loom`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use weir_mem::{Domain, Published, ring};

#[test]
fn ring_one_by_one() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(1);
        let other = thread::spawn(move || (0..3).map(|item| producer.push(Box::new(item)).is_ok()).collect::<Vec<_>>());
        let mut taken = Vec::new();
        taken.extend(consumer.pop());
        taken.extend(consumer.pop());
        let put = other.join().unwrap();
        taken.extend(consumer.pop());
        assert!(consumer.pop().is_none());
        let expected = (0..3).zip(put).filter(|(_, put)| *put).map(|(item, _)| Box::new(item)).collect::<Vec<_>>();
        assert_eq!(taken, expected);
    });
}

#[test]
fn ring_many_at_once() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2);
        let other = thread::spawn(move || {
            let mut items = (0..4).map(Box::new);
            let put = producer.push_from(&mut items);
            put + producer.push_from(&mut items)
        });
        let mut taken = Vec::new();
        consumer.pop_into(3, |item| taken.push(*item));
        let put = other.join().unwrap();
        consumer.pop_into(3, |item| taken.push(*item));
        assert_eq!(taken, (0..put).collect::<Vec<_>>());
    });
}

#[test]
fn ring_drops_what_is_inside() {
    loom::model(|| {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(2);
        let given = [item.clone(), item.clone()];
        let other = thread::spawn(move || producer.push_from(&mut given.into_iter()));
        drop(consumer.pop());
        drop(consumer);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&item), 1);
    });
}

/// A value whose reads and drop loom watches: a read that is not before the drop fails the model.
struct Watched {
    value: UnsafeCell<u32>,
}

impl Watched {
    fn boxed(value: u32) -> Box<Self> {
        Box::new(Self { value: UnsafeCell::new(value) })
    }

    fn read(&self) -> u32 {
        // SAFETY: only `drop` writes it; that it comes after all reads is what is tested.
        self.value.with(|value| unsafe { *value })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: `&mut self`; loom checks that no read is concurrent.
        self.value.with_mut(|value| unsafe { *value = u32::MAX });
    }
}

// SAFETY: shared access only reads; loom reports anything else.
unsafe impl Sync for Watched {}

#[test]
fn versions_live_until_readers_have_passed() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Watched::boxed(1)));
        let mut reader = domain.reader().unwrap();
        let theirs = published.clone();
        let other = thread::spawn(move || {
            let first = theirs.load(&reader).read();
            reader.quiescent();
            let second = theirs.load(&reader).read();
            assert!(first <= second && second <= 2);
        });
        published.publish(Watched::boxed(2));
        domain.collect();
        domain.collect();
        other.join().unwrap();
        assert_eq!(domain.collect(), 0);
    });
}

#[test]
fn versions_live_when_a_reader_comes_back() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Watched::boxed(1)));
        let mut reader = domain.reader().unwrap();
        let theirs = published.clone();
        let other = thread::spawn(move || {
            reader.offline(|| ());
            assert!(theirs.load(&reader).read() <= 2);
        });
        published.publish(Watched::boxed(2));
        domain.collect();
        other.join().unwrap();
        assert_eq!(domain.collect(), 0);
    });
}

#[test]
fn versions_live_when_a_reader_joins() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Watched::boxed(1)));
        let (theirs, their_domain) = (published.clone(), domain.clone());
        let other = thread::spawn(move || {
            let reader = their_domain.reader().unwrap();
            assert!(theirs.load(&reader).read() <= 2);
        });
        published.publish(Watched::boxed(2));
        domain.collect();
        other.join().unwrap();
        assert_eq!(domain.collect(), 0);
    });
}
