//! A worker's numbers as it publishes them: all of one moment, between two loops.

use serde::Serialize;
use weir_packet::LaneSet;

/// Everything one worker has counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerSnapshot {
    /// `1` for the worker on core 1, or `control`.
    pub id: String,
    /// Core it is pinned to.
    pub core: Option<usize>,
    /// Where its time went, TSC cycles.
    pub cycles: CycleAccount,
    /// TSC cycles from its start to its last time stamp.
    pub elapsed: u64,
    /// Times round its loop.
    pub loops: u64,
    /// Packets that entered its graph: received, and from links.
    pub packets: u64,
    /// Its account.
    pub account: Account,
    /// Times it did not receive because a link that must not drop was full.
    pub backpressure: u64,
    /// Packets that were lost by a stage: each is a bug.
    pub stages: Vec<StageSnapshot>,
    /// Drops of stages and of the engine, by place and reason; only those that occurred.
    pub drops: Vec<DropSnapshot>,
    /// Packets consumed and created by stages, by place and reason; only those that occurred.
    pub fates: Vec<FateSnapshot>,
    /// Receive queues.
    pub receive: Vec<QueueSnapshot>,
    /// Transmit queues.
    pub transmit: Vec<QueueSnapshot>,
    /// Ends of links that this worker puts packets into.
    pub links: Vec<LinkSnapshot>,
    /// Free buffers that this worker keeps at hand.
    pub buffers_at_hand: u64,
    /// Whether nothing is on its way: no input waits and nothing is held.
    pub quiet: bool,
    /// Whether all its receive queues are at the end of their input.
    pub exhausted: bool,
    /// Receive queues that are still switched on.
    pub receiving: bool,
    /// The next time something is due, nanoseconds of the engine's clock.
    #[serde(skip)]
    pub next_at: u64,
    /// Whether it did not answer in time: these are the numbers that it told last.
    #[serde(skip)]
    pub silent: bool,
}

/// TSC cycles by what they were spent on.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CycleAccount {
    /// Receiving.
    pub receive: u64,
    /// The stages, and moving packets between them.
    pub graph: u64,
    /// Transmitting.
    pub transmit: u64,
    /// Commands, counters, grace periods.
    pub housekeeping: u64,
    /// Loops in which nothing came, nothing was due and nothing went.
    pub idle: u64,
    /// Waiting in the kernel.
    pub asleep: u64,
}

impl CycleAccount {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.receive + self.graph + self.transmit + self.housekeeping + self.idle + self.asleep
    }
}

/// `received + created + links in = transmitted + dropped + consumed + links out + held`, all since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets that ports handed over.
    pub received: u64,
    /// Packets that stages made.
    pub created: u64,
    /// Packets that came from other workers.
    pub links_in: u64,
    /// Packets that ports accepted.
    pub transmitted: u64,
    /// Packets dropped for a named reason.
    pub dropped: u64,
    /// Packets used up for a named reason.
    pub consumed: u64,
    /// Packets that went to other workers.
    pub links_out: u64,
    /// Packets in somebody's hands now, as the holders report it.
    pub held: u64,
}

impl Account {
    /// The difference between the two sides: 0 unless packets were lost or doubled.
    pub fn unaccounted(&self) -> i64 {
        let came = self.received + self.created + self.links_in;
        let went = self.transmitted + self.dropped + self.consumed + self.links_out + self.held;
        came.wrapping_sub(went) as i64
    }

    /// Adds another worker's account.
    pub fn add(&mut self, other: &Account) {
        self.received += other.received;
        self.created += other.created;
        self.links_in += other.links_in;
        self.transmitted += other.transmitted;
        self.dropped += other.dropped;
        self.consumed += other.consumed;
        self.links_out += other.links_out;
        self.held += other.held;
    }
}

/// One stage on one worker.
#[derive(Clone, Debug, Serialize)]
pub struct StageSnapshot {
    /// Its name.
    pub name: String,
    /// The name of its type in Rust.
    #[serde(skip)]
    pub type_name: &'static str,
    /// Batches it was given.
    pub batches: u64,
    /// Packets it was given.
    pub packets: u64,
    /// TSC cycles, scaled up from the sampled batches to all.
    pub cycles: u64,
    /// Packets in the sampled batches.
    pub sampled: u64,
    /// Packets it holds now.
    pub held: u64,
    /// Packets per way out that goes on, by name; only those that occurred.
    pub ways: Vec<(String, u64)>,
}

/// Packets dropped at one place for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct DropSnapshot {
    /// The stage, port or link.
    pub stage: String,
    /// The reason's name.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// A sentence that explains it.
    pub help: String,
}

/// Packets consumed or created at one place for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct FateSnapshot {
    /// The stage.
    pub stage: String,
    /// The reason's name.
    pub reason: String,
    /// `consumed` or `created`.
    pub fate: &'static str,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// A sentence that explains it.
    pub help: String,
}

/// One queue of a port, or several that are no more.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueSnapshot {
    /// The port's index in the configuration.
    pub port: u16,
    /// Packets received, or accepted for transmission.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets that wait to be accepted.
    pub held: u64,
    /// Packets lost before they were received, by name.
    pub lost: Vec<(String, u64)>,
    /// What is wrong with the queue, if anything: a sentence for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What is odd about it and was coped with, if anything: a sentence for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// One link, as the worker at its front sees it.
#[derive(Clone, Debug, Serialize)]
pub struct LinkSnapshot {
    /// `1 -> control: router.arp`.
    pub name: String,
    /// Packets put in.
    pub packets: u64,
    /// Packets in it now.
    pub occupancy: u64,
    /// Packets that fit.
    pub capacity: u64,
    /// Whether it drops when it is full.
    pub drops: bool,
    /// What is known about packets that they take along.
    #[serde(skip)]
    pub lanes: LaneSet,
}
