//! Packets in a row, without lanes: what ports, links and pools take and give.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::header::Header;
use crate::packet::Packet;

/// Room of a burst: a whole batch, and another one that did not fit the device's ring.
const ROOM: usize = 128;

/// Up to [`Burst::ROOM`] packets in order, in the memory layout that DPDK's burst functions take: an array of buffer
/// addresses.
pub struct Burst {
    /// `slots[..len]` are initialised.
    len: usize,
    slots: [MaybeUninit<Packet>; ROOM],
}

impl Burst {
    /// Packets that fit.
    pub const ROOM: usize = ROOM;

    /// A burst without packets.
    pub const fn new() -> Burst {
        Burst { len: 0, slots: [const { MaybeUninit::uninit() }; ROOM] }
    }

    /// Packets in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no further packet fits.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len >= ROOM
    }

    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        ROOM - self.len
    }

    /// The packets, first in first.
    #[inline(always)]
    pub fn packets(&self) -> &[Packet] {
        let slots = &self.slots[..self.len.min(ROOM)];
        // SAFETY: the first `len` slots are initialised, and MaybeUninit<Packet> has the layout of Packet.
        unsafe { &*(std::ptr::from_ref(slots) as *const [Packet]) }
    }

    /// The packets, first in first, to change.
    #[inline(always)]
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        let slots = &mut self.slots[..self.len.min(ROOM)];
        // SAFETY: the first `len` slots are initialised, and MaybeUninit<Packet> has the layout of Packet.
        unsafe { &mut *(std::ptr::from_mut(slots) as *mut [Packet]) }
    }

    /// Adds a packet at the end; a full burst gives it back.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len >= ROOM {
            return Err(packet);
        }
        self.slots[self.len].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Adds a packet where the caller has made sure of the room; in a full burst it is lost as a defect.
    #[inline(always)]
    pub(crate) fn push_within_room(&mut self, packet: Packet) {
        drop(self.push(packet));
    }

    /// Takes the last packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        // SAFETY: slot `len` was initialised, and is outside the initialised part now.
        Some(unsafe { self.slots[self.len % ROOM].assume_init_read() })
    }

    /// Hands packets to `sink`, first in first, until it gives one back; that one and the rest stay, in order.
    /// Returns how many went.
    #[inline]
    pub fn drain<R>(&mut self, mut sink: impl FnMut(Packet) -> Result<R, Packet>) -> usize {
        let len = self.len.min(ROOM);
        // Were `sink` to panic, what is in the slots would be leaked rather than returned twice.
        self.len = 0;
        let mut gone = 0;
        while gone < len {
            // SAFETY: slot `gone` is below the old `len`, so initialised; it is read once, or written back below.
            let packet = unsafe { self.slots[gone].assume_init_read() };
            if let Err(packet) = sink(packet) {
                self.slots[gone].write(packet);
                break;
            }
            gone += 1;
        }
        self.close_gap(gone, len);
        gone
    }

    /// Moves up to `most` packets from the front of `from` to the end, as many as fit. Returns how many.
    #[inline]
    pub fn append(&mut self, from: &mut Burst, most: usize) -> usize {
        let len = from.len.min(ROOM);
        let count = len.min(most).min(self.room());
        // SAFETY: self.len + count <= ROOM, so that the places are within the array, or its end where there are none.
        let to = unsafe { self.slots.as_mut_ptr().add(self.len) };
        // SAFETY: `count` initialised slots of one array are copied to as many within another; they are given up below.
        unsafe { std::ptr::copy_nonoverlapping(from.slots.as_ptr(), to, count) };
        self.len += count;
        from.close_gap(count, len);
        count
    }

    /// Gives up to `most` packets from the front to `take`, which moves all of them out.
    ///
    /// # Safety
    ///
    /// `take` becomes the owner of every packet in the slice that it is given.
    #[inline(always)]
    pub(crate) unsafe fn take_slice(&mut self, most: usize, take: impl FnOnce(&[MaybeUninit<Packet>])) -> usize {
        let len = self.len.min(ROOM);
        let count = len.min(most);
        take(&self.slots[..count]);
        self.close_gap(count, len);
        count
    }

    /// The free places at the end, and how many of them become packets when `fill` has filled them from the front.
    ///
    /// # Safety
    ///
    /// `fill` returns at most the length of what it is given, and has moved as many packets there.
    #[inline(always)]
    pub(crate) unsafe fn fill_slice(&mut self, fill: impl FnOnce(&mut [MaybeUninit<Packet>]) -> usize) -> usize {
        let len = self.len.min(ROOM);
        let filled = fill(&mut self.slots[len..]).min(ROOM - len);
        self.len = len + filled;
        filled
    }

    /// Lets foreign code (a device's transmit) take packets from the front: it is given the array of buffers, returns how
    /// many of them it took, and so owns them. The rest stays, in order.
    ///
    /// # Safety
    ///
    /// `take` returns at most the length of what it was given, has become the owner of exactly the first so many, and
    /// leaves the others as they were.
    #[inline(always)]
    pub unsafe fn take_front(&mut self, take: impl FnOnce(&mut [NonNull<Header>]) -> usize) -> usize {
        let len = self.len.min(ROOM);
        let slots = std::ptr::from_mut(&mut self.slots[..len]);
        // SAFETY: the first `len` slots are initialised, Packet is a transparent NonNull<Header>, and the borrow of self is
        // exclusive.
        let raw = unsafe { &mut *(slots as *mut [NonNull<Header>]) };
        let taken = take(raw).min(len);
        self.close_gap(taken, len);
        taken
    }

    /// Lets foreign code (a device's receive) add packets at the end: it is given the free part of the array, and returns
    /// how many slots from the front of it it has filled.
    ///
    /// # Safety
    ///
    /// `fill` returns at most the length of what it was given and has written as many distinct buffers that satisfy the
    /// invariants of [`Header`] and are owned by nobody else.
    #[inline(always)]
    pub unsafe fn fill_back(&mut self, fill: impl FnOnce(&mut [MaybeUninit<NonNull<Header>>]) -> usize) -> usize {
        let len = self.len.min(ROOM);
        let slots = std::ptr::from_mut(&mut self.slots[len..]);
        // SAFETY: MaybeUninit<Packet> has the layout of MaybeUninit<NonNull<Header>>; the borrow of self is exclusive.
        let raw = unsafe { &mut *(slots as *mut [MaybeUninit<NonNull<Header>>]) };
        let room = raw.len();
        let filled = fill(raw).min(room);
        self.len = len + filled;
        filled
    }

    /// Moves `slots[gone..len]` to the front and makes them the content.
    #[inline(always)]
    fn close_gap(&mut self, gone: usize, len: usize) {
        if gone < len {
            let first = self.slots.as_mut_ptr();
            // SAFETY: gone < len <= ROOM.
            let from = unsafe { first.add(gone) };
            // SAFETY: both ranges are inside the array; `copy` allows them to overlap; the old places are dead afterwards.
            unsafe { std::ptr::copy(from, first, len - gone) };
        }
        self.len = len - gone;
    }
}

impl Default for Burst {
    fn default() -> Burst {
        Burst::new()
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        while let Some(packet) = self.pop() {
            drop(packet); // each goes home and is counted as a defect
        }
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Burst({} packets)", self.len)
    }
}
