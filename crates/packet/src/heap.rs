//! Buffers in ordinary memory: for everything without DPDK, and for tests.
//!
//! They lie in one arena, in huge pages when there are any; built with `--cfg weir_separate_buffers` (as the sanitizers' run
//! is) each is an allocation of its own, so that a sanitizer sees where it ends.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::header::{Header, PRIVATE_SIZE, Private};
use crate::{BATCH, Burst, HEADROOM, MAX_FRAME, Packet, Pool, REACH};

/// Buffers that a handle keeps at hand at most.
const CACHE: usize = 4 * BATCH;

/// A cache line of an arena.
type Line = [u64; 8];

/// The memory of all buffers of a pool.
#[cfg(not(weir_separate_buffers))]
type Arena = weir_mem::HugeSlice<Line>;
#[cfg(weir_separate_buffers)]
type Arena = Vec<Box<[Line]>>;

/// The buffers that all handles share.
///
/// A store itself is never freed (a few hundred bytes for each pool): packets that outlive their pool's handles find their way
/// home by its address. Its arena is, when no handle is left and all buffers are home.
struct Store {
    inner: Mutex<Inner>,
    capacity: usize,
    buf_len: usize,
}

struct Inner {
    /// Buffers at home, last in first out: what was used last is still in a cache.
    home: Vec<NonNull<Header>>,
    handles: usize,
    arena: Option<Arena>,
}

// SAFETY: the addresses in `home` are of buffers that nobody else owns; they are plain memory without thread affinity.
unsafe impl Send for Inner {}

/// A handle to buffers in ordinary memory.
pub struct HeapPool {
    store: &'static Store,
    cache: Vec<NonNull<Header>>,
    /// Where the arena begins, and its bytes: a buffer that lies there is known without a look at it.
    arena: (usize, usize),
}

// SAFETY: the addresses in `cache` are of buffers that this handle alone owns.
unsafe impl Send for HeapPool {}

impl HeapPool {
    /// A pool of `capacity` buffers, each with room for frames of `data_room` bytes (at most [`MAX_FRAME`], at least
    /// [`REACH`]) behind the usual headroom. It has none when there is not so much memory.
    ///
    /// Process memory: about `capacity * (data_room + 384)` bytes.
    pub fn new(capacity: usize, data_room: usize) -> HeapPool {
        let buf_len = HEADROOM + data_room.clamp(REACH, MAX_FRAME).next_multiple_of(64);
        let inner = Mutex::new(Inner { home: Vec::new(), handles: 1, arena: None });
        #[allow(clippy::disallowed_methods, reason = "see Store: packets refer to it")]
        let store: &'static Store = Box::leak(Box::new(Store { inner, capacity, buf_len }));
        store.fill();
        HeapPool { store, cache: Vec::with_capacity(CACHE), arena: store.arena() }
    }

    fn pop(&mut self) -> Option<NonNull<Header>> {
        if self.cache.is_empty() {
            self.refill(0);
        }
        self.cache.pop()
    }

    /// Takes buffers from the store until there are `n` at hand, and half a cache more, as far as there are so many.
    #[cold]
    fn refill(&mut self, n: usize) {
        let mut inner = self.store.lock();
        let missing = n.saturating_sub(self.cache.len()) + CACHE / 2;
        let keep = inner.home.len().saturating_sub(missing);
        self.cache.extend(inner.home.drain(keep..));
    }

    /// Takes a buffer back.
    #[inline(always)]
    fn push(&mut self, packet: Packet) {
        let (start, bytes) = self.arena;
        if packet.id().wrapping_sub(start) >= bytes {
            return self.push_stray(packet);
        }
        self.keep(packet);
    }

    /// Takes a buffer back that does not lie in the arena: its header says whose it is, in a line that nothing else needs.
    #[cold]
    #[inline(never)]
    fn push_stray(&mut self, packet: Packet) {
        if !std::ptr::eq(packet.header().pool, std::ptr::from_ref(self.store).cast()) {
            return drop(packet); // another pool's: it goes home, and is counted as the defect that it is
        }
        self.keep(packet);
    }

    #[inline(always)]
    fn keep(&mut self, packet: Packet) {
        if self.cache.len() >= CACHE {
            self.spill();
        }
        self.cache.push(packet.into_raw());
    }

    /// Gives half a cache to the store.
    #[cold]
    #[inline(never)]
    fn spill(&mut self) {
        self.store.lock().home.extend(self.cache.drain(CACHE / 2..));
    }
}

impl Pool for HeapPool {
    fn alloc(&mut self) -> Option<Packet> {
        let buffer = self.pop()?;
        // SAFETY: buffers at home satisfy the invariants, and popping made us the only owner.
        let mut packet = unsafe { Packet::from_raw(buffer) };
        packet.reset();
        Some(packet)
    }

    fn alloc_burst(&mut self, n: usize, burst: &mut Burst) -> bool {
        if n > burst.room() {
            return false;
        }
        if self.cache.len() < n {
            self.refill(n);
        }
        let Some(keep) = self.cache.len().checked_sub(n) else { return false };
        // Their headers are about to be written, one after the other: all are asked for before the first is needed.
        for buffer in self.cache.get(keep..).unwrap_or_default() {
            // SAFETY: a buffer at home is a valid header that nobody else refers to.
            weir_mem::prefetch::prefetch_write(unsafe { buffer.as_ref() });
        }
        for buffer in self.cache.drain(keep..) {
            // SAFETY: buffers at home satisfy the invariants, and taking it out made us the only owner.
            let mut packet = unsafe { Packet::from_raw(buffer) };
            packet.reset();
            burst.push_within_room(packet);
        }
        true
    }

    fn free(&mut self, packet: Packet) {
        self.push(packet);
    }

    fn free_burst(&mut self, burst: &mut Burst) {
        burst.drain(|packet| {
            self.push(packet);
            Ok::<(), Packet>(())
        });
    }

    fn another(&self) -> Box<dyn Pool> {
        self.store.lock().handles += 1;
        Box::new(HeapPool { store: self.store, cache: Vec::with_capacity(CACHE), arena: self.arena })
    }

    fn capacity(&self) -> usize {
        self.store.capacity
    }

    fn taken(&self) -> usize {
        self.store.capacity.saturating_sub(self.store.lock().home.len())
    }

    fn at_hand(&self) -> usize {
        self.cache.len()
    }

    fn data_room(&self) -> usize {
        self.store.buf_len - HEADROOM
    }
}

impl Drop for HeapPool {
    fn drop(&mut self) {
        let mut inner = self.store.lock();
        inner.home.append(&mut self.cache);
        inner.handles -= 1;
        self.store.release(inner);
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A list of buffers is whole between any two operations on it, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the arena if nobody can ask for a buffer or bring one home any more.
    fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.handles == 0 && inner.home.len() == self.capacity {
            inner.home = Vec::new();
            let arena = inner.arena.take();
            drop(inner);
            drop(arena);
        }
    }

    /// Where the arena begins, and its bytes; none where every buffer is an allocation of its own.
    #[cfg(not(weir_separate_buffers))]
    fn arena(&self) -> (usize, usize) {
        let inner = self.lock();
        inner.arena.as_ref().map_or((0, 0), |arena| (arena.as_ptr().addr(), size_of_val::<[Line]>(arena)))
    }

    #[cfg(weir_separate_buffers)]
    fn arena(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Cache lines of a buffer: an odd number, so that the headers of neighbours do not compete for the same cache sets.
    fn lines(&self) -> usize {
        (size_of::<Header>() + PRIVATE_SIZE + self.buf_len).div_ceil(64) | 1
    }

    #[cfg(not(weir_separate_buffers))]
    fn fill(&'static self) {
        let lines = self.lines();
        let Ok(mut arena) = Arena::new(self.capacity * lines) else { return };
        let home = arena.chunks_exact_mut(lines).map(|memory| self.new_buffer(memory)).collect();
        let mut inner = self.lock();
        (inner.home, inner.arena) = (home, Some(arena));
    }

    #[cfg(weir_separate_buffers)]
    fn fill(&'static self) {
        // Aligned to 64 bytes by leaving out the front of a slightly larger allocation.
        let lines = self.lines();
        let mut arena: Arena = (0..self.capacity).map(|_| vec![[0; 8]; lines + 1].into_boxed_slice()).collect();
        let aligned = |memory: &mut Box<[Line]>| {
            let words = memory.as_flattened_mut();
            let skip = words.as_ptr().align_offset(64);
            let (lines, _) = words.get_mut(skip..)?.as_chunks_mut::<8>();
            Some(self.new_buffer(lines))
        };
        let home = arena.iter_mut().filter_map(aligned).collect();
        let mut inner = self.lock();
        (inner.home, inner.arena) = (home, Some(arena));
    }

    /// Makes a buffer of zeroed memory, which is aligned to 64 bytes and has at least [`Store::lines`] lines.
    fn new_buffer(&'static self, memory: &mut [Line]) -> NonNull<Header> {
        let start = memory.as_mut_ptr();
        assert!(memory.len() >= self.lines() && start.addr().is_multiple_of(64), "memory that cannot hold a buffer");
        let header = start.cast::<Header>();
        // SAFETY: Header and Private fit at the front of the memory.
        let private = unsafe { header.add(1) };
        // SAFETY: the data room follows them, inside the memory.
        let data = unsafe { start.cast::<u8>().add(size_of::<Header>() + PRIVATE_SIZE) };
        // SAFETY: `lost` accepts any buffer made here.
        let content = unsafe { Private::new(lost) };
        // SAFETY: aligned (128 is a multiple of 64) and inside the memory.
        unsafe { private.cast::<Private>().write(content) };
        let content = Header {
            buf_addr: data,
            buf_iova: data as u64,
            data_off: HEADROOM as u16,
            refcnt: 1,
            nb_segs: 1,
            port: 0,
            ol_flags: 0,
            packet_type: [0; 4],
            pkt_len: 0,
            data_len: 0,
            vlan_tci: 0,
            hash: [0; 2],
            vlan_tci_outer: 0,
            buf_len: self.buf_len as u16,
            pool: std::ptr::from_ref(self).cast_mut().cast(),
            next: std::ptr::null_mut(),
            tx_offload: 0,
            shinfo: std::ptr::null_mut(),
            priv_size: PRIVATE_SIZE as u16,
            timesync: 0,
            dynfield1: [0; 9],
        };
        // SAFETY: the memory is aligned for Header and large enough.
        unsafe { header.write(content) };
        // SAFETY: derived from a slice, so not null.
        unsafe { NonNull::new_unchecked(header) }
    }
}

/// Where a packet goes that its owner lost: home.
///
/// # Safety
///
/// `header` is a buffer made by [`Store::new_buffer`] that nobody else owns.
unsafe fn lost(header: *mut Header) {
    // SAFETY: the caller hands over a valid buffer.
    let pool = unsafe { (*header).pool };
    // SAFETY: a buffer of ours points to its store, which is never freed.
    let store = unsafe { &*pool.cast::<Store>() };
    let mut inner = store.lock();
    inner.home.extend(NonNull::new(header));
    store.release(inner);
}
