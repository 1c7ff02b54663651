//! The port in memory itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{BATCH, Pool};
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Rx, Tx, local_mac};

use crate::cable::Plug;
use crate::fault::{Faults, surround};
use crate::handle::{Check, MemHandle, Shared};
use crate::loopback::Mirror;
use crate::pattern::{Frames, Pattern};
use crate::recycle::Loop;
use crate::sink::Sink;
use crate::source::{Fed, Pace, Replay};

/// Receive or transmit queues that a port in memory has at most.
pub const MAX_QUEUES: u16 = 64;

/// Frames that the outside keeps until it takes them, unless told otherwise.
const KEEP: usize = 1 << 20;

/// Where a port's received packets come from.
enum Input {
    /// Nowhere.
    Nothing,
    /// The handle.
    Fed,
    /// The port's own transmit queues.
    Mirrored,
    /// The port at the other end of the cable of this name.
    Cable(String),
    /// Frames, spread over the receive queues by flow.
    Frames(Vec<Vec<u8>>, Pace),
    /// The frames of a file, read when the port is opened.
    File(Replayed),
    /// A pattern for each receive queue.
    Patterns(Vec<Box<dyn Pattern>>, Pace),
}

/// Reads the frames of a capture file.
pub type Load = fn(&Path) -> Result<Vec<Vec<u8>>, PortError>;

/// A file to be replayed.
pub(crate) struct Replayed {
    pub(crate) path: PathBuf,
    pub(crate) load: Load,
    /// Packets per second.
    pub(crate) rate: Option<u64>,
    /// Packets in all.
    pub(crate) count: Option<u64>,
    /// Rounds through the file.
    pub(crate) times: Option<u64>,
}

/// A port in memory: it receives what a test sends, a replayed set of packets or nothing, and counts, checks and keeps what it
/// transmits.
///
/// Made by one of its constructors, changed by the `with_` methods, then opened like any port.
pub struct MemPort {
    device: String,
    mac: [u8; 6],
    mtu: u16,
    input: Input,
    keeps: bool,
    every: u64,
    /// Those it was told to use; empty if it makes its own.
    recycle: Vec<Loop>,
    faults: Faults,
    shared: Arc<Shared>,
    /// Where the buffers of each queue go round, once the port is open.
    loops: Vec<Loop>,
    /// Those of which this port reports the buffers as its own.
    reports: Vec<Loop>,
    mirrors: Vec<Mirror>,
    plug: Option<Plug>,
}

impl MemPort {
    fn new_with(name: &str, device: &str, input: Input) -> MemPort {
        MemPort {
            device: device.to_owned(),
            mac: local_mac(name),
            mtu: 1500,
            input,
            keeps: false,
            every: 0,
            recycle: Vec::new(),
            faults: Faults::default(),
            shared: Shared::new(KEEP),
            loops: Vec::new(),
            reports: Vec::new(),
            mirrors: Vec::new(),
            plug: None,
        }
    }

    /// A port that receives what its handle sends and keeps what it transmits for the handle: for tests.
    pub fn fed(name: &str) -> (MemPort, MemHandle) {
        let mut port = MemPort::new_with(name, "mem:fed", Input::Fed);
        port.keeps = true;
        let handle = port.handle();
        (port, handle)
    }

    /// A port that receives nothing, and counts what it transmits.
    pub fn null(name: &str) -> MemPort {
        MemPort::new_with(name, "mem:null", Input::Nothing)
    }

    /// A port that receives what it transmits, as with a cable from its transmit to its receive side.
    pub fn mirror(name: &str) -> MemPort {
        MemPort::new_with(name, "mem:loop", Input::Mirrored)
    }

    /// A port at one end of the cable called `cable`, whose other end is another port of this process: what either transmits, the
    /// other receives, in rings of 1,024 packets; what finds its ring full is lost there, as in a NIC, and counts as `missed`. There
    /// is a link while both are open.
    pub fn cable(name: &str, cable: &str) -> MemPort {
        MemPort::new_with(name, "mem:cable", Input::Cable(cable.to_owned()))
    }

    /// A port that receives these frames, over and over or as often as `pace` says, and counts what it transmits. Each frame is
    /// copied whole. Several receive queues get a share each, by flow, and as much of the rate and count as their share is of
    /// the frames.
    pub fn frames(name: &str, frames: Vec<Vec<u8>>, pace: Pace) -> MemPort {
        MemPort::new_with(name, "mem:replay", Input::Frames(frames, pace))
    }

    /// A port that replays a file.
    pub(crate) fn file(name: &str, replayed: Replayed) -> MemPort {
        MemPort::new_with(name, "mem:replay", Input::File(replayed))
    }

    /// A port that receives the packets of these patterns, one per receive queue, and counts what it transmits: for
    /// measurements.
    pub fn replay(name: &str, patterns: Vec<Box<dyn Pattern>>, pace: Pace) -> MemPort {
        MemPort::new_with(name, "mem:replay", Input::Patterns(patterns, pace))
    }

    /// With this name of the device in messages and facts.
    pub fn with_device(mut self, device: &str) -> MemPort {
        device.clone_into(&mut self.device);
        self
    }

    /// With this Ethernet address; one made from the name otherwise.
    pub fn with_mac(mut self, mac: [u8; 6]) -> MemPort {
        self.mac = mac;
        self
    }

    /// With this largest IP packet, bytes; 1500 otherwise. It is what the port says of itself: frames of any length pass.
    pub fn with_mtu(mut self, mtu: u16) -> MemPort {
        self.mtu = mtu;
        self
    }

    /// Takes buffers for a replay from these loops, a queue each, and gives the buffers of transmitted packets there; queues
    /// beyond them begin again with the first. Without any, a replaying port has one of its own for each queue.
    pub fn with_loops(mut self, recycle: &[Loop]) -> MemPort {
        self.recycle = recycle.to_vec();
        self
    }

    /// Shows one transmitted packet in `every` (at least 1) of each transmit queue to `check`.
    pub fn with_check(mut self, every: u64, check: Check) -> MemPort {
        self.every = every.max(1);
        self.shared.set_check(check);
        self
    }

    /// Keeps up to `most` transmitted frames that the handle has not taken yet.
    pub fn with_keeping(mut self, most: usize) -> MemPort {
        self.keeps = most > 0;
        self.shared.set_keep(most);
        self
    }

    /// Puts a fault injector around each queue.
    pub fn with_faults(mut self, faults: Faults) -> MemPort {
        self.faults = faults;
        self
    }

    /// The outside of the port.
    pub fn handle(&self) -> MemHandle {
        MemHandle(Arc::clone(&self.shared))
    }

    fn rx_limit(&self) -> u16 {
        match &self.input {
            Input::Patterns(patterns, _) => patterns.len().min(MAX_QUEUES as usize) as u16,
            _ => MAX_QUEUES,
        }
    }

    fn open_rx(&mut self, queues: u16, pool: &dyn Pool) -> Result<Vec<Box<dyn Rx>>, PortError> {
        match std::mem::replace(&mut self.input, Input::Nothing) {
            Input::Nothing => Ok(each(queues, |_| Box::new(Silent) as Box<dyn Rx>)),
            Input::Fed => {
                self.shared.inbox().respread(queues as usize);
                Ok(each(queues, |queue| Box::new(Fed { shared: Arc::clone(&self.shared), queue }) as Box<dyn Rx>))
            }
            Input::Mirrored => Ok(each(queues, |queue| match self.mirrors.get(queue) {
                Some(mirror) => Box::new(mirror.clone()) as Box<dyn Rx>,
                None => Box::new(Silent),
            })),
            Input::Cable(cable) => {
                let plug = self.plug.insert(Plug::new(&cable, queues as usize, pool)?);
                Ok(each(queues, |queue| plug.rx(queue)))
            }
            Input::Frames(frames, pace) => self.open_replay(spread(frames, queues as usize, pace), pool),
            Input::File(file) => {
                let frames = (file.load)(&file.path)?;
                let rounds = file.times.map(|times| times.saturating_mul(frames.len() as u64));
                let pace = Pace { rate: file.rate, count: file.count.or(rounds), ..Pace::default() };
                self.open_replay(spread(frames, queues as usize, pace), pool)
            }
            Input::Patterns(patterns, pace) => {
                let patterns = patterns.into_iter().take(queues as usize).map(|pattern| (pattern, pace));
                self.open_replay(patterns.collect(), pool)
            }
        }
    }

    fn open_replay(
        &mut self,
        patterns: Vec<(Box<dyn Pattern>, Pace)>,
        pool: &dyn Pool,
    ) -> Result<Vec<Box<dyn Rx>>, PortError> {
        let longest = patterns.iter().map(|(pattern, _)| pattern.longest()).max().unwrap_or(0);
        if longest > pool.data_room() {
            return Err(PortError(format!(
                "{}: a packet to replay has {longest} bytes, and the pool's buffers hold {}; raise the MTU of the port, or \
                 leave the packet out",
                self.device,
                pool.data_room()
            )));
        }
        let told = |queue| nth(&self.recycle, queue).unwrap_or_else(|| Loop::new(Loop::DEPTH));
        self.loops = (0..patterns.len()).map(told).collect();
        self.loops.iter().for_each(|recycle| recycle.set_home(pool));
        self.reports = self.loops.iter().filter(|recycle| recycle.claim_report()).cloned().collect();
        let queue = |((pattern, pace), recycle): (_, &Loop)| {
            Box::new(Replay::new(Arc::clone(&self.shared), pattern, recycle.clone(), pace)) as Box<dyn Rx>
        };
        Ok(patterns.into_iter().zip(&self.loops).map(queue).collect())
    }

    fn open_tx(&self, queues: u16) -> Vec<Box<dyn Tx>> {
        each(queues, |queue| match (self.mirrors.get(queue), &self.plug) {
            (Some(mirror), _) => Box::new(mirror.clone()) as Box<dyn Tx>,
            (None, Some(plug)) => plug.tx(),
            (None, None) => Box::new(Sink {
                shared: Arc::clone(&self.shared),
                counts: self.shared.add_sink(),
                recycle: self.loop_of(queue),
                every: self.every,
                until: self.every.saturating_sub(1),
                keeps: self.keeps,
            }),
        })
    }

    fn loop_of(&self, queue: usize) -> Option<Loop> {
        nth(&self.recycle, queue).or_else(|| nth(&self.loops, queue))
    }
}

/// The loop of a queue, of `loops` that are used in turn.
fn nth(loops: &[Loop], queue: usize) -> Option<Loop> {
    loops.get(queue % loops.len().max(1)).cloned()
}

fn each<T>(queues: u16, make: impl FnMut(usize) -> T) -> Vec<T> {
    (0..queues as usize).map(make).collect()
}

/// A share of the frames for each queue, by flow, and of the pace, by the number of frames.
fn spread(frames: Vec<Vec<u8>>, queues: usize, pace: Pace) -> Vec<(Box<dyn Pattern>, Pace)> {
    let all = frames.len() as u64;
    let mut shares = vec![Vec::new(); queues];
    for frame in frames {
        let queue = crate::flow::flow_of(&frame) as usize % queues.max(1);
        if let Some(share) = shares.get_mut(queue) {
            share.push(frame);
        }
    }
    let mut before = 0;
    let share = |share: Vec<Vec<u8>>| {
        let after = before + share.len() as u64;
        let pace = pace.part(before, after, all);
        before = after;
        (Box::new(Frames::whole(share)) as Box<dyn Pattern>, pace)
    };
    shares.into_iter().map(share).collect()
}

/// The receive queue of a port to which nothing comes.
struct Silent;

impl Rx for Silent {
    fn receive(&mut self, _: &mut weir_packet::Batch, _: &mut dyn Pool, _: u64) -> weir_stage::Traffic {
        weir_stage::Traffic::default()
    }

    fn exhausted(&self) -> bool {
        true
    }
}

impl Port for MemPort {
    fn facts(&self) -> PortFacts {
        PortFacts {
            device: self.device.clone(),
            mac: self.mac,
            mtu: self.mtu,
            max_rx_queues: self.rx_limit(),
            max_tx_queues: MAX_QUEUES,
            rss: true,
            offloads: Vec::new(),
        }
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        let limit = self.rx_limit();
        if rx_queues > limit || tx_queues > MAX_QUEUES {
            return Err(PortError(format!(
                "{}: {rx_queues} receive and {tx_queues} transmit queues were asked for; the port has at most {limit} and \
                 {MAX_QUEUES}; use fewer workers on it",
                self.device
            )));
        }
        if matches!(self.input, Input::Mirrored) {
            self.mirrors = each(rx_queues.max(tx_queues), |_| Mirror::new(Arc::clone(&self.shared), pool));
        }
        let rx = self.open_rx(rx_queues, pool)?;
        let tx = self.open_tx(tx_queues);
        Ok(surround((rx, tx), self.faults, pool, &self.shared.faults))
    }

    fn stats(&self) -> DeviceStats {
        let round: usize = self.reports.iter().map(Loop::len).sum();
        let mirrored: usize = self.mirrors.iter().map(Mirror::len).sum();
        let plugged = self.plug.as_ref().map_or(0, Plug::len);
        let in_faults = self.shared.faults.held();
        DeviceStats {
            missed: Some(self.plug.as_ref().map_or(0, Plug::missed)),
            no_buffer: Some(0),
            rx_errors: Some(self.shared.rx_unfit.load(Ordering::Relaxed)),
            tx_errors: Some(0),
            in_rings: Some((round + mirrored + plugged) as u64 + in_faults),
        }
    }

    fn link_up(&mut self) -> bool {
        self.shared.up() && self.plug.as_ref().is_none_or(Plug::is_connected)
    }

    fn close(&mut self) {
        self.mirrors.clear();
        self.plug = None;
        self.loops.clear();
        self.reports.clear();
        self.recycle.clear();
    }
}

const _: () = assert!(BATCH <= Loop::DEPTH);
