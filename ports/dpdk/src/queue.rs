//! Receive and transmit queues: one call into DPDK per burst.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_dpdk_sys as sys;
use weir_packet::header::Header;
use weir_packet::{Batch, Burst, Packet, Pool, REACH};
use weir_stage::{Rx, Traffic, Tx};

use crate::ethdev::Ethdev;
use crate::gate::Gate;
use crate::pool::{DpdkPool, Mempool, Piece};
use crate::rx_interrupt::RxInterrupt;

/// A receive queue. The device lives at least as long.
pub(crate) struct DpdkRx {
    device: Arc<Ethdev>,
    queue: u16,
    pool: Arc<Mempool>,
    /// Packets that are received at once, at most.
    most: usize,
    /// The driver does not write what it hands over: it is blanked.
    blank: bool,
    remark: Option<String>,
    gate: Option<Gate>,
    interrupt: Option<RxInterrupt>,
    burst: Burst,
    lost: Lost,
}

/// What was lost at receive.
#[derive(Debug, Default)]
struct Lost {
    long: u64,
    unfit: u64,
}

impl DpdkRx {
    pub(crate) fn new(
        device: Arc<Ethdev>,
        queue: u16,
        pool: Arc<Mempool>,
        most: usize,
        blank: bool,
        remark: Option<String>,
        gate: Option<Gate>,
    ) -> DpdkRx {
        let interrupt = device.rx_interrupt(queue);
        DpdkRx { device, queue, pool, most, blank, remark, gate, interrupt, burst: Burst::new(), lost: Lost::default() }
    }

    /// Receives up to `room` packets into the (empty) burst. Returns how many bytes they have.
    #[inline]
    fn poll(&mut self, room: usize) -> u64 {
        let (port, queue) = (self.device.port(), self.queue);
        let (pool, gate, lost) = (&*self.pool, self.gate.as_ref(), &mut self.lost);
        let bounds = Bounds { memory: pool.main_piece(), buf_len: pool.buf_len() };
        let mut bytes = 0;
        let fill = |slots: &mut [MaybeUninit<NonNull<Header>>]| {
            let n = u16::try_from(slots.len().min(room)).unwrap_or(u16::MAX);
            let into = slots.as_mut_ptr().cast();
            // SAFETY: the device is started while `device` lives, the queue is this object's alone, and
            // there is room for `n` addresses.
            let got = through(gate, port, || unsafe { sys::weir_rx_burst(port, queue, into, n) });
            let got = usize::from(got.min(n));
            // SAFETY: the driver filled the first `got` slots with whole buffers that nobody else owns.
            let (all_hold, sum) = unsafe { look(slots.get(..got).unwrap_or_default(), bounds) };
            let kept;
            (kept, bytes) = if all_hold {
                (got, sum)
            } else {
                // SAFETY: as before.
                unsafe { sort_out(slots.get_mut(..got).unwrap_or_default(), bounds, pool, lost) }
            };
            kept
        };
        // SAFETY: the first `kept` slots hold buffers that were found to satisfy the invariants; the
        // driver gave them up, each once.
        unsafe { self.burst.fill_back(fill) };
        bytes
    }
}

/// Whether all these buffers satisfy the invariants for certain, and how many bytes they have. A loop without a branch for each of them, which
/// notes the extremes of what they have, to be judged once: two offsets in one burst are enough for "no".
///
/// # Safety
///
/// Each is a whole buffer, the caller's.
#[inline(always)]
unsafe fn look(buffers: &[MaybeUninit<NonNull<Header>>], bounds: Bounds) -> (bool, u64) {
    let Some(first) = buffers.first() else { return (true, 0) };
    // SAFETY: it was filled, says the caller.
    let first = unsafe { first.assume_init() };
    // SAFETY: a whole buffer, says the caller.
    let usual = unsafe { rearmed(first) };
    // SAFETY: as before.
    let first = unsafe { first.as_ref() };
    let (mut flags, mut differs) = (0, 0_u64);
    let (mut shortest, mut longest, mut farthest, mut bytes) = (u64::MAX, 0, 0_usize, 0);
    for buffer in buffers {
        // SAFETY: it was filled, says the caller.
        let buffer = unsafe { buffer.assume_init() };
        // SAFETY: a whole buffer, says the caller.
        let header = unsafe { buffer.as_ref() };
        let length = u64::from(header.data_len);
        // SAFETY: as before.
        differs |= (unsafe { rearmed(buffer) } ^ usual) | (u64::from(header.pkt_len) ^ length);
        flags |= header.ol_flags;
        shortest = shortest.min(length);
        longest = longest.max(length);
        farthest = farthest.max(bounds.memory.offset_of(buffer.as_ptr()));
        bytes += length;
    }
    let single = (first.nb_segs == 1) & (first.refcnt == 1) & (flags & sys::WEIR_MBUF_F_FOREIGN == 0);
    let inside = u64::from(first.data_off) + longest.max(REACH as u64) <= bounds.buf_len as u64;
    let ours = farthest < bounds.memory.length;
    // Above all else is the port, which may be another one where a device is made of several.
    (single & inside & ours & (differs << 16 == 0) & (shortest != 0), bytes)
}

/// Offset, owners, segments and port of a buffer, in one word as drivers write them.
///
/// # Safety
///
/// A whole buffer, the caller's.
#[inline(always)]
unsafe fn rearmed(buffer: NonNull<Header>) -> u64 {
    const AT: usize = offset_of!(Header, data_off) / size_of::<u64>();
    // SAFETY: inside the header.
    let word = unsafe { buffer.cast::<u64>().add(AT) };
    // SAFETY: four fields of two bytes, which a whole buffer has, and the first of them is aligned as a word.
    unsafe { word.read() }
}

/// Mends the buffers that do not satisfy the invariants, and gives back those that cannot be mended. Returns how many of the first slots hold
/// packets now, in the same order, and how many bytes they have.
///
/// # Safety
///
/// Each is a whole buffer or chain of DPDK's, and the caller its owner; of those that are not in the first slots afterwards, no longer.
#[cold]
unsafe fn sort_out(
    buffers: &mut [MaybeUninit<NonNull<Header>>],
    bounds: Bounds,
    pool: &Mempool,
    lost: &mut Lost,
) -> (usize, u64) {
    let (mut kept, mut bytes) = (0, 0);
    for at in 0..buffers.len() {
        let Some(slot) = buffers.get(at).copied() else { break };
        // SAFETY: it was filled, says the caller.
        let buffer = unsafe { slot.assume_init() };
        // SAFETY: a whole buffer, says the caller.
        let holds = bounds.hold(buffer, unsafe { buffer.as_ref() });
        // SAFETY: as it came.
        if !holds && !unsafe { mend(buffer, pool, lost) } {
            continue;
        }
        // SAFETY: still a whole buffer, and ours.
        bytes += u64::from(unsafe { buffer.as_ref() }.data_len);
        if let Some(place) = buffers.get_mut(kept) {
            place.write(buffer);
            kept += 1;
        }
    }
    (kept, bytes)
}

/// One call of the driver, through the gate of a queue that has one.
#[inline(always)]
fn through(gate: Option<&Gate>, port: u16, burst: impl FnOnce() -> u16) -> u16 {
    match gate {
        // SAFETY: a port that exists, for its queue does.
        Some(gate) => gate.through(|| unsafe { sys::weir_link_up(port) } == 1, burst),
        None => burst(),
    }
}

impl Rx for DpdkRx {
    fn receive(&mut self, batch: &mut Batch, _pool: &mut dyn Pool, _now: u64) -> Traffic {
        let bytes = self.poll(batch.room().min(self.most));
        if self.burst.is_empty() {
            return Traffic::default();
        }
        if self.blank {
            self.burst.packets_mut().iter_mut().for_each(|packet| packet.bytes_mut().fill(0));
        }
        let mask = batch.fill_from_burst(&mut self.burst);
        Traffic { packets: u64::from(mask.count_ones()), bytes }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.interrupt {
            Some(interrupt) => Some(interrupt.descriptor()),
            None => self.device.descriptor(self.queue),
        }
    }

    fn listen(&mut self, on: bool) {
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.listen(on);
        }
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            ("long", "The frame is longer than one buffer holds: raise the port's MTU.", self.lost.long),
            ("unfit", "The frame was empty, or not in a buffer of this process.", self.lost.unfit),
        ]
    }

    fn remark(&self) -> Option<String> {
        self.remark.clone()
    }
}

/// What the invariants of [`Header`] are checked against.
#[derive(Clone, Copy)]
struct Bounds {
    memory: Piece,
    buf_len: usize,
}

impl Bounds {
    /// The invariants, and that the frame has any bytes; without branches, as nearly all frames satisfy them.
    #[inline(always)]
    fn hold(self, buffer: NonNull<Header>, header: &Header) -> bool {
        let length = usize::from(header.data_len);
        let single = (header.nb_segs == 1) & (header.refcnt == 1) & (header.ol_flags & sys::WEIR_MBUF_F_FOREIGN == 0);
        let inside = usize::from(header.data_off) + length.max(REACH) <= self.buf_len;
        let whole = (header.pkt_len == u32::from(header.data_len)) & (length != 0);
        single & inside & whole & self.memory.owns(buffer.as_ptr())
    }
}

/// Makes a packet of what a driver handed over and is none at first sight: a chain is made one piece
/// where it fits. What is no packet is given back and counted. Returns whether it is one now.
///
/// # Safety
///
/// `buffer` is a whole buffer or chain of DPDK's, and the caller its owner; when the answer is false, no
/// longer.
#[cold]
unsafe fn mend(buffer: NonNull<Header>, pool: &Mempool, lost: &mut Lost) -> bool {
    // SAFETY: a whole buffer, the caller's.
    let segments = unsafe { buffer.as_ref() }.nb_segs;
    // SAFETY: a whole chain, the caller's.
    if segments > 1 && unsafe { sys::weir_pktmbuf_linearize(buffer.as_ptr().cast()) } != 0 {
        lost.long += 1;
    } else {
        // SAFETY: still a whole buffer, and the caller's.
        let header = unsafe { buffer.as_ref() };
        let any = Bounds { memory: Piece::ANY, buf_len: pool.buf_len() };
        if any.hold(buffer, header) && pool.owns(buffer.as_ptr()) {
            return true;
        }
        lost.unfit += 1;
    }
    // SAFETY: a whole chain, given up here.
    unsafe { sys::weir_pktmbuf_free(buffer.as_ptr().cast()) };
    false
}

/// A transmit queue. The device lives at least as long.
pub(crate) struct DpdkTx {
    device: Arc<Ethdev>,
    queue: u16,
    pool: DpdkPool,
    alive: Arc<AtomicBool>,
    /// How long packets may wait for others, nanoseconds.
    max_wait: u64,
    gate: Option<Gate>,
}

impl DpdkTx {
    pub(crate) fn new(
        device: Arc<Ethdev>,
        queue: u16,
        pool: DpdkPool,
        alive: Arc<AtomicBool>,
        max_wait: u64,
        gate: Option<Gate>,
    ) -> DpdkTx {
        DpdkTx { device, queue, pool, alive, max_wait, gate }
    }

    /// Copies what lives in foreign buffers to DPDK's, as long as there are any. Returns whether the whole
    /// burst is DPDK's now.
    #[cold]
    fn adopt(&mut self, burst: &mut Burst, theirs: &mut dyn Pool) -> bool {
        for packet in burst.packets_mut() {
            if self.pool.owns(packet) {
                continue;
            }
            let Some(mut copy) = self.pool.alloc() else { return false };
            if !copy.fill(packet.bytes()) {
                self.pool.free(copy);
                return false;
            }
            theirs.free(std::mem::replace(packet, copy));
        }
        true
    }
}

impl Tx for DpdkTx {
    /// Takes nothing while the link is down: AF_PACKET's driver would swallow it. Of no packets the driver is told nothing: net_memif of 24.11 reads
    /// the first without looking whether there is one.
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        if burst.is_empty() || !self.alive() {
            return Traffic::default();
        }
        let memory = self.pool.shared().main_piece();
        let (mut offered, mut farthest) = (0, 0);
        for packet in burst.packets() {
            farthest = memory.offset_of(packet.header()).max(farthest);
            offered += packet.len() as u64;
        }
        if farthest >= memory.length && !self.adopt(burst, pool) {
            return Traffic::default();
        }
        let (port, queue, gate) = (self.device.port(), self.queue, self.gate.as_ref());
        let send = |buffers: &mut [NonNull<Header>]| {
            let (from, n) = (buffers.as_mut_ptr().cast(), u16::try_from(buffers.len()).unwrap_or(u16::MAX));
            // SAFETY: the device is started while `device` lives, the queue is this object's alone, and
            // all `n` buffers are whole and DPDK's; it becomes the owner of those it takes.
            usize::from(through(gate, port, || unsafe { sys::weir_tx_burst(port, queue, from, n) }))
        };
        // SAFETY: a driver takes as many from the front as it says, and leaves the others alone.
        let sent = unsafe { burst.take_front(send) };
        Traffic { packets: sent as u64, bytes: offered.saturating_sub(length(burst.packets())) }
    }

    fn alive(&mut self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    fn max_wait(&self) -> u64 {
        self.max_wait
    }
}

fn length(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Header);

    /// What a buffer that holds has otherwise; and whether a burst of which some are so is still taken at once.
    const CHANGES: [(Change, bool); 13] = [
        (|_| {}, true),
        (|header| header.port = 9, true),
        (|header| header.ol_flags = 1 << 5, true),
        (|header| (header.data_len, header.pkt_len) = (1, 1), true),
        (|header| (header.data_len, header.pkt_len) = (2048, 2048), true),
        (|header| header.data_off = 110, false),
        (|header| (header.data_len, header.pkt_len) = (2049, 2049), false),
        (|header| (header.data_len, header.pkt_len) = (0, 0), false),
        (|header| header.pkt_len = 64 + (1 << 16), false),
        (|header| header.refcnt = 2, false),
        (|header| header.nb_segs = 2, false),
        (|header| header.ol_flags = sys::WEIR_MBUF_F_FOREIGN & sys::WEIR_MBUF_F_FOREIGN.wrapping_neg(), false),
        (|header| header.data_off = (128 + 2048 - REACH + 1) as u16, false),
    ];

    fn header(change: Change) -> Header {
        // SAFETY: all zeros are numbers, and pointers to nothing.
        let mut header: Header = unsafe { std::mem::zeroed() };
        (header.data_off, header.refcnt, header.nb_segs, header.port) = (128, 1, 1, 3);
        (header.data_len, header.pkt_len) = (64, 64);
        change(&mut header);
        header
    }

    /// All bursts of three buffers, of which some are not in our memory. What is said of all at once is never more than what is said of each, and the
    /// same where they are alike.
    #[test]
    fn a_burst_is_taken_at_once_if_each_of_its_buffers_holds() {
        const KINDS: usize = CHANGES.len();
        for (code, ours) in (0..KINDS.pow(3)).flat_map(|code| (0..=3).map(move |ours| (code, ours))) {
            let kinds = [code % KINDS, code / KINDS % KINDS, code / KINDS.pow(2)].map(|kind| CHANGES[kind]);
            let mut headers = kinds.map(|(change, _)| header(change));
            let memory = Piece { start: headers.as_ptr().addr(), length: ours * size_of::<Header>() };
            let bounds = Bounds { memory, buf_len: 128 + 2048 };
            let hold = headers.iter().all(|header| bounds.hold(NonNull::from(header), header));
            let bytes: u64 = headers.iter().map(|header| u64::from(header.data_len)).sum();
            let burst = headers.each_mut().map(|header| MaybeUninit::new(NonNull::from(header)));
            // SAFETY: whole headers, ours.
            let (all_hold, sum) = unsafe { look(&burst, bounds) };
            assert!(hold || !all_hold, "{code}, {ours} ours");
            let alike = code % (KINDS.pow(2) + KINDS + 1) == 0 || kinds.iter().all(|(_, usual)| *usual);
            assert!(all_hold || !(hold && alike), "{code}, {ours} ours");
            assert_eq!(sum, bytes);
        }
    }
}
