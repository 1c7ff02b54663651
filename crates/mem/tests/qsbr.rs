//! Grace periods: who is waited for, what is freed when, and readers on other threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_mem::qsbr::{READERS, TooManyReaders};
use weir_mem::{Domain, Published};

#[test]
fn without_readers_nobody_is_waited_for() {
    let domain = Domain::new();
    assert!(domain.passed(domain.advance()));
    let item = Arc::new(());
    domain.retire(Box::new(Arc::clone(&item)));
    assert_eq!((domain.waiting(), Arc::strong_count(&item)), (1, 2));
    assert_eq!(domain.collect(), 0);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn every_online_reader_is_waited_for() {
    let domain = Domain::new();
    let (mut first, mut second) = (domain.reader().unwrap(), domain.reader().unwrap());
    let item = Arc::new(());
    domain.retire(Box::new(Arc::clone(&item)));
    assert_eq!(domain.collect(), 1);
    first.quiescent();
    assert_eq!(domain.collect(), 1);
    first.quiescent();
    assert_eq!(domain.collect(), 1, "one reader twice is not two readers");
    second.quiescent();
    assert_eq!(domain.collect(), 0);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn what_is_retired_later_waits_longer() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    domain.retire(Box::new(1));
    reader.quiescent();
    domain.retire(Box::new(2));
    assert_eq!(domain.collect(), 1);
    reader.quiescent();
    assert_eq!(domain.collect(), 0);
}

#[test]
fn offline_readers_hold_nobody_up() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let before = domain.advance();
    assert!(!domain.passed(before));
    let during = reader.offline(|| {
        assert!(domain.passed(before));
        let during = domain.advance();
        assert!(domain.passed(during));
        during
    });
    assert!(domain.passed(during), "it came back after that epoch began");
    assert!(!domain.passed(domain.advance()), "and is waited for again");
    drop(reader);
    assert!(domain.passed(domain.advance()));
}

#[test]
fn slots_are_bounded_and_come_back() {
    let domain = Domain::new();
    let mut readers: Vec<_> = (0..READERS).map(|_| domain.reader().unwrap()).collect();
    assert_eq!(domain.reader().unwrap_err(), TooManyReaders);
    readers.remove(READERS / 2);
    readers.push(domain.reader().unwrap());
    assert!(domain.reader().is_err());
}

#[test]
fn a_reader_keeps_its_version_until_it_is_quiescent() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let first = Arc::new(1);
    let published = Published::new(&domain, Box::new(Arc::clone(&first)));
    let seen = published.load(&reader);
    published.publish(Box::new(Arc::new(2)));
    assert_eq!(domain.collect(), 1);
    assert_eq!((**seen, **published.load(&reader)), (1, 2));
    reader.quiescent();
    assert_eq!(domain.collect(), 0);
    assert_eq!(Arc::strong_count(&first), 1);
    drop(published);
}

#[test]
#[should_panic(expected = "another domain")]
fn a_reader_of_another_domain_is_refused() {
    let published = Published::new(&Domain::new(), Box::new(1));
    published.load(&Domain::new().reader().unwrap());
}

/// Says so when it is dropped, and is then no longer whole.
struct Version {
    number: u64,
    twice: u64,
}

impl Drop for Version {
    fn drop(&mut self) {
        self.twice = 0;
    }
}

#[test]
fn versions_are_whole_under_change() {
    let domain = Domain::new();
    let published = Published::new(&domain, Box::new(Version { number: 0, twice: 0 }));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = domain.reader().unwrap();
            let (published, stop) = (&published, &stop);
            scope.spawn(move || {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let version = published.load(&reader);
                    assert_eq!(version.twice, version.number * 2);
                    assert!(version.number >= last);
                    last = version.number;
                    reader.quiescent();
                    if last % 64 == 0 {
                        reader.offline(std::thread::yield_now);
                    }
                }
            });
        }
        for number in 1..20_000 {
            published.publish(Box::new(Version { number, twice: number * 2 }));
            domain.collect();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(domain.collect(), 0);
}
