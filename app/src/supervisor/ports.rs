//! Ports and buffers: opening them, and who owns which queue.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_engine::{PortPart, ThreadHook};
use weir_packet::{DATA_ROOM, HeapPool, Pool, buffers_needed};
use weir_port_dpdk::Device;
use weir_port_dpdk::eal::{Eal, EalOptions, Memory};
use weir_port_dpdk::{DpdkPool, DpdkPort, data_room_needed, memory_needed, ring_buffers};
use weir_stage::{Port, PortConfig, PortInfo, Queues, Rx, Tx};

use super::config::Loaded;
use crate::catalogue;

/// Descriptors of a device queue.
const DESCRIPTORS: u16 = 512;

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
    /// Its queues until a blueprint hands them to their owners.
    fresh: Option<Queues>,
}

impl OpenPort {
    /// The port's part of a blueprint; hands the queues over when they are fresh.
    pub(crate) fn part(&mut self) -> PortPart {
        let (rx, tx) = match self.fresh.take() {
            Some((rx, tx)) => (rx.into_iter().map(Some).collect(), tx.into_iter().map(Some).collect()),
            None => (none(&self.owners.rx), none(&self.owners.tx)),
        };
        let rx: Vec<Option<Box<dyn Rx>>> = rx;
        let tx: Vec<Option<Box<dyn Tx>>> = tx;
        PortPart {
            name: self.info.name.clone(),
            index: self.info.index,
            rx: self.owners.rx.iter().copied().zip(rx).collect(),
            tx: self.owners.tx.iter().copied().zip(tx).collect(),
        }
    }
}

fn none<T: ?Sized>(owners: &[usize]) -> Vec<Option<Box<T>>> {
    owners.iter().map(|_| None).collect()
}

/// Where packets live: DPDK's memory when any port is DPDK's, else the heap.
pub(crate) enum Buffers {
    Heap(HeapPool),
    Dpdk { eal: Arc<Eal>, pool: DpdkPool },
}

impl Buffers {
    /// Makes the buffers of the process, as many as the configuration needs.
    pub(crate) fn make(loaded: &Loaded, name: &str, run_dir: &Path) -> Result<Buffers, String> {
        let devices: Vec<(Device, u16)> =
            loaded.ports.iter().filter_map(|(_, config, _)| dpdk_device(config)).collect();
        let cores = loaded.cores();
        let queues = cores.len() as u16;
        let rings: usize = devices.iter().map(|(device, _)| ring_buffers(device, queues, queues, DESCRIPTORS)).sum();
        let memory_ports = (loaded.ports.len() - devices.len()) * usize::from(queues) * 4096;
        let workers = cores.len() + 1;
        let needed = buffers_needed(rings + memory_ports, workers * LINKS_PER_WORKER, workers, loaded.held());
        let capacity = loaded.engine.buffers.map_or(needed, |buffers| buffers as usize);
        // What the rings and schedulers hold never comes to the workers: with less than that nothing at all would be received.
        let schedulers = loaded.held().saturating_sub(loaded.engine.held as usize);
        let least = buffers_needed(rings, 0, workers, schedulers);
        if capacity < least {
            let and = if schedulers > 0 { format!(", and schedulers up to {schedulers}") } else { String::new() };
            return Err(format!(
                "engine.buffers is {capacity}, which is too few: the rings of these ports hold up to {rings} buffers{and}; \
                 write at least {least}, or leave it out"
            ));
        }
        let largest = |mtu: u16| usize::from(mtu) + 18;
        let heap_room = loaded.ports.iter().map(|(_, config, _)| config.mtu.map_or(DATA_ROOM, largest)).max();
        let room = devices.iter().map(|(device, mtu)| data_room_needed(device, *mtu)).chain(heap_room).max();
        let room = room.unwrap_or(DATA_ROOM).max(DATA_ROOM);
        if devices.is_empty() {
            return Ok(Buffers::Heap(HeapPool::new(capacity, room)));
        }
        Buffers::make_dpdk(&devices, &cores, capacity, room, name, run_dir)
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
    pub(crate) fn attach(&self, name: &str, config: &PortConfig, base: &Path) -> Result<Box<dyn Port>, String> {
        if let Some(port) = catalogue::port(name, &config.device, base) {
            return port.map_err(|error| format!("port \"{name}\": {error}"));
        }
        let device = Device::parse(&config.device).map_err(|error| format!("port \"{name}\": {error}"))?;
        match self {
            Buffers::Heap(_) => Err(format!(
                "port \"{name}\": \"{}\" needs DPDK, which this Weir was started without; restart it with this configuration",
                config.device
            )),
            Buffers::Dpdk { eal, pool } => {
                let settings = weir_port_dpdk::PortConfig { mtu: config.mtu, promiscuous: true, ..Default::default() };
                let port = DpdkPort::attach(eal, device, settings, pool);
                Ok(Box::new(port.map_err(|error| format!("port \"{name}\": {error}"))?))
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
    PortInfo { name: name.to_owned(), index, facts, addresses: config.address.0.clone(), link_up: port.link_up() }
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
    Ok(OpenPort { info, config, owners, port, fresh: Some(queues) })
}
