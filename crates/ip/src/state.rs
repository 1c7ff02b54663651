//! What the control side knows: interfaces, addresses, routes, neighbours. Requests, shows and the slow path share it.

pub(crate) mod addresses;
mod adopt;
pub(crate) mod advertise;
pub(crate) mod checks;
mod followed;
pub(crate) mod links;
pub(crate) mod missing;
pub(crate) mod named;
mod neighbors;
pub(crate) mod own;
pub(crate) mod recent;
pub(crate) mod routing;
pub(crate) mod shared;
mod side;
pub(crate) mod static_routes;
pub(crate) mod via;

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_net::advertise::Advertiser;
use weir_net::interface::{AddressKind, InterfaceAddress};
use weir_net::limit::{Policer, Rate};
use weir_net::listener::Listeners;
use weir_net::neighbor::duplicate::Duplicate;
use weir_net::neighbor::{Limits, Timing};
use weir_net::{DEFAULT_VRF, Family, RouteSource, VrfId};
use weir_stage::Notice;
use weir_wire::MacAddr;

pub(crate) use side::{Routable, Side, Told};

use crate::config::Function;
use crate::host::Hosts;
use crate::lines::{Line, LineSide};
use crate::load::{General, Wanted};
use crate::slow::answer::{ERRORS, ErrorKind};
use crate::state::addresses::Addresses;
use crate::state::advertise::Advertise;
use crate::state::followed::Followed;
use crate::state::links::{Ledger, neighbors_on};
use crate::state::missing::Missing;
use crate::state::named::Named;
use crate::state::routing::{Network, Refusal, Routing};
use crate::state::shared::CHANGES;
use crate::{InterfaceId, Interfaces};
use weir_table::counters::Counters;

/// What sending needs to know of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) interface: InterfaceId,
    pub(crate) mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
    pub(crate) up: bool,
    pub(crate) vrf: VrfId,
}

/// All that the control side knows.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) interfaces: Interfaces,
    /// What is known of interfaces beside.
    pub(crate) ledger: Ledger,
    /// Names of the VRFs, by number.
    pub(crate) vrfs: Vec<String>,
    /// What routes may lead into.
    pub(crate) function: Function,
    pub(crate) routing: Routing,
    /// Addresses and neighbours of IPv4.
    pub(crate) four: Side<Ipv4Addr>,
    /// Those of IPv6.
    pub(crate) six: Side<Ipv6Addr>,
    /// Multicast groups that the router itself listens to.
    pub(crate) listeners: Listeners,
    /// When hosts are told of the router.
    pub(crate) advertiser: Advertiser,
    /// Indices of ports.
    proxy_arp: HashSet<u16>,
    pub(crate) directed_broadcast: bool,
    icmp: Policer<ERRORS>,
    identification: u16,
    /// Routes that there was no room for.
    pub(crate) missing: Missing,
    /// Routes that name interfaces.
    pub(crate) named: Named,
    /// What is kept for Linux.
    pub(crate) hosts: Hosts,
    /// Neighbours that stages of other functions send to.
    followed: Followed,
    /// Own addresses, broadcasts and connected networks that there was no room for.
    pub(crate) refused: BTreeMap<Network, Refusal>,
    /// What the slow path has to do: messages to send, packets to let go.
    outbox: Vec<Told>,
    /// When the counters of next hops are looked at again.
    next_look: u64,
    neighbor_limits: Limits,
    /// What hosts are told of the router, by interface.
    pub(crate) advertisements: BTreeMap<String, Advertise>,
    /// Lines of the function's.
    pub(crate) lines: LineSide,
}

/// Time between two looks at the counters of next hops, which tell what neighbours are in use.
const LOOK_INTERVAL: u64 = 1_000_000_000;

/// The rate of every kind of error, with a tenth of a second to be saved up.
fn error_rates(per_second: u64) -> [Rate; ERRORS] {
    [Rate::saving_a_tenth(per_second, 1); ERRORS]
}

/// What neighbours of IPv6 are believed by: the times that are configured, the counts of RFC 4861 section 10 and RFC 4862 section 5.1.
fn timing_of_ipv6(timing: Timing) -> Timing {
    let Timing { unicast_requests, delay, own_probes, .. } = Timing::for_ipv6();
    Timing { unicast_requests, delay, own_probes: timing.own_probes.min(own_probes), ..timing }
}

/// How many neighbours of IPv6 there may be: as many as of IPv4, but those who have not answered do not take all the room.
fn limits_of_ipv6(limits: Limits) -> Limits {
    Limits { incomplete: Limits::for_ipv6().incomplete.min(limits.total / 4).max(1), ..limits }
}

impl Control {
    /// Without ports, addresses and routes, in VRFs of these names.
    pub(crate) fn new(
        interfaces: Interfaces,
        received: Arc<Counters>,
        (vrfs, function): (Vec<String>, Function),
        routing: Routing,
        neighbor_limits: Limits,
        seed: u64,
    ) -> Control {
        let timing = Timing::default();
        Control {
            interfaces,
            ledger: Ledger::new(received),
            routing,
            four: Side::new(vrfs.len(), timing, neighbor_limits, seed),
            six: Side::new(vrfs.len(), timing_of_ipv6(timing), limits_of_ipv6(neighbor_limits), seed),
            vrfs,
            function,
            listeners: Listeners::new(seed),
            advertiser: Advertiser::new(seed),
            proxy_arp: HashSet::new(),
            directed_broadcast: false,
            icmp: Policer::new(error_rates(0), 0),
            identification: 0,
            missing: Missing::default(),
            named: Named::default(),
            hosts: Hosts::default(),
            followed: Followed::default(),
            refused: BTreeMap::new(),
            outbox: Vec::new(),
            next_look: 0,
            neighbor_limits,
            advertisements: BTreeMap::new(),
            lines: LineSide::default(),
        }
    }

    /// Becomes what a checked configuration wants, before anybody uses it. Answers the routes that the tables have no room for.
    pub(crate) fn reconcile(&mut self, wanted: Wanted, now: u64) -> Vec<(Network, Refusal)> {
        let Wanted { general, interfaces, routes, neighbors, lines } = wanted;
        self.reconcile_general(general, now);
        let ids = self.place_interfaces(&interfaces, now);
        self.lines.set(lines.as_ref(), &self.interfaces);
        let neighbors = neighbors_on(&neighbors, &ids);
        let gone = self.unwanted_neighbors(&neighbors);
        self.remove_neighbors(&gone);
        self.add_config_neighbors(&neighbors, now);
        while self.catch_up(usize::MAX) {}
        self.set_config_routes(&routes);
        self.routing.begin();
        let refused = self.refused.iter().map(|(network, refusal)| (*network, *refusal));
        refused.chain(self.missing.refusals()).collect()
    }

    /// The same but for what may be long.
    pub(crate) fn reconcile_general(&mut self, wanted: General, now: u64) {
        self.routing.tell_time(now);
        self.four.neighbors.configure(wanted.timing, self.neighbor_limits);
        self.six.neighbors.configure(timing_of_ipv6(wanted.timing), limits_of_ipv6(self.neighbor_limits));
        self.icmp.set_rates(now, error_rates(wanted.icmp_rate));
        self.proxy_arp = wanted.proxy_arp.iter().copied().collect();
        let is_other =
            std::mem::replace(&mut self.directed_broadcast, wanted.directed_broadcast) != wanted.directed_broadcast;
        self.set_ports(wanted.ports);
        self.set_advertisements(wanted.advertise, now);
        self.settle_link_local();
        if is_other {
            self.settle_broadcasts();
        }
    }

    /// The number of a VRF.
    pub(crate) fn vrf(&self, name: &str) -> Option<VrfId> {
        self.vrfs.iter().zip(0..).find(|(known, _)| *known == name).map(|(_, vrf)| vrf)
    }

    /// What a source is called.
    pub(crate) fn source_name(&self, source: RouteSource) -> &str {
        let is_named = source == RouteSource::Function && !self.function.name.is_empty();
        if is_named { &self.function.name } else { source.name() }
    }

    /// The source of this name.
    pub(crate) fn source(&self, name: &str) -> Option<RouteSource> {
        RouteSource::ALL.into_iter().find(|source| self.source_name(*source) == name)
    }

    /// The name of a VRF.
    pub(crate) fn vrf_name(&self, vrf: VrfId) -> &str {
        self.vrfs.get(usize::from(vrf)).map_or("", String::as_str)
    }

    /// The VRF that an interface is in.
    pub(crate) fn vrf_of(&self, interface: InterfaceId) -> VrfId {
        let known = self.interfaces.get(interface).map(|found| found.wanted.vrf);
        known.or_else(|| self.ledger.vrf_of_gone(interface)).unwrap_or(DEFAULT_VRF)
    }

    /// The router's own addresses of a family in a VRF.
    pub(crate) fn addresses<A: Routable>(&self, vrf: VrfId) -> &Addresses<A> {
        A::side(self).addresses(vrf)
    }

    /// The router's own addresses of a family on an interface.
    pub(crate) fn addresses_on<A: Routable>(&self, interface: InterfaceId) -> &[InterfaceAddress<A>] {
        self.addresses::<A>(self.vrf_of(interface)).of(interface)
    }

    /// Does some of what other changes left to do: work on about `most` neighbours, hops and routes. Answers whether there is more.
    pub(crate) fn catch_up(&mut self, most: usize) -> bool {
        let before = self.routing.work();
        let left = most.saturating_sub(self.follow_links(most));
        // What links took along was told to forwarding in part already.
        let done = usize::try_from(self.routing.work().wrapping_sub(before)).unwrap_or(usize::MAX);
        let left = left.saturating_sub(done);
        let left = left.saturating_sub(self.work_backlog_off::<Ipv4Addr>(left));
        let left = left.saturating_sub(self.work_backlog_off::<Ipv6Addr>(left));
        let is_behind = self.routing.catch_up(left) || !self.knows_neighbors() || self.ledger.is_behind();
        if !is_behind {
            self.give_numbers_back();
        }
        is_behind
    }

    /// How much more may be worked on before others have their turn; `before` is [`Routing::work`] as it was when this turn began.
    pub(crate) fn left_of_a_turn(&self, before: u64) -> usize {
        let done = usize::try_from(self.routing.work().wrapping_sub(before)).unwrap_or(CHANGES);
        CHANGES.saturating_sub(done)
    }

    /// The network of a host on an interface, which is only itself.
    fn host<A: Family>(&self, interface: InterfaceId, address: A) -> Network {
        let address: IpAddr = address.into();
        (self.vrf_of(interface), address.into())
    }

    /// What the slow path has to do.
    pub(crate) fn take_outbox(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.outbox)
    }

    /// Does what is due, as far as one turn goes; answers when it wants to be called next.
    pub(crate) fn tick(&mut self, now: u64) -> u64 {
        let before = self.routing.work();
        self.routing.tell_time(now);
        self.tick_neighbors::<Ipv4Addr>(now);
        self.tick_neighbors::<Ipv6Addr>(now);
        if now >= self.next_look {
            self.try_refused_again();
            self.place_lacking(now);
            let (used, is_all) = self.routing.used_neighbors();
            if is_all {
                self.next_look = now.saturating_add(LOOK_INTERVAL);
            }
            for (interface, address) in used {
                match address {
                    IpAddr::V4(address) => self.note_used(now, interface, address),
                    IpAddr::V6(address) => self.note_used(now, interface, address),
                }
            }
            self.resolve_followed(now);
        }
        let is_more = self.catch_up(self.left_of_a_turn(before));
        self.routing.tidy(self.left_of_a_turn(before));
        let left = self.left_of_a_turn(before);
        let again = self.missing.try_again(&mut self.routing, left, now);
        if is_more {
            return now;
        }
        let deadlines = [self.four.neighbors.next_deadline(), self.six.neighbors.next_deadline()];
        deadlines.into_iter().flatten().chain([self.next_look, again]).min().unwrap_or(u64::MAX)
    }

    /// What there was no room for, for people.
    pub(crate) fn lacks(&mut self) -> Vec<String> {
        let own = self.refused.iter().next().map(|((_, prefix), refusal)| {
            let count = self.refused.len();
            format!("{count} of the router's own addresses and networks had no room: {prefix}, ...; {refusal}; they are tried again")
        });
        let unsettled = self.routing.unsettled();
        let late = (unsettled > 0).then(|| {
            format!("{unsettled} prefixes lead to where they led before: the table has no room for their change; they are tried again")
        });
        let missing = self.missing.told().into_iter();
        self.ledger.told().into_iter().chain(missing).chain(own).chain(late).collect()
    }

    /// Whether `address` is a host of a network that is connected by an interface.
    fn is_on_link<A: Routable>(&self, interface: InterfaceId, address: A) -> bool {
        let is_near = |own: &InterfaceAddress<A>| own.kind(address) == AddressKind::OnLink;
        !address.is_link_local() && self.addresses_on::<A>(interface).iter().any(is_near)
    }

    /// Whether two addresses lie in the same network of an interface.
    pub(crate) fn share_a_network<A: Routable>(&self, interface: InterfaceId, one: A, other: A) -> bool {
        self.addresses_on::<A>(interface).iter().any(|own| own.is_on_link(one) && own.is_on_link(other))
    }

    /// The router's own address on an interface, towards `address`: one that may be used.
    pub(crate) fn source_on<A: Routable>(&self, interface: InterfaceId, address: A) -> Option<A> {
        let side = A::side(self);
        let mut usable =
            self.addresses_on::<A>(interface).iter().filter(|own| side.is_usable(interface, own.address()));
        let near = usable.clone().find(|own| own.is_on_link(address));
        // Beyond the link, an address of wider scope is better than a link-local one (RFC 6724 section 5, rule 2).
        let wide = usable.clone().find(|own| own.address().is_link_local() == address.is_link_local());
        near.or(wide).or_else(|| usable.next()).map(InterfaceAddress::address)
    }

    /// Whether an address is the router's own on an interface, and may be used.
    pub(crate) fn is_own_on<A: Routable>(&self, interface: InterfaceId, address: A) -> bool {
        let has = self.addresses_on::<A>(interface).iter().any(|own| own.is_own(address));
        has && A::side(self).is_usable(interface, address)
    }

    /// What sending by an interface needs; `None` for loopbacks and those that are gone.
    pub(crate) fn link(&self, interface: InterfaceId) -> Option<Link> {
        let found = self.interfaces.get(interface).filter(|found| !found.is_virtual())?;
        Some(Link { interface, mac: found.mac, mtu: found.mtu, up: found.up, vrf: found.wanted.vrf })
    }

    /// Whether requests by an interface for others' addresses are answered (RFC 1027; RFC 4861 section 7.2.8).
    pub(crate) fn is_proxy(&self, interface: InterfaceId) -> bool {
        let port = self.interfaces.get(interface).and_then(|found| found.wanted.port);
        let port = port.and_then(|port| self.interfaces.ports().get(usize::from(port)));
        port.is_some_and(|port| self.proxy_arp.contains(&port.index))
    }

    /// The name of an interface.
    pub(crate) fn name_of(&self, interface: InterfaceId) -> &str {
        self.interfaces.get(interface).map_or("", |interface| interface.name())
    }

    /// What the log is to tell: stations with the router's own addresses.
    pub(crate) fn notices(&mut self, now: u64) -> Vec<Notice> {
        let four = self.four.duplicates.tell(now).into_iter().map(|told| self.duplicate(told));
        let mut notices: Vec<Notice> = four.collect();
        let six = self.six.duplicates.tell(now);
        notices.extend(six.into_iter().map(|told| self.duplicate(told)));
        notices.extend(self.missing.notice());
        notices
    }

    fn duplicate<A: Family>(&self, duplicate: Duplicate<A>) -> Notice {
        let facts = [
            ("port", self.name_of(duplicate.interface).to_owned()),
            ("address", duplicate.address.to_string()),
            ("mac", duplicate.mac.to_string()),
            ("times", duplicate.times.to_string()),
        ];
        Notice { message: "another station uses one of our addresses", facts: facts.into() }
    }

    /// Own addresses that another station was heard using.
    pub(crate) fn duplicates(&self) -> usize {
        self.four.duplicates.len() + self.six.duplicates.len()
    }

    /// Whether another error of this kind may be sent now.
    pub(crate) fn may_send_error(&mut self, kind: ErrorKind, now: u64) -> bool {
        self.icmp.take(now, kind as usize)
    }

    /// The same of one about a packet of a line, if it is of one.
    pub(crate) fn may_tell(&mut self, line: Option<Line>, kind: ErrorKind, now: u64) -> bool {
        let Some(line) = line else { return self.may_send_error(kind, now) };
        let Control { lines, icmp, .. } = self;
        lines.may_tell(now, line, || icmp.take(now, kind as usize))
    }

    /// The identification of the next packet that the router itself sends.
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}
