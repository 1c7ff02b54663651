//! Ports and buffers: opening them, and who owns which queue.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_engine::{PortPart, ThreadHook};
use weir_packet::{DATA_ROOM, HeapPool, Pool, buffers_needed};
use weir_port_dpdk::Device;
use weir_port_dpdk::eal::{Eal, EalOptions, Memory};
use weir_port_dpdk::{DESCRIPTORS, DpdkPool, data_room_needed, memory_needed, ring_buffers};
use weir_stage::{DeviceStats, LinkSpeed, Port, PortConfig, PortInfo, Queues, Rx, Tx};

use super::closed::{ClosedPort, ClosedTx};
use super::config::Loaded;
use super::joint::joint_of;
use crate::catalogue;

/// Packets that the links of one worker hold at most, on average of usual layouts.
const LINKS_PER_WORKER: usize = 4096;

/// Which workers own the queues of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    pub(crate) rx: Vec<usize>,
    pub(crate) tx: Vec<usize>,
}

/// An open port.
pub(crate) struct OpenPort {
    pub(crate) info: PortInfo,
    pub(crate) config: PortConfig,
    pub(crate) owners: Owners,
    pub(crate) port: Box<dyn Port>,
    /// How fast its link was when that was last asked.
    pub(crate) speed: LinkSpeed,
    /// Whether packets that come wake a worker that sleeps.
    pub(crate) wakes: bool,
    /// Why it is closed, if it is: a [`ClosedPort`] stands in its place.
    pub(super) closed: Option<String>,
    /// Its queues until a blueprint hands them to their owners.
    fresh: Option<Queues>,
    /// Figures of the devices it had before.
    earlier: DeviceStats,
}

impl OpenPort {
    /// The port's part of a blueprint, where its queues have these owners; hands the queues over when they are fresh.
    pub(crate) fn part(&mut self, owners: &Owners) -> PortPart {
        let (rx, tx) = match self.fresh.take() {
            Some((rx, tx)) => (rx.into_iter().map(Some).collect(), tx.into_iter().map(Some).collect()),
            None => (none(&owners.rx), none(&owners.tx)),
        };
        let rx: Vec<Option<Box<dyn Rx>>> = if self.closed.is_some() { Vec::new() } else { rx };
        let tx: Vec<Option<Box<dyn Tx>>> = tx;
        PortPart {
            name: self.info.name.clone(),
            index: self.info.index,
            rx: owners.rx.iter().copied().zip(rx).collect(),
            tx: owners.tx.iter().copied().zip(tx).collect(),
        }
    }

    /// The device's own figures, with those of the devices it had before.
    pub(crate) fn stats(&self) -> DeviceStats {
        let now = self.port.stats();
        let sum = |earlier: Option<u64>, now: Option<u64>| match (earlier, now) {
            (None, None) => None,
            (earlier, now) => Some(earlier.unwrap_or(0) + now.unwrap_or(0)),
        };
        DeviceStats {
            missed: sum(self.earlier.missed, now.missed),
            no_buffer: sum(self.earlier.no_buffer, now.no_buffer),
            rx_errors: sum(self.earlier.rx_errors, now.rx_errors),
            tx_errors: sum(self.earlier.tx_errors, now.tx_errors),
            in_rings: now.in_rings,
        }
    }

    /// Becomes promiscuous or not, as its functions want it. It stays as it is where the device refuses, which the log tells: packets flow all
    /// the same.
    pub(super) fn become_promiscuous(&mut self, promiscuous: bool) {
        if self.port.promiscuous().is_some_and(|now| now != promiscuous)
            && let Err(error) = self.port.set_promiscuous(promiscuous)
        {
            crate::log::warn("port", &error.to_string(), &[("port", &self.info.name)]);
        }
    }

    /// Asks how fast its link is; that, if it is new.
    pub(super) fn ask_speed(&mut self) -> Option<LinkSpeed> {
        let speed = self.port.speed();
        (std::mem::replace(&mut self.speed, speed) != speed).then_some(speed)
    }

    /// Goes on with the figures of the port that it replaces.
    pub(super) fn succeed(&mut self, earlier: DeviceStats) {
        self.earlier = DeviceStats { in_rings: None, ..earlier };
    }

    /// What stands in for it while it is closed.
    pub(super) fn stand_in(&self, why: String) -> OpenPort {
        let tx = self.owners.tx.iter().map(|_| Box::new(ClosedTx) as Box<dyn Tx>);
        OpenPort {
            info: PortInfo { link_up: false, ..self.info.clone() },
            config: self.config.clone(),
            owners: self.owners.clone(),
            port: Box::new(ClosedPort(self.info.facts.clone())),
            speed: LinkSpeed::default(),
            wakes: false,
            closed: Some(why),
            fresh: Some((Vec::new(), tx.collect())),
            earlier: self.stats(),
        }
    }
}

fn none<T: ?Sized>(owners: &[usize]) -> Vec<Option<Box<T>>> {
    owners.iter().map(|_| None).collect()
}

/// The buffers that a configuration needs.
struct Needs {
    devices: Vec<(Device, u16)>,
    /// Buffers that rings hold at most.
    rings: usize,
    /// Buffers without which nothing at all would be received.
    least: usize,
    /// Buffers that all together may hold.
    all: usize,
    /// Bytes that each holds.
    room: usize,
}

impl Needs {
    fn of(loaded: &Loaded) -> Needs {
        let driven = || loaded.ports.iter().filter_map(|(_, config, _)| Some((dpdk_device(config)?, config)));
        let devices: Vec<(Device, u16)> = driven().map(|(device, _)| device).collect();
        let cores = loaded.cores();
        let queues = cores.len() as u16;
        let in_rings = |((device, _), config): ((Device, u16), &PortConfig)| {
            ring_buffers(&device, queues, queues, config.descriptors.unwrap_or(DESCRIPTORS))
        };
        let rings: usize = driven().map(in_rings).sum();
        let joints = loaded.ports.iter().filter(|(_, config, _)| joint_of(&config.device).is_some()).count();
        let memory_ports = (loaded.ports.len() - devices.len() - joints) * usize::from(queues) * 4096;
        let workers = cores.len() + usize::from(loaded.engine.control.threads);
        let all = buffers_needed(rings + memory_ports, workers * LINKS_PER_WORKER, workers, loaded.held());
        // What the rings and schedulers hold never comes to the workers: with less than that nothing at all would be received.
        let schedulers = loaded.held().saturating_sub(loaded.engine.held as usize);
        let least = buffers_needed(rings, 0, workers, schedulers);
        let largest = |mtu: u16| usize::from(mtu) + 18;
        let heap_room = loaded.ports.iter().map(|(_, config, _)| config.mtu.map_or(DATA_ROOM, largest)).max();
        let room = devices.iter().map(|(device, mtu)| data_room_needed(device, *mtu)).chain(heap_room).max();
        Needs { devices, rings, least, all, room: room.unwrap_or(DATA_ROOM).max(DATA_ROOM) }
    }
}

/// Where packets live: DPDK's memory when any port is DPDK's, else the heap.
pub(crate) enum Buffers {
    Heap(HeapPool),
    Dpdk { eal: Arc<Eal>, pool: DpdkPool },
}

impl Buffers {
    /// Makes the buffers of the process, as many as the configuration needs.
    pub(crate) fn make(loaded: &Loaded, name: &str, run_dir: &Path) -> Result<Buffers, String> {
        let needs = Needs::of(loaded);
        let capacity = loaded.engine.buffers.map_or(needs.all, |buffers| buffers as usize);
        if capacity < needs.least {
            let schedulers = loaded.held().saturating_sub(loaded.engine.held as usize);
            let and = if schedulers > 0 { format!(", and schedulers up to {schedulers}") } else { String::new() };
            return Err(format!(
                "engine.buffers is {capacity}, which is too few: the rings of these ports hold up to {} buffers{and}; \
                 write at least {}, or leave it out",
                needs.rings, needs.least
            ));
        }
        if needs.devices.is_empty() {
            return Ok(Buffers::Heap(HeapPool::new(capacity, needs.room)));
        }
        Buffers::make_dpdk(&needs.devices, &loaded.cores(), capacity, needs.room, name, run_dir)
    }

    /// What a configuration needs of the process that it does not have and cannot get while it runs: sentences for people.
    pub(crate) fn lacks(&self, loaded: &Loaded) -> Vec<String> {
        let needs = Needs::of(loaded);
        let (capacity, room) = (self.pool().capacity(), self.pool().data_room());
        let mut lacks = Vec::new();
        if let (Buffers::Heap(_), Some((device, _))) = (self, needs.devices.first()) {
            lacks.push(format!("device \"{device}\" needs DPDK, which this Weir was started without"));
        }
        if needs.least > capacity {
            lacks.push(format!("ports may hold {} buffers; the process has {capacity}", needs.least));
        }
        if needs.room > room {
            lacks.push(format!("packets take {} bytes of a buffer; those of the process have {room}", needs.room));
        }
        lacks
    }

    fn make_dpdk(
        devices: &[(Device, u16)],
        cores: &[u16],
        capacity: usize,
        room: usize,
        name: &str,
        run_dir: &Path,
    ) -> Result<Buffers, String> {
        let pci = devices.iter().filter(|(device, _)| device.kind() == weir_port_dpdk::Kind::Pci);
        let options = EalOptions {
            name: name.to_owned(),
            memory: Memory::Auto,
            megabytes: memory_needed(capacity, room),
            pci: pci.map(|(device, _)| device.name().to_owned()).collect(),
            cores: cores.iter().map(|core| u32::from(*core)).collect(),
            log: eal_log(name, run_dir),
            run_dir: run_dir.to_owned(),
        };
        let eal = Arc::new(Eal::start(&options).map_err(|error| error.to_string())?);
        let pool = DpdkPool::create(&eal, capacity, room).map_err(|error| error.to_string())?;
        Ok(Buffers::Dpdk { eal, pool })
    }

    /// Writes into the log which pages packets are in, as that decides what they cost; on the heap nobody need ask.
    pub(crate) fn tell_pages(&self) {
        if let Buffers::Dpdk { pool, .. } = self {
            let facts: [(&str, &dyn Display); 2] = [("buffers", &pool.capacity()), ("pages", &pool.pages())];
            crate::log::info("ports", "packets are in memory of DPDK's", &facts);
        }
    }

    pub(crate) fn pool(&self) -> &dyn Pool {
        match self {
            Buffers::Heap(pool) => pool,
            Buffers::Dpdk { pool, .. } => pool,
        }
    }

    /// Registers workers' threads with DPDK.
    pub(crate) fn hook(&self) -> Option<ThreadHook> {
        match self {
            Buffers::Heap(_) => None,
            Buffers::Dpdk { eal, .. } => {
                let eal = Arc::clone(eal);
                Some(Arc::new(move |_| Box::new(eal.register_thread())))
            }
        }
    }

    /// Attaches a device, not yet open.
    pub(crate) fn attach(&self, name: &str, config: &PortConfig, loaded: &Loaded) -> Result<Box<dyn Port>, String> {
        if let Some(port) = catalogue::port(name, &config.device, loaded.base()) {
            return port.map_err(|error| format!("port \"{name}\": {error}"));
        }
        let device = Device::parse(&config.device).map_err(|error| format!("port \"{name}\": {error}"))?;
        match self {
            Buffers::Heap(_) => Err(format!(
                "port \"{name}\": \"{}\" needs DPDK, which this Weir was started without; restart it with this configuration",
                config.device
            )),
            Buffers::Dpdk { eal, pool } => {
                let in_front = loaded.in_front(name);
                let usual = weir_port_dpdk::PortConfig::default();
                let promiscuous = loaded.promiscuous(name);
                let settings = weir_port_dpdk::PortConfig {
                    mtu: config.mtu,
                    in_front,
                    promiscuous,
                    descriptors: config.descriptors.unwrap_or(usual.descriptors),
                    burst: config.burst.unwrap_or(usual.burst),
                    max_wait: config.flush.map_or(usual.max_wait, |flush| flush.nanos()),
                    ..usual
                };
                weir_port_dpdk::attach(eal, device, settings, pool).map_err(|error| format!("port \"{name}\": {error}"))
            }
        }
    }
}

/// The device of a port that DPDK drives, and the MTU that it will have.
fn dpdk_device(config: &PortConfig) -> Option<(Device, u16)> {
    let device = Device::parse(&config.device).ok()?;
    let mtu = config.mtu.unwrap_or_else(|| weir_port_dpdk::usual_mtu(&device));
    Some((device, mtu))
}

/// Where EAL writes its own log.
fn eal_log(name: &str, run_dir: &Path) -> PathBuf {
    run_dir.join(format!("{name}.eal.log"))
}

/// What is known of an attached port, once its configuration is applied.
pub(crate) fn info(name: &str, index: u16, config: &PortConfig, port: &mut dyn Port) -> PortInfo {
    let mut facts = port.facts();
    if let Some(mtu) = config.mtu {
        facts.mtu = mtu;
    }
    let (addresses, vrf) = (config.address.0.clone(), config.vrf.clone());
    PortInfo { name: name.to_owned(), index, facts, addresses, vrf, link_up: port.link_up() }
}

/// Opens an attached port with the queues that its owners need.
pub(crate) fn open(
    mut port: Box<dyn Port>,
    mut info: PortInfo,
    config: PortConfig,
    owners: Owners,
    pool: &dyn Pool,
) -> Result<OpenPort, String> {
    let queues = port
        .open(owners.rx.len() as u16, owners.tx.len() as u16, pool)
        .map_err(|error| format!("port \"{}\": {error}", info.name))?;
    info.link_up = port.link_up();
    let speed = port.speed();
    let wakes = !queues.0.is_empty() && queues.0.iter().all(|rx| rx.descriptor().is_some());
    let earlier = DeviceStats::default();
    Ok(OpenPort { info, config, owners, port, speed, wakes, closed: None, fresh: Some(queues), earlier })
}
