//! What ports change of a Linux interface while they have it, and put back: its MTU, what merges segments, where tags are when it sends,
//! and the XDP program.
//!
//! Several ports of the process may have claims on an interface while one takes over from another: it gets what the latest wants,
//! and what it was before the first comes back with the last. What would be left by a process that is killed stands in a
//! [journal], from which the next start puts it back. (Promiscuity is asked for by a socket, and ends with it.)

pub(crate) mod journal;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_host::links;

use crate::netif::{Beside, Interface, Merging};
use crate::packet::Wish;
use crate::{Device, DpdkError, Kind};

/// What is changed of an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Settings {
    pub(crate) mtu: u16,
    pub(crate) merging: Merging,
    /// Which tags it may send beside the frame.
    pub(crate) tags_beside: Beside,
    /// The number of the XDP program on it; 0 for none.
    pub(crate) program: u32,
}

impl Settings {
    fn of(interface: &Interface) -> Settings {
        Settings {
            mtu: interface.mtu().unwrap_or(0),
            merging: interface.merging(),
            tags_beside: interface.tags_beside(),
            program: program(interface.index()).unwrap_or(0),
        }
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
        if now.tags_beside == set.tags_beside {
            let _as_it_is = interface.set_tags_beside(self.tags_beside);
        }
        // The driver has removed it, or a process that was killed has left it.
        if now.program == set.program && now.program != self.program {
            let _as_it_is = links::remove_xdp(interface.index());
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
    /// What it receives beside frames to its own address; none of the other end of a veth.
    wish: Option<Wish>,
}

impl Claim {
    /// Prepares an interface for a port: switches it on, and sets what the port needs. It receives frames to its own address and to groups, and if
    /// it is `promiscuous`, to whatever address.
    ///
    /// # Errors
    ///
    /// What the kernel refuses; the interface is as it was then, but for being switched on.
    pub(crate) fn take(device: &Device, interface: Interface, mtu: u16, promiscuous: bool) -> Result<Claim, DpdkError> {
        let index = interface.index();
        switch_on(device, &interface)?;
        // AF_XDP sees frames before the kernel merges them.
        let want = |now: Settings| Settings {
            mtu,
            merging: if device.kind() == Kind::AfPacket { Merging::default() } else { now.merging },
            ..now
        };
        let wish = Wish::new(index, promiscuous).map_err(|error| not_all_frames(device, &error))?;
        Claim::on(device, interface, Some(wish), want)
    }

    /// Whether the interface receives frames to whatever address on behalf of this.
    pub(crate) fn promiscuous(&self) -> Option<bool> {
        self.wish.as_ref().map(Wish::promiscuous)
    }

    /// Changes that.
    pub(crate) fn set_promiscuous(&mut self, device: &Device, promiscuous: bool) -> Result<(), DpdkError> {
        let done = self.wish.as_mut().map_or(Ok(()), |wish| wish.set_promiscuous(promiscuous));
        done.map_err(|error| not_all_frames(device, &error))
    }

    /// Has the other end of a veth put tags into the frames that it sends: AF_XDP gets the frame, and nothing that is beside it.
    ///
    /// # Errors
    ///
    /// A sentence for people where that end is not to be had from here, or refuses: what is lost, and what to do.
    pub(crate) fn take_peer(device: &Device, index: u32) -> Result<Option<Claim>, String> {
        let all = links::interfaces().unwrap_or_default();
        let own = all.iter().find(|interface| interface.index == index);
        let Some(own) = own.filter(|own| own.kind.as_deref() == Some("veth")) else { return Ok(None) };
        if let Some(number) = own.ends_elsewhere {
            return Err(format!(
                "{device} ends in another network namespace: a tag that Linux hands to that end beside the frame is lost, and the \
                 packet arrives without it; if tagged packets are sent there, run there ethtool -K DEV txvlan off \
                 tx-vlan-stag-hw-insert off (DEV is interface number {number} there)"
            ));
        }
        let peer = all.iter().find(|interface| Some(interface.index) == own.ends_at);
        let Some(peer) = peer.and_then(|peer| Interface::find(&peer.name).ok()) else { return Ok(None) };
        let name = peer.name();
        let claim = Claim::on(device, peer, None, |now| Settings { tags_beside: Beside::default(), ..now }).ok();
        match Interface::find(&name).map_or(Beside::default(), |peer| peer.tags_beside()) == Beside::default() {
            true => Ok(claim),
            false => Err(format!(
                "{device} ends at {name}, which does not let its offload of tags be switched off: a tag that Linux hands to it beside \
                 the frame is lost, and the packet arrives without it; if tagged packets are sent there, use af_packet:{}",
                device.name()
            )),
        }
    }

    fn on(
        device: &Device,
        interface: Interface,
        wish: Option<Wish>,
        want: impl FnOnce(Settings) -> Settings,
    ) -> Result<Claim, DpdkError> {
        let index = interface.index();
        let mut claimed = claimed();
        let now = Settings::of(&interface);
        let at = claimed.iter().position(|claimed| claimed.interface.index() == index).unwrap_or_else(|| {
            claimed.push(Claimed { interface, before: now, wanted: Vec::new() });
            claimed.len() - 1
        });
        let wanted = want(now);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = claimed.get_mut(at) {
            entry.wanted.push((number, wanted));
        }
        journal::write(&claimed);
        let claim = Claim { number, index, wish };
        let entry = claimed.get(at).map(|entry| &entry.interface);
        let done = entry.map_or(Ok(()), |interface| apply(device, interface, wanted));
        drop(claimed);
        done.map(|()| claim)
    }

    /// Notes the XDP program that came with the port, so that it is found should the process be killed.
    pub(crate) fn note_program(&self) {
        let mut claimed = claimed();
        let Some(entry) = claimed.iter_mut().find(|claimed| claimed.interface.index() == self.index) else { return };
        let program = program(self.index).unwrap_or(0);
        let own = entry.wanted.iter_mut().filter(|(number, _)| *number == self.number);
        own.for_each(|(_, settings)| settings.program = program);
        journal::write(&claimed);
    }
}

fn not_all_frames(device: &Device, error: &std::io::Error) -> DpdkError {
    DpdkError::NoPermission {
        what: format!("say which frames {device} receives ({error})"),
        remedy: "run weir as root, or with CAP_NET_ADMIN and CAP_NET_RAW".into(),
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
    let _told_by_take_peer = interface.set_tags_beside(wanted.tags_beside);
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

/// The number of the XDP program on an interface.
pub(crate) fn program(index: u32) -> Option<u32> {
    links::interfaces().ok()?.into_iter().find(|interface| interface.index == index)?.xdp
}

/// Whether a port of this process has put a program on an interface.
pub(crate) fn is_ours(program: u32) -> bool {
    claimed().iter().any(|claimed| claimed.wanted.iter().any(|(_, settings)| settings.program == program))
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
