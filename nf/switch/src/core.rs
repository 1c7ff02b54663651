//! The switch with its agent, and the lock that workers and control side share.
//!
//! The fast path reads the switch, and counts what it does in counters that each worker has for itself: all workers have the switch at the same time, a batch at
//! a time. Who changes it has it alone: the control side for a piece of what controllers sent, and a worker for a packet that the interpreter takes, as that may
//! tell controllers, and learn. They get it in the order in which they asked. Nothing waits for a connection under the lock: whoever drives the switch, or
//! ceases to, stops no packet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use weir_flow_tables::agent::{Beside, ConnectionId, FailMode, Taken};
use weir_flow_tables::{Agent, Outcome, Packet, Why, Worker};
use weir_openflow::port::{Port, feature, state};
use weir_stage::host::Wake;
use weir_stage::{Channel, Credentials, LinkSpeed, Medium, PortInfo};

use crate::learn::{Goes, Stations};

/// A switch, between controllers and packets.
pub(crate) struct Core {
    pub(crate) agent: Agent,
    pub(crate) stations: Stations,
    /// The ports that there are, in the order of their numbers.
    pub(crate) ports: Vec<PortInfo>,
    /// What was said last of links, by the index of the port: it may come before the port does.
    links: BTreeMap<u16, bool>,
    /// And of their speeds.
    speeds: BTreeMap<u16, LinkSpeed>,
    /// The peers of connections.
    pub(crate) peers: BTreeMap<ConnectionId, Peer>,
    /// It connects to controllers by itself: then those that come are none as far as the fail mode is concerned.
    pub(crate) has_targets: bool,
    /// What it proves itself by to controllers.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Channels without a connection, and why.
    pub(crate) states: BTreeMap<Channel, String>,
}

/// What a configuration says that may change while a switch runs.
#[derive(Clone)]
pub(crate) struct Live {
    /// What becomes of packets without controllers.
    pub(crate) fail_mode: FailMode,
    /// It connects to controllers by itself.
    pub(crate) has_targets: bool,
    /// There may be machine code of its tables.
    pub(crate) compiles: bool,
    /// What it proves itself by to controllers.
    pub(crate) credentials: Option<Arc<Credentials>>,
}

/// Who is at the other end of a connection.
pub(crate) struct Peer {
    pub(crate) channel: Channel,
    pub(crate) name: String,
}

/// What becomes of a packet on the data path: copies that are sent, or else the reason.
pub(crate) struct Decided {
    /// The number of a port and a frame each.
    pub(crate) sends: Vec<(u32, Vec<u8>)>,
    /// What became of it beside.
    pub(crate) beside: Beside,
    /// Bridges keep it to themselves.
    pub(crate) is_kept: bool,
}

impl Core {
    pub(crate) fn new(agent: Agent, stations: Stations) -> Core {
        Core {
            agent,
            stations,
            ports: Vec::new(),
            links: BTreeMap::new(),
            speeds: BTreeMap::new(),
            peers: BTreeMap::new(),
            has_targets: false,
            credentials: None,
            states: BTreeMap::new(),
        }
    }

    /// Decides about a packet that came in by a port.
    pub(crate) fn decide(&mut self, packet: Packet, now: u64) -> Decided {
        let Taken { outcomes, beside } = self.agent.packet(packet, now);
        self.carry_out(outcomes, beside, now)
    }

    /// Decides about the packets of controllers that wait.
    pub(crate) fn decide_sent(&mut self, now: u64) -> Vec<(u32, Vec<u8>)> {
        let outcomes = self.agent.outcomes();
        self.carry_out(outcomes, Beside::Nothing(Why::NoAction), now).sends
    }

    fn carry_out(&mut self, outcomes: Vec<Outcome>, beside: Beside, now: u64) -> Decided {
        let mut decided = Decided { sends: Vec::new(), beside, is_kept: false };
        for outcome in outcomes {
            match outcome {
                Outcome::Sent { port, bytes, .. } => decided.sends.push((port, bytes)),
                Outcome::Normal(packet) => self.bridge(&packet, &mut decided, now),
                // The agent has told them.
                Outcome::Controller(_) => {}
            }
        }
        decided
    }

    fn bridge(&mut self, packet: &Packet, decided: &mut Decided, now: u64) {
        let to = match self.stations.switch(&packet.bytes, packet.in_port) {
            Goes::By(port) => Some(port),
            Goes::Everywhere => None,
            Goes::Nowhere => {
                decided.is_kept = true;
                return;
            }
        };
        let verdict = self.agent.switch.bridge(packet, to, now);
        if let Beside::Nothing(why) = &mut decided.beside {
            *why = verdict.why;
        }
        let sent = |outcome| if let Outcome::Sent { port, bytes, .. } = outcome { Some((port, bytes)) } else { None };
        decided.sends.extend(verdict.outcomes.into_iter().filter_map(sent));
    }

    /// Takes in what may change while it runs.
    pub(crate) fn configure(&mut self, wanted: &Live) {
        self.agent.set_fail_mode(wanted.fail_mode);
        self.agent.switch.allow_code(wanted.compiles);
        self.has_targets = wanted.has_targets;
        self.credentials.clone_from(&wanted.credentials);
    }

    /// Lets these be its ports from now on; controllers are told of what is new.
    pub(crate) fn set_ports(&mut self, ports: &[PortInfo], now: u64) {
        let gone = self.ports.iter().zip(1..).skip(ports.len()).map(|(_, number)| number);
        for number in gone.collect::<Vec<u32>>() {
            self.agent.remove_port(number);
            self.stations.forget(number);
        }
        let mut ports = ports.to_vec();
        for (port, number) in ports.iter_mut().zip(1..) {
            port.link_up = self.links.get(&port.index).copied().unwrap_or(port.link_up);
            if self.ports.iter().zip(1..).any(|(before, known)| known == number && before.name != port.name) {
                // Another port has its number now: what was known of it, and counted, was another's.
                self.agent.remove_port(number);
                self.stations.forget(number);
            }
            self.agent.set_port(described(port, number, self.speed(port.index)), now);
        }
        self.ports = ports;
    }

    /// How fast a port's link is, as far as that was said.
    fn speed(&self, index: u16) -> LinkSpeed {
        self.speeds.get(&index).copied().unwrap_or_default()
    }

    /// A link has another speed.
    pub(crate) fn set_speed(&mut self, index: u16, speed: LinkSpeed, now: u64) {
        self.speeds.insert(index, speed);
        for (port, number) in self.ports.iter().zip(1..).filter(|(port, _)| port.index == index) {
            self.agent.set_port(described(port, number, speed), now);
        }
    }

    /// A link went up or down.
    pub(crate) fn set_link(&mut self, index: u16, up: bool, now: u64) {
        self.links.insert(index, up);
        let speed = self.speed(index);
        for (port, number) in self.ports.iter_mut().zip(1..).filter(|(port, _)| port.index == index) {
            port.link_up = up;
            self.agent.set_port(described(port, number, speed), now);
            if !up {
                self.stations.forget(number);
            }
        }
    }
}

/// A port as controllers are told of it. What it might advertise besides is not told: nothing here changes it, so that a port-mod that wants it is refused.
fn described(port: &PortInfo, number: u32, speed: LinkSpeed) -> Port {
    let kbit = |mbit: u32| mbit.saturating_mul(1000);
    let now = if port.link_up { speed } else { LinkSpeed::default() };
    Port {
        number,
        mac: port.facts.mac,
        name: port.name.clone(),
        state: if port.link_up { 0 } else { state::LINK_DOWN },
        current: features(now),
        current_speed: kbit(now.now),
        max_speed: kbit(speed.most),
        ..Port::default()
    }
}

/// What is in use, as bits: section 7.2.1. None of a link whose speed nobody knows.
fn features(speed: LinkSpeed) -> u32 {
    let rate = match (speed.now, speed.half_duplex) {
        (0, _) => return 0,
        (10, true) => feature::MB_10_HD,
        (10, false) => feature::MB_10_FD,
        (100, true) => feature::MB_100_HD,
        (100, false) => feature::MB_100_FD,
        (1_000, true) => feature::GB_1_HD,
        (1_000, false) => feature::GB_1_FD,
        (10_000, false) => feature::GB_10_FD,
        (40_000, false) => feature::GB_40_FD,
        (100_000, false) => feature::GB_100_FD,
        (1_000_000, false) => feature::TB_1_FD,
        _ => feature::OTHER,
    };
    let medium = match speed.medium {
        Some(Medium::Copper) => feature::COPPER,
        Some(Medium::Fiber) => feature::FIBER,
        None => 0,
    };
    rate | medium | if speed.negotiated { feature::AUTONEG } else { 0 }
}

/// How exact the clock is that services have, nanoseconds.
const CLOCK_STEP: u64 = 100_000;

/// What workers, control side and services share.
pub(crate) struct Shared {
    /// Held by who has the switch next: one lock could be taken again and again by who has just let it go.
    next: Mutex<()>,
    core: ShardedLock<Core>,
    /// The numbers under which workers count: whoever has one holds it.
    workers: Mutex<Vec<Arc<Worker>>>,
    /// Copies that were not made: there was no buffer, or none that long.
    pub(crate) missed: AtomicU64,
    /// The engine's time, as a stage saw it last, nanoseconds.
    clock: AtomicU64,
    /// Something may wait to be sent to controllers.
    pub(crate) has_news: AtomicBool,
    /// What wakes the services of the channels.
    pub(crate) wakes: Mutex<BTreeMap<Channel, Wake>>,
}

impl Shared {
    pub(crate) fn new(core: Core, now: u64) -> Shared {
        Shared {
            next: Mutex::new(()),
            core: ShardedLock::new(core),
            workers: Mutex::new(vec![Arc::default()]),
            missed: AtomicU64::new(0),
            clock: AtomicU64::new(now),
            has_news: AtomicBool::new(false),
            wakes: Mutex::default(),
        }
    }

    /// Takes the switch alone, after whoever waited before. A panic elsewhere does not make it unusable: what it changed is whole, or is a counter.
    pub(crate) fn core(&self) -> ShardedLockWriteGuard<'_, Core> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the switch together with others that only read it, after whoever waits to have it alone.
    #[inline]
    pub(crate) fn read(&self) -> ShardedLockReadGuard<'_, Core> {
        match self.core.try_read() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.read_next(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_next(&self) -> ShardedLockReadGuard<'_, Core> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of one more worker: one that another has left, if there is any.
    pub(crate) fn add_worker(&self) -> Arc<Worker> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = workers.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return Arc::clone(left);
        }
        let fresh = Arc::new(self.core().agent.switch.add_worker());
        workers.push(Arc::clone(&fresh));
        fresh
    }

    /// Makes the code that the switch wants, if it wants some. Packets go on meanwhile: the switch is taken only to ask, and to hand the code in, so that it changes
    /// between two batches. What was there before is freed when the switch is free again. Whether there was something to make.
    pub(crate) fn compile(&self) -> bool {
        let Some(recipe) = self.core().agent.switch.recipe() else { return false };
        let made = recipe.compile();
        let old = self.core().agent.switch.install(made);
        drop(old);
        true
    }

    /// The engine's time.
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Takes the engine's time in, where it is older by more than [`CLOCK_STEP`]: not every batch of each worker writes the line.
    pub(crate) fn set_now(&self, now: u64) {
        if now >= self.now().saturating_add(CLOCK_STEP) {
            self.clock.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Wakes the services of all channels, if there are news.
    pub(crate) fn wake(&self) {
        if self.has_news.swap(false, Ordering::AcqRel) {
            let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
            wakes.values().for_each(|wake| wake());
        }
    }
}
