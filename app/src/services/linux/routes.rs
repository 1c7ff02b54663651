//! The service that takes routes, addresses and neighbours of a network namespace.

mod links;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use ipnet::IpNet;
use weir_host::kernel::{Kernel, News, Question, Read};
use weir_host::namespace::Namespace;
use weir_net::mirror::{Goal, Mirror, Teller, Told, Way};
use weir_net::rib::Discard;
use weir_stage::host::ROUTES;
use weir_stage::{HostHop, HostRoute, HostSide, Load, Service, Waits};

use super::compare::Comparing;
use super::daemon::Daemon;
use super::{Bell, LOOK, SideSlot, bell, enter};
use crate::log;
use links::Link;

/// Messages that are read, or prefixes that are told, in one step.
const AT_ONCE: usize = 4096;

/// Changed prefixes that wait to be told: with so many nothing is read, and who tells more waits too, or is read anew.
const WAITING: usize = 1 << 20;

/// Attempts to have all told without a change in between that may hide something.
const ATTEMPTS: u32 = 8;

/// All of it being told.
struct Telling {
    /// What is told now; all before it was.
    at: usize,
    attempts: u32,
    interrupted: bool,
    links: HashSet<u32>,
    addresses: HashSet<(u32, IpNet)>,
    neighbors: HashSet<(u32, IpAddr)>,
}

/// The service.
pub(super) struct Routes {
    slot: SideSlot<dyn HostSide>,
    side: Arc<dyn HostSide>,
    namespace: Namespace,
    table: u32,
    bell: Bell,
    changes: Kernel,
    answers: Kernel,
    telling: Option<Telling>,
    /// All is to be told anew.
    again: bool,
    /// All changes were read that the kernel had told of before the last step ended.
    is_drained: bool,
    /// Routes that a former instance left are taken out once all was told.
    sweeps: bool,
    mirror: Mirror,
    daemon: Option<Daemon>,
    /// By number.
    links: HashMap<u32, Link>,
    /// Interfaces by name.
    interfaces: HashMap<String, u16>,
    /// Those of them that have no port.
    loopbacks: HashSet<u16>,
    /// Interfaces by the number of their links.
    ids: HashMap<u32, u16>,
    /// Interfaces that are gone; routes follow.
    leaving: Vec<u16>,
    neighbors: HashMap<(u32, IpAddr), [u8; 6]>,
    version: Option<u64>,
    comparing: Option<Comparing>,
    /// A comparison that looks through both, piece by piece, and what was told before it; nothing changes meanwhile.
    looking: Option<(Comparing, Telling)>,
    /// The last wish for a comparison that was seen; one that a former instance left unanswered is another one.
    compared: u64,
    look: u64,
    done: usize,
    /// Whether there may be more to do at once.
    is_busy: bool,
}

impl Routes {
    pub(super) fn new(
        netns: Option<&str>,
        (table, fpm): (u32, Option<u16>),
        slot: SideSlot<dyn HostSide>,
        now: u64,
    ) -> Result<Routes, String> {
        let namespace = enter(netns)?;
        // Listening first, so that nothing falls between what is told and the first change.
        let changes = Kernel::changes().map_err(no_socket)?;
        let answers = Kernel::answers().map_err(no_socket)?;
        let daemon = fpm.map(|port| Daemon::listen(port, now)).transpose()?;
        let (side, bell) = (slot.get()?, bell()?);
        attend(&*side, &bell);
        Ok(Routes {
            slot,
            side,
            namespace,
            table,
            bell,
            changes,
            answers,
            telling: None,
            again: true,
            is_drained: false,
            sweeps: true,
            mirror: Mirror::default(),
            daemon,
            links: HashMap::new(),
            interfaces: HashMap::new(),
            loopbacks: HashSet::new(),
            ids: HashMap::new(),
            leaving: Vec::new(),
            neighbors: HashMap::new(),
            version: None,
            comparing: None,
            looking: None,
            compared: 0,
            look: now,
            done: 0,
            is_busy: true,
        })
    }

    fn follow_side(&mut self) -> Result<(), String> {
        let side = self.slot.get()?;
        if !std::ptr::eq(side.frames(), self.side.frames()) {
            attend(&*side, &self.bell);
            (self.side, self.version) = (side, None);
            self.compared = 0;
            // Somebody still waits: it begins again with the other one.
            if let Some((_, telling)) = self.looking.take() {
                self.settle(&telling);
            }
            self.links.values_mut().for_each(|link| link.told = None);
            self.follow_interfaces();
            self.tell_neighbors(|_| true);
            self.tell_who_is_down();
            // It may have taken over what is gone by now.
            (self.sweeps, self.again) = (true, true);
            self.mirror.touch_all();
        }
        Ok(())
    }

    /// Takes in what the kernel tells: as it changes, or in answer to a question.
    fn hear(&mut self, news: News, is_answer: bool) {
        match news {
            News::Link { index, name, up, gone } => self.hear_link((index, name), (up, gone)),
            News::Address { link, net, gone } => {
                if let Some(telling) = &mut self.telling {
                    match gone {
                        true => telling.addresses.remove(&(link, net)),
                        false => telling.addresses.insert((link, net)),
                    };
                }
                let Some(known) = self.links.get_mut(&link) else { return };
                match gone {
                    true => known.addresses.remove(&net),
                    false => known.addresses.insert(net),
                };
                self.tell_addresses(link);
                // The kernel says nothing of the routes that go with an address.
                self.again |= gone && self.ids.contains_key(&link);
            }
            News::Neighbor { link, address, mac } => {
                if let Some(telling) = self.telling.as_mut().filter(|_| mac.is_some()) {
                    telling.neighbors.insert((link, address));
                }
                let before = match mac {
                    Some(mac) => self.neighbors.insert((link, address), mac),
                    None => self.neighbors.remove(&(link, address)),
                };
                if before != mac {
                    self.set_neighbor(link, address, mac);
                }
            }
            News::Route { table, .. } if table != self.table => {}
            News::Route { told, gone: true, .. } => self.mirror.remove(&told),
            News::Route { told, .. } if is_answer => self.hear_dumped(&told),
            News::Route { told, behind, .. } => self.mirror.add(&told, behind),
            News::NextHop(id, object) => {
                self.again |= object.is_none();
                self.mirror.set_object(Teller::Kernel, id, object);
            }
        }
    }

    /// The kernel lists a route. What it says otherwise than is known is a difference.
    fn hear_dumped(&mut self, told: &Told) {
        let before = self.comparing.as_ref().map(|_| self.hops(told.prefix));
        self.mirror.add_dumped(told);
        if let Some((before, mut comparing)) = before.zip(self.comparing.take()) {
            comparing.note(told.prefix, self.hops(told.prefix), before, |id| self.name_of(id));
            self.comparing = Some(comparing);
        }
    }

    /// Reads what changes.
    fn read_changes(&mut self) -> Result<(), String> {
        let mut news = Vec::new();
        self.is_drained = false;
        let room = if self.mirror.changes() < WAITING { AT_ONCE } else { 0 };
        for _ in 0..room {
            match self.changes.read(|one| news.push(one)).map_err(no_socket)? {
                Read::Nothing => {
                    self.is_drained = true;
                    break;
                }
                Read::Some | Read::Done { .. } => {}
                Read::Lost => {
                    log::warn("linux", "the kernel told more than was read; all is read anew", &[]);
                    self.again = true;
                    self.forget_telling();
                }
            }
            self.done += news.len();
            std::mem::take(&mut news).into_iter().for_each(|one| self.hear(one, false));
        }
        Ok(())
    }

    /// What is being told is worth nothing: something was lost meanwhile.
    fn forget_telling(&mut self) {
        if self.telling.take().is_some() {
            // A socket of its own: what is left of the answers goes with it.
            self.again = true;
        }
    }

    /// Has all told anew, and takes in what is told.
    fn read_answers(&mut self) -> Result<(), String> {
        if self.telling.is_none() {
            // Changes from before a loss are not newer than what is told now.
            if !self.again || !self.is_drained {
                return Ok(());
            }
            self.again = false;
            self.answers = Kernel::answers().map_err(no_socket)?;
            self.begin(0)?;
        }
        if self.was_all_told() {
            return self.end_when_told();
        }
        let mut news = Vec::new();
        for _ in 0..AT_ONCE / 16 {
            let read = self.answers.read(|one| news.push(one)).map_err(no_socket)?;
            self.done += news.len();
            std::mem::take(&mut news).into_iter().for_each(|one| self.hear(one, true));
            match read {
                Read::Some => {}
                Read::Nothing => return Ok(()),
                Read::Lost => return self.begin_again(),
                Read::Done { interrupted } => {
                    let Some(telling) = &mut self.telling else { return Ok(()) };
                    telling.interrupted |= interrupted;
                    telling.at += 1;
                    match Question::ALL.get(telling.at) {
                        Some(question) => self.answers.ask(*question).map_err(no_socket)?,
                        None => return self.end_when_told(),
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, attempts: u32) -> Result<(), String> {
        self.mirror.begin(Teller::Kernel);
        self.telling = Some(Telling {
            at: 0,
            attempts,
            interrupted: false,
            links: HashSet::new(),
            addresses: HashSet::new(),
            neighbors: HashSet::new(),
        });
        match Question::ALL.first() {
            Some(first) => self.answers.ask(*first).map_err(no_socket),
            None => Ok(()),
        }
    }

    fn begin_again(&mut self) -> Result<(), String> {
        let attempts = self.telling.as_ref().map_or(0, |telling| telling.attempts + 1);
        // What is left of the answers goes with the socket.
        self.answers = Kernel::answers().map_err(no_socket)?;
        self.begin(attempts)
    }

    /// Whether all was told, and what was not is not taken out yet.
    fn was_all_told(&self) -> bool {
        self.telling.as_ref().is_some_and(|telling| telling.at >= Question::ALL.len())
    }

    /// All was told. A comparison waits until the function knows nearly all of it, over as many steps as that takes.
    fn end_when_told(&mut self) -> Result<(), String> {
        let waits = self.comparing.is_some() && self.mirror.changes() > AT_ONCE;
        if waits { Ok(()) } else { self.end() }
    }

    /// All was told: what was not is gone.
    fn end(&mut self) -> Result<(), String> {
        let Some(telling) = self.telling.take() else { return Ok(()) };
        if telling.interrupted && telling.attempts < ATTEMPTS {
            self.telling = Some(telling);
            return self.begin_again();
        }
        if self.comparing.is_some() {
            // What differs now was not on its way.
            while self.mirror.has_changed() {
                self.tell_some();
            }
        }
        self.mirror.end(Teller::Kernel);
        if let Some(comparing) = self.comparing.take() {
            self.looking = Some((comparing, telling));
            return Ok(());
        }
        self.settle(&telling);
        Ok(())
    }

    /// Of links, addresses and neighbours, what was not told is gone.
    fn settle(&mut self, telling: &Telling) {
        let gone: Vec<u32> = self.links.keys().filter(|index| !telling.links.contains(index)).copied().collect();
        if !gone.is_empty() {
            gone.iter().for_each(|index| drop(self.links.remove(index)));
            self.match_links();
        }
        let links: Vec<u32> = self.links.keys().copied().collect();
        for index in links {
            if let Some(link) = self.links.get_mut(&index) {
                link.addresses.retain(|net| telling.addresses.contains(&(index, *net)));
            }
            self.tell_addresses(index);
        }
        let gone: Vec<(u32, IpAddr)> =
            self.neighbors.keys().filter(|key| !telling.neighbors.contains(key)).copied().collect();
        for key in gone {
            self.neighbors.remove(&key);
            self.set_neighbor(key.0, key.1, None);
        }
    }

    /// Tells the function where changed prefixes lead now.
    fn tell(&mut self) {
        self.tell_some();
        if self.mirror.has_changed() || self.telling.is_some() || self.again {
            return;
        }
        if std::mem::take(&mut self.sweeps) {
            self.side.sweep_routes(&mut |prefix| self.mirror.has(prefix));
        }
        self.leaving.drain(..).for_each(|id| self.side.forget_interface(id));
    }

    /// Tells it of as many as one step takes.
    fn tell_some(&mut self) {
        let mut changes: Vec<HostRoute> = Vec::with_capacity(ROUTES);
        for _ in 0..AT_ONCE / ROUTES {
            let changed = self.mirror.take_changed(ROUTES);
            if changed.is_empty() {
                break;
            }
            self.done += changed.len();
            changes.clear();
            changes.extend(changed.into_iter().map(|prefix| (prefix, self.hops(prefix))));
            self.side.change_routes(&changes);
        }
    }

    /// Where a prefix leads.
    pub(super) fn hops(&self, prefix: IpNet) -> Vec<HostHop> {
        let is_here = |way: &Way| self.ids.contains_key(&way.link);
        let hop = |way: Way| {
            let id = self.ids.get(&way.link)?;
            Some(way.gateway.map_or(HostHop::On(*id), |gateway| HostHop::Via(gateway, *id)))
        };
        match self.mirror.ways(prefix, is_here) {
            None => Vec::new(),
            Some(Goal::Discard(Discard::Blackhole)) => vec![HostHop::Blackhole],
            Some(Goal::Discard(Discard::Unreachable)) => vec![HostHop::Unreachable],
            Some(Goal::Discard(Discard::Prohibit)) => vec![HostHop::Prohibit],
            Some(Goal::Ways(ways)) => ways.into_iter().filter_map(hop).collect(),
        }
    }

    /// Takes in what a routing daemon tells.
    fn hear_daemon(&mut self, now: u64) {
        if let Some(daemon) = self.daemon.as_mut().filter(|_| self.mirror.changes() < WAITING) {
            daemon.step(now, &mut self.mirror, self.table);
        }
    }

    /// Begins to compare, if somebody wants it: all is told anew, and what the kernel says otherwise is a difference.
    fn compare(&mut self) {
        let wanted = self.side.comparisons_wanted();
        // Before all was told for the first time there is nothing to compare with.
        if wanted > self.compared && self.comparing.is_none() && !self.sweeps {
            self.compared = wanted;
            self.comparing = Some(Comparing::default());
            self.again |= self.telling.is_none();
        }
    }

    /// All was told that is compared: looks through a piece of what the function has of it, and at the end lets it be put right.
    fn look_on(&mut self) {
        let Some((mut comparing, telling)) = self.looking.take() else { return };
        let hops = |prefix| self.hops(prefix);
        if !comparing.look_on(&*self.side, &self.mirror, hops, |id| self.name_of(id)) {
            self.looking = Some((comparing, telling));
            return;
        }
        let (count, first, differing) = comparing.into_parts();
        differing.into_iter().for_each(|prefix| self.mirror.touch_prefix(prefix));
        self.side.set_differences(count, first);
        self.settle(&telling);
    }

    fn name_of(&self, id: u16) -> String {
        self.interfaces.iter().find(|(_, other)| **other == id).map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }
}

/// Is there for changes of a side's interfaces.
fn attend(side: &dyn HostSide, bell: &Bell) {
    let bell = bell.clone();
    side.wake_on_change("routes", Box::new(move || bell.ring()));
}

fn no_socket(error: io::Error) -> String {
    format!("cannot read what the kernel tells: {error}")
}

impl Service for Routes {
    fn waits(&self) -> Waits<'_> {
        let mut readable = vec![self.bell.as_fd(), self.changes.as_fd()];
        if self.telling.is_some() {
            readable.push(self.answers.as_fd());
        }
        readable.extend(self.daemon.iter().flat_map(Daemon::waits));
        Waits { readable, until: Some(if self.is_busy { 0 } else { self.look }), ..Waits::default() }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.bell.hush();
        self.done = 0;
        self.follow_side()?;
        if now >= self.look {
            if !self.namespace.is_there() {
                self.enable_all();
                return Err("the network namespace was deleted, or made anew".to_owned());
            }
            self.look = now.saturating_add(LOOK);
        }
        if self.looking.is_some() {
            self.look_on();
            self.is_busy = true;
            return Ok(());
        }
        self.follow_interfaces();
        self.read_changes()?;
        self.read_answers()?;
        self.hear_daemon(now);
        self.tell();
        self.compare();
        let was_told = self.was_all_told();
        self.is_busy = self.mirror.has_changed() || was_told || self.again && self.telling.is_none();
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "messages", now: self.done as u64, most: (2 * AT_ONCE) as u64 }
    }
}
