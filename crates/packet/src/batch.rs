//! Up to 64 packets, a mask of the live ones, and their lanes.

use std::fmt;
use std::mem::MaybeUninit;

use crate::lane_set::LaneSet;
use crate::lanes::{Lanes, Row, Slot};
use crate::packet::{Held, Packet};
use crate::{BATCH, Burst};

/// Up to 64 packets that take the same path.
///
/// A slot whose packet has left cannot be reached: only the visitors hand out packets, and they follow the mask.
pub struct Batch {
    /// Bit `i` is set exactly when `slots[i]` is initialised.
    live: u64,
    slots: [MaybeUninit<Packet>; BATCH],
    /// What is known about each packet.
    pub lanes: Lanes,
}

/// The slots in a mask, from the lowest on.
#[derive(Clone, Copy, Debug)]
pub struct Slots(pub u64);

impl Iterator for Slots {
    type Item = Slot;
    #[inline(always)]
    fn next(&mut self) -> Option<Slot> {
        if self.0 == 0 {
            return None;
        }
        let slot = Slot::new(self.0.trailing_zeros() as usize);
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

impl Batch {
    /// A batch without packets.
    pub fn new() -> Box<Batch> {
        Box::new(Batch { live: 0, slots: [const { MaybeUninit::uninit() }; BATCH], lanes: Lanes::new() })
    }

    /// The mask of slots that hold a packet.
    #[inline(always)]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Packets in the batch.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.live.count_ones() as usize
    }

    /// Whether no packet is in the batch.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Packets that may still be added: the slots behind the last packet. Gaps in front of it stay free, because the order of
    /// the slots is that of the packets.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.live.leading_zeros() as usize
    }

    /// The slots that hold a packet.
    #[inline(always)]
    pub fn slots(&self) -> Slots {
        Slots(self.live)
    }

    /// Adds a packet behind the last one; its lanes are whatever was there. A batch without [room](Batch::room) gives it back.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Result<Slot, Packet> {
        let room = self.room();
        if room == 0 {
            return Err(packet);
        }
        let slot = Slot::new(BATCH - room);
        self.slots[slot.index()].write(packet);
        self.live |= slot.bit();
        Ok(slot)
    }

    /// Adds a packet that was held, with the lanes saved in its buffer. A full batch gives it back.
    pub fn restore(&mut self, held: Held) -> Result<Slot, Held> {
        let mut held = held;
        let row = held.0.saved(LaneSet::ALL);
        let slot = self.push(held.0).map_err(Held)?;
        self.lanes.set_row(slot, &row);
        Ok(slot)
    }

    /// As [`Batch::restore`], of a packet that was [held with](Batch::hold_with) these lanes; what the others say means nothing.
    #[inline]
    pub fn restore_with(&mut self, held: Held, lanes: LaneSet) -> Result<Slot, Held> {
        let mut held = held;
        let row = if lanes.is_empty() { Row::EMPTY } else { held.0.saved(lanes) };
        let slot = self.push(held.0).map_err(Held)?;
        self.lanes.set_some(slot, &row, lanes);
        Ok(slot)
    }

    /// Takes a packet out. Its lanes are lost.
    #[inline(always)]
    pub fn take(&mut self, slot: Slot) -> Option<Packet> {
        if self.live & slot.bit() == 0 {
            return None;
        }
        self.live &= !slot.bit();
        // SAFETY: the bit was set, so the slot was initialised; it is cleared now, so nobody reads the slot again.
        Some(unsafe { self.slots[slot.index()].assume_init_read() })
    }

    /// Takes a packet out and saves its lanes in its buffer.
    pub fn hold(&mut self, slot: Slot) -> Option<Held> {
        self.hold_with(slot, LaneSet::ALL)
    }

    /// As [`Batch::hold`], for who will only read these lanes.
    #[inline]
    pub fn hold_with(&mut self, slot: Slot, lanes: LaneSet) -> Option<Held> {
        let mut held = self.take(slot).map(Held)?;
        if cfg!(debug_assertions) {
            held.poison();
        }
        if !lanes.is_empty() {
            held.0.save(&self.lanes.row(slot), lanes);
        }
        Some(held)
    }

    /// Moves the packets in `mask` that are live here into `to`, with their lanes, as long as there is room.
    /// Returns how many went.
    pub fn move_to(&mut self, mask: u64, to: &mut Batch) -> usize {
        let mut moved = 0;
        for slot in Slots(self.live & mask) {
            if to.room() == 0 {
                break;
            }
            let Some(packet) = self.take(slot) else { break };
            if let Ok(place) = to.push(packet) {
                to.lanes.set_row(place, &self.lanes.row(slot));
                moved += 1;
            }
        }
        moved
    }

    /// Moves the packets in `mask` that are live here to the end of a burst; their lanes are lost. Returns how many went:
    /// fewer only when the burst is full.
    #[inline]
    pub fn move_to_burst(&mut self, mask: u64, to: &mut Burst) -> usize {
        let going = self.live & mask;
        if going & going.wrapping_add(1) == 0 && to.room() >= BATCH {
            return self.move_first_to_burst(going, to);
        }
        if to.room() >= going.count_ones() as usize {
            return self.move_scattered_to_burst(going, to);
        }
        let mut moved = 0;
        for slot in Slots(going) {
            if to.is_full() {
                break;
            }
            let Some(packet) = self.take(slot) else { break };
            to.push_within_room(packet);
            moved += 1;
        }
        moved
    }

    /// Moves packets where there is room for all of them.
    #[inline]
    fn move_scattered_to_burst(&mut self, going: u64, to: &mut Burst) -> usize {
        self.live &= !going;
        let slots = &self.slots;
        let fill = |free: &mut [MaybeUninit<Packet>]| {
            let mut moved = 0;
            for (place, slot) in free.iter_mut().zip(Slots(going)) {
                move_slots(std::slice::from_ref(&slots[slot.index()]), std::slice::from_mut(place));
                moved += 1;
            }
            moved
        };
        // SAFETY: the closure moves the packets of the slots in `going`, which were live and are dead now, each to a free place.
        unsafe { to.fill_slice(fill) }
    }

    /// Moves the packets of the first slots, which `going` has no gap in, where there is room for a batch.
    #[inline]
    fn move_first_to_burst(&mut self, going: u64, to: &mut Burst) -> usize {
        let count = going.trailing_ones() as usize;
        self.live &= !going;
        let slots = &self.slots;
        // SAFETY: the closure moves the packets of `count` slots, which were live and are dead now, to as many free places.
        unsafe { to.fill_slice(|free| move_slots(&slots[..count], free)) }
    }

    /// Adds packets from the front of a burst behind the last one, as many as there is room for. Returns the mask of the slots
    /// filled.
    #[inline]
    pub fn fill_from_burst(&mut self, from: &mut Burst) -> u64 {
        if self.live == 0 {
            return self.fill_empty_from_burst(from);
        }
        let before = self.live;
        from.drain(|packet| self.push(packet));
        self.live & !before
    }

    /// [`Batch::fill_from_burst`] where no slot is taken: a copy of one array to another.
    #[inline]
    fn fill_empty_from_burst(&mut self, from: &mut Burst) -> u64 {
        let slots = &mut self.slots;
        // SAFETY: the closure moves every packet it is given into a slot that is dead, and is made live below.
        let count = unsafe { from.take_slice(BATCH, |packets| _ = move_slots(packets, slots)) };
        self.live = if count == BATCH { u64::MAX } else { (1 << count) - 1 };
        self.live
    }

    /// The packet in a slot.
    #[inline(always)]
    pub fn get(&self, slot: Slot) -> Option<&Packet> {
        if self.live & slot.bit() == 0 {
            return None;
        }
        // SAFETY: the bit is set, so the slot is initialised.
        Some(unsafe { self.slots[slot.index()].assume_init_ref() })
    }

    /// The packet in a slot, to change.
    #[inline(always)]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Packet> {
        if self.live & slot.bit() == 0 {
            return None;
        }
        // SAFETY: the bit is set, so the slot is initialised.
        Some(unsafe { self.slots[slot.index()].assume_init_mut() })
    }

    /// Visits the live packets in slot order, to look at; what is seen may be kept as long as the batch is not changed.
    #[inline(always)]
    pub fn each_ref<'b>(&'b self, visit: impl FnMut(Slot, &'b Packet)) {
        self.each_ref_in(self.live, visit);
    }

    /// Visits the live packets in `mask` in slot order, to look at; see [`Batch::each_ref`].
    #[inline(always)]
    pub fn each_ref_in<'b>(&'b self, mask: u64, mut visit: impl FnMut(Slot, &'b Packet)) {
        for slot in Slots(self.live & mask) {
            // SAFETY: the bit is set, so the slot is initialised; `&'b self` keeps it so.
            let packet = unsafe { self.slots[slot.index()].assume_init_ref() };
            visit(slot, packet);
        }
    }

    /// Visits the live packets in slot order, with all lanes at hand.
    #[inline(always)]
    pub fn each(&mut self, mut visit: impl FnMut(Slot, &mut Packet, &mut Lanes)) {
        for slot in Slots(self.live) {
            // SAFETY: the bit is set, so the slot is initialised; no visitor can reach the mask while the loop runs.
            let packet = unsafe { self.slots[slot.index()].assume_init_mut() };
            visit(slot, packet, &mut self.lanes);
        }
    }

    /// Visits the live packets in `mask` in slot order, with all lanes at hand.
    #[inline(always)]
    pub fn each_in(&mut self, mask: u64, mut visit: impl FnMut(Slot, &mut Packet, &mut Lanes)) {
        for slot in Slots(self.live & mask) {
            // SAFETY: the bit is set, so the slot is initialised; no visitor can reach the mask while the loop runs.
            let packet = unsafe { self.slots[slot.index()].assume_init_mut() };
            visit(slot, packet, &mut self.lanes);
        }
    }

    /// Bytes of the live packets in `mask`.
    pub fn bytes_in(&self, mask: u64) -> u64 {
        Slots(self.live & mask).filter_map(|slot| self.get(slot)).map(|packet| packet.len() as u64).sum()
    }
}

/// Copies slots from one array to the front of another, as many as fit; returns how many. Whoever calls sees to it that the old
/// ones are dead afterwards.
#[inline(always)]
fn move_slots(from: &[MaybeUninit<Packet>], to: &mut [MaybeUninit<Packet>]) -> usize {
    let count = from.len().min(to.len());
    // SAFETY: both ranges are `count` long and of different arrays; slots may be copied whether they are initialised or not.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), count) };
    count
}

impl Drop for Batch {
    fn drop(&mut self) {
        for slot in Slots(self.live) {
            drop(self.take(slot)); // each goes home and is counted as a defect
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} packets)", self.len())
    }
}
