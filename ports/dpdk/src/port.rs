//! A device as a port of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_packet::Pool;
use weir_stage::{DeviceStats, LinkSpeed, Port, PortError, PortFacts, Queues, Rx, Tx, local_mac};

use crate::claim::{Claim, own_mtu, switch_on};
use crate::devargs::devargs;
use crate::eal::{Eal, is_at_vfio};
use crate::ethdev::{Abilities, Ethdev, Failure, Setup, Sockets};
use crate::gate::Gate;
use crate::memory::XDP_DATA_ROOM;
use crate::netif::{Interface, Presence};
use crate::packet::PacketPort;
use crate::patience::{HANDSHAKE, XDP_SOCKET, moment, wait_until};
use crate::pool::{DpdkPool, Mempool};
use crate::queue::{DpdkRx, DpdkTx};
use crate::{Device, DpdkError, Kind, PortConfig, access, figures, longest_mtu};

/// Numbers the devices of the process, for their names in DPDK.
static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Queue pairs that a TAP can have, and links to other processes.
const MOST_PAIRS: u16 = 16;

/// Drivers of cards whose receive interrupts were seen to come. Others say, too, that they have them: net_e1000_em lets them be switched on for an
/// 82574L, which never rings.
const RINGING_DRIVERS: [&str; 2] = ["net_virtio", "net_vmxnet3"];

/// The MTU that a device has when nobody says otherwise: that of its interface before a port changed it, else 1500.
pub fn usual_mtu(device: &Device) -> u16 {
    let interface = device.interface().and_then(|name| Interface::find(name).ok());
    interface.and_then(|interface| own_mtu(&interface)).unwrap_or(1500)
}

/// Attaches a device. It carries packets once it is [open](Port::open).
///
/// A Linux interface that is taken over is switched on and gets the configured MTU, and what merges segments is switched off; when the
/// port is dropped it is again as it was.
///
/// # Errors
///
/// [`DpdkError`] when there is no such device, it is busy, not ours to use, or cannot do what the configuration asks; nothing is
/// attached then.
pub fn attach(eal: &Arc<Eal>, device: Device, config: PortConfig, pool: &DpdkPool) -> Result<Box<dyn Port>, DpdkError> {
    access::check(&device)?;
    let mtu = config.mtu.unwrap_or_else(|| usual_mtu(&device));
    check_room(&device, mtu, pool)?;
    match device.kind() {
        Kind::AfPacket => Ok(Box::new(PacketPort::attach(device, config)?)),
        _ => Ok(Box::new(DpdkPort::attach(eal, device, config, mtu, pool)?)),
    }
}

/// A port on a device of DPDK's.
struct DpdkPort {
    eal: Arc<Eal>,
    pool: Arc<Mempool>,
    device: Device,
    config: PortConfig,
    mtu: u16,
    mac: [u8; 6],
    abilities: Abilities,
    /// The interface that it took over, or made.
    interface: Option<Interface>,
    /// Attached, for so many pairs of queues.
    ethdev: Option<(Arc<Ethdev>, u16)>,
    /// What is changed of the interface, for as long as this lives, and of the other end of a veth.
    claim: Option<Claim>,
    _peer: Option<Claim>,
    /// What is odd about it, for people.
    remark: Option<String>,
    alive: Arc<AtomicBool>,
    /// Whether its link was ever up since it was opened.
    was_up: bool,
    /// When it was opened.
    opened: Option<Instant>,
}

impl DpdkPort {
    fn attach(
        eal: &Arc<Eal>,
        device: Device,
        config: PortConfig,
        mtu: u16,
        pool: &DpdkPool,
    ) -> Result<DpdkPort, DpdkError> {
        let interface = device.interface().map(|_| access::find(&device)).transpose()?;
        let whole = mtu.saturating_add(config.in_front);
        let claim = interface.as_ref().map(|_| Claim::take(&device, access::find(&device)?, whole, config.promiscuous));
        let claim = claim.transpose()?;
        let of_xdp = interface.as_ref().filter(|_| device.kind() == Kind::AfXdp);
        let peer = of_xdp.map_or(Ok(None), |interface| Claim::take_peer(&device, interface.index()));
        let (peer, remark) = peer.map_or_else(|remark| (None, Some(remark)), |peer| (peer, None));
        let ethdev = plug(eal, &device, config.pairs, mtu)?;
        let asked = |failure| access::explain(&device, failure);
        let abilities = ethdev.abilities().map_err(asked)?;
        check_mtu(&device, mtu, &abilities)?;
        let mac = match (config.mac, device.kind()) {
            (Some(mac), _) => mac,
            // The address that the driver tells is that of the kernel's end of the wire: ours is another station's.
            (None, Kind::Tap) => local_mac(&device.to_string()),
            (None, _) => ethdev.mac().map_err(asked)?,
        };
        let ethdev = Some((Arc::new(ethdev), config.pairs));
        let pool = Arc::clone(pool.shared());
        let alive = Arc::new(AtomicBool::new(false));
        let eal = Arc::clone(eal);
        Ok(DpdkPort {
            eal,
            pool,
            device,
            config,
            mtu,
            mac,
            abilities,
            interface,
            claim,
            _peer: peer,
            remark,
            ethdev,
            alive,
            was_up: false,
            opened: None,
        })
    }

    /// Receive and transmit queues that the device can have.
    fn most_queues(&self) -> (u16, u16) {
        let pairs = match self.device.kind() {
            Kind::AfXdp => self.interface.as_ref().map_or(1, Interface::channels),
            Kind::Tap | Kind::Memif | Kind::Vhost | Kind::VirtioUser => MOST_PAIRS,
            Kind::AfPacket | Kind::Null | Kind::Vdev | Kind::Pci => {
                return (self.abilities.max_rx_queues.max(1), self.abilities.max_tx_queues.max(1));
            }
        };
        (pairs, pairs)
    }

    /// How many pairs of queues to attach for so many queues; what is wrong with them otherwise.
    fn pairs_for(&self, rx: u16, tx: u16) -> Result<u16, DpdkError> {
        let unsupported = |what| Err(DpdkError::Unsupported { device: self.device.to_string(), what });
        let (most_rx, most_tx) = self.most_queues();
        if rx > most_rx || tx > most_tx || rx == 0 || tx == 0 {
            return unsupported(format!(
                "has 1 to {most_rx} receive and 1 to {most_tx} transmit queues, and {rx} and {tx} are asked for: \
                 use fewer workers, or let one of them serve the port"
            ));
        }
        if paired(self.device.kind()) && tx > rx {
            return unsupported(format!(
                "has as many transmit queues as receive queues, and {tx} and {rx} are asked for: let as many \
                 workers receive from it as send to it"
            ));
        }
        Ok(if paired(self.device.kind()) { rx } else { self.config.pairs })
    }

    /// Opens it; an AF_XDP device once more as long as its queues are busy, for the kernel frees those of a closed socket at its leisure.
    fn start_patiently(&mut self, rx: u16, tx: u16) -> Result<Queues, DpdkError> {
        let mut done = self.start(rx, tx);
        if self.device.kind() == Kind::AfXdp {
            wait_until(XDP_SOCKET, || {
                let busy = matches!(done, Err(DpdkError::Busy { .. }));
                if busy {
                    done = self.start(rx, tx);
                }
                !busy
            });
        }
        done
    }

    fn start(&mut self, rx: u16, tx: u16) -> Result<Queues, DpdkError> {
        let pairs = self.pairs_for(rx, tx)?;
        let mut ethdev = match self.ethdev.take() {
            Some((ethdev, attached)) if attached == pairs => ethdev,
            // The driver wants to know the number before the device is there: it goes and comes again.
            attached => {
                drop(attached);
                Arc::new(plug(&self.eal, &self.device, pairs, self.mtu)?)
            }
        };
        if self.device.kind() == Kind::AfXdp && !self.pool.is_one_piece() {
            return Err(DpdkError::Unsupported {
                device: self.device.to_string(),
                what: "needs all buffers in one piece of memory: reserve larger huge pages, or none".into(),
            });
        }
        let is_paired = paired(self.device.kind());
        let mut setup = Setup {
            rx_queues: rx,
            tx_queues: if is_paired { pairs } else { tx },
            descriptors: self.config.descriptors,
            mtu: self.mtu,
            mac: self.config.mac,
            // Of a Linux interface that was there before, the claim sees to it.
            promiscuous: self.config.promiscuous && self.device.interface().is_none(),
            kind: self.device.kind(),
            interrupts: self.has_interrupts(),
            sockets: self.sockets(pairs),
        };
        let mut started = ethdev.start(&setup, &self.pool);
        if started.is_err() && setup.interrupts && self.device.kind() == Kind::Pci {
            // A driver that refuses them leaves the card half set up: it goes and comes again, without.
            drop(ethdev);
            ethdev = Arc::new(plug(&self.eal, &self.device, pairs, self.mtu)?);
            setup.interrupts = false;
            started = ethdev.start(&setup, &self.pool);
        }
        started.map_err(|failure| access::explain(&self.device, failure))?;
        if self.device.kind() == Kind::Tap {
            let tap = access::find(&self.device)?;
            switch_on(&self.device, &tap)?;
            let whole = self.mtu.saturating_add(self.config.in_front);
            tap.set_mtu(whole).map_err(|error| self.no_such_mtu(whole, &error))?;
            self.interface = Some(tap);
        }
        let queues = self.queues(&ethdev, rx, tx);
        self.ethdev = Some((ethdev, pairs));
        if let Some(claim) = self.claim.as_ref().filter(|_| self.device.kind() == Kind::AfXdp) {
            claim.note_program();
        }
        self.opened = Some(moment());
        self.link_up();
        Ok(queues)
    }

    /// Whether a worker that sleeps is to be woken by receive interrupts. Of cards, it is those of which it was seen that they come; each queue has
    /// its own there, which vfio-pci alone can hand over.
    fn has_interrupts(&self) -> bool {
        match self.device.kind() {
            Kind::Vhost | Kind::VirtioUser => true,
            Kind::Pci => RINGING_DRIVERS.contains(&self.abilities.driver.as_str()) && is_at_vfio(self.device.name()),
            Kind::AfXdp | Kind::AfPacket | Kind::Tap | Kind::Null | Kind::Vdev | Kind::Memif => false,
        }
    }

    /// Where an AF_XDP device with so many pairs of queues has its sockets.
    fn sockets(&self, queues: u16) -> Option<Sockets> {
        let interface = self.interface.as_ref().filter(|_| self.device.kind() == Kind::AfXdp)?.index();
        Some(Sockets { interface, first: access::first_queue(&self.device), queues })
    }

    fn no_such_mtu(&self, mtu: u16, error: &std::io::Error) -> DpdkError {
        let what = format!("cannot have an MTU of {mtu} ({error}): choose another (ip -d link shows its bounds)");
        DpdkError::Unsupported { device: self.device.to_string(), what }
    }

    fn queues(&self, ethdev: &Arc<Ethdev>, rx: u16, tx: u16) -> Queues {
        // This driver leaves in a buffer what was there.
        let blank = self.abilities.driver == "net_null" && self.device.option("blank") != Some("0");
        let gate = || (self.device.kind() == Kind::Memif).then(Gate::new);
        let receive = (0..rx).map(|queue| -> Box<dyn Rx> {
            // The first speaks for the whole device.
            let remark = self.remark.clone().filter(|_| queue == 0);
            let most = usize::from(self.config.burst);
            Box::new(DpdkRx::new(Arc::clone(ethdev), queue, Arc::clone(&self.pool), most, blank, remark, gate()))
        });
        let transmit = (0..tx).map(|queue| -> Box<dyn Tx> {
            let (pool, alive) = (DpdkPool::handle(&self.pool), Arc::clone(&self.alive));
            Box::new(DpdkTx::new(Arc::clone(ethdev), queue, pool, alive, self.config.max_wait, gate()))
        });
        (receive.collect(), transmit.collect())
    }

    /// Whether the interface is there and carries packets. A TAP that is not here any more was moved to
    /// another network namespace, where it works on.
    fn interface_up(&self, interface: &Interface) -> bool {
        match interface.presence() {
            Presence::Same => interface.is_running().unwrap_or(false),
            Presence::Another | Presence::Gone => self.device.kind() == Kind::Tap,
        }
    }
}

impl Port for DpdkPort {
    fn facts(&self) -> PortFacts {
        let (max_rx_queues, max_tx_queues) = self.most_queues();
        let hardware = self.device.kind() == Kind::Pci;
        let rss = match self.device.kind() {
            Kind::Pci => self.abilities.rss != 0,
            // The kernel spreads by a hash of its own.
            Kind::Tap => true,
            _ => false,
        };
        let mut offloads = Vec::new();
        if hardware && rss {
            offloads.push("rss".to_owned());
        }
        PortFacts {
            device: self.device.to_string(),
            mac: self.mac,
            mtu: self.mtu,
            max_rx_queues,
            max_tx_queues,
            rss,
            offloads,
        }
    }

    /// Buffers come from the pool that the port was attached with; `_pool` is another handle to it.
    fn open(&mut self, rx_queues: u16, tx_queues: u16, _pool: &dyn Pool) -> Result<Queues, PortError> {
        self.start_patiently(rx_queues, tx_queues).map_err(|error| PortError(error.to_string()))
    }

    fn stats(&self) -> DeviceStats {
        let Some((ethdev, _)) = &self.ethdev else { return DeviceStats::default() };
        let Some(counters) = ethdev.stats() else { return DeviceStats::default() };
        let stats = figures::of(&self.abilities.driver, &counters);
        DeviceStats { in_rings: ethdev.in_rings().or(stats.in_rings), ..stats }
    }

    /// To be asked every now and then: packets for a port whose link is not up are told
    /// [not to be alive](Tx::alive). DPDK never notices that a Linux interface went down or away, so the
    /// kernel is asked.
    fn link_up(&mut self) -> bool {
        let up = match (&self.ethdev, &self.interface) {
            (None, _) => false,
            (Some(_), Some(interface)) => self.interface_up(interface),
            (Some((ethdev, _)), None) => ethdev.link_up(),
        };
        self.alive.store(up, Ordering::Relaxed);
        self.was_up |= up;
        up
    }

    /// That of cards and of Linux interfaces: drivers of virtual devices make one up, and so does the kernel for a TAP.
    fn speed(&mut self) -> LinkSpeed {
        match (self.device.kind(), &self.ethdev, &self.interface) {
            (Kind::AfXdp | Kind::AfPacket, Some(_), Some(interface)) => interface.speed(),
            (Kind::Pci, Some((ethdev, _)), _) => ethdev.speed(self.abilities.most_speed),
            _ => LinkSpeed::default(),
        }
    }

    fn promiscuous(&self) -> Option<bool> {
        match self.device.kind() {
            Kind::AfXdp | Kind::AfPacket => self.claim.as_ref()?.promiscuous(),
            Kind::Pci | Kind::VirtioUser | Kind::Vdev => Some(self.config.promiscuous),
            // What the other end sends is for us.
            Kind::Tap | Kind::Memif | Kind::Vhost | Kind::Null => None,
        }
    }

    fn set_promiscuous(&mut self, promiscuous: bool) -> Result<(), PortError> {
        let told = |error: DpdkError| PortError(error.to_string());
        if let Some(claim) = &mut self.claim {
            claim.set_promiscuous(&self.device, promiscuous).map_err(told)?;
        } else if let (Some((ethdev, _)), Some(_)) = (&self.ethdev, self.promiscuous()) {
            let set = ethdev.set_promiscuous(promiscuous);
            set.map_err(|failure| told(access::explain(&self.device, failure)))?;
        }
        self.config.promiscuous = promiscuous;
        Ok(())
    }

    fn ails(&mut self) -> Option<String> {
        if self.ethdev.as_ref().is_some_and(|(ethdev, _)| ethdev.is_deaf()) {
            return Some("it hears nothing any more, for the kernel has no buffer left to receive into".to_owned());
        }
        // Those that connect do so once, when they are opened.
        if self.device.connects_to().is_none() || self.link_up() {
            return None;
        }
        // Whoever takes a connection of a memif and hangs up before the link is up has gone as well, but the driver tells nobody.
        let refused =
            self.device.kind() == Kind::Memif && self.opened.is_some_and(|opened| opened.elapsed() > HANDSHAKE);
        match self.was_up {
            true => Some("its peer has gone".to_owned()),
            false => refused.then(|| "its peer took the connection, and the link did not come up".to_owned()),
        }
    }

    /// The device is released when the last of its queues is dropped. It can be opened again then.
    fn close(&mut self) {
        self.alive.store(false, Ordering::Relaxed);
        (self.ethdev, self.was_up, self.opened) = (None, false, None);
    }
}

/// Devices whose driver has queues in pairs, each of which must be received from.
fn paired(kind: Kind) -> bool {
    matches!(kind, Kind::AfXdp | Kind::Tap | Kind::Vhost | Kind::VirtioUser)
}

fn plug(eal: &Arc<Eal>, device: &Device, pairs: u16, mtu: u16) -> Result<Ethdev, DpdkError> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Ethdev::attach(eal, device, &devargs(device, pairs, mtu, number))
        .map_err(|failure: Failure| access::explain(device, failure))
}

fn check_room(device: &Device, mtu: u16, pool: &DpdkPool) -> Result<(), DpdkError> {
    if device.kind() == Kind::AfXdp && pool.data_room() > XDP_DATA_ROOM {
        let what = format!(
            "needs buffers of at most {XDP_DATA_ROOM} bytes, and the largest MTU of all ports makes them {}: give \
             every port an MTU of at most {}, or use af_packet:{}",
            pool.data_room(),
            longest_mtu(device, XDP_DATA_ROOM),
            device.name()
        );
        return Err(DpdkError::Unsupported { device: device.to_string(), what });
    }
    let most = longest_mtu(device, pool.data_room());
    match mtu <= most {
        true => Ok(()),
        false => Err(DpdkError::Unsupported {
            device: device.to_string(),
            what: format!("has an MTU of {mtu}, and buffers hold frames of an MTU of {most} there: lower it"),
        }),
    }
}

fn check_mtu(device: &Device, mtu: u16, abilities: &Abilities) -> Result<(), DpdkError> {
    let (least, most) = (abilities.min_mtu, abilities.max_mtu);
    if (least..=most).contains(&mtu) || device.kind() == Kind::Tap {
        return Ok(());
    }
    let what = format!("has an MTU of {mtu}, and its driver can have {least} to {most}: choose one of those");
    Err(DpdkError::Unsupported { device: device.to_string(), what })
}
