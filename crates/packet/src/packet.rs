//! The unique owner of one buffer.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::header::{Header, PRIVATE_SIZE, Private};
use crate::lane_set::LaneSet;
use crate::lanes::{Far, Lanes, NEAR_USER_LANES, Row, Slot, USER_LANES};
use crate::{HEADROOM, REACH};

/// Packets that were dropped by accident since the process started.
static DEFECTS: AtomicU64 = AtomicU64::new(0);

/// How many packets went home because their owner lost them (a bug in a stage, not a fate of a packet). 0 in a sound program.
pub fn defects() -> u64 {
    DEFECTS.load(Ordering::Relaxed)
}

/// A packet: the unique handle to one buffer.
///
/// It is not `Clone`. Give it to a port, a link or a pool; dropped instead, the buffer goes home all the same and
/// [`defects`] counts one.
#[repr(transparent)]
pub struct Packet(NonNull<Header>);

// SAFETY: a Packet owns its buffer alone (invariant 4 of Header), and a buffer is plain memory without thread affinity.
unsafe impl Send for Packet {}

impl Packet {
    /// Takes ownership of a buffer.
    ///
    /// # Safety
    ///
    /// `header` satisfies the invariants of [`Header`], and nobody else owns or uses the buffer from here on.
    #[inline(always)]
    pub const unsafe fn from_raw(header: NonNull<Header>) -> Packet {
        Packet(header)
    }

    /// Gives up ownership without returning the buffer: for pools and ports that keep or pass on raw buffers.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Bytes in the packet.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "an empty packet is of no interest to anybody")]
    pub fn len(&self) -> usize {
        self.header().data_len as usize
    }

    /// The packet's bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: data_off + data_len <= buf_len (invariant 3) and the bytes are ours alone and initialised (invariant 1).
        unsafe { std::slice::from_raw_parts(self.data(), self.len()) }
    }

    /// The packet's bytes, to change.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data(), self.len()) }
    }

    /// The `N` bytes at `offset`, whatever the packet's length: bytes past the length are stale, so check it first.
    ///
    /// `offset` is taken modulo 128 and `N` is at most 128, so the window is always inside the buffer.
    #[inline(always)]
    pub fn window<const N: usize>(&self, offset: usize) -> &[u8; N] {
        const { assert!(N <= REACH / 2) };
        // SAFETY: offset % 128 < 128 <= REACH, and data_off + REACH <= buf_len (invariant 2): still inside the buffer.
        let start = unsafe { self.data().add(offset % (REACH / 2)) };
        // SAFETY: 128 + N <= REACH bytes behind data_off are inside the buffer (invariant 2) and initialised (invariant 1).
        unsafe { &*start.cast::<[u8; N]>() }
    }

    /// The `N` bytes at `offset`, to change; see [`Packet::window`].
    #[inline(always)]
    pub fn window_mut<const N: usize>(&mut self, offset: usize) -> &mut [u8; N] {
        const { assert!(N <= REACH / 2) };
        // SAFETY: as in `window`.
        let start = unsafe { self.data().add(offset % (REACH / 2)) };
        // SAFETY: as in `window`; `&mut self` makes the borrow exclusive.
        unsafe { &mut *start.cast::<[u8; N]>() }
    }

    /// Free bytes in front of the first one.
    pub fn headroom(&self) -> usize {
        self.header().data_off as usize
    }

    /// How long the packet may become where it starts now.
    pub fn room(&self) -> usize {
        (self.header().buf_len - self.header().data_off) as usize
    }

    /// Prepends `n` bytes of unspecified content. False, and nothing done, if the headroom is smaller.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> bool {
        let header = self.header_mut();
        if n > header.data_off as usize {
            return false;
        }
        header.data_off -= n as u16;
        header.data_len += n as u16;
        header.pkt_len += n as u32;
        true
    }

    /// Cuts `n` bytes off the front. False, and nothing done, if the packet is shorter or would start too deep in its buffer.
    #[inline]
    pub fn trim_front(&mut self, n: usize) -> bool {
        let header = self.header_mut();
        if n > header.data_len as usize || header.data_off as usize + n + REACH > header.buf_len as usize {
            return false;
        }
        header.data_off += n as u16;
        header.data_len -= n as u16;
        header.pkt_len -= n as u32;
        true
    }

    /// Replaces the first `cut` bytes by a head of `head` bytes, and keeps `body` bytes behind them: start and length change at
    /// once. Hands out the `N` bytes in front of the body, of which the last `head` are the new head, of unspecified content, and
    /// the first `M` bytes from where the body begins, whatever its length. `N` and `M` are at most 128.
    ///
    /// `None`, and nothing done, if the packet has fewer than `cut + body` bytes, the head is longer than `N`, fewer than `N` bytes
    /// of the buffer are in front of the body, or the packet would start too deep in its buffer.
    #[inline(always)]
    pub fn replace_head<const N: usize, const M: usize>(
        &mut self,
        cut: usize,
        head: usize,
        body: usize,
    ) -> Option<(&mut [u8; N], &mut [u8; M])> {
        const { assert!(N <= REACH / 2 && M <= REACH / 2) };
        let header = self.header_mut();
        let rest = (header.data_len as usize).checked_sub(cut)?;
        // No overflow: `cut` is at most `data_len`.
        let at = header.data_off as usize + cut;
        if body > rest || at < N || head > N {
            return None;
        }
        let start = at - head;
        if start + REACH > header.buf_len as usize {
            return None;
        }
        // start + head + body = at + body, which is at most the old data_off + data_len: invariant 3 holds, and 2 was checked.
        header.data_off = start as u16;
        header.data_len = (head + body) as u16;
        header.pkt_len = (head + body) as u32;
        let buffer = header.buf_addr;
        // SAFETY: N <= at, and at <= data_off + data_len <= buf_len (invariant 3): inside the buffer.
        let front = unsafe { buffer.add(at - N) };
        // SAFETY: as above.
        let body = unsafe { buffer.add(at) };
        // SAFETY: the N bytes up to `at` are inside the buffer and initialised (invariant 1); `&mut self` makes the borrow exclusive.
        let front = unsafe { &mut *front.cast::<[u8; N]>() };
        // SAFETY: at + M = start + head + M <= start + REACH <= buf_len: inside the buffer, initialised, and behind `front`.
        Some((front, unsafe { &mut *body.cast::<[u8; M]>() }))
    }

    /// Sets the length. Bytes that come into the packet are zeroed: what is stale must never be sent.
    /// False, and nothing done, if the buffer is too small.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> bool {
        let before = self.len();
        if len > self.room() {
            return false;
        }
        let header = self.header_mut();
        header.data_len = len as u16;
        header.pkt_len = len as u32;
        if let Some(fresh) = self.bytes_mut().get_mut(before..) {
            fresh.fill(0);
        }
        true
    }

    /// Where its bytes begin: [`room`](Self::room) of them may be read and written there, as long as nobody else uses the packet. For code
    /// that is compiled at run time.
    #[inline(always)]
    pub fn start(&mut self) -> *mut u8 {
        self.data()
    }

    /// Sets the length. Bytes that come into the packet are left as they are: for who has written all of them by [`start`](Self::start).
    /// False, and nothing done, if the buffer is too small.
    #[inline]
    pub fn set_written_len(&mut self, len: usize) -> bool {
        if len > self.room() {
            return false;
        }
        let header = self.header_mut();
        header.data_len = len as u16;
        header.pkt_len = len as u32;
        true
    }

    /// Makes the packet hold a copy of `bytes`, from the usual headroom on. False, and nothing done, if it does not fit.
    #[inline]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() + HEADROOM > self.header().buf_len as usize {
            return false;
        }
        self.reset();
        let header = self.header_mut();
        header.data_len = bytes.len() as u16;
        header.pkt_len = bytes.len() as u32;
        self.bytes_mut().copy_from_slice(bytes);
        true
    }

    /// Makes the packet hold the first `len` bytes of `lines`, from the usual headroom on, with no offload flags: a template
    /// that is copied by whole lines, so that no length is looked at on the way. False, and nothing done, if the lines do not
    /// fit or are shorter than `len`.
    #[inline(always)]
    pub fn stamp(&mut self, lines: &[[u8; 64]], len: usize) -> bool {
        let bytes = lines.as_flattened();
        if bytes.len() + HEADROOM > self.header().buf_len as usize || len > bytes.len() {
            return false;
        }
        let header = self.header_mut();
        header.data_off = HEADROOM as u16;
        header.data_len = len as u16;
        header.pkt_len = len as u32;
        header.ol_flags = 0;
        let data = self.data();
        if let [line] = lines {
            // SAFETY: `lines` fits behind the headroom (checked above), and the buffer is ours alone (invariant 1).
            unsafe { data.cast::<[u8; 64]>().write(*line) };
        } else {
            // SAFETY: as above; a template is no part of a packet's buffer, which `&mut self` makes exclusive.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        }
        true
    }

    /// Makes the packet begin behind the usual headroom again, with these bytes first, and have `len` bytes, whatever headers it got or
    /// lost since it did so last: for sources whose buffers go round. Bytes behind `front` stay as they are where they were the
    /// packet's; others are zeroed. False, and nothing done, if it does not fit.
    #[inline(always)]
    pub fn renew<const N: usize>(&mut self, front: &[u8; N], len: usize) -> bool {
        let end = self.header().data_off as usize + self.header().data_len as usize;
        if !self.renew_stale(front, len) {
            return false;
        }
        let known = end.saturating_sub(HEADROOM).max(N);
        if len > known {
            self.zero_from(known);
        }
        true
    }

    /// [`Packet::renew`], but that bytes behind `front` are whatever the buffer holds: for measurements with frames of many lengths, whose
    /// packets nobody gets.
    #[inline(always)]
    pub fn renew_stale<const N: usize>(&mut self, front: &[u8; N], len: usize) -> bool {
        const { assert!(N <= REACH / 2) };
        let header = self.header_mut();
        if HEADROOM + len.max(REACH) > header.buf_len as usize {
            return false;
        }
        header.data_off = HEADROOM as u16;
        header.data_len = len as u16;
        header.pkt_len = len as u32;
        *self.window_mut(0) = *front;
        true
    }

    #[cold]
    #[inline(never)]
    fn zero_from(&mut self, known: usize) {
        if let Some(fresh) = self.bytes_mut().get_mut(known..) {
            fresh.fill(0);
        }
    }

    /// Makes the packet empty, with the usual headroom and no offload flags, as a fresh one is.
    #[inline]
    pub fn reset(&mut self) {
        let header = self.header_mut();
        header.data_off = HEADROOM as u16;
        header.data_len = 0;
        header.pkt_len = 0;
        header.ol_flags = 0;
    }

    /// A number that names this buffer among all others for as long as it is owned: for tracing.
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Hints that the header line of the buffer will be read soon.
    #[inline(always)]
    pub fn prefetch_header(&self) {
        weir_mem::prefetch::prefetch_read(self.header());
    }

    /// Hints that the first bytes of the packet will be read soon. Reads the header line.
    #[inline(always)]
    pub fn prefetch_data(&self) {
        weir_mem::prefetch::prefetch_read(self.window::<1>(0));
    }

    /// Hints that the packet will be held soon: its lanes are saved behind the buffer's header.
    #[inline(always)]
    pub fn prefetch_lanes(&self) {
        weir_mem::prefetch::prefetch_slice(std::slice::from_ref(self.header()), 1);
    }

    /// The buffer header, for ports that need a device's fields.
    #[inline(always)]
    pub fn header(&self) -> &Header {
        // SAFETY: the packet owns a valid buffer; its header lives as long as the packet does.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`; `&mut self` makes the borrow exclusive. Private, so that callers cannot break invariants.
        unsafe { self.0.as_mut() }
    }

    /// Sets the offload flags and header lengths that a device reads at transmit.
    pub fn set_offload(&mut self, ol_flags: u64, tx_offload: u64) {
        let header = self.header_mut();
        header.ol_flags = ol_flags;
        header.tx_offload = tx_offload;
    }

    #[inline(always)]
    fn data(&self) -> *mut u8 {
        let header = self.header();
        // SAFETY: data_off <= buf_len (invariant 2), so the address is inside the buffer.
        unsafe { header.buf_addr.add(header.data_off as usize) }
    }

    fn private(&mut self) -> &mut Private {
        // SAFETY: a Private follows the header (invariant 5), inside the same buffer.
        let private = unsafe { self.0.as_ptr().add(1) }.cast::<Private>();
        // SAFETY: initialised by the pool (invariant 5); `&mut self` makes the borrow exclusive.
        unsafe { &mut *private }
    }

    /// Saves a row in the buffer, for who will only read these lanes: the line behind the header's first ones is left alone if none of them would
    /// be there.
    #[inline(always)]
    pub(crate) fn save(&mut self, row: &Row, lanes: LaneSet) {
        let [first, second, user @ ..] = row.user;
        let header = self.header_mut();
        header.port = row.port;
        header.packet_type = [row.l3, row.class, row.colour, row.passes];
        header.hash = [first, second];
        if !lanes.is_near() {
            self.private().far = Far { time: row.time, user };
        }
    }

    /// The row that was [saved](Packet::save) for these lanes; what it says of others means nothing.
    #[inline(always)]
    pub(crate) fn saved(&mut self, lanes: LaneSet) -> Row {
        let Far { time, user: [third, fourth] } = if lanes.is_near() { Far::EMPTY } else { self.private().far };
        let header = self.header();
        let [l3, class, colour, passes] = header.packet_type;
        let [first, second] = header.hash;
        Row { time, user: [first, second, third, fourth], port: header.port, l3, class, colour, passes }
    }
}

const _: () = assert!(PRIVATE_SIZE.is_multiple_of(64));

impl Drop for Packet {
    #[cold]
    fn drop(&mut self) {
        DEFECTS.fetch_add(1, Ordering::Relaxed);
        let home = self.private().home;
        // SAFETY: the buffer satisfies the invariants, carries `home` in its own private area, and is used by nobody after this.
        unsafe { home(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes)", self.len())
    }
}

/// A packet outside a batch whose lanes are saved in its buffer: held by a stage, or on its way across a link. Nobody hands it to a driver, so the
/// fields of its header that drivers write are free.
#[derive(Debug)]
#[repr(transparent)]
pub struct Held(pub(crate) Packet);

impl Held {
    /// A packet about which nothing is known yet but the port it belongs to and the time.
    pub fn fresh(mut packet: Packet, port: u16, time: u64) -> Held {
        packet.save(&Row { port, time, ..Row::EMPTY }, LaneSet::ALL);
        Held(packet)
    }

    /// A packet about which everything is known that is known about the one in `slot`: a copy of it, or a part.
    pub fn like(mut packet: Packet, lanes: &Lanes, slot: Slot) -> Held {
        packet.save(&lanes.row(slot), LaneSet::ALL);
        Held(packet)
    }

    /// The packet. Its saved lanes are given up.
    pub fn into_packet(self) -> Packet {
        self.0
    }

    /// The packet, to look at.
    pub fn packet(&self) -> &Packet {
        &self.0
    }

    /// The packet, to change.
    pub fn packet_mut(&mut self) -> &mut Packet {
        &mut self.0
    }

    /// Hints that the packet goes into a batch soon: its header, and its saved lanes if they are elsewhere.
    #[inline(always)]
    pub fn prefetch(&self, lanes: LaneSet) {
        self.0.prefetch_header();
        if !lanes.is_near() {
            self.0.prefetch_lanes();
        }
    }

    /// The saved ingress port.
    pub fn port(&mut self) -> u16 {
        self.0.header().port
    }

    /// The saved time of receipt.
    pub fn time(&mut self) -> u64 {
        self.0.private().far.time
    }

    /// The saved offset of the network header.
    pub fn l3(&mut self) -> u8 {
        let [l3, ..] = self.0.header().packet_type;
        l3
    }

    /// The saved traffic class.
    pub fn class(&mut self) -> u8 {
        let [_, class, ..] = self.0.header().packet_type;
        class
    }

    /// The saved value of a claimed lane.
    pub fn get<T: From<u32>>(&mut self, key: crate::Key<T>) -> T {
        T::from(*self.claimed(key.index()))
    }

    /// Counts one more pass by an `again` way; false when it has had `most` already. The engine's.
    pub fn pass_again(&mut self, most: u8) -> bool {
        let [.., passes] = &mut self.0.header_mut().packet_type;
        let may = *passes < most;
        *passes = passes.saturating_add(1);
        may
    }

    /// Changes the saved port: the one it came in by, or the end of a joint.
    pub fn set_port(&mut self, port: u16) {
        self.0.header_mut().port = port;
    }

    /// Changes the saved offset of the network header.
    pub fn set_l3(&mut self, value: u8) {
        let [l3, ..] = &mut self.0.header_mut().packet_type;
        *l3 = value;
    }

    /// Changes the saved traffic class.
    pub fn set_class(&mut self, value: u8) {
        let [_, class, ..] = &mut self.0.header_mut().packet_type;
        *class = value;
    }

    /// Changes the saved value of a claimed lane.
    pub fn set<T: Into<u32>>(&mut self, key: crate::Key<T>, value: T) {
        *self.claimed(key.index()) = value.into();
    }

    /// Where a claimed lane is saved.
    fn claimed(&mut self, lane: usize) -> &mut u32 {
        match lane.checked_sub(NEAR_USER_LANES) {
            None => &mut self.0.header_mut().hash[lane % NEAR_USER_LANES],
            Some(far) => &mut self.0.private().far.user[far % (USER_LANES - NEAR_USER_LANES)],
        }
    }
}
