//! DPDK's buffers as weir-packet's pool.

use std::ffi::{CString, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_dpdk_sys as sys;
use weir_packet::header::{Header, PRIVATE_SIZE, Private};
use weir_packet::{BATCH, Burst, HEADROOM, MAX_FRAME, Packet, Pool, REACH};

use crate::eal::{Eal, errno};
use crate::{DpdkError, Pages};

/// Buffers that a handle keeps at hand at most.
const CACHE: usize = 2 * BATCH;
/// Buffers that DPDK keeps at hand for each thread that it knows (half as many again at times): what two ports receive and transmit in
/// one loop, so that the same buffers go round and stay in the nearest cache.
const THREAD_CACHE: u32 = 256;

/// Numbers the pools of the process: DPDK wants names.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Every pool of the process.
static POOLS: Mutex<Vec<Arc<Mempool>>> = Mutex::new(Vec::new());

/// Gives back what DPDK keeps at hand for the calling thread: nobody could use it once the thread is
/// unknown to DPDK.
pub(crate) fn flush_thread() {
    for pool in POOLS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        pool.flush();
    }
}

/// A pool of DPDK's. It is there until the process ends: devices hold its buffers.
pub(crate) struct Mempool {
    raw: NonNull<sys::rte_mempool>,
    capacity: usize,
    buf_len: usize,
    /// The addresses of its buffers, what touches joined.
    pieces: Vec<Range<usize>>,
    /// Chunks that DPDK took the memory in: one for each page where devices are told physical addresses.
    chunks: usize,
    main: Piece,
}

/// A piece of memory that holds buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl Piece {
    /// All memory.
    pub(crate) const ANY: Piece = Piece { start: 0, length: usize::MAX };

    #[inline(always)]
    pub(crate) fn owns(self, buffer: *const Header) -> bool {
        self.offset_of(buffer) < self.length
    }

    /// How far behind its start a buffer lies; one in front of it, farther than any memory is long.
    #[inline(always)]
    pub(crate) fn offset_of(self, buffer: *const Header) -> usize {
        buffer.addr().wrapping_sub(self.start)
    }
}

// SAFETY: DPDK's pools may be used by any thread.
unsafe impl Send for Mempool {}
// SAFETY: DPDK's pools may be used by several threads at once.
unsafe impl Sync for Mempool {}

impl Mempool {
    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }

    /// Whether a buffer is one of this pool's.
    #[inline(always)]
    pub(crate) fn owns(&self, buffer: *const Header) -> bool {
        self.main.owns(buffer) || self.owns_elsewhere(buffer)
    }

    #[cold]
    fn owns_elsewhere(&self, buffer: *const Header) -> bool {
        self.pieces.iter().any(|piece| piece.contains(&buffer.addr()))
    }

    /// The piece of memory that holds the buffers, all of them or at least the first: cheap to ask.
    pub(crate) fn main_piece(&self) -> Piece {
        self.main
    }

    /// Bytes from a buffer's start to its end, headroom included.
    pub(crate) fn buf_len(&self) -> usize {
        self.buf_len
    }

    /// Whether its memory is one piece without gaps, as AF_XDP wants it.
    pub(crate) fn is_one_piece(&self) -> bool {
        self.chunks == 1
    }

    /// The buffer that is `offset` bytes behind the page in which the pool's memory starts, as AF_XDP
    /// counts: `None` when there is none.
    pub(crate) fn at_offset(&self, offset: usize) -> Option<NonNull<Header>> {
        const PAGE: usize = 4096;
        let start = self.pieces.first()?.start & !(PAGE - 1);
        // SAFETY: the pool is there until the process ends.
        let before = unsafe { sys::weir_mempool_header_size(self.as_ptr()) };
        let address = start.checked_add(offset)?.checked_add(before as usize)?;
        let end = address.checked_add(size_of::<Header>())?;
        let inside = self.pieces.iter().any(|piece| piece.contains(&address) && end <= piece.end);
        if !inside || !address.is_multiple_of(align_of::<Header>()) {
            return None;
        }
        let buffer = NonNull::new(self.raw.as_ptr().with_addr(address).cast::<Header>())?;
        // SAFETY: inside the pool's memory, which is initialised, and aligned.
        let header = unsafe { buffer.as_ref() };
        // A buffer is where its header says that its data room starts behind it.
        let data = address + size_of::<Header>() + PRIVATE_SIZE;
        (header.buf_addr.addr() == data && header.pool.addr() == self.raw.as_ptr().addr()).then_some(buffer)
    }

    /// Does something that takes buffers of this pool, each call at least as many as a thread's cache cannot hold, and tells which it has
    /// taken and not put back: at most `most`.
    pub(crate) fn noting<T>(&self, most: usize, take: impl FnOnce() -> T) -> (T, Vec<NonNull<Header>>) {
        let mut taken = vec![std::ptr::null_mut(); most];
        let room = c_uint::try_from(most).unwrap_or(c_uint::MAX);
        // What is at hand would be taken, or stay here, without a note.
        self.flush();
        // SAFETY: room for so many, which stays until `weir_noted` below ends it.
        unsafe { sys::weir_note(taken.as_mut_ptr(), room) };
        let done = take();
        self.flush();
        // SAFETY: takes nothing.
        let noted = unsafe { sys::weir_noted() };
        taken.truncate(noted.min(room) as usize);
        (done, taken.into_iter().filter_map(|buffer| NonNull::new(buffer.cast())).collect())
    }

    /// Gives back what DPDK keeps at hand for the calling thread.
    fn flush(&self) {
        // SAFETY: pools live as long as the process; only this thread's cache is touched.
        unsafe { sys::weir_mempool_flush(self.as_ptr()) };
    }

    /// # Safety
    ///
    /// The buffers are this pool's, satisfy the invariants of [`Header`], and are owned by the caller, who
    /// gives them up.
    pub(crate) unsafe fn put(&self, buffers: &[NonNull<Header>]) {
        let n = c_uint::try_from(buffers.len()).unwrap_or(c_uint::MAX);
        // SAFETY: an array of `n` buffers of this pool, single, direct and unshared, says the caller.
        unsafe { sys::weir_mempool_put_bulk(self.as_ptr(), buffers.as_ptr().cast(), n) };
    }

    /// Fills `slots` with fresh buffers: all or none. Returns whether it did.
    fn get(&self, slots: &mut [MaybeUninit<NonNull<Header>>]) -> bool {
        let n = c_uint::try_from(slots.len()).unwrap_or(c_uint::MAX);
        // SAFETY: room for `n` addresses.
        unsafe { sys::weir_pktmbuf_alloc_bulk(self.as_ptr(), slots.as_mut_ptr().cast(), n) == 0 }
    }
}

/// A handle to the buffers of the process.
pub struct DpdkPool {
    shared: Arc<Mempool>,
    /// At hand: buffers of `shared` that nobody else owns.
    cache: Vec<NonNull<Header>>,
}

// SAFETY: the buffers in `cache` are owned by this handle alone, and are plain memory.
unsafe impl Send for DpdkPool {}

impl DpdkPool {
    /// Makes a pool of `capacity` buffers, each with room for `data_room` bytes (at most
    /// [`MAX_FRAME`]) behind the usual headroom.
    ///
    /// # Errors
    ///
    /// [`DpdkError::TooLittleMemory`] when EAL has not so much left.
    pub fn create(eal: &Eal, capacity: usize, data_room: usize) -> Result<DpdkPool, DpdkError> {
        let calling = eal.call();
        let data_room = data_room.clamp(REACH, MAX_FRAME).next_multiple_of(64);
        let buf_len = HEADROOM + data_room;
        let capacity32 = u32::try_from(capacity).unwrap_or(u32::MAX);
        let name = format!("weir{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).unwrap_or_default();
        // DPDK wants one and a half caches in a pool.
        let cache = THREAD_CACHE.min(capacity32 / 4);
        // SAFETY: EAL runs, the name is a C string that DPDK copies.
        let raw = unsafe {
            sys::weir_pktmbuf_pool_create(
                name.as_ptr(),
                capacity32,
                cache,
                u16::try_from(PRIVATE_SIZE).unwrap_or(u16::MAX),
                u16::try_from(buf_len).unwrap_or(u16::MAX),
                -1,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err(match errno() {
                // The latter where what is left is less than one buffer.
                libc::ENOMEM | libc::ENOBUFS => DpdkError::TooLittleMemory {
                    needed: u64::from(crate::memory_needed(capacity, data_room).of(eal.huge_pages())),
                    free: 0,
                    kind: if eal.huge_pages() { "huge pages" } else { "memory" },
                },
                code => calling.refused("making the pool of buffers", code),
            });
        };
        // SAFETY: the pool is new; `prepare` accepts each of its buffers.
        unsafe { sys::rte_mempool_obj_iter(raw.as_ptr(), Some(prepare), std::ptr::null_mut()) };
        let ranges = ranges(raw);
        let chunks = ranges.len();
        let pieces = joined(ranges);
        let largest = pieces.iter().max_by_key(|piece| piece.len()).cloned().unwrap_or_default();
        let main = Piece { start: largest.start, length: largest.len() };
        let shared = Arc::new(Mempool { raw, capacity, buf_len, pieces, chunks, main });
        POOLS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&shared));
        Ok(DpdkPool::handle(&shared))
    }

    /// The pages that its buffers are in.
    pub fn pages(&self) -> Pages {
        // SAFETY: takes nothing and changes nothing.
        let reserved = unsafe { sys::rte_eal_has_hugepages() } == 1;
        // SAFETY: the pool lives as long as the process.
        let made = unsafe { sys::weir_mempool_is_collapsed(self.shared.as_ptr()) } == 1;
        match (reserved, made) {
            (true, _) => Pages::Reserved,
            (false, true) => Pages::Made,
            (false, false) => Pages::Small,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Mempool> {
        &self.shared
    }

    /// Whether a packet lives in one of these buffers.
    #[inline(always)]
    pub(crate) fn owns(&self, packet: &Packet) -> bool {
        self.shared.owns(packet.header())
    }

    pub(crate) fn handle(shared: &Arc<Mempool>) -> DpdkPool {
        DpdkPool { shared: Arc::clone(shared), cache: Vec::with_capacity(CACHE) }
    }

    /// Gives back all but `keep` of what is at hand.
    fn give_back(&mut self, keep: usize) {
        let surplus = self.cache.get(keep..).unwrap_or_default();
        // SAFETY: buffers at hand are the pool's and this handle's alone; `truncate` forgets them here.
        unsafe { self.shared.put(surplus) };
        self.cache.truncate(keep);
    }

    /// Takes half a cache of buffers to hand; fewer when the pool has not so many.
    fn refill(&mut self) {
        let mut slots = [MaybeUninit::uninit(); CACHE / 2];
        let mut n = slots.len();
        while n > 0 {
            let Some(some) = slots.get_mut(..n) else { return };
            if self.shared.get(some) {
                // SAFETY: `get` filled them all.
                self.cache.extend(some.iter().map(|slot| unsafe { slot.assume_init() }));
                return;
            }
            n /= 2;
        }
    }
}

impl Pool for DpdkPool {
    fn alloc(&mut self) -> Option<Packet> {
        if self.cache.is_empty() {
            self.refill();
        }
        let buffer = self.cache.pop()?;
        // SAFETY: buffers at hand satisfy the invariants, and popping made us the only owner.
        let mut packet = unsafe { Packet::from_raw(buffer) };
        packet.reset();
        Some(packet)
    }

    fn alloc_burst(&mut self, n: usize, burst: &mut Burst) -> bool {
        if n == 0 || n > burst.room() {
            return n == 0;
        }
        let shared = &self.shared;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let filled = slots.get_mut(..n).is_some_and(|slots| shared.get(slots));
            if filled { n } else { 0 }
        };
        // SAFETY: `get` has written `n` distinct buffers that were in the pool, so nobody's, as `prepare`
        // and `put` require; alloc_bulk has reset them.
        let got = unsafe { burst.fill_back(fill) };
        if got == n {
            return true;
        }
        // What is at hand may make the difference.
        for got in 0..n {
            let Some(packet) = self.alloc() else {
                (0..got).filter_map(|_| burst.pop()).for_each(|packet| self.free(packet));
                return false;
            };
            if let Err(packet) = burst.push(packet) {
                self.free(packet);
            }
        }
        true
    }

    fn free(&mut self, packet: Packet) {
        if !self.owns(&packet) {
            // Another pool's: it finds home by itself, and counts as a defect.
            return drop(packet);
        }
        if self.cache.len() >= CACHE {
            self.give_back(CACHE / 2);
        }
        self.cache.push(packet.into_raw());
    }

    fn free_burst(&mut self, burst: &mut Burst) {
        if burst.packets().iter().all(|packet| self.owns(packet)) {
            let put = |buffers: &mut [NonNull<Header>]| {
                // SAFETY: all are this pool's, and the burst owned them.
                unsafe { self.shared.put(buffers) };
                buffers.len()
            };
            // SAFETY: all of them are in the pool now.
            unsafe { burst.take_front(put) };
            return;
        }
        burst.drain(|packet| {
            self.free(packet);
            Ok::<(), Packet>(())
        });
    }

    fn another(&self) -> Box<dyn Pool> {
        Box::new(DpdkPool::handle(&self.shared))
    }

    fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Reads the caches of all threads: exact when they are quiet.
    fn taken(&self) -> usize {
        // SAFETY: the pool lives as long as the process.
        let available = unsafe { sys::rte_mempool_avail_count(self.shared.as_ptr()) };
        self.shared.capacity.saturating_sub(available as usize)
    }

    fn at_hand(&self) -> usize {
        self.cache.len()
    }

    fn data_room(&self) -> usize {
        self.shared.buf_len - HEADROOM
    }
}

impl Drop for DpdkPool {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

/// Where the pool's buffers are, chunk by chunk.
fn ranges(pool: NonNull<sys::rte_mempool>) -> Vec<Range<usize>> {
    // SAFETY: with room for none they are only counted.
    let n = unsafe { sys::weir_mempool_ranges(pool.as_ptr(), std::ptr::null_mut(), 0) };
    let mut ranges = vec![[0_usize; 2]; n as usize];
    // SAFETY: room for `n` ranges.
    unsafe { sys::weir_mempool_ranges(pool.as_ptr(), ranges.as_mut_ptr(), n) };
    ranges.iter().map(|[first, end]| *first..*end).collect()
}

/// The same addresses in as few ranges as can be, ascending.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Makes a new buffer of DPDK's what weir-packet expects: a private area behind the header, and a data
/// room without anything from before.
unsafe extern "C" fn prepare(_: *mut sys::rte_mempool, _: *mut c_void, object: *mut c_void, _: c_uint) {
    let header = object.cast::<Header>();
    // SAFETY: the pool was made with a private area of this size behind each header.
    let private = unsafe { header.add(1) }.cast::<Private>();
    // SAFETY: `lost` accepts any buffer of a pool of DPDK's.
    let content = unsafe { Private::new(lost) };
    // SAFETY: inside the object; objects start at cache lines, and 128 bytes later one starts too.
    unsafe { private.write(content) };
    // SAFETY: DPDK has initialised the header, and nobody else has the buffer yet.
    let header = unsafe { &*header };
    // SAFETY: `buf_len` bytes from `buf_addr` on are this buffer's data room.
    unsafe { header.buf_addr.write_bytes(0, usize::from(header.buf_len)) };
}

/// Takes a packet home that its owner lost.
///
/// # Safety
///
/// `header` is a buffer of a pool of DPDK's that satisfies the invariants, and nobody uses it any more.
unsafe fn lost(header: *mut Header) {
    // SAFETY: the caller hands over a whole buffer.
    unsafe { sys::weir_pktmbuf_free(header.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The twin is a set of addresses.
    #[test]
    fn joined_ranges_hold_the_same_addresses() {
        for code in 0..1_usize << 12 {
            let ranges: Vec<_> =
                (0..3).map(|n| (code >> (4 * n) & 3)..(code >> (4 * n) & 3) + (code >> (4 * n + 2) & 3)).collect();
            let within = |ranges: &[Range<usize>], at| ranges.iter().any(|range| range.contains(&at));
            let joined = joined(ranges.clone());
            assert!((0..8).all(|at| within(&ranges, at) == within(&joined, at)), "{ranges:?} {joined:?}");
            assert!(joined.windows(2).all(|two| two[0].end < two[1].start), "{joined:?}");
        }
    }
}
