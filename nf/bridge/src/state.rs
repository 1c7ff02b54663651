//! What an instance has: what workers share, and what only the control side knows.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_acl::recent::Recent;
use weir_mem::{CacheAligned, Published};
use weir_stage::{Ledger, PortInfo};
use weir_table::mac::{Entry, MacTable, PERIODS, Station};
use weir_wire::MacAddr;
use weir_wire::nd::link_local;

use crate::acl::{Book, Lists, Logged};
use crate::config::{BridgeConfig, StaticMac};
use crate::plan::{KINDS, Kind, NOWHERE, PORTS, Plan, Ports, VLANS, bit};
use crate::routed::{RoutedSide, RoutedSides};
use crate::snoop::{Forwarding, Listeners, Queriers, Times};
use crate::storm::Bucket;

/// Periods after which a station is forgotten that sent nothing: half of those that stamps tell apart, so that the sweep has as many to find it in.
pub(crate) const AGEING_PERIODS: u8 = PERIODS / 2;

/// What workers and the control side share.
pub(crate) struct Shared {
    pub(crate) table: MacTable,
    pub(crate) plan: Published<Plan>,
    pub(crate) groups: Published<Forwarding>,
    pub(crate) acls: Published<Lists>,
    /// Frames that rules say to keep in mind.
    pub(crate) logged: Recent<Logged>,
    /// The number of the period; the control side counts it.
    period: CacheAligned<AtomicU8>,
    pub(crate) counts: Counts,
    storm: Box<[[[Bucket; 2]; KINDS]; PORTS]>,
    pub(crate) moves: Box<[Bucket; PORTS]>,
    control: Mutex<Control>,
}

/// What is counted of stations: changed only where one comes, goes or moves.
pub(crate) struct Counts {
    /// Stations that are learned.
    pub(crate) learned: AtomicU32,
    /// The same, by port.
    pub(crate) by_port: [AtomicU32; PORTS],
    /// The same, by VLAN.
    pub(crate) by_vlan: Box<[AtomicU32; VLANS]>,
    /// How often stations moved to a port.
    pub(crate) moves: [AtomicU64; PORTS],
    /// Frames of stations that were not learned because a limit was reached, or there was no room.
    pub(crate) refused: AtomicU64,
    /// Copies that were not made because there were no buffers.
    pub(crate) missed: AtomicU64,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            learned: AtomicU32::new(0),
            by_port: std::array::from_fn(|_| AtomicU32::new(0)),
            by_vlan: Box::new(std::array::from_fn(|_| AtomicU32::new(0))),
            moves: std::array::from_fn(|_| AtomicU64::new(0)),
            refused: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    /// The number of stations behind a port.
    pub(crate) fn of_port(&self, port: u8) -> &AtomicU32 {
        &self.by_port[usize::from(port) % PORTS]
    }

    /// The number of stations in a VLAN.
    pub(crate) fn of_vlan(&self, vlan: u16) -> &AtomicU32 {
        &self.by_vlan[usize::from(vlan) % VLANS]
    }

    /// One station less.
    pub(crate) fn forget(&self, vlan: u16, entry: Entry) {
        if !entry.is_fixed() {
            for count in [&self.learned, self.of_port(entry.port()), self.of_vlan(vlan)] {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// What only the control side knows.
pub(crate) struct Control {
    pub(crate) config: Arc<BridgeConfig>,
    /// The ports of the bridge, by number.
    pub(crate) ports: Vec<PortInfo>,
    /// Those that have a link.
    pub(crate) up: Ports,
    /// Stations that stay where they are said to be.
    pub(crate) fixed: Ledger<StaticMac>,
    /// Interfaces that are beyond ports.
    pub(crate) routed: RoutedSides,
    /// The access lists.
    pub(crate) acls: Book,
    /// Who listens to what.
    pub(crate) listeners: Listeners,
    /// Who asks them.
    pub(crate) queriers: Queriers,
    /// The Ethernet address that the bridge asks from.
    pub(crate) mac: MacAddr,
    /// What was refused when it was told last, and when that was.
    pub(crate) told: (u64, u64),
}

impl Shared {
    pub(crate) fn new(
        table: MacTable,
        plan: Published<Plan>,
        groups: Published<Forwarding>,
        acls: Published<Lists>,
        control: Control,
    ) -> Shared {
        Shared {
            table,
            plan,
            groups,
            acls,
            logged: Recent::default(),
            period: CacheAligned::new(AtomicU8::new(0)),
            counts: Counts::new(),
            storm: Box::new(std::array::from_fn(|_| Default::default())),
            moves: Box::new(std::array::from_fn(|_| Bucket::default())),
            control: Mutex::new(control),
        }
    }

    /// The number of the period, modulo [`PERIODS`].
    #[inline(always)]
    pub(crate) fn period(&self) -> u8 {
        self.period.load(Ordering::Relaxed) % PERIODS
    }

    /// A new period begins.
    pub(crate) fn next_period(&self) {
        self.period.store((self.period() + 1) % PERIODS, Ordering::Relaxed);
    }

    /// Locks what only the control side knows.
    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buckets of a port for a kind.
    pub(crate) fn storm(&self, port: u8, kind: Kind) -> &[Bucket; 2] {
        &self.storm[usize::from(port) % PORTS][kind as usize % KINDS]
    }

    /// Enters a station as if it had sent something, where it is not known yet.
    pub(crate) fn enter(&self, station: Station, entry: Entry) {
        let (place, counts) = (self.table.place(station), &self.counts);
        let gone = |entry| counts.forget(station.vlan(), entry);
        if self.table.find(place).is_none() && self.table.insert(place, entry, gone).is_ok() {
            for count in [&counts.learned, counts.of_port(entry.port()), counts.of_vlan(station.vlan())] {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Forgets the learned stations for which `is_meant`. Answers how many.
    pub(crate) fn flush(&self, mut is_meant: impl FnMut(Station, Entry) -> bool) -> u64 {
        let mut flushed = 0;
        self.table.retain(0..self.table.buckets(), |station, entry| {
            let goes = !entry.is_fixed() && is_meant(station, entry);
            if goes {
                flushed += 1;
                self.counts.forget(station.vlan(), entry);
            }
            !goes
        });
        flushed
    }
}

impl Control {
    /// The name of a port.
    pub(crate) fn name(&self, port: u8) -> &str {
        match self.ports.get(usize::from(port)) {
            Some(info) => &info.name,
            None if port == NOWHERE => "none",
            None => "?",
        }
    }

    /// The number of a port by its name.
    pub(crate) fn number(&self, name: &str) -> Option<u8> {
        self.ports.iter().position(|port| port.name == name).map(|number| number as u8)
    }

    /// The number of a port by its index.
    pub(crate) fn by_index(&self, index: u16) -> Option<u8> {
        self.ports.iter().position(|port| port.index == index).map(|number| number as u8)
    }

    /// What workers read of all that.
    pub(crate) fn plan(&self) -> Plan {
        Plan::new(&self.config, &self.ports, self.up, &self.routed)
    }

    /// Tells workers of what has changed.
    pub(crate) fn publish(&self, shared: &Shared) {
        shared.plan.publish(Box::new(self.plan()));
    }

    /// How the bridge asks who listens to what; nothing if it does not.
    pub(crate) fn asks(&self) -> Option<Times> {
        let (snooping, querier) = (&self.config.snooping, &self.config.snooping.querier);
        (snooping.enabled && querier.enabled).then(|| Times {
            interval: querier.interval.nanos(),
            response: querier.response.nanos(),
            robustness: querier.robustness,
            last_member: snooping.last_member.nanos(),
            own: [
                querier.address.unwrap_or(Ipv4Addr::UNSPECIFIED).into(),
                querier.address_ipv6.unwrap_or_else(|| link_local(self.mac)).into(),
            ],
        })
    }

    /// Tells workers what lists there are, and which ports have them.
    pub(crate) fn publish_acls(&self, shared: &Shared) {
        shared.acls.publish(Box::new(self.acls.lists(&self.config)));
    }

    /// The port beyond which an interface is a station.
    pub(crate) fn routed_at(&self, station: Station) -> Option<u8> {
        self.routed.iter().find(|(_, side)| side.has(station)).map(|(port, _)| *port)
    }

    /// Takes these interfaces to be beyond a port from now on. One that there is no room for, in billions, is learned like others.
    pub(crate) fn lead(&mut self, shared: &Shared, port: u8, side: Option<RoutedSide>) {
        if self.routed.get(&port) == side.as_ref() {
            return;
        }
        let before = self.routed.remove(&port);
        self.routed.extend(side.clone().map(|side| (port, side)));
        self.publish(shared);
        for station in before.iter().chain(&side).flat_map(RoutedSide::stations) {
            _ = shared.follow_station(self, station);
        }
    }
}

/// The ports that have a link, of these.
pub(crate) fn up(ports: &[PortInfo]) -> Ports {
    (0..).zip(ports).filter(|(_, port)| port.link_up).map(|(number, _)| bit(number)).sum()
}
