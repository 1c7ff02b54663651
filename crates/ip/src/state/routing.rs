//! Routes of all sources, in all VRFs and of both families, and what workers see of them.

mod traffic;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_mem::Domain;
use weir_mem::qsbr::Epoch;
use weir_net::nexthop::{Inlet, NextHop, NextHopId, Towards};
use weir_net::rib::{Change, Discard, Hop, Limits, Retired, Rib, RouteError, Target};
use weir_net::{RouteSource, VrfId};
use weir_wire::MacAddr;

use traffic::NextHopUse;
pub(crate) use traffic::Traffic;

use crate::InterfaceId;
use crate::state::recent::Recent;
use crate::tables::fib::{Action, Adjacency, Fib, Leads};
use crate::tables::prefixes::{Memory, Refused, VrfTables};
use weir_table::counters::Counters;

/// A prefix of either family, in a VRF.
pub(crate) type Network = (VrfId, IpNet);

/// Does something with a prefix of whichever family it is.
macro_rules! in_family {
    ($net:expr, $prefix:ident => $what:expr) => {
        match $net {
            ipnet::IpNet::V4($prefix) => $what,
            ipnet::IpNet::V6($prefix) => $what,
        }
    };
}

pub(crate) use in_family;

/// Why a route was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By the routes of all sources.
    Routes(RouteError),
    /// By the prefix table.
    Table(Refused),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Routes(error) => error.fmt(f),
            Refusal::Table(refused) => refused.fmt(f),
        }
    }
}

/// Where a packet goes, as workers decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nowhere.
    NoRoute,
    /// To the router itself.
    Local,
    /// It is a broadcast that is not forwarded.
    Broadcast,
    /// It is link-local.
    LinkLocal,
    /// Nowhere, as a route says.
    Discard(Discard),
    /// To all stations of the interface's link.
    Flood(InterfaceId),
    /// By a next hop.
    Via(NextHop),
    /// Into the function.
    Into(Inlet),
}

/// The control side of forwarding: the only writer of the prefix tables and of the [`Fib`].
#[derive(Debug)]
pub(crate) struct Routing {
    rib: Rib,
    /// By VRF.
    tables: Vec<VrfTables>,
    fib: Arc<Fib>,
    counters: Arc<Counters>,
    /// What left by interfaces on lines, by number of the interface.
    line_counters: Arc<Counters>,
    domain: Domain,
    /// Ethernet addresses of neighbours.
    macs: HashMap<(InterfaceId, IpAddr), MacAddr>,
    /// Interfaces that lead to their function.
    inlets: HashSet<InterfaceId>,
    /// Next hops and inlets by number.
    next_hop_uses: BTreeMap<u32, NextHopUse>,
    /// What was sent by interfaces over next hops that are gone: packets and bytes.
    sent: HashMap<InterfaceId, (u64, u64)>,
    /// Numbers by next hop.
    numbers: HashMap<NextHop, NextHopId>,
    /// What overrides every route: own addresses, broadcasts.
    specials: BTreeMap<Network, Leads>,
    /// Prefixes whose change the table refused, to be tried again.
    unsettled: BTreeSet<Network>,
    /// What waits for readers to pass before its numbers are used again.
    retired: VecDeque<(Epoch, Retired)>,
    /// All that waited for readers at the last look.
    waited_for: Retired,
    /// Room for changes, kept so that a route does not allocate.
    changes: Vec<Change>,
    /// Prefixes that changed lately.
    recent: Recent,
    /// Where the next look at the counters of next hops begins.
    next_look: u32,
    /// What was worked on: routes that were changed, and whatever followed from other changes.
    work: u64,
}

/// The tables that a [`Routing`] writes.
pub(crate) struct Tables {
    /// By VRF.
    pub(crate) tables: Vec<VrfTables>,
    pub(crate) fib: Arc<Fib>,
    pub(crate) counters: Arc<Counters>,
    /// What left by interfaces on [lines](crate::lines), by number of the interface.
    pub(crate) line_counters: Arc<Counters>,
    pub(crate) domain: Domain,
}

impl Routing {
    /// Without routes, all links down.
    pub(crate) fn new(limits: Limits, tables: Tables) -> Routing {
        let Tables { tables, fib, counters, line_counters, domain } = tables;
        let rib = Rib::new(limits);
        Routing {
            waited_for: rib.retired(),
            rib,
            tables,
            fib,
            counters,
            line_counters,
            domain,
            macs: HashMap::new(),
            inlets: HashSet::new(),
            next_hop_uses: BTreeMap::new(),
            sent: HashMap::new(),
            numbers: HashMap::new(),
            specials: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            retired: VecDeque::new(),
            changes: Vec::new(),
            recent: Recent::default(),
            next_look: 0,
            work: 0,
        }
    }

    pub(crate) fn rib(&self) -> &Rib {
        &self.rib
    }

    /// The prefix tables of a VRF.
    pub(crate) fn table(&self, vrf: VrfId) -> Option<&VrfTables> {
        self.tables.get(usize::from(vrf))
    }

    /// Prefixes in the tables of all VRFs.
    pub(crate) fn prefixes(&self) -> usize {
        self.tables.iter().map(VrfTables::len).sum()
    }

    /// What the tables of all VRFs occupy.
    pub(crate) fn memory(&self) -> Memory {
        self.tables.iter().map(VrfTables::memory).fold(Memory::default(), |sum, one| Memory {
            lookup: sum.lookup + one.lookup,
            used: sum.used + one.used,
            control: sum.control + one.control,
            waiting: sum.waiting + one.waiting,
        })
    }

    pub(crate) fn fib(&self) -> &Arc<Fib> {
        &self.fib
    }

    /// Adds a route or replaces the one that this source has.
    pub(crate) fn replace(&mut self, (vrf, net): Network, source: RouteSource, hops: &[Hop]) -> Result<(), Refusal> {
        self.work = self.work.wrapping_add(1);
        let mut changes = std::mem::take(&mut self.changes);
        let done = in_family!(net, prefix => self.rib.replace(vrf, prefix, source, hops, &mut changes));
        let refused = self.apply(&mut changes);
        self.changes = changes;
        done.map_err(Refusal::Routes)?;
        let network = (vrf, net.trunc());
        match refused {
            // A prefix that is in the table already gets its new value as soon as there is room; a new one is refused.
            Some(refused) if self.unsettled.contains(&network) && !self.has(network) => {
                _ = self.take_out(network, source);
                self.unsettled.remove(&network);
                Err(Refusal::Table(refused))
            }
            _ => Ok(()),
        }
    }

    /// Whether workers have exactly this prefix.
    fn has(&self, (vrf, net): Network) -> bool {
        self.table(vrf).is_some_and(|tables| tables.has(net))
    }

    /// Removes the route that this source has.
    pub(crate) fn remove(&mut self, network: Network, source: RouteSource) -> Result<(), Refusal> {
        self.work = self.work.wrapping_add(1);
        self.take_out(network, source)
    }

    fn take_out(&mut self, (vrf, net): Network, source: RouteSource) -> Result<(), Refusal> {
        let mut changes = std::mem::take(&mut self.changes);
        let done = in_family!(net, prefix => self.rib.remove(vrf, prefix, source, &mut changes));
        self.apply(&mut changes);
        self.changes = changes;
        done.map_err(Refusal::Routes)
    }

    /// Removes routes of the configuration.
    pub(crate) fn remove_config(&mut self, gone: &[Network]) {
        for network in gone {
            _ = self.remove(*network, RouteSource::Config);
        }
    }

    /// It is `now`, or later: what changes from here on changed then.
    pub(crate) fn tell_time(&mut self, now: u64) {
        self.recent.tell_time(now);
    }

    /// No worker has looked up anything so far.
    pub(crate) fn begin(&mut self) {
        self.recent.begin();
    }

    /// Prefixes that changed lately.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// What was worked on since the start: routes that were added, replaced or removed, and hops, sets of hops and routes that follow
    /// the links.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    /// The link of an interface went up or down; routes follow by and by, see [`Routing::catch_up`].
    pub(crate) fn set_link(&mut self, interface: InterfaceId, up: bool) {
        self.rib.set_link(interface, up);
    }

    /// Lets routes follow links and connected networks, by work on at most `most` hops, sets of hops and routes. Answers whether there
    /// are more.
    pub(crate) fn catch_up(&mut self, most: usize) -> bool {
        let mut changes = std::mem::take(&mut self.changes);
        let done = self.rib.catch_up(most, &mut changes);
        self.work = self.work.wrapping_add(done as u64);
        self.apply(&mut changes);
        self.changes = changes;
        self.rib.is_behind()
    }

    /// Whether an interface leads to its function, to which packets go without a neighbour. It is said before any route leads there.
    pub(crate) fn set_inlet(&mut self, interface: InterfaceId, is_inlet: bool) {
        match is_inlet {
            true => drop(self.inlets.insert(interface)),
            false => drop(self.inlets.remove(&interface)),
        }
    }

    /// Whether an interface leads to its function.
    pub(crate) fn is_inlet(&self, interface: InterfaceId) -> bool {
        self.inlets.contains(&interface)
    }

    /// The Ethernet address of a neighbour is known now, or not any more.
    pub(crate) fn set_mac(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        match mac {
            Some(mac) => drop(self.macs.insert((interface, address), mac)),
            None => drop(self.macs.remove(&(interface, address))),
        }
        let next_hop = NextHop { interface, gateway: Some(address) };
        if let Some(id) = self.numbers.get(&next_hop) {
            self.fib.set(Leads::next_hop(id.index()), self.adjacency_of(next_hop));
        }
    }

    /// Makes a prefix lead to a special whatever its routes say, or to what they say.
    pub(crate) fn set_special(&mut self, network: Network, special: Option<Leads>) -> Result<(), Refusal> {
        let before = match special {
            Some(leads) => self.specials.insert(network, leads),
            None => self.specials.remove(&network),
        };
        let settled = if before == special { Ok(()) } else { self.settle(network) };
        if settled.is_err() && special.is_some() {
            self.specials.remove(&network);
        }
        settled.map_err(Refusal::Table)
    }

    /// Where packets to an address go in a VRF; `hash` is asked for the flow's.
    pub(crate) fn decide(&self, vrf: VrfId, destination: IpAddr, hash: impl FnOnce() -> u32) -> Decision {
        let Some(table) = self.table(vrf) else { return Decision::NoRoute };
        let place = self.fib.place(table.lookup(destination), hash);
        let adjacency = self.fib.adjacency(place);
        match self.fib.next_hop_at(place) {
            Some(number) => {
                self.next_hop_uses.get(&number).map_or(Decision::NoRoute, |next_hop_use| match next_hop_use.towards {
                    Towards::Link(next_hop) => Decision::Via(next_hop),
                    Towards::Function(inlet) => Decision::Into(inlet),
                })
            }
            None => match adjacency.action() {
                Action::Receive => Decision::Local,
                Action::Broadcast => Decision::Broadcast,
                Action::LinkLocal => Decision::LinkLocal,
                Action::Forward => adjacency.interface().map_or(Decision::NoRoute, Decision::Flood),
                Action::Blackhole => Decision::Discard(Discard::Blackhole),
                Action::Unreachable => Decision::Discard(Discard::Unreachable),
                Action::Prohibit => Decision::Discard(Discard::Prohibit),
                Action::NoRoute | Action::Glean | Action::Function => Decision::NoRoute,
            },
        }
    }

    /// Tries again what was refused, at most so many prefixes, and lets numbers be used again that no reader can hold any more.
    pub(crate) fn tidy(&mut self, most: usize) {
        let tried: Vec<Network> = self.unsettled.iter().copied().take(most).collect();
        for network in tried {
            self.work = self.work.wrapping_add(1);
            if self.settle(network).is_ok() {
                self.unsettled.remove(&network);
            }
        }
        let now = self.rib.retired();
        if self.waited_for != now {
            self.waited_for = now;
            self.retired.push_back((self.domain.advance(), now));
        }
        let frontier = self.domain.frontier();
        while let Some((_, retired)) = self.retired.pop_front_if(|(epoch, _)| *epoch <= frontier) {
            self.rib.recycle(retired);
        }
    }

    /// Prefixes that the table has no room for at present.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Carries changes out, in their order. Prefixes that the table refuses become unsettled; answers why the last was.
    fn apply(&mut self, changes: &mut Vec<Change>) -> Option<Refused> {
        let mut refused = None;
        for change in changes.drain(..) {
            match change {
                Change::NextHop { id, now } => self.set_next_hop(id, now),
                Change::Group { id, now: Some(buckets) } => {
                    let leads = buckets.iter().map(|member| Leads::next_hop(member.index()));
                    self.fib.set_group(id.index(), leads);
                }
                // Nothing leads there any more.
                Change::Group { now: None, .. } => {}
                Change::Route { vrf, prefix, now } => {
                    let network = (vrf, prefix);
                    if !self.specials.contains_key(&network)
                        && let Err(error) = self.write(network, now.map(leads_of))
                    {
                        self.unsettled.insert(network);
                        refused = Some(error);
                    }
                }
            }
        }
        refused
    }

    fn set_next_hop(&mut self, id: NextHopId, now: Option<Towards>) {
        let leads = Leads::next_hop(id.index());
        match now {
            Some(towards) => {
                let before = self.counters.sum(leads.value());
                self.next_hop_uses.insert(id.index(), NextHopUse { towards, before, seen: before.0 });
                let adjacency = match towards {
                    Towards::Link(next_hop) => {
                        self.numbers.insert(next_hop, id);
                        self.adjacency_of(next_hop)
                    }
                    Towards::Function(inlet) => Adjacency::function(inlet),
                };
                self.fib.set(leads, adjacency);
            }
            None => {
                // The place keeps its content for readers that are on their way to it.
                if let Some(gone) = self.next_hop_uses.remove(&id.index())
                    && let Some(next_hop) = gone.towards.link()
                {
                    self.numbers.remove(&next_hop);
                    let (packets, bytes) = gone.since(self.counters.sum(leads.value()));
                    self.note_sent(next_hop.interface, packets, bytes);
                }
            }
        }
    }

    fn adjacency_of(&self, next_hop: NextHop) -> Adjacency {
        if self.is_inlet(next_hop.interface) {
            return Adjacency::forward(next_hop.interface, MacAddr::ZERO);
        }
        let mac = next_hop.gateway.and_then(|gateway| self.macs.get(&(next_hop.interface, gateway)));
        mac.map_or(Adjacency::glean(next_hop.interface), |mac| Adjacency::forward(next_hop.interface, *mac))
    }

    /// Makes the table hold what is right for a prefix.
    fn settle(&mut self, (vrf, net): Network) -> Result<(), Refused> {
        let target = in_family!(net, prefix => self.rib.installed_at(vrf, prefix));
        let leads = self.specials.get(&(vrf, net)).copied().or(target.map(leads_of));
        self.write((vrf, net), leads)
    }

    fn write(&mut self, (vrf, net): Network, leads: Option<Leads>) -> Result<(), Refused> {
        self.recent.note((vrf, net));
        let written = self.tables.get_mut(usize::from(vrf)).map_or(Ok(()), |tables| tables.write(net, leads));
        // Behind it: who looks up at the version that follows finds what was written.
        self.fib.note_change();
        written
    }
}

fn leads_of(target: Target) -> Leads {
    match target {
        Target::NextHop(id) => Leads::next_hop(id.index()),
        Target::Group(id) => Leads::group(id.index()),
        Target::Discard(discard) => Leads::discard(discard),
    }
}

#[cfg(test)]
mod tests;
