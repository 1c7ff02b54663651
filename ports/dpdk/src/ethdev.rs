//! One device of DPDK's: attached by hot-plug, configured, started, and released when its last owner is
//! done with it.

mod numbers;
mod speed;

use std::ffi::{CStr, CString, c_int};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_dpdk_sys as sys;

use crate::bpf::Objects;
use crate::devargs::Devargs;
use crate::eal::{Calling, Eal};
use crate::gate::Gate;
use crate::pool::Mempool;
use crate::rx_interrupt::{LinkWatch, RxInterrupt};
use crate::xsk::{self, Rings};
use crate::{Device, DpdkError, Kind};

/// Devices that receive by the XDP program of an interface: the number of each, and its queues.
static RECEIVERS: Mutex<Vec<(u16, Sockets)>> = Mutex::new(Vec::new());

/// The AF_XDP driver has this many buffers waiting, whatever it is told: none may find the ring full.
const XDP_DESCRIPTORS: u16 = 2048;

/// Receive queues whose events a driver may tell when its device comes.
const EVENTS: usize = 16;

/// What a device is set up with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) descriptors: u16,
    pub(crate) mtu: u16,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) promiscuous: bool,
    pub(crate) kind: Kind,
    /// Whether its receive queues shall have interrupts.
    pub(crate) interrupts: bool,
    /// Of an AF_XDP device: where it has its sockets.
    pub(crate) sockets: Option<Sockets>,
}

/// The queues of an interface that a device has AF_XDP sockets on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sockets {
    /// The number of the interface.
    pub(crate) interface: u32,
    pub(crate) first: u32,
    pub(crate) queues: u16,
}

/// What a device can do.
#[derive(Clone, Debug)]
pub(crate) struct Abilities {
    pub(crate) driver: String,
    pub(crate) max_rx_queues: u16,
    pub(crate) max_tx_queues: u16,
    pub(crate) min_mtu: u16,
    pub(crate) max_mtu: u16,
    /// Kinds of flow that it can spread over its queues by a hash.
    pub(crate) rss: u64,
    /// Whether it tells by itself that its link came or went.
    pub(crate) tells_link: bool,
    /// The most that its links can do, Mbit/s; 0 where the driver does not say.
    pub(crate) most_speed: u32,
}

/// An attached device. Dropped, it is stopped, closed and unplugged.
pub(crate) struct Ethdev {
    eal: Arc<Eal>,
    device: String,
    bus: CString,
    name: CString,
    port: u16,
    /// Of an AF_XDP device, once started: the buffers of which pool are in which rings.
    rings: OnceLock<(Rings, Arc<Mempool>)>,
    /// What each receive queue is read from, in order, where that is a descriptor of its own. The driver has it open as long as the device is.
    receivers: OnceLock<Vec<RawFd>>,
    /// What its driver rings when packets come into a receive queue, where it told that when it came; else -1. It has it open as long as the
    /// device is.
    events: [RawFd; EVENTS],
    /// Of a device that was started with receive interrupts: what its link rings.
    link: OnceLock<LinkWatch>,
    /// Of such a device: whether a peer may take along what they are switched on in.
    is_shared: bool,
    /// The same, started: the BPF objects that came with its sockets.
    programs: OnceLock<Objects>,
    /// Set when a receive queue could not be set up.
    spoilt: AtomicBool,
    /// DPDK's interrupt thread connects and disconnects it, or watches its link.
    is_connected_by_thread: AtomicBool,
}

impl Ethdev {
    /// Attaches a device: by hot-plug, but for cards that EAL was started with, which it has attached. `device` is its name in
    /// messages.
    pub(crate) fn attach(eal: &Arc<Eal>, device: &Device, devargs: &Devargs) -> Result<Ethdev, Failure> {
        let calling = eal.call();
        let c_string = |text: &str| CString::new(text).unwrap_or_default();
        let (bus, name) = (c_string(devargs.bus), c_string(&devargs.name));
        let arguments = c_string(&devargs.arguments);
        let before = numbers::all();
        let mut events = [-1; EVENTS];
        let named = numbers::by_name(&name);
        if named.is_none() {
            let (to, room) = (events.as_mut_ptr(), if device.kind() == Kind::VirtioUser { EVENTS as u32 } else { 0 });
            // SAFETY: EAL runs and nobody else calls its control functions; three C strings, and room for so many numbers.
            let rc = unsafe { sys::weir_attach(bus.as_ptr(), name.as_ptr(), arguments.as_ptr(), to, room) };
            if rc != 0 {
                return Err(Failure::of(&calling, format!("attaching {device}"), rc));
            }
        }
        let found = named.or_else(|| numbers::find(&name, &before));
        if found.is_some_and(|port| !numbers::take(port)) {
            return Err(Failure::of(&calling, format!("attaching {device}"), libc::EBUSY));
        }
        let ethdev = |port| Ethdev {
            eal: Arc::clone(eal),
            device: device.to_string(),
            bus,
            name,
            port,
            rings: OnceLock::new(),
            receivers: OnceLock::new(),
            events,
            link: OnceLock::new(),
            programs: OnceLock::new(),
            spoilt: AtomicBool::new(false),
            is_shared: device.kind() == Kind::Vhost,
            is_connected_by_thread: AtomicBool::new(matches!(device.kind(), Kind::Memif | Kind::VirtioUser)),
        };
        match found {
            Some(port) => Ok(ethdev(port)),
            // It is no network device (a vdev may be anything): unplugged again by the drop.
            None => {
                let failure = Failure::of(&calling, format!("finding a network device in {device}"), libc::ENODEV);
                drop(calling);
                drop(ethdev(u16::MAX));
                Err(failure)
            }
        }
    }

    /// DPDK's number for it.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn abilities(&self) -> Result<Abilities, Failure> {
        let calling = self.eal.call();
        let info = self.info(&calling)?;
        let driver = match info.driver_name.is_null() {
            true => String::new(),
            // SAFETY: a constant string of the driver's.
            false => unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned(),
        };
        Ok(Abilities {
            driver,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            min_mtu: info.min_mtu,
            max_mtu: info.max_mtu,
            most_speed: speed::highest(info.speed_capa),
            // SAFETY: a number of the driver's that stays, or none.
            tells_link: unsafe { info.dev_flags.as_ref() }.is_some_and(|flags| flags & sys::WEIR_DEV_INTR_LSC != 0),
            rss: info.flow_type_rss_offloads & (sys::WEIR_RSS_IP | sys::WEIR_RSS_TCP | sys::WEIR_RSS_UDP),
        })
    }

    /// Its Ethernet address.
    pub(crate) fn mac(&self) -> Result<[u8; 6], Failure> {
        let calling = self.eal.call();
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: a port that exists, room for an address.
        let rc = unsafe { sys::rte_eth_macaddr_get(self.port, &raw mut mac) };
        self.checked(&calling, "asking", rc)?;
        Ok(mac.addr_bytes)
    }

    /// Sets it up and starts it: queues, RSS and checksum offload where it has them, address, MTU.
    pub(crate) fn start(&self, setup: &Setup, pool: &Arc<Mempool>) -> Result<(), Failure> {
        let abilities = self.abilities()?;
        let calling = self.eal.call();
        let conf = configuration(setup, &abilities);
        // SAFETY: a port that exists and is not started, a whole configuration.
        let rc = unsafe { sys::rte_eth_dev_configure(self.port, setup.rx_queues, setup.tx_queues, &raw const conf) };
        self.checked(&calling, "configuring", rc)?;
        // Of a Linux interface it was set in the kernel, of a card by its configuration.
        if !matches!(setup.kind, Kind::AfXdp | Kind::Tap | Kind::Pci) {
            self.set_mtu(&calling, setup.mtu)?;
        }
        receivers().extend(setup.sockets.map(|sockets| (self.port, sockets)));
        let (before, programs) = (xsk::sockets(), Objects::open());
        let done = self.queues(&calling, setup, pool);
        if setup.kind == Kind::AfXdp {
            // Also when it failed: some queues may have buffers already.
            let _ = self.rings.set((Rings::opened_since(&before), Arc::clone(pool)));
            let _ = self.programs.set(Objects::opened_since(&programs));
        }
        done?;
        self.is_connected_by_thread.fetch_or(setup.interrupts && setup.kind == Kind::Pci, Ordering::Relaxed);
        // SAFETY: configured, with all its queues.
        let rc = unsafe { sys::rte_eth_dev_start(self.port) };
        self.checked(&calling, "starting", rc)?;
        if setup.kind == Kind::Tap {
            // SAFETY: a port that was started, its queues. -1 where the driver has none.
            let of = |queue| unsafe { sys::rte_eth_dev_rx_intr_ctl_q_get_fd(self.port, queue) };
            _ = self.receivers.set((0..setup.rx_queues).map(of).take_while(|fd| *fd >= 0).collect());
        } else if setup.interrupts {
            _ = LinkWatch::watch(self.port).map(|link| self.link.set(link));
        }
        self.addresses(&calling, setup)
    }

    /// Whether the link is up, as the driver sees it.
    pub(crate) fn link_up(&self) -> bool {
        // SAFETY: a port that exists.
        unsafe { sys::weir_link_up(self.port) == 1 }
    }

    /// The driver's counters.
    pub(crate) fn stats(&self) -> Option<sys::rte_eth_stats> {
        let _calling = self.eal.call();
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: a port that exists, room for the counters.
        let rc = unsafe { sys::rte_eth_stats_get(self.port, &raw mut stats) };
        (rc == 0).then_some(stats)
    }

    /// Buffers of ours that are in its rings; `None` when it cannot be told.
    pub(crate) fn in_rings(&self) -> Option<u64> {
        self.rings.get().and_then(|(rings, _)| rings.held())
    }

    /// What is readable as long as there are packets in a receive queue, where there is such a thing.
    pub(crate) fn descriptor(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        let descriptor = *self.receivers.get()?.get(usize::from(queue))?;
        // SAFETY: the driver's, for the queue. It closes it with the device, when this goes.
        Some(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// What tells that packets came into a receive queue, where it was started with interrupts and the driver has one for it.
    pub(crate) fn rx_interrupt(&self, queue: u16) -> Option<RxInterrupt> {
        let told = self.events.get(usize::from(queue)).copied().filter(|event| *event >= 0);
        // SAFETY: a started port, a number of a queue. -1 where the driver has none.
        let event = told.unwrap_or_else(|| unsafe { sys::rte_eth_dev_rx_intr_ctl_q_get_fd(self.port, queue) });
        if event < 0 {
            return None;
        }
        // SAFETY: the driver's, for this queue, open as long as the device is.
        let event = unsafe { BorrowedFd::borrow_raw(event) };
        RxInterrupt::of((self.port, queue), event, self.link.get()?, self.is_shared.then(Gate::new))
    }

    /// Whether a queue hears nothing any more.
    pub(crate) fn is_deaf(&self) -> bool {
        self.rings.get().is_some_and(|(rings, _)| rings.is_deaf())
    }

    fn queues(&self, calling: &Calling<'_>, setup: &Setup, pool: &Mempool) -> Result<(), Failure> {
        const ANY_SOCKET: u32 = u32::MAX;
        let descriptors = if setup.kind == Kind::AfXdp { XDP_DESCRIPTORS } else { setup.descriptors };
        let (mut rx, mut tx) = (descriptors, descriptors);
        // SAFETY: a port that exists, two numbers to correct to what it can do.
        let rc = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.port, &raw mut rx, &raw mut tx) };
        self.checked(calling, "sizing the queues of", rc)?;
        let defaults = std::ptr::null;
        let mut sockets = Vec::new();
        for queue in 0..setup.rx_queues {
            let set_up = || {
                // SAFETY: below the configured number; the pool is there until the process ends.
                unsafe { sys::rte_eth_rx_queue_setup(self.port, queue, rx, ANY_SOCKET, defaults(), pool.as_ptr()) }
            };
            let rc = match setup.kind {
                Kind::AfXdp => self.xdp_queue(pool, &mut sockets, set_up),
                _ => set_up(),
            };
            self.checked(calling, "setting up a receive queue of", rc)?;
        }
        if setup.kind == Kind::AfXdp {
            _ = self.receivers.set(sockets);
        }
        for queue in 0..setup.tx_queues {
            // SAFETY: below the configured number.
            let rc = unsafe { sys::rte_eth_tx_queue_setup(self.port, queue, tx, ANY_SOCKET, std::ptr::null()) };
            self.checked(calling, "setting up a transmit queue of", rc)?;
        }
        Ok(())
    }

    /// Sets up a receive queue of an AF_XDP device, and notes its socket. Takes home what the driver had put into the fill ring when it failed,
    /// which it does not do itself.
    fn xdp_queue(&self, pool: &Mempool, sockets: &mut Vec<RawFd>, set_up: impl FnOnce() -> c_int) -> c_int {
        let before = xsk::sockets();
        let (rc, taken) = pool.noting(usize::from(XDP_DESCRIPTORS), set_up);
        if rc != 0 {
            self.spoilt.store(true, Ordering::Relaxed);
            // SAFETY: buffers of this pool which the call took and did not put back. Its socket is closed, and it has no
            // other place to keep them.
            unsafe { pool.put(&taken) };
        }
        sockets.extend(xsk::sockets().into_iter().find(|socket| !before.contains(socket)));
        rc
    }

    fn set_mtu(&self, calling: &Calling<'_>, mtu: u16) -> Result<(), Failure> {
        // SAFETY: a port that exists.
        let rc = unsafe { sys::rte_eth_dev_set_mtu(self.port, mtu) };
        // Drivers without frames of their own (null, ring, pcap) have no MTU to set, and carry any.
        match -rc {
            libc::ENOTSUP => Ok(()),
            _ => self.checked(calling, &format!("setting the MTU {mtu} of"), rc),
        }
    }

    fn addresses(&self, calling: &Calling<'_>, setup: &Setup) -> Result<(), Failure> {
        if let Some(mac) = setup.mac {
            let mut address = sys::rte_ether_addr { addr_bytes: mac };
            // SAFETY: a port that exists, an address.
            let rc = unsafe { sys::rte_eth_dev_default_mac_addr_set(self.port, &raw mut address) };
            self.checked(calling, "setting the Ethernet address of", rc)?;
        }
        if setup.promiscuous {
            self.receive_all(calling, true)?;
        }
        // SAFETY: a port that exists.
        let rc = unsafe { sys::rte_eth_allmulticast_enable(self.port) };
        self.optional(calling, "receiving all multicast of", rc)
    }

    /// Receives frames to whatever address from now on, or those to its own and to groups only.
    pub(crate) fn set_promiscuous(&self, promiscuous: bool) -> Result<(), Failure> {
        self.receive_all(&self.eal.call(), promiscuous)
    }

    fn receive_all(&self, calling: &Calling<'_>, all: bool) -> Result<(), Failure> {
        let set = if all { sys::rte_eth_promiscuous_enable } else { sys::rte_eth_promiscuous_disable };
        // SAFETY: a port that exists.
        let rc = unsafe { set(self.port) };
        self.optional(calling, "saying which frames are received by", rc)
    }

    fn info(&self, calling: &Calling<'_>) -> Result<sys::rte_eth_dev_info, Failure> {
        let mut info = sys::rte_eth_dev_info::default();
        // SAFETY: a port that exists, room for the answer.
        let rc = unsafe { sys::rte_eth_dev_info_get(self.port, &raw mut info) };
        self.checked(calling, "asking", rc)?;
        Ok(info)
    }

    fn checked(&self, calling: &Calling<'_>, doing: &str, rc: c_int) -> Result<(), Failure> {
        match rc {
            0.. => Ok(()),
            _ => Err(Failure::of(calling, format!("{doing} {}", self.device), rc)),
        }
    }

    /// What a driver need not know how to do: it filters nothing then.
    fn optional(&self, calling: &Calling<'_>, doing: &str, rc: c_int) -> Result<(), Failure> {
        match -rc {
            libc::ENOTSUP => Ok(()),
            _ => self.checked(calling, doing, rc),
        }
    }
}

impl Ethdev {
    /// Stops and closes it: nobody uses its queues any more, for they all hold this.
    fn close(&self, _calling: &Calling<'_>) {
        // Else net_memif may end a connection on two threads at once, and free what it had twice; and net_virtio may be asking for the link of
        // what is being freed.
        // SAFETY: a port that exists, and nobody else calls DPDK's control functions.
        let close_there = || unsafe { sys::weir_close_on_interrupt_thread(self.port) } == 0;
        if self.is_connected_by_thread.load(Ordering::Relaxed) && close_there() {
            return;
        }
        // SAFETY: a port that exists.
        unsafe { sys::rte_eth_dev_stop(self.port) };
        let spoilt = c_int::from(self.spoilt.load(Ordering::Relaxed));
        // SAFETY: as above; stopped.
        let close = || unsafe { sys::weir_close(self.port, spoilt) };
        if leave_program(self.port) {
            out_of_sight(close);
        } else {
            close();
        }
    }
}

impl Drop for Ethdev {
    fn drop(&mut self) {
        let calling = self.eal.call();
        let before = Objects::open();
        // Nobody sleeps at its queues any more.
        drop(self.link.take());
        if self.port != u16::MAX {
            self.close(&calling);
        }
        if let Some((rings, pool)) = self.rings.take() {
            // SAFETY: the driver has closed the device above, and no version of it gives back what is in its rings.
            unsafe { rings.recover(&pool) };
        }
        // SAFETY: two C strings that named the device when it came.
        unsafe { sys::rte_eal_hotplug_remove(self.bus.as_ptr(), self.name.as_ptr()) };
        if let Some(programs) = self.programs.take() {
            let strays = programs.and(Objects::opened_since(&before));
            // SAFETY: they came and went while nobody else called DPDK. Of this device's, the driver and libxdp have closed what they
            // know of, above; what is open still, they have forgotten.
            unsafe { strays.close() };
        }
        numbers::leave(self.port);
    }
}

/// Takes a device off the list of those that receive by a program. Returns whether there are others that receive by the same one.
fn leave_program(port: u16) -> bool {
    let mut receivers = receivers();
    let at = receivers.iter().position(|(device, _)| *device == port);
    let left = at.map(|at| receivers.remove(at).1);
    left.is_some_and(|left| receivers.iter().any(|(_, others)| others.interface == left.interface))
}

/// Whether a device of this process has an AF_XDP socket on a queue of an interface.
pub(crate) fn has_socket(interface: u32, queue: u32) -> bool {
    let has = |sockets: &Sockets| {
        sockets.interface == interface && (sockets.first..sockets.first + u32::from(sockets.queues)).contains(&queue)
    };
    receivers().iter().any(|(_, sockets)| has(sockets))
}

fn receivers() -> MutexGuard<'static, Vec<(u16, Sockets)>> {
    RECEIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `close` where there are no interfaces: net_af_xdp removes the XDP program of its own when it closes, whoever else receives by it,
/// and asks for it by its number in the network namespace of the calling thread.
fn out_of_sight(close: impl FnOnce() -> c_int + Send) -> c_int {
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            // SAFETY: changes what this thread sees, and it ends here. Who may not do this has no AF_XDP port.
            unsafe { libc::unshare(libc::CLONE_NEWNET) };
            close()
        });
        closing.join().unwrap_or(-libc::EFAULT)
    })
}

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    doing: String,
    /// The (positive) error number.
    pub(crate) code: c_int,
    /// What DPDK logged meanwhile.
    pub(crate) log: String,
    file: PathBuf,
}

impl Failure {
    fn of(calling: &Calling<'_>, doing: String, rc: c_int) -> Failure {
        Failure { doing, code: rc.saturating_abs(), log: calling.log(), file: calling.file().to_owned() }
    }

    /// The error when nothing better is known.
    pub(crate) fn refused(self) -> DpdkError {
        crate::eal::refused(self.doing, self.code, &self.log, self.file)
    }
}

fn configuration(setup: &Setup, abilities: &Abilities) -> sys::rte_eth_conf {
    let mut conf = sys::rte_eth_conf::default();
    // net_tap tells the descriptors of its queues then.
    conf.intr_conf.set_rxq(u32::from(setup.kind == Kind::Tap || setup.interrupts && setup.kind != Kind::VirtioUser));
    // Asked for its link, net_virtio_user takes leave of a peer that has gone, and greets the next one; once it has, it does so on DPDK's
    // interrupt thread, too, as long as that is not told to do so alone, until it is stopped.
    conf.intr_conf.set_lsc(u32::from(setup.kind == Kind::VirtioUser && abilities.tells_link));
    // Virtual devices compute checksums in software, or worse: told to check, vhost and virtio hand on
    // unfinished ones.
    if setup.kind != Kind::Pci {
        return conf;
    }
    conf.rxmode.mtu = u32::from(setup.mtu);
    if setup.rx_queues > 1 && abilities.rss != 0 {
        conf.rxmode.mq_mode = sys::WEIR_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = abilities.rss;
    }
    conf
}
