//! What ports change of a Linux interface while they have it, and put back: its MTU, and what merges segments.
//!
//! Several ports of the process may have claims on an interface while one takes over from another: it gets what the latest wants,
//! and what it was before the first comes back with the last. What would be left by a process that is killed stands in a
//! [journal], from which the next start puts it back. (Promiscuity is asked for by a socket, and ends with it.)

pub(crate) mod journal;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::netif::{Interface, Merging};
use crate::packet::promiscuous;
use crate::{Device, DpdkError, Kind};

/// What is changed of an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Settings {
    pub(crate) mtu: u16,
    pub(crate) merging: Merging,
}

impl Settings {
    fn of(interface: &Interface) -> Settings {
        Settings { mtu: interface.mtu().unwrap_or(0), merging: interface.merging() }
    }

    /// Puts back what is still as it was `set`; what somebody else has changed since is theirs.
    fn put_back(self, set: Settings, interface: &Interface) {
        let now = Settings::of(interface);
        if now.mtu == set.mtu && now.mtu != self.mtu && self.mtu != 0 {
            // There is nobody to tell: the interface may be gone.
            let _as_it_is = interface.set_mtu(self.mtu);
        }
        if now.merging == set.merging {
            let _as_it_is = interface.set_merging(self.merging);
        }
    }
}

/// An interface that ports of this process have claims on.
struct Claimed {
    interface: Interface,
    before: Settings,
    /// What was set, by the claims that there are, oldest first.
    wanted: Vec<(u64, Settings)>,
}

impl Claimed {
    /// What it has now.
    fn set(&self) -> Settings {
        self.wanted.last().map_or(self.before, |(_, settings)| *settings)
    }
}

static CLAIMED: Mutex<Vec<Claimed>> = Mutex::new(Vec::new());
/// Names claims.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A claim on an interface; dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Claim {
    number: u64,
    index: u32,
    /// Keeps the interface promiscuous.
    _all_frames: Option<OwnedFd>,
}

impl Claim {
    /// Prepares an interface for a port: switches it on, and sets what the port needs.
    ///
    /// # Errors
    ///
    /// What the kernel refuses; the interface is as it was then, but for being switched on.
    pub(crate) fn take(device: &Device, interface: Interface, mtu: u16, all: bool) -> Result<Claim, DpdkError> {
        let index = interface.index();
        switch_on(device, &interface)?;
        let all_frames = all.then(|| promiscuous(index)).transpose().map_err(|error| DpdkError::NoPermission {
            what: format!("receive all frames of {device} ({error})"),
            remedy: "run weir as root, or with CAP_NET_ADMIN and CAP_NET_RAW".into(),
        })?;
        let mut claimed = claimed();
        let now = Settings::of(&interface);
        let at = claimed.iter().position(|claimed| claimed.interface.index() == index).unwrap_or_else(|| {
            claimed.push(Claimed { interface, before: now, wanted: Vec::new() });
            claimed.len() - 1
        });
        // AF_XDP sees frames before the kernel merges them.
        let merging = if device.kind() == Kind::AfPacket { Merging::default() } else { now.merging };
        let wanted = Settings { mtu, merging };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = claimed.get_mut(at) {
            entry.wanted.push((number, wanted));
        }
        journal::write(&claimed);
        let claim = Claim { number, index, _all_frames: all_frames };
        let entry = claimed.get(at).map(|entry| &entry.interface);
        let done = entry.map_or(Ok(()), |interface| apply(device, interface, wanted));
        drop(claimed);
        done.map(|()| claim)
    }
}

/// Sets what is different. That merging cannot be switched off is no reason not to start: what is merged is told at receive.
fn apply(device: &Device, interface: &Interface, wanted: Settings) -> Result<(), DpdkError> {
    if interface.mtu().is_ok_and(|now| now != wanted.mtu)
        && let Err(error) = interface.set_mtu(wanted.mtu)
    {
        let mtu = wanted.mtu;
        let what = format!("cannot have an MTU of {mtu} ({error}): choose another (ip -d link shows its bounds)");
        return Err(DpdkError::Unsupported { device: device.to_string(), what });
    }
    let _told_at_receive = interface.set_merging(wanted.merging);
    Ok(())
}

/// Switches an interface on, if it is not.
pub(crate) fn switch_on(device: &Device, interface: &Interface) -> Result<(), DpdkError> {
    interface.bring_up().map_err(|error| DpdkError::NoPermission {
        what: format!("switch {device} on ({error})"),
        remedy: format!("do it yourself (ip link set {} up), or run weir as root", device.name()),
    })
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = claimed();
        let Some(at) = claimed.iter().position(|claimed| claimed.interface.index() == self.index) else { return };
        let Some(entry) = claimed.get_mut(at) else { return };
        let set = entry.set();
        entry.wanted.retain(|(number, _)| *number != self.number);
        entry.set().put_back(set, &entry.interface);
        if entry.wanted.is_empty() {
            claimed.remove(at);
        }
        journal::write(&claimed);
    }
}

/// The MTU of an interface before any port of this process changed it.
pub(crate) fn own_mtu(interface: &Interface) -> Option<u16> {
    let claimed = claimed();
    let known = claimed.iter().find(|claimed| claimed.interface.index() == interface.index());
    known.map(|claimed| claimed.before.mtu).or_else(|| interface.mtu().ok())
}

fn claimed() -> MutexGuard<'static, Vec<Claimed>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}
