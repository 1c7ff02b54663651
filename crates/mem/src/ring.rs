//! A bounded queue from one thread to another.
//!
//! Indices count items since the start and wrap at 2^64; an item lives at its index modulo the capacity, a power of
//! two. Each side owns one index and keeps a copy of the other's, which it refreshes only when the copy says that
//! there is no room or nothing to take: most operations touch no line that the other side writes.
//!
//! Memory orders: *tail* is stored with release by the producer after the items are written (P1) and loaded with
//! acquire by the consumer before it reads them (C1); *head* is stored with release by the consumer after items were
//! moved out (C2) and loaded with acquire by the producer before it overwrites them (P2).

use std::mem::MaybeUninit;

use crate::CacheAligned;
use crate::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// Makes a queue that holds `capacity` items, rounded up to a power of two (at least 1).
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared {
        head: CacheAligned::new(AtomicUsize::new(0)),
        tail: CacheAligned::new(AtomicUsize::new(0)),
        slots,
    });
    let producer = Producer { shared: Arc::clone(&shared), tail: 0, head: 0 };
    (producer, Consumer { shared, head: 0, tail: 0 })
}

struct Shared<T> {
    /// Items taken so far; written by the consumer.
    head: CacheAligned<AtomicUsize>,
    /// Items put so far; written by the producer.
    tail: CacheAligned<AtomicUsize>,
    /// Items with an index in `head..tail` are initialised.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: items move from the producer's thread to the consumer's, hence `T: Send`. A slot is accessed by one side at
// a time: by the consumer while its index is in `head..tail`, by the producer otherwise; the hand-over is P1-C1 and
// C2-P2.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the last owner drops the remaining items.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: the number of slots is a power of two and at least 1, so a masked index is within.
        unsafe { self.slots.get_unchecked(index & (self.slots.len() - 1)) }
    }

    /// # Safety
    ///
    /// `index` is not in `head..tail`, and the caller is the producer.
    #[inline(always)]
    unsafe fn put(&self, index: usize, item: T) {
        self.slot(index).with_mut(|slot| {
            // SAFETY: the slot's index is outside `head..tail`, so only the producer (our caller) accesses it.
            let slot = unsafe { &mut *slot };
            slot.write(item);
        });
    }

    /// # Safety
    ///
    /// `index` is in `head..tail`, the caller is the consumer, and it takes each index once.
    #[inline(always)]
    unsafe fn take(&self, index: usize) -> T {
        self.slot(index).with(|slot| {
            // SAFETY: the slot's index is in `head..tail`, so only the consumer (our caller) accesses it.
            let slot = unsafe { &*slot };
            // SAFETY: slots in `head..tail` are initialised, and each is read once before `head` passes it.
            unsafe { slot.assume_init_read() }
        })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut index = self.head.load(Ordering::Relaxed);
        while index != tail {
            // SAFETY: both sides are gone (`&mut self`), so this is the consumer now; the index is in `head..tail`.
            drop(unsafe { self.take(index) });
            index = index.wrapping_add(1);
        }
    }
}

/// The end that puts items in.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// The true tail, of which `shared.tail` is the published copy.
    tail: usize,
    /// The head as last seen; the true one may be further.
    head: usize,
}

impl<T> Producer<T> {
    /// How many items fit.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// How many items are in the queue; the consumer may be taking some meanwhile.
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.shared.head.load(Ordering::Relaxed))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items can be put now: at least that many, as the consumer only makes more room.
    #[inline]
    pub fn room(&mut self) -> usize {
        // P2: what the consumer moved out of these slots happened before.
        self.head = self.shared.head.load(Ordering::Acquire);
        self.room_seen()
    }

    #[inline(always)]
    fn room_seen(&self) -> usize {
        self.capacity() - self.tail.wrapping_sub(self.head)
    }

    /// Puts an item.
    ///
    /// # Errors
    ///
    /// Gives the item back when the queue is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room_seen() == 0 && self.room() == 0 {
            return Err(item);
        }
        // SAFETY: there is room, so `tail` is not in `head..tail`; `&mut self` is the only producer.
        unsafe { self.shared.put(self.tail, item) };
        self.tail = self.tail.wrapping_add(1);
        // P1: publishes the item.
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Puts items until the queue is full or `items` ends, makes them visible at once, and answers how many. What is
    /// not put stays in `items`.
    #[inline]
    pub fn push_from(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let room = self.room();
        PublishTail { producer: self }.fill(items, room)
    }
}

/// Publishes what was put when it goes, also when an iterator panics half-way.
struct PublishTail<'a, T> {
    producer: &'a mut Producer<T>,
}

impl<T> PublishTail<'_, T> {
    #[inline(always)]
    fn fill(self, items: &mut impl Iterator<Item = T>, room: usize) -> usize {
        let start = self.producer.tail;
        for item in items.take(room) {
            // SAFETY: fewer than `room` items were put since room was counted, so `tail` is not in `head..tail`; the
            // exclusive borrow is the only producer.
            unsafe { self.producer.shared.put(self.producer.tail, item) };
            self.producer.tail = self.producer.tail.wrapping_add(1);
        }
        self.producer.tail.wrapping_sub(start)
    }
}

impl<T> Drop for PublishTail<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // P1: publishes all items at once.
        self.producer.shared.tail.store(self.producer.tail, Ordering::Release);
    }
}

/// The end that takes items out.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// The true head, of which `shared.head` is the published copy.
    head: usize,
    /// The tail as last seen; the true one may be further.
    tail: usize,
}

impl<T> Consumer<T> {
    /// How many items fit.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// How many items are in the queue; the producer may be putting more meanwhile.
    pub fn len(&self) -> usize {
        self.shared.tail.load(Ordering::Relaxed).wrapping_sub(self.head)
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items can be taken now: at least that many.
    #[inline]
    pub fn ready(&mut self) -> usize {
        // C1: sees the items that were put before the tail was stored.
        self.tail = self.shared.tail.load(Ordering::Acquire);
        self.ready_seen()
    }

    #[inline(always)]
    fn ready_seen(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready_seen() == 0 && self.ready() == 0 {
            return None;
        }
        // SAFETY: something is ready, so `head` is in `head..tail`; `&mut self` is the only consumer and moves on.
        let item = unsafe { self.shared.take(self.head) };
        self.head = self.head.wrapping_add(1);
        // C2: the slot may be overwritten from here on.
        self.shared.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Takes up to `max` items, oldest first, gives each to `sink`, frees their room at once, and answers how many.
    #[inline]
    pub fn pop_into(&mut self, max: usize, sink: impl FnMut(T)) -> usize {
        let ready = if self.ready_seen() < max { self.ready() } else { self.ready_seen() };
        PublishHead { consumer: self }.drain(ready.min(max), sink)
    }
}

/// Frees the room of what was taken when it goes, also when a sink panics half-way.
struct PublishHead<'a, T> {
    consumer: &'a mut Consumer<T>,
}

impl<T> PublishHead<'_, T> {
    #[inline(always)]
    fn drain(self, count: usize, mut sink: impl FnMut(T)) -> usize {
        for _ in 0..count {
            // SAFETY: at most as many as are ready are taken, so `head` is in `head..tail`; the exclusive borrow is
            // the only consumer, and it moves on before the item can be lost to a panic.
            let item = unsafe { self.consumer.shared.take(self.consumer.head) };
            self.consumer.head = self.consumer.head.wrapping_add(1);
            sink(item);
        }
        count
    }
}

impl<T> Drop for PublishHead<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // C2: the slots may be overwritten from here on.
        self.consumer.shared.head.store(self.consumer.head, Ordering::Release);
    }
}
