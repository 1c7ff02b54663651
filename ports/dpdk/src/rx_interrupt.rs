//! Receive interrupts: what ends the sleep of a worker when packets come into a queue whose driver has them.
//!
//! Such a driver rings a descriptor that nobody reads, and only while it is told to. So each queue has a set of descriptors of its own (epoll),
//! which tells every ring once. Before it looks for the last time, a worker forgets what was told, and has the driver ring from then on: what
//! came before is found by the look, and what comes after ends the wait.
//!
//! A peer of net_vhost that comes again finds a driver that does not ring, whatever it was told before. So the set tells that a link came or
//! went, too, and the worker begins anew.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use weir_dpdk_sys as sys;

use crate::gate::Gate;

/// Rings when the link of a device comes or goes.
pub(crate) struct LinkWatch {
    port: u16,
    event: OwnedFd,
}

impl LinkWatch {
    /// Watches the link of a port that exists; `None` where nothing can ring.
    pub(crate) fn watch(port: u16) -> Option<LinkWatch> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        // SAFETY: a port that exists, an eventfd. It is open until it is not rung any more: see the drop.
        let rc = unsafe { sys::weir_watch_link(port, event.as_raw_fd()) };
        (rc == 0).then_some(LinkWatch { port, event })
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        // SAFETY: as when it began; whoever rings it is through afterwards.
        unsafe { sys::weir_unwatch_link(self.port, self.event.as_raw_fd()) };
    }
}

/// The receive interrupt of a queue.
pub(crate) struct RxInterrupt {
    port: u16,
    queue: u16,
    set: OwnedFd,
    /// Of a driver that frees what a peer shared while it may be told to ring.
    gate: Option<Gate>,
    /// Whether the driver was told to ring.
    rings: bool,
}

impl RxInterrupt {
    /// Those of a queue of a started port, which is there as long as they are. `event` is what its driver rings. `None` where it refuses.
    pub(crate) fn of(
        (port, queue): (u16, u16),
        event: BorrowedFd<'_>,
        link: &LinkWatch,
        gate: Option<Gate>,
    ) -> Option<RxInterrupt> {
        let set = epoll::create(CreateFlags::CLOEXEC).ok()?;
        for descriptor in [event, link.event.as_fd()] {
            epoll::add(&set, descriptor, EventData::new_u64(0), EventFlags::IN | EventFlags::ET).ok()?;
        }
        let mut interrupt = RxInterrupt { port, queue, set, gate, rings: false };
        interrupt.ring(true).then(|| interrupt.ring(false))?;
        Some(interrupt)
    }

    /// Readable when packets came, or the link did, since a worker [listened](RxInterrupt::listen) last.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// From now on, or no longer.
    pub(crate) fn listen(&mut self, on: bool) {
        if on {
            self.forget();
        }
        // A driver tells what comes once, if at all: it is told again each time.
        if on || self.rings {
            self.ring(on);
        }
    }

    /// Forgets what was told until now.
    fn forget(&self) {
        let mut told = Vec::with_capacity(2);
        // What it may fail for, it would have failed for when it was made.
        _ = epoll::wait(&self.set, spare_capacity(&mut told), Some(&Timespec::default()));
    }

    /// Has the driver ring, or not; whether it does as it is told.
    fn ring(&mut self, on: bool) -> bool {
        self.rings = on;
        let set = if on { sys::rte_eth_dev_rx_intr_enable } else { sys::rte_eth_dev_rx_intr_disable };
        // SAFETY: a started port and one of its queues. What its peer shares stays while this is within the gate.
        let tell = || unsafe { set(self.port, self.queue) };
        let rc: c_int = match &self.gate {
            Some(gate) => gate.through(|| true, tell),
            None => tell(),
        };
        rc == 0
    }
}
