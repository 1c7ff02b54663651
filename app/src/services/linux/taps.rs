//! The service that keeps a TAP for each interface of a VRF in a network namespace, and moves frames through them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ipnet::IpNet;
use rustix::event::{Timespec, epoll};
use weir_host::kernel::{Requests, Settings};
use weir_host::namespace::Namespace;
use weir_host::tap::Tap;
use weir_stage::host::{FRAMES, HostFrame};
use weir_stage::{Frames, HostInterface, HostSide, Load, Service, Waits};
use weir_wire::segments::{self, Train};

use super::{Bell, LOOK, SideSlot, bell, enter};
use crate::log;

/// Frames of one TAP that are taken before others have their turn; those into which the last one is cut come on top.
const AT_ONCE: usize = 64;

/// TAPs that are looked at in one step.
const READY: usize = 64;

/// Bytes of the longest frame: an MTU of 16 bits, and the header.
const LONGEST: usize = 65_536 + 18;

/// How long the service rests where frames of Linux's find no room, nanoseconds.
const BREATH: u64 = 500_000;

/// A TAP, and what it was told last.
struct Known {
    tap: Tap,
    told: HostInterface,
}

/// The service.
pub(super) struct Taps {
    slot: SideSlot<dyn HostSide>,
    side: Arc<dyn HostSide>,
    namespace: Namespace,
    requests: Requests,
    bell: Bell,
    epoll: OwnedFd,
    /// By name.
    taps: HashMap<String, Known>,
    /// Names, by number of the interface.
    names: HashMap<u16, String>,
    /// The version of the interfaces that the TAPs follow.
    version: Option<u64>,
    /// What was wrong with an interface, by name, told once.
    wrong: HashMap<String, String>,
    buffer: Vec<u8>,
    /// Frames of Linux's on their way to where there may be no room for them.
    from: VecDeque<HostFrame>,
    /// Which of the TAPs that have frames comes first.
    turn: usize,
    /// When it is looked again whether the namespace is there, and what did not work is tried again.
    look: u64,
    moved: usize,
    /// When the last step began.
    now: u64,
}

impl Taps {
    pub(super) fn new(netns: Option<&str>, slot: SideSlot<dyn HostSide>) -> Result<Taps, String> {
        let namespace = enter(netns)?;
        let wrong = |error: io::Error| format!("cannot speak to the kernel: {error}");
        let requests = Requests::open().map_err(wrong)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| wrong(error.into()))?;
        let (side, bell) = (slot.get()?, bell()?);
        attend(&*side, &bell);
        Ok(Taps {
            slot,
            side,
            namespace,
            requests,
            bell,
            epoll,
            taps: HashMap::new(),
            names: HashMap::new(),
            version: None,
            wrong: HashMap::new(),
            buffer: vec![0; LONGEST],
            from: VecDeque::new(),
            turn: 0,
            look: 0,
            moved: 0,
            now: 0,
        })
    }

    /// Follows a function that was built anew.
    fn follow_side(&mut self) -> Result<(), String> {
        let side = self.slot.get()?;
        if !std::ptr::eq(side.frames(), self.side.frames()) {
            self.side.frames().attend(None);
            // Numbers of interfaces are its own.
            self.from.clear();
            attend(&*side, &self.bell);
            (self.side, self.version) = (side, None);
        }
        Ok(())
    }

    /// Lets TAPs be as interfaces are.
    fn follow_interfaces(&mut self) {
        let version = self.side.version();
        if self.version == Some(version) {
            return;
        }
        let mut wanted = self.side.interfaces();
        wanted.retain(|one| one.has_port);
        self.names = wanted.iter().map(|one| (one.id, one.name.clone())).collect();
        let is_wanted = |name: &String| wanted.iter().any(|one| one.name == *name);
        self.taps.retain(|name, _| is_wanted(name));
        self.wrong.retain(|name, _| is_wanted(name));
        for one in wanted {
            if let Err(error) = self.follow(&one) {
                self.tell(&one.name, &error);
            } else {
                self.wrong.remove(&one.name);
            }
        }
        self.version = Some(version);
    }

    fn tell(&mut self, name: &str, error: &io::Error) {
        let why = error.to_string();
        if self.wrong.get(name) != Some(&why) {
            let facts: log::Facts<'_> = &[("interface", &name), ("why", &why)];
            log::warn("linux", "the interface is not in Linux as it should be; it is tried again", facts);
            self.wrong.insert(name.to_owned(), why);
        }
    }

    /// Makes a TAP if there is none, and lets it be as its interface is. Frames are taken from one that is not all that it should be, too.
    fn follow(&mut self, wanted: &HostInterface) -> io::Result<()> {
        if !self.taps.contains_key(&wanted.name) {
            let tap = Tap::open(&wanted.name)?;
            let data = epoll::EventData::new_u64(tap.index().into());
            epoll::add(&self.epoll, &tap, data, epoll::EventFlags::IN)?;
            let settings = Settings { mac: Some(wanted.mac), carrier: Some(false), ..Settings::default() };
            self.requests.set_link(tap.index(), settings)?;
            self.requests.set_link(tap.index(), Settings { up: Some(true), ..Settings::default() })?;
            let told = HostInterface { mtu: 0, up: false, addresses: Vec::new(), ..wanted.clone() };
            self.taps.insert(wanted.name.clone(), Known { tap, told });
        }
        let Some(known) = self.taps.get_mut(&wanted.name) else { return Ok(()) };
        let index = known.tap.index();
        if known.told.mac != wanted.mac {
            self.requests.set_link(index, Settings { mac: Some(wanted.mac), ..Settings::default() })?;
            known.told.mac = wanted.mac;
        }
        if known.told.mtu != wanted.mtu {
            self.requests.set_link(index, Settings { mtu: Some(wanted.mtu.into()), ..Settings::default() })?;
            known.told.mtu = wanted.mtu;
        }
        if known.told.up != wanted.up {
            self.requests.set_link(index, Settings { carrier: Some(wanted.up), ..Settings::default() })?;
            known.told.up = wanted.up;
        }
        known.told.id = wanted.id;
        let gone = |net: &&IpNet| !wanted.addresses.contains(net);
        for net in known.told.addresses.iter().filter(gone).copied().collect::<Vec<_>>() {
            // Somebody may have taken it away already.
            _ = self.requests.remove_address(index, net);
            known.told.addresses.retain(|other| *other != net);
        }
        for net in &wanted.addresses {
            if !known.told.addresses.contains(net) {
                self.requests.add_address(index, *net)?;
                known.told.addresses.push(*net);
            }
        }
        Ok(())
    }

    /// Hands frames to Linux, segments of TCP in order as one.
    fn deliver(&mut self) {
        let frames = self.side.frames().take_for_linux(FRAMES);
        for train in segments::trains(&frames) {
            if !self.hand_over(&train, &frames).unwrap_or(false) {
                train.places.iter().for_each(|_| self.side.frames().note_refused());
            }
        }
        self.moved += frames.len();
    }

    /// Hands over what goes as one; whether Linux took it.
    fn hand_over(&self, train: &Train, frames: &[HostFrame]) -> io::Result<bool> {
        let of_train = train.places.iter().filter_map(|place| frames.get(*place));
        let Some((interface, first)) = of_train.clone().next() else { return Ok(true) };
        let Some(known) = self.names.get(interface).and_then(|name| self.taps.get(name)) else { return Ok(false) };
        let Some((headers, cut)) = train.joined(frames) else { return known.tap.write(None, [&**first]) };
        let data = of_train.filter_map(|(_, frame)| frame.get(headers.len()..));
        known.tap.write(Some(cut), std::iter::once(&*headers).chain(data))
    }

    /// Takes frames of Linux's, as many as there is room for; another TAP comes first each time, for there may be room for one only.
    fn collect(&mut self) -> Result<(), String> {
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; READY];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (ready, _) = epoll::wait(&self.epoll, &mut ready, Some(&at_once))
            .map_err(|error| format!("it cannot be waited for: {error}"))?;
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(ready.len()).unwrap_or(0);
        for event in ready.iter().cycle().skip(first).take(ready.len()) {
            if !put(&mut self.from, self.side.frames()) {
                return Ok(());
            }
            let index = event.data.u64();
            let Some(known) = self.taps.values().find(|known| u64::from(known.tap.index()) == index) else { continue };
            for _ in 0..AT_ONCE {
                if self.from.len() >= AT_ONCE {
                    break;
                }
                // One that is set down or gone says so until its interface follows.
                let Ok(Some((length, left))) = known.tap.read(&mut self.buffer) else { break };
                let frame = self.buffer.get(..length).unwrap_or_default().to_vec();
                let from = &mut self.from;
                let mut keep = |frame: Vec<u8>| from.push_back((known.told.id, frame.into()));
                match left {
                    None => keep(frame),
                    Some(left) if segments::finish(frame, left, &mut keep) => {}
                    Some(_) => self.side.frames().note_lost(),
                }
                self.moved += 1;
            }
        }
        put(&mut self.from, self.side.frames());
        Ok(())
    }
}

/// Hands on frames of Linux's; whether there was room for all.
fn put(from: &mut VecDeque<HostFrame>, to: &Frames) -> bool {
    let room = to.room().min(from.len());
    from.drain(..room).for_each(|(interface, frame)| to.put(interface, frame));
    from.is_empty()
}

/// Is there for the frames of a side, and for changes of its interfaces.
fn attend(side: &dyn HostSide, bell: &Bell) {
    let (for_frames, for_changes) = (bell.clone(), bell.clone());
    side.frames().attend(Some(Box::new(move || for_frames.ring())));
    side.wake_on_change("taps", Box::new(move || for_changes.ring()));
}

impl Service for Taps {
    fn waits(&self) -> Waits<'_> {
        let mut waits = Waits { readable: vec![self.bell.as_fd()], until: Some(self.look), ..Waits::default() };
        match self.from.is_empty() {
            false => waits.until = Some(self.now.saturating_add(BREATH)),
            true => waits.readable.push(self.epoll.as_fd()),
        }
        waits
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.bell.hush();
        (self.moved, self.now) = (0, now);
        self.follow_side()?;
        if now >= self.look {
            if !self.namespace.is_there() {
                return Err("the network namespace was deleted, or made anew".to_owned());
            }
            if !self.wrong.is_empty() {
                self.version = None;
            }
            self.look = now.saturating_add(LOOK);
        }
        self.follow_interfaces();
        self.deliver();
        self.collect()
    }

    fn load(&self) -> Load {
        Load { unit: "frames", now: self.moved as u64, most: (2 * FRAMES) as u64 }
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        self.side.frames().attend(None);
    }
}
