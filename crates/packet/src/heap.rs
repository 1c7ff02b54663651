//! Buffers on the heap: for everything without DPDK, and for tests, where sanitizers see every buffer's ends.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::header::{Header, PRIVATE_SIZE, Private};
use crate::{BATCH, Burst, HEADROOM, MAX_FRAME, Packet, Pool, REACH};

/// Buffers that a handle keeps at hand at most.
const CACHE: usize = 4 * BATCH;

/// The buffers that all handles share.
struct Store {
    /// Buffers at home, last in first out: what was used last is still in a cache.
    home: Mutex<Vec<NonNull<Header>>>,
    capacity: usize,
    buf_len: usize,
}

// SAFETY: the addresses in `home` are of buffers that nobody else owns; they are plain memory without thread affinity.
unsafe impl Send for Store {}
// SAFETY: `home` is behind a mutex, the other fields never change.
unsafe impl Sync for Store {}

/// A handle to buffers on the heap, each of them an allocation of its own.
pub struct HeapPool {
    store: Arc<Store>,
    cache: Vec<NonNull<Header>>,
}

// SAFETY: the addresses in `cache` are of buffers that this handle alone owns.
unsafe impl Send for HeapPool {}

impl HeapPool {
    /// A pool of `capacity` buffers, each with room for frames of `data_room` bytes (at most [`MAX_FRAME`], at least
    /// [`REACH`]) behind the usual headroom.
    ///
    /// Process memory: about `capacity * (data_room + 320)` bytes.
    pub fn new(capacity: usize, data_room: usize) -> HeapPool {
        let buf_len = HEADROOM + data_room.clamp(REACH, MAX_FRAME).next_multiple_of(64);
        let home = (0..capacity).map(|_| new_buffer(buf_len)).collect();
        let store = Arc::new(Store { home: Mutex::new(home), capacity, buf_len });
        HeapPool { store, cache: Vec::with_capacity(CACHE) }
    }

    fn pop(&mut self) -> Option<NonNull<Header>> {
        if self.cache.is_empty() {
            let mut home = lock(&self.store.home);
            let keep = home.len().saturating_sub(CACHE / 2);
            self.cache.extend(home.drain(keep..));
        }
        self.cache.pop()
    }

    fn push(&mut self, buffer: NonNull<Header>) {
        if self.cache.len() >= CACHE {
            lock(&self.store.home).extend(self.cache.drain(CACHE / 2..));
        }
        self.cache.push(buffer);
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
        for got in 0..n {
            let Some(packet) = self.alloc() else {
                (0..got).filter_map(|_| burst.pop()).for_each(|packet| self.push(packet.into_raw()));
                return false;
            };
            if let Err(packet) = burst.push(packet) {
                self.free(packet);
            }
        }
        true
    }

    fn free(&mut self, packet: Packet) {
        self.push(packet.into_raw());
    }

    fn free_burst(&mut self, burst: &mut Burst) {
        burst.drain(|packet| {
            self.push(packet.into_raw());
            Ok::<(), Packet>(())
        });
    }

    fn another(&self) -> Box<dyn Pool> {
        Box::new(HeapPool { store: Arc::clone(&self.store), cache: Vec::with_capacity(CACHE) })
    }

    fn capacity(&self) -> usize {
        self.store.capacity
    }

    fn taken(&self) -> usize {
        self.store.capacity - lock(&self.store.home).len()
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
        lock(&self.store.home).append(&mut self.cache);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let layout = layout(self.buf_len);
        for buffer in lock(&self.home).drain(..) {
            // SAFETY: the buffer was allocated with this layout by `new_buffer`, and nobody else owns it.
            unsafe { dealloc(buffer.as_ptr().cast(), layout) };
        }
    }
}

/// A lock that a panic elsewhere does not spoil: a list of buffers is whole between any two operations on it.
fn lock(home: &Mutex<Vec<NonNull<Header>>>) -> MutexGuard<'_, Vec<NonNull<Header>>> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout(buf_len: usize) -> Layout {
    // An odd number of cache lines, so that the headers of neighbouring buffers do not compete for the same cache sets.
    let lines = (size_of::<Header>() + PRIVATE_SIZE + buf_len).div_ceil(64) | 1;
    // Size and alignment are constants within MAX_FRAME; the fallback cannot be reached and would be too small only for data.
    Layout::from_size_align(lines * 64, 64).unwrap_or(Layout::new::<Header>())
}

fn new_buffer(buf_len: usize) -> NonNull<Header> {
    let layout = layout(buf_len);
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    let Some(header) = NonNull::new(memory.cast::<Header>()) else { handle_alloc_error(layout) };
    // SAFETY: Header and Private fit at the front of the allocation.
    let private = unsafe { header.as_ptr().add(1) };
    // SAFETY: the data room follows them, inside the allocation.
    let data = unsafe { memory.add(size_of::<Header>() + PRIVATE_SIZE) };
    // SAFETY: `lost` accepts any buffer made here.
    let content = unsafe { Private::new(lost) };
    // SAFETY: aligned (128 is a multiple of 64) and inside the allocation.
    unsafe { private.cast::<Private>().write(content) };
    let content = Header {
        buf_addr: data,
        buf_iova: data as u64,
        data_off: HEADROOM as u16,
        refcnt: 1,
        nb_segs: 1,
        port: 0,
        ol_flags: 0,
        packet_type: 0,
        pkt_len: 0,
        data_len: 0,
        vlan_tci: 0,
        hash: [0; 2],
        vlan_tci_outer: 0,
        buf_len: buf_len as u16,
        pool: std::ptr::null_mut(),
        next: std::ptr::null_mut(),
        tx_offload: 0,
        shinfo: std::ptr::null_mut(),
        priv_size: PRIVATE_SIZE as u16,
        timesync: 0,
        dynfield1: [0; 9],
    };
    // SAFETY: the allocation is aligned for Header and large enough.
    unsafe { header.as_ptr().write(content) };
    header
}

/// Where a packet goes that its owner lost: back to the heap. Its pool stays one buffer short, which the account shows.
///
/// # Safety
///
/// `header` is a buffer made by [`new_buffer`] that nobody else owns.
unsafe fn lost(header: *mut Header) {
    // SAFETY: the caller hands over a valid buffer.
    let buf_len = unsafe { (*header).buf_len };
    // SAFETY: allocated by `new_buffer` with the layout of its buf_len, and not used after this.
    unsafe { dealloc(header.cast(), layout(buf_len as usize)) };
}
