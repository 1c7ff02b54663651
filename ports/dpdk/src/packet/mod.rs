//! Linux interfaces by AF_PACKET, with sockets of our own.
//!
//! DPDK's driver joins a fan-out group that puts IPv4 fragments together, writes 0x8100 in front of whatever tag the kernel took
//! off, hands unfinished checksums on, and cannot tell what the kernel dropped. What a port must not do stands in
//! `docs/ports.md`.

mod group;
mod queue;
mod ring;
mod socket;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_packet::Pool;
use weir_stage::{DeviceStats, LinkSpeed, Port, PortError, PortFacts, Queues, Rx, Tx};

use crate::claim::{Claim, own_mtu};
use crate::netif::{Interface, Presence};
use crate::{Device, DpdkError, PortConfig, access};
use group::Group;
use queue::{PacketRx, PacketTx};
pub(crate) use socket::Wish;

/// Queues that a port can have, either way: as many sockets as a group is worth having.
const MOST_QUEUES: u16 = 16;

/// A port on a Linux interface, by packet sockets.
pub(crate) struct PacketPort {
    device: Device,
    config: PortConfig,
    mtu: u16,
    mac: [u8; 6],
    interface: Interface,
    claim: Claim,
    /// The receiving sockets, while it is open.
    group: Option<Arc<Group>>,
    alive: Arc<AtomicBool>,
    /// Frames that the kernel refused.
    tx_errors: Arc<AtomicU64>,
}

impl PacketPort {
    /// Takes an interface over. It carries packets once it is open.
    pub(crate) fn attach(device: Device, config: PortConfig) -> Result<PacketPort, DpdkError> {
        let interface = access::find(&device)?;
        let mtu = config.mtu.or_else(|| own_mtu(&interface)).unwrap_or(1500);
        if let Some(mac) = config.mac {
            interface.set_mac(mac).map_err(|error| refused(&device, "set the Ethernet address of", &error))?;
        }
        let mac = interface.mac().map_err(|error| refused(&device, "ask for the Ethernet address of", &error))?;
        let claim =
            Claim::take(&device, access::find(&device)?, mtu.saturating_add(config.in_front), config.promiscuous)?;
        Ok(PacketPort {
            device,
            config,
            mtu,
            mac,
            interface,
            claim,
            group: None,
            alive: Arc::default(),
            tx_errors: Arc::default(),
        })
    }

    fn start(&mut self, rx: u16, tx: u16) -> Result<Queues, DpdkError> {
        if rx > MOST_QUEUES || tx > MOST_QUEUES || rx == 0 || tx == 0 {
            let what = format!(
                "has 1 to {MOST_QUEUES} receive and 1 to {MOST_QUEUES} transmit queues, and {rx} and {tx} are asked for: \
                 use fewer workers, or let one of them serve the port"
            );
            return Err(DpdkError::Unsupported { device: self.device.to_string(), what });
        }
        let wrong = |error: std::io::Error| refused(&self.device, "open a socket of", &error);
        let bypass = self.device.option("qdisc_bypass") != Some("0");
        let senders = (0..tx).map(|_| socket::sender(self.interface.index(), bypass));
        let senders = senders.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let longest = self.mtu.saturating_add(self.config.in_front);
        let group = Arc::new(Group::open(&self.interface, self.device.name(), rx, longest).map_err(wrong)?);
        let (most, max_wait) = (usize::from(self.config.burst), self.config.max_wait);
        let receive = (0..usize::from(rx))
            .map(|queue| -> Box<dyn Rx> { Box::new(PacketRx::new(Arc::clone(&group), queue, most)) });
        let transmit = senders.into_iter().map(|socket| -> Box<dyn Tx> {
            Box::new(PacketTx::new(socket, Arc::clone(&self.alive), Arc::clone(&self.tx_errors), max_wait))
        });
        let queues = (receive.collect(), transmit.collect());
        self.group = Some(group);
        self.link_up();
        Ok(queues)
    }
}

fn refused(device: &Device, doing: &str, error: &std::io::Error) -> DpdkError {
    DpdkError::NoPermission {
        what: format!("{doing} {device} ({error})"),
        remedy: "run weir as root, or with CAP_NET_ADMIN and CAP_NET_RAW".into(),
    }
}

impl Port for PacketPort {
    fn facts(&self) -> PortFacts {
        PortFacts {
            device: self.device.to_string(),
            mac: self.mac,
            mtu: self.mtu,
            max_rx_queues: MOST_QUEUES,
            max_tx_queues: MOST_QUEUES,
            // The kernel spreads by a hash of its own.
            rss: true,
            offloads: Vec::new(),
        }
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, _pool: &dyn Pool) -> Result<Queues, PortError> {
        self.start(rx_queues, tx_queues).map_err(|error| PortError(error.to_string()))
    }

    fn stats(&self) -> DeviceStats {
        let Some(group) = &self.group else { return DeviceStats::default() };
        DeviceStats {
            missed: Some(group.missed()),
            // A frame that finds no buffer waits, until the ring is full.
            no_buffer: None,
            rx_errors: None,
            tx_errors: Some(self.tx_errors.load(Ordering::Relaxed)),
            in_rings: Some(0),
        }
    }

    /// To be asked every now and then: packets for a port whose link is not up are told [not to be alive](Tx::alive).
    fn link_up(&mut self) -> bool {
        let there = self.group.is_some() && self.interface.presence() == Presence::Same;
        let up = there && self.interface.is_running().unwrap_or(false);
        self.alive.store(up, Ordering::Relaxed);
        up
    }

    fn speed(&mut self) -> LinkSpeed {
        if self.group.is_some() { self.interface.speed() } else { LinkSpeed::default() }
    }

    fn promiscuous(&self) -> Option<bool> {
        self.claim.promiscuous()
    }

    fn set_promiscuous(&mut self, promiscuous: bool) -> Result<(), PortError> {
        self.config.promiscuous = promiscuous;
        self.claim.set_promiscuous(&self.device, promiscuous).map_err(|error| PortError(error.to_string()))
    }

    /// The sockets are closed when the last of the queues is dropped. It can be opened again then.
    fn close(&mut self) {
        self.alive.store(false, Ordering::Relaxed);
        self.group = None;
    }
}
