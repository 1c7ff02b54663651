//! A routing table of somebody else's, the kernel's or a routing daemon's, as far as messages have told of it.
//!
//! Messages tell changes, and a *dump* tells all there is. A message may be lost, and then all is told anew: [`Mirror::begin`], every route that
//! there is, [`Mirror::end`]. Until the end nothing is taken out that was only not told yet, and what was told of a route since the beginning goes
//! before what the dump says of it, which may be older. So at no moment a route is there that never was, or is missing that was there all the time.
//!
//! Where a prefix leads is the affair of whoever asks: [`Mirror::take_changed`] says which prefixes may lead elsewhere, and [`Mirror::ways`] where.

mod sets;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::rib::Discard;
use sets::Sets;

/// A way on: by a link, and by a router on it if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Way {
    /// The number of the link, as the kernel has it.
    pub link: u32,
    /// The router.
    pub gateway: Option<IpAddr>,
}

/// Where a route leads, as a message says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leads {
    /// By these ways, which share the traffic.
    Ways(Vec<Way>),
    /// Where a next-hop object leads.
    Object(u32),
    /// Nowhere.
    Discard(Discard),
}

/// What a next-hop object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A way.
    Way(Way),
    /// These other objects, which share the traffic.
    Group(Vec<u32>),
    /// It leads nowhere, silently.
    Blackhole,
}

/// Who tells a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Teller {
    /// The kernel. Of routes of the same metric to the same prefix, its own goes first.
    Kernel,
    /// A routing daemon, by a connection of its own.
    Daemon,
}

/// A route as a message tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who tells it.
    pub teller: Teller,
    /// Where to.
    pub prefix: IpNet,
    /// The least is preferred.
    pub metric: u32,
    /// Where it leads.
    pub leads: Leads,
}

/// A route beside its prefix.
#[derive(Clone, Copy, Debug)]
struct Entry {
    metric: u32,
    set: u32,
    teller: Teller,
    /// The number of the [`Mirror::begin`] in which it was told last.
    telling: u8,
}

impl Entry {
    /// What says which route it is, the preferred one first.
    fn key(&self) -> (u32, Teller) {
        (self.metric, self.teller)
    }
}

/// The routes to a prefix, the preferred one first. Nearly all prefixes have one.
#[derive(Debug)]
struct Routes {
    first: Entry,
    /// It waits among those that changed: however often it changes, it is there once.
    waits: bool,
    #[allow(clippy::box_collection, reason = "a word for the many that have no more")]
    more: Option<Box<Vec<Entry>>>,
}

impl Routes {
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(self.more.iter().flat_map(|more| more.iter()))
    }

    fn of(mut all: Vec<Entry>, waits: bool) -> Option<Routes> {
        if all.is_empty() {
            return None;
        }
        let first = all.remove(0);
        Some(Routes { first, waits, more: (!all.is_empty()).then(|| Box::new(all)) })
    }
}

/// Where a prefix leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// By these ways.
    Ways(Vec<Way>),
    /// Nowhere.
    Discard(Discard),
}

/// What is told of one teller since [`Mirror::begin`].
#[derive(Debug, Default)]
struct Telling {
    number: u8,
    /// Routes that messages told of since the beginning; `None` when no dump is under way.
    touched: Option<HashSet<(IpNet, u32)>>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Mirror {
    four: HashMap<Ipv4Net, Routes>,
    six: HashMap<Ipv6Net, Routes>,
    sets: Sets,
    objects: HashMap<(Teller, u32), Object>,
    kernel: Telling,
    daemon: Telling,
    changed: VecDeque<IpNet>,
    routes: usize,
}

/// Whether another route of the same metric takes the place of the one that is there, or stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Instead,
    Behind,
}

impl Mirror {
    /// Routes.
    pub fn len(&self) -> usize {
        self.routes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }

    /// A message says that a route is there. One `behind` another of the same metric is not preferred to it (`ip route append`).
    pub fn add(&mut self, told: &Told, behind: bool) {
        let telling = self.telling_mut(told.teller);
        if let Some(touched) = &mut telling.touched {
            touched.insert((told.prefix, told.metric));
        }
        // In IPv6 a message tells all ways of a route, the new ones among them.
        let behind = behind && told.prefix.addr().is_ipv4();
        self.put(told, if behind { Place::Behind } else { Place::Instead });
    }

    /// A dump says that a route is there.
    pub fn add_dumped(&mut self, told: &Told) {
        let telling = self.telling(told.teller);
        if telling.touched.as_ref().is_some_and(|touched| touched.contains(&(told.prefix, told.metric))) {
            return;
        }
        // A second one of the same metric in the same dump stands behind the first.
        let (number, key) = (telling.number, (told.metric, told.teller));
        let is_second = self.routes_to(told.prefix).any(|entry| entry.key() == key && entry.telling == number);
        self.put(told, if is_second { Place::Behind } else { Place::Instead });
    }

    fn put(&mut self, told: &Told, place: Place) {
        let entry = Entry {
            metric: told.metric,
            set: self.sets.intern(told.teller, &told.leads),
            teller: told.teller,
            telling: self.telling(told.teller).number,
        };
        let mut all = self.take(told.prefix);
        let before = all.first().map(|first| first.set);
        if place == Place::Instead {
            self.drop_where(&mut all, |other| other.key() == entry.key());
        } else {
            self.drop_where(&mut all, |other| other.key() == entry.key() && other.set == entry.set);
        }
        let at = all.partition_point(|other| other.key() <= entry.key());
        all.insert(at, entry);
        self.routes += 1;
        self.put_back(told.prefix, all, before);
    }

    /// A message says that a route is gone; of several of the same metric that one which leads there. In IPv6 a message may take single ways
    /// out of a route.
    pub fn remove(&mut self, told: &Told) {
        let key = (told.metric, told.teller);
        if let Some(touched) = &mut self.telling_mut(told.teller).touched {
            touched.insert((told.prefix, told.metric));
        }
        let mut all = self.take(told.prefix);
        let before = all.first().map(|first| first.set);
        let known = all.iter().filter(|entry| entry.key() == key).count();
        let exact = self.sets.find(told.teller, &told.leads);
        let has_exact = all.iter().any(|entry| entry.key() == key && Some(entry.set) == exact);
        let left = if told.prefix.addr().is_ipv6() && !has_exact { self.left_of(&all, told) } else { None };
        match left {
            Some(left) => {
                let set = self.sets.intern(told.teller, &Leads::Ways(left));
                for entry in all.iter_mut().filter(|entry| entry.key() == key) {
                    self.sets.release(std::mem::replace(&mut entry.set, set));
                    self.sets.hold(set);
                }
                self.sets.release(set);
            }
            None if has_exact && known > 1 => {
                self.drop_where(&mut all, |entry| entry.key() == key && Some(entry.set) == exact);
            }
            None => self.drop_where(&mut all, |entry| entry.key() == key),
        }
        self.put_back(told.prefix, all, before);
    }

    /// The ways of a route of IPv6 that are left without those that a message takes out; `None` if none are.
    fn left_of(&self, all: &[Entry], told: &Told) -> Option<Vec<Way>> {
        let Leads::Ways(gone) = &told.leads else { return None };
        let entry = all.iter().find(|entry| entry.key() == (told.metric, told.teller))?;
        let Leads::Ways(ways) = self.sets.leads(entry.set)? else { return None };
        let left: Vec<Way> = ways.iter().filter(|way| !gone.contains(way)).copied().collect();
        (!left.is_empty() && left.len() < ways.len()).then_some(left)
    }

    /// A next-hop object is this from now on, or gone: routes follow that lead there.
    pub fn set_object(&mut self, teller: Teller, id: u32, object: Option<Object>) {
        let key = (teller, id);
        if self.objects.get(&key) == object.as_ref() {
            return;
        }
        match object {
            Some(object) => drop(self.objects.insert(key, object)),
            None => drop(self.objects.remove(&key)),
        }
        let objects = &self.objects;
        let has_it = |leads: &Leads| match leads {
            Leads::Object(other) if *other == id => true,
            Leads::Object(other) => {
                matches!(objects.get(&(teller, *other)), Some(Object::Group(members)) if members.contains(&id))
            }
            _ => false,
        };
        let sets: HashSet<u32> = self.sets.which(teller, has_it).collect();
        self.touch(&sets);
    }

    /// Links are others than before: prefixes that lead there may lead elsewhere.
    pub fn touch_links(&mut self, links: &HashSet<u32>) {
        let objects = &self.objects;
        let by_those = |leads: &Leads| match leads {
            Leads::Ways(ways) => ways.iter().any(|way| links.contains(&way.link)),
            Leads::Object(_) => !objects.is_empty(),
            Leads::Discard(_) => false,
        };
        let both = [Teller::Kernel, Teller::Daemon];
        let sets: HashSet<u32> = both.into_iter().flat_map(|teller| self.sets.which(teller, by_those)).collect();
        self.touch(&sets);
    }

    /// All prefixes may lead elsewhere than whoever asks knows.
    pub fn touch_all(&mut self) {
        self.touch_where(|_| true);
    }

    /// A prefix may lead elsewhere than whoever asks knows.
    pub fn touch_prefix(&mut self, prefix: IpNet) {
        if self.waits_mut(prefix).is_none_or(|waits| !std::mem::replace(waits, true)) {
            self.changed.push_back(prefix);
        }
    }

    fn touch(&mut self, sets: &HashSet<u32>) {
        if !sets.is_empty() {
            self.touch_where(|routes| routes.iter().any(|entry| sets.contains(&entry.set)));
        }
    }

    fn touch_where(&mut self, is_touched: impl Fn(&Routes) -> bool) {
        let note = |routes: &mut Routes| {
            !routes.waits && {
                routes.waits = is_touched(routes);
                routes.waits
            }
        };
        let four = self.four.iter_mut().filter_map(|(net, routes)| note(routes).then_some(IpNet::V4(*net)));
        let six = self.six.iter_mut().filter_map(|(net, routes)| note(routes).then_some(IpNet::V6(*net)));
        self.changed.extend(four.chain(six));
    }

    /// Whether a prefix waits among those that changed; `None` if there is no route to it.
    fn waits_mut(&mut self, prefix: IpNet) -> Option<&mut bool> {
        let routes = match prefix {
            IpNet::V4(net) => self.four.get_mut(&net),
            IpNet::V6(net) => self.six.get_mut(&net),
        };
        routes.map(|routes| &mut routes.waits)
    }

    /// All routes of a teller are about to be told. What was not by [`end`](Self::end) is taken out.
    pub fn begin(&mut self, teller: Teller) {
        let telling = self.telling_mut(teller);
        telling.number = telling.number.wrapping_add(1);
        telling.touched = Some(HashSet::new());
    }

    /// All routes of a teller were told.
    pub fn end(&mut self, teller: Teller) {
        let Some(touched) = self.telling_mut(teller).touched.take() else { return };
        let number = self.telling(teller).number;
        let is_old = |entry: &Entry, net: IpNet| {
            entry.teller == teller && entry.telling != number && !touched.contains(&(net, entry.metric))
        };
        let four = self.four.iter().map(|(net, routes)| (IpNet::V4(*net), routes));
        let six = self.six.iter().map(|(net, routes)| (IpNet::V6(*net), routes));
        let gone: Vec<IpNet> = four
            .chain(six)
            .filter(|(net, routes)| routes.iter().any(|entry| is_old(entry, *net)))
            .map(|(net, _)| net)
            .collect();
        for net in gone {
            let mut all = self.take(net);
            let before = all.first().map(|first| first.set);
            self.drop_where(&mut all, |entry| is_old(entry, net));
            self.put_back(net, all, before);
        }
    }

    /// Whether all routes of a teller are being told.
    pub fn is_being_told(&self, teller: Teller) -> bool {
        self.telling(teller).touched.is_some()
    }

    /// Prefixes that may lead elsewhere than when they were taken last, at most so many.
    pub fn take_changed(&mut self, most: usize) -> Vec<IpNet> {
        let most = most.min(self.changed.len());
        let taken: Vec<IpNet> = self.changed.drain(..most).collect();
        for prefix in &taken {
            if let Some(waits) = self.waits_mut(*prefix) {
                *waits = false;
            }
        }
        if self.changed.is_empty() && self.changed.capacity() > ROOM {
            // What a whole table left behind is not kept.
            self.changed.shrink_to(ROOM);
        }
        taken
    }

    /// Whether there are such.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// How many there are. One may be there twice that went and came.
    pub fn changes(&self) -> usize {
        self.changed.len()
    }

    /// Where a prefix leads: as its preferred route says that leads anywhere `by` links which are there; `None` if nobody has a route, or all go
    /// elsewhere.
    pub fn ways(&self, prefix: IpNet, by: impl Fn(&Way) -> bool) -> Option<Goal> {
        let first = self.routes_to(prefix).next()?;
        match self.sets.leads(first.set)? {
            Leads::Discard(discard) => Some(Goal::Discard(*discard)),
            Leads::Ways(ways) => goal_of(ways.iter().copied(), by),
            Leads::Object(id) => match self.objects.get(&(first.teller, *id))? {
                Object::Blackhole => Some(Goal::Discard(Discard::Blackhole)),
                Object::Way(way) => goal_of([*way].into_iter(), by),
                Object::Group(members) => {
                    let ways = members.iter().filter_map(|member| self.objects.get(&(first.teller, *member)));
                    goal_of(ways.filter_map(|object| if let Object::Way(way) = object { Some(*way) } else { None }), by)
                }
            },
        }
    }

    /// All prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        let four = self.four.keys().map(|net| IpNet::V4(*net));
        four.chain(self.six.keys().map(|net| IpNet::V6(*net)))
    }

    /// Whether there is a route to a prefix.
    pub fn has(&self, prefix: IpNet) -> bool {
        self.routes_to(prefix).next().is_some()
    }

    fn telling(&self, teller: Teller) -> &Telling {
        match teller {
            Teller::Kernel => &self.kernel,
            Teller::Daemon => &self.daemon,
        }
    }

    fn telling_mut(&mut self, teller: Teller) -> &mut Telling {
        match teller {
            Teller::Kernel => &mut self.kernel,
            Teller::Daemon => &mut self.daemon,
        }
    }

    fn routes_to(&self, prefix: IpNet) -> impl Iterator<Item = &Entry> {
        let routes = match prefix {
            IpNet::V4(net) => self.four.get(&net),
            IpNet::V6(net) => self.six.get(&net),
        };
        routes.into_iter().flat_map(Routes::iter)
    }

    /// Takes the routes to a prefix out, to be put back.
    fn take(&mut self, prefix: IpNet) -> Vec<Entry> {
        fn take<P: Hash + Eq>(map: &mut HashMap<P, Routes>, net: &P) -> Vec<Entry> {
            map.get_mut(net).map_or_else(Vec::new, |routes| {
                let more = routes.more.take();
                std::iter::once(routes.first).chain(more.into_iter().flat_map(|more| *more)).collect()
            })
        }
        match prefix {
            IpNet::V4(net) => take(&mut self.four, &net),
            IpNet::V6(net) => take(&mut self.six, &net),
        }
    }

    /// Puts routes back, in their order; `before` is where the preferred one led.
    fn put_back(&mut self, prefix: IpNet, all: Vec<Entry>, before: Option<u32>) {
        let now = all.first().map(|first| first.set);
        let waits = self.waits_mut(prefix).is_some_and(|waits| *waits);
        match (prefix, Routes::of(all, waits)) {
            (IpNet::V4(net), Some(routes)) => drop(self.four.insert(net, routes)),
            (IpNet::V6(net), Some(routes)) => drop(self.six.insert(net, routes)),
            (IpNet::V4(net), None) => drop(self.four.remove(&net)),
            (IpNet::V6(net), None) => drop(self.six.remove(&net)),
        }
        // One that goes while it waits will be found gone.
        if before != now && !(waits && now.is_none()) {
            self.touch_prefix(prefix);
        }
    }

    /// Drops some of the routes that were taken out.
    fn drop_where(&mut self, all: &mut Vec<Entry>, is_gone: impl Fn(&Entry) -> bool) {
        all.retain(|entry| {
            let gone = is_gone(entry);
            if gone {
                self.sets.release(entry.set);
                self.routes -= 1;
            }
            !gone
        });
    }
}

/// Changed prefixes for which room is kept.
const ROOM: usize = 4096;

fn goal_of(ways: impl Iterator<Item = Way>, by: impl Fn(&Way) -> bool) -> Option<Goal> {
    let ways: Vec<Way> = ways.filter(by).collect();
    (!ways.is_empty()).then_some(Goal::Ways(ways))
}
