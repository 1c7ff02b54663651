//! What every kind of port must do, as tests that any kind can be put to.
//!
//! A kind of port implements [`Outside`], which knows how to reach the far side of its device, and a test calls [`check_all`],
//! or the checks one by one. A failed check is an error that says what was found.
//!
//! Frames of the checks come from an address that nobody else has, so that other traffic on a shared interface does not disturb
//! them. Most carry a number.

mod frames;

use std::fmt;

use weir_packet::{BATCH, Batch, Burst, Packet, Pool};
use weir_stage::{Port, PortError, Rx, Tx};

use frames::{NUMBER_AT, compare, frame, mixed, of_all_kinds, ours};

/// Calls of receive or collect without a packet before a check gives up waiting.
const PATIENCE: u32 = 2000;

/// The far side of a device, and what is particular about the device.
pub trait Outside {
    /// A pool for the port and its worker.
    fn pool(&self) -> Box<dyn Pool>;

    /// A port that is not open, over a fresh device. `frames` is what [`Outside::feed`] will be called with: a file is written
    /// here.
    ///
    /// # Errors
    ///
    /// The device cannot be made.
    fn make(&mut self, frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError>;

    /// Sends frames towards the open port, in order, as many as the device holds now; returns how many. Called again with the
    /// rest.
    fn feed(&mut self, frames: &[Vec<u8>]) -> usize;

    /// Takes the frames that came out of the port since the last call, in order.
    fn collect(&mut self) -> Vec<Vec<u8>>;

    /// Waits a moment, so that the device may do its work. Nothing to wait for in memory.
    fn pause(&mut self) {}

    /// The shortest frame that crosses the device; shorter ones are not tried.
    fn shortest(&self) -> usize {
        14
    }

    /// Whether the device may add zeros behind frames up to this length: Ethernet's least is 60.
    fn pads_to(&self) -> usize {
        0
    }

    /// Whether a transmit queue knows what room the device has. One that does not says that there is room for a burst, even where there
    /// is none: then that is what the check expects to see.
    fn knows_room(&self) -> bool {
        true
    }

    /// The time of the worker's clock, nanoseconds.
    fn now(&mut self) -> u64 {
        0
    }
}

/// A check that failed: what was expected, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Failure {
        Failure(error.0)
    }
}

/// The result of a check.
pub type Verdict = Result<(), Failure>;

/// A check by its name.
type Check = (&'static str, fn(&mut dyn Outside) -> Verdict);

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Failure(otherwise())) }
}

/// All checks, one after the other.
///
/// # Errors
///
/// The first check that fails.
pub fn check_all(outside: &mut dyn Outside) -> Verdict {
    let checks: [Check; 8] = [
        ("facts", facts_are_sound),
        ("receive", receives_in_order_and_intact),
        ("lengths", carries_every_length),
        ("kinds", changes_no_frame),
        ("room", never_overfills_a_batch),
        ("transmit", transmits_in_order_and_intact),
        ("rest", keeps_the_rest_of_a_burst_in_order),
        ("buffers", gives_every_buffer_back),
    ];
    for (name, check) in checks {
        check(outside).map_err(|failure| Failure(format!("{name}: {failure}")))?;
    }
    Ok(())
}

/// An open port with one queue of either kind.
struct Open {
    port: Box<dyn Port>,
    rx: Box<dyn Rx>,
    tx: Box<dyn Tx>,
    pool: Box<dyn Pool>,
}

impl Open {
    fn new(outside: &mut dyn Outside, frames: &[Vec<u8>]) -> Result<Open, Failure> {
        let pool = outside.pool();
        let mut port = outside.make(frames)?;
        let (rx, tx) = port.open(1, 1, &*pool)?;
        let counts = (rx.len(), tx.len());
        match (rx.into_iter().next(), tx.into_iter().next()) {
            (Some(rx), Some(tx)) if counts == (1, 1) => Ok(Open { port, rx, tx, pool }),
            _ => Err(Failure(format!("one queue of either kind was asked for, and {counts:?} came"))),
        }
    }

    /// Returns the queues, closes the port, and tells how many buffers are still away.
    fn close(self) -> usize {
        let Open { mut port, rx, tx, pool } = self;
        drop((rx, tx));
        port.close();
        drop(port);
        pool.taken().saturating_sub(pool.at_hand())
    }

    /// Feeds frames and receives until all are there or nothing comes any more, looking at each batch.
    fn receive(
        &mut self,
        outside: &mut dyn Outside,
        frames: &[Vec<u8>],
        mut look: impl FnMut(&mut Batch, u64) -> Verdict,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let (mut fed, mut idle) = (0, 0);
        let mut got = Vec::new();
        let mut batch = Batch::new();
        while got.len() < frames.len() && idle < PATIENCE {
            fed += outside.feed(frames.get(fed..).unwrap_or_default());
            let before = batch.len() as u64;
            let traffic = self.rx.receive(&mut batch, &mut *self.pool, outside.now());
            let bytes = batch.bytes_in(u64::MAX);
            let result = look(&mut batch, traffic.packets);
            batch.each(|_, packet, _| got.extend(Some(packet.bytes()).filter(|bytes| ours(bytes)).map(<[u8]>::to_vec)));
            let there = batch.len() as u64;
            self.pool.free_batch(&mut batch, u64::MAX);
            result?;
            ensure(before == 0 && traffic.packets == there && traffic.bytes == bytes, || {
                format!("the queue says {traffic:?}; {there} packets of {bytes} bytes are in the batch")
            })?;
            if traffic.packets > 0 {
                idle = 0;
            } else {
                idle += 1;
                outside.pause();
            }
        }
        Ok(got)
    }

    /// Puts frames into a burst.
    fn load(&mut self, burst: &mut Burst, frames: &[Vec<u8>]) -> Verdict {
        for frame in frames {
            let packet = self.pool.alloc().ok_or_else(|| Failure("the pool has no buffer left".to_owned()))?;
            if let Err(packet) = fill(burst, packet, frame) {
                self.pool.free(packet);
                return Err(Failure(format!("a frame of {} bytes fits no buffer", frame.len())));
            }
        }
        Ok(())
    }

    /// Transmits what is in the burst, checking what the queue says of it, and that the rest stays as it was. Returns how many
    /// went.
    fn transmit(&mut self, burst: &mut Burst, now: u64) -> Result<usize, Failure> {
        let before: Vec<usize> = burst.packets().iter().map(Packet::len).collect();
        let ids: Vec<usize> = burst.packets().iter().map(Packet::id).collect();
        let traffic = self.tx.transmit(burst, &mut *self.pool, now);
        let gone = before.len().saturating_sub(burst.len());
        let bytes: usize = before.iter().take(gone).sum();
        ensure(traffic.packets == gone as u64 && traffic.bytes == bytes as u64, || {
            format!("the queue says {traffic:?}; {gone} packets of {bytes} bytes left the burst")
        })?;
        ensure(burst.packets().iter().map(Packet::id).eq(ids.into_iter().skip(gone)), || {
            "the rest of the burst is not what stood behind the packets that went".to_owned()
        })?;
        Ok(gone)
    }

    /// Transmits frames in bursts of a size and collects what comes out.
    fn send(&mut self, outside: &mut dyn Outside, frames: &[Vec<u8>], size: usize) -> Result<Vec<Vec<u8>>, Failure> {
        let mut got = Vec::new();
        let mut burst = Burst::new();
        let mut idle = 0;
        let mut chunks = frames.chunks(size.max(1));
        while idle < PATIENCE {
            if burst.is_empty() {
                match chunks.next() {
                    Some(chunk) => self.load(&mut burst, chunk)?,
                    None => break,
                }
            }
            let result = self.transmit(&mut burst, outside.now());
            got.extend(outside.collect().into_iter().filter(|bytes| ours(bytes)));
            match result {
                Ok(0) => {
                    idle += 1;
                    outside.pause();
                }
                Ok(_) => idle = 0,
                Err(failure) => {
                    self.pool.free_burst(&mut burst);
                    return Err(failure);
                }
            }
        }
        let left = burst.len();
        self.pool.free_burst(&mut burst);
        ensure(left == 0, || format!("{left} packets were not accepted in {PATIENCE} calls"))?;
        self.tx.flush();
        Ok(got)
    }

    /// Collects until `count` frames are there or nothing comes any more.
    fn settle(&mut self, outside: &mut dyn Outside, mut got: Vec<Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
        let mut idle = 0;
        let mut nothing = Burst::new();
        while got.len() < count && idle < PATIENCE {
            // A device may need to be called to finish what it has.
            self.tx.transmit(&mut nothing, &mut *self.pool, outside.now());
            let more = outside.collect();
            idle = if more.is_empty() { idle + 1 } else { 0 };
            got.extend(more.into_iter().filter(|bytes| ours(bytes)));
            outside.pause();
        }
        got
    }
}

fn fill(burst: &mut Burst, mut packet: Packet, frame: &[u8]) -> Result<(), Packet> {
    if !packet.fill(frame) {
        return Err(packet);
    }
    burst.push(packet)
}

/// Facts are such that a worker can use the port, and do not change when it opens.
///
/// # Errors
///
/// What is not sound.
pub fn facts_are_sound(outside: &mut dyn Outside) -> Verdict {
    let open = Open::new(outside, &[])?;
    let facts = open.port.facts();
    let result = ensure(facts.mtu >= 68, || format!("an MTU of {} is below IPv4's least, 68 (RFC 791)", facts.mtu))
        .and(ensure(facts.mac[0] & 1 == 0 && facts.mac != [0; 6], || {
            format!("{:02x?} is no host's address", facts.mac)
        }))
        .and(ensure(facts.max_rx_queues > 0 && facts.max_tx_queues > 0, || "it has no queues".to_owned()))
        .and(ensure(facts == open.port.facts(), || "its facts change from call to call".to_owned()));
    let away = open.close();
    result.and(ensure(away == 0, || format!("{away} buffers did not come back")))
}

/// Frames are received in the order they were sent, with the bytes they were sent with; an empty batch is filled from the
/// lowest slot on.
///
/// # Errors
///
/// What was lost, changed or out of order.
pub fn receives_in_order_and_intact(outside: &mut dyn Outside) -> Verdict {
    let frames = mixed(500, outside.shortest());
    let mut open = Open::new(outside, &frames)?;
    let got = open.receive(outside, &frames, |batch, packets| {
        let filled = batch.live().trailing_ones();
        ensure(u64::from(filled) == packets, || {
            format!("{packets} packets are not in the lowest slots: {:#x}", batch.live())
        })
    });
    open.close();
    compare(&got?, &frames, outside.pads_to())
}

/// Frames of every length from the device's least to that of its MTU, with a VLAN tag, cross it in both directions.
///
/// # Errors
///
/// The first length that does not.
pub fn carries_every_length(outside: &mut dyn Outside) -> Verdict {
    let mut probe = Open::new(outside, &[])?;
    let longest = usize::from(probe.port.facts().mtu) + 18;
    let longest = longest.min(probe.pool.data_room());
    probe.tx.flush();
    probe.close();
    let frames: Vec<Vec<u8>> =
        (0..).zip(outside.shortest().max(NUMBER_AT)..=longest).map(|(number, len)| frame(number, len)).collect();
    let mut open = Open::new(outside, &frames)?;
    let received = open.receive(outside, &frames, |_, _| Ok(()));
    let sent = open.send(outside, &frames, 32);
    let sent = sent.map(|got| open.settle(outside, got, frames.len()));
    let away = open.close();
    compare(&received?, &frames, outside.pads_to()).map_err(|failure| Failure(format!("in: {failure}")))?;
    compare(&sent?, &frames, outside.pads_to()).map_err(|failure| Failure(format!("out: {failure}")))?;
    ensure(away == 0, || format!("{away} buffers did not come back"))
}

/// Fragments, tags, checksums that are wrong or unfinished, and segments of one stream cross the device in both directions as they are:
/// nothing is put together, taken off, put on, finished or merged.
///
/// # Errors
///
/// The first frame that was changed.
pub fn changes_no_frame(outside: &mut dyn Outside) -> Verdict {
    let frames = of_all_kinds();
    let mut open = Open::new(outside, &frames)?;
    let received = open.receive(outside, &frames, |_, _| Ok(()));
    let sent = open.send(outside, &frames, 32);
    let sent = sent.map(|got| open.settle(outside, got, frames.len()));
    open.close();
    compare(&received?, &frames, outside.pads_to()).map_err(|failure| Failure(format!("in: {failure}")))?;
    // A file is whole only when its port is closed.
    let mut sent = sent?;
    sent.extend(outside.collect().into_iter().filter(|bytes| ours(bytes)));
    compare(&sent, &frames, outside.pads_to()).map_err(|failure| Failure(format!("out: {failure}")))
}

/// A batch that has packets already keeps them where they are, and gets no more than fit.
///
/// # Errors
///
/// What became of the packets.
pub fn never_overfills_a_batch(outside: &mut dyn Outside) -> Verdict {
    let frames = mixed(200, outside.shortest());
    let mut open = Open::new(outside, &frames)?;
    let mut batch = Batch::new();
    // Every third slot of the first half is taken.
    let taken: u64 = (0..BATCH / 2).step_by(3).map(|slot| 1 << slot).sum();
    for _ in 0..BATCH {
        if let Some(packet) = open.pool.alloc()
            && let Err(packet) = batch.push(packet)
        {
            open.pool.free(packet);
        }
    }
    open.pool.free_batch(&mut batch, !taken);
    let ids = |batch: &Batch| -> Vec<Option<usize>> {
        weir_packet::Slots(taken).map(|slot| batch.get(slot).map(Packet::id)).collect()
    };
    let before = ids(&batch);
    let (mut fed, mut idle, mut got) = (0, 0, Vec::new());
    let mut result = Ok(());
    while got.len() < frames.len() && idle < PATIENCE && result.is_ok() {
        fed += outside.feed(frames.get(fed..).unwrap_or_default());
        let traffic = open.rx.receive(&mut batch, &mut *open.pool, outside.now());
        let fresh = batch.live() & !taken;
        result =
            ensure(batch.live() & taken == taken && ids(&batch) == before, || "packets in the batch moved".to_owned())
                .and(ensure(u64::from(fresh.count_ones()) == traffic.packets, || {
                    format!("the queue says {traffic:?}; {} packets came into the batch", fresh.count_ones())
                }));
        batch.each_in(fresh, |_, packet, _| {
            got.extend(Some(packet.bytes()).filter(|bytes| ours(bytes)).map(<[u8]>::to_vec))
        });
        open.pool.free_batch(&mut batch, fresh);
        idle = if fresh == 0 { idle + 1 } else { 0 };
        if fresh == 0 {
            outside.pause();
        }
    }
    open.pool.free_batch(&mut batch, u64::MAX);
    open.close();
    result?;
    compare(&got, &frames, outside.pads_to())
}

/// Packets leave in the order they were given, with the bytes they were given with, whatever the size of the bursts.
///
/// # Errors
///
/// What was lost, changed or out of order.
pub fn transmits_in_order_and_intact(outside: &mut dyn Outside) -> Verdict {
    for size in [1, 7, 64, Burst::ROOM] {
        let frames = mixed(400, outside.shortest());
        let mut open = Open::new(outside, &[])?;
        let got = open.send(outside, &frames, size);
        let got = got.map(|got| open.settle(outside, got, frames.len()));
        open.close();
        // A file is whole only when its port is closed.
        let mut got = got?;
        got.extend(outside.collect().into_iter().filter(|bytes| ours(bytes)));
        compare(&got, &frames, outside.pads_to()).map_err(|failure| Failure(format!("bursts of {size}: {failure}")))?;
    }
    Ok(())
}

/// However much is given at once, a call takes packets from the front and leaves the others as they are; the room that the queue
/// tells is there, if it [knows](Outside::knows_room).
///
/// # Errors
///
/// What else it did.
pub fn keeps_the_rest_of_a_burst_in_order(outside: &mut dyn Outside) -> Verdict {
    let frames = mixed(Burst::ROOM as u32, outside.shortest());
    let mut open = Open::new(outside, &[])?;
    let mut burst = Burst::new();
    let mut result = Ok(());
    let mut was_wrong = None;
    // Far more than any ring holds, without the outside taking anything.
    for _ in 0..64 {
        let want = frames.len() - burst.len();
        result = open.load(&mut burst, frames.get(..want).unwrap_or_default());
        if result.is_err() {
            break;
        }
        let (room, there) = (open.tx.room(), burst.len());
        let now = outside.now();
        match open.transmit(&mut burst, now) {
            Ok(gone) if gone < room.min(there) => {
                was_wrong = Some(format!("it said that there was room for {room}, and took {gone} of {there}"));
            }
            Ok(_) => {}
            Err(failure) => {
                result = Err(failure);
                break;
            }
        }
    }
    open.pool.free_burst(&mut burst);
    outside.collect();
    open.close();
    result.and(match was_wrong {
        Some(sentence) if outside.knows_room() => Err(Failure(sentence)),
        None if !outside.knows_room() => {
            Err(Failure("it was never wrong about its room, and is not to know it".to_owned()))
        }
        _ => Ok(()),
    })
}

/// When a port is closed in the midst of traffic, every buffer comes home, and meanwhile its rings hold what is missing.
///
/// # Errors
///
/// How many buffers are away.
pub fn gives_every_buffer_back(outside: &mut dyn Outside) -> Verdict {
    let frames = mixed(300, outside.shortest());
    let mut open = Open::new(outside, &frames)?;
    outside.feed(&frames);
    let mut batch = Batch::new();
    let mut burst = Burst::new();
    for _ in 0..4 {
        let now = outside.now();
        open.rx.receive(&mut batch, &mut *open.pool, now);
        batch.move_to_burst(u64::MAX, &mut burst);
        open.tx.transmit(&mut burst, &mut *open.pool, now);
        outside.pause();
    }
    open.pool.free_batch(&mut batch, u64::MAX);
    open.pool.free_burst(&mut burst);
    let away = open.pool.taken().saturating_sub(open.pool.at_hand()) as u64;
    let held = open.port.stats().in_rings;
    let result = ensure(held.is_none_or(|held| held == away), || {
        format!("{away} buffers are in the device, and it says that it holds {held:?}")
    });
    let away = open.close();
    outside.collect();
    result.and(ensure(away == 0, || format!("{away} buffers did not come back when the port was closed")))
}
