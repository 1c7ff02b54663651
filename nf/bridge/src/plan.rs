//! What workers read of the configuration: made anew as a whole when something changes, and published.

use weir_stage::PortInfo;

use crate::config::{
    Accept, BridgeConfig, ControlFrames, OnLimit, PortOfBridge, RouterPort, SnoopingConfig, StormConfig, Tagging,
    Unregistered,
};
use crate::routed::RoutedSides;
use crate::storm::Pace;

/// The most ports of a bridge: a set of them is a word.
pub(crate) const PORTS: usize = 64;

/// Where frames to a station go that is to be reached nowhere, in place of a port.
pub(crate) const NOWHERE: u8 = u8::MAX;

/// VLANs, with those that nobody may use.
pub(crate) const VLANS: usize = 4096;

/// Ports, a bit for each by its number in the bridge.
pub(crate) type Ports = u64;

/// The bit of a port.
#[inline(always)]
pub(crate) const fn bit(port: u8) -> Ports {
    1 << (port as usize % PORTS)
}

/// The ports in a set.
pub(crate) fn ports_in(set: Ports) -> impl Iterator<Item = u8> {
    weir_packet::Slots(set).map(|slot| slot.index() as u8)
}

/// What is sent to many, by kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Broadcast,
    Multicast,
    Unknown,
}

/// Number of kinds.
pub(crate) const KINDS: usize = 3;

/// What a port takes in of a kind: frames, and bits.
pub(crate) type Bounds = [Option<Pace>; 2];

/// What workers know of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPlan {
    /// Where frames from here may go: all that are up but itself, and but isolated ones if it is isolated.
    pub(crate) reach: Ports,
    /// The VLAN of frames without a tag; 0 if it takes none.
    pub(crate) vlan: u16,
    pub(crate) accept: Accept,
    pub(crate) learns: bool,
    pub(crate) max_macs: u32,
    pub(crate) storm: [Bounds; KINDS],
    pub(crate) fast_leave: bool,
}

/// What of a port every frame asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    /// The port's own bit if it takes frames without a tag, and if it takes those with one.
    pub(crate) takes: [Ports; 2],
    /// The VLAN of frames without a tag.
    pub(crate) untagged: u16,
}

/// What workers know of a VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VlanPlan {
    /// Its ports.
    pub(crate) members: Ports,
    /// Those where its frames have no tag.
    pub(crate) untagged: Ports,
}

/// All that workers know.
pub(crate) struct Plan {
    /// The EtherType of tags that it is aware of; 0 for none.
    pub(crate) tag: u16,
    /// The number of a port in the bridge, by its index.
    numbers: Vec<u8>,
    ports: Box<[PortPlan; PORTS]>,
    /// The same as in `ports`, close together: what every frame asks for.
    reaches: [Ports; PORTS],
    usual: [Usual; PORTS],
    vlans: Box<[VlanPlan; VLANS]>,
    pub(crate) drop_beyond: bool,
    pub(crate) max_macs: u32,
    pub(crate) max_macs_per_vlan: u32,
    pub(crate) max_moves: Option<Pace>,
    pub(crate) control_frames: ControlFrames,
    pub(crate) snooping: Option<Snooping>,
}

/// What is known about snooping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snooping {
    /// Whether frames to groups that nobody asked for go to all.
    pub(crate) floods: bool,
    pub(crate) membership: u64,
    pub(crate) router: u64,
    pub(crate) last_member: u64,
    pub(crate) rate: Pace,
    /// Ports with a router behind them, whatever comes from there.
    pub(crate) always: Ports,
    /// Ports without.
    pub(crate) never: Ports,
    pub(crate) groups: usize,
}

const NO_PORT: PortPlan = PortPlan {
    reach: 0,
    vlan: 0,
    accept: Accept::All,
    learns: false,
    max_macs: 0,
    storm: [[None; 2]; KINDS],
    fast_leave: false,
};

impl Plan {
    /// What a configuration comes to where the ports in `up` have a link, and `routed` is beyond some. `ports` are those of the bridge, by number.
    pub(crate) fn new(config: &BridgeConfig, ports: &[PortInfo], up: Ports, routed: &RoutedSides) -> Plan {
        let isolated: Ports =
            (0..).zip(config.ports.values()).filter(|(_, port)| port.isolated).map(|(n, _)| bit(n)).sum();
        let mut plans = Box::new([NO_PORT; PORTS]);
        for ((n, port), plan) in (0_u8..).zip(config.ports.values()).zip(plans.iter_mut()) {
            let cut_off = if port.isolated { isolated } else { 0 };
            *plan = port_plan(port, up & !bit(n) & !cut_off);
        }
        let usual = |number: usize| {
            let (own, port) = (1 << number, &plans[number % PORTS]);
            let takes = [Accept::Tagged, Accept::Untagged].map(|only| if port.accept == only { 0 } else { own });
            Usual { takes, untagged: port.vlan }
        };
        Plan {
            reaches: std::array::from_fn(|number| plans[number % PORTS].reach),
            usual: std::array::from_fn(usual),
            tag: match config.tagging {
                Tagging::None => 0,
                Tagging::Customer => weir_wire::ethernet::CVLAN,
                Tagging::Service => weir_wire::ethernet::SVLAN,
            },
            numbers: numbers(ports),
            ports: plans,
            vlans: vlans(config, routed),
            drop_beyond: config.on_limit == OnLimit::Drop,
            max_macs: config.limits.macs,
            max_macs_per_vlan: config.limits.macs_per_vlan.unwrap_or(u32::MAX),
            max_moves: config.max_moves.map(|rate| Pace::saving_a_tenth(rate.packets_per_second(), 1)),
            control_frames: config.control_frames,
            snooping: snooping(config, &config.snooping),
        }
    }

    /// The number of a port in the bridge by its index; one that is no port of the bridge, if it is not.
    #[inline(always)]
    pub(crate) fn number(&self, port: u16) -> u8 {
        self.numbers.get(usize::from(port)).copied().unwrap_or(NOWHERE)
    }

    /// What is known of a port by its number.
    #[inline(always)]
    pub(crate) fn port(&self, number: u8) -> &PortPlan {
        &self.ports[usize::from(number) % PORTS]
    }

    /// Where frames from a port may go, by its number.
    #[inline(always)]
    pub(crate) fn reaches(&self, number: u8) -> Ports {
        self.reaches[usize::from(number) % PORTS]
    }

    /// What every frame of a port asks for.
    #[inline(always)]
    pub(crate) fn usual(&self, number: u8) -> &Usual {
        &self.usual[usize::from(number) % PORTS]
    }

    /// What is known of a VLAN.
    #[inline(always)]
    pub(crate) fn vlan(&self, vlan: u16) -> &VlanPlan {
        &self.vlans[usize::from(vlan) % VLANS]
    }

    /// Where frames of a VLAN may go that came in by a port.
    #[inline(always)]
    pub(crate) fn reach(&self, vlan: u16, from: u8) -> Ports {
        self.vlan(vlan).members & self.port(from).reach
    }
}

fn port_plan(port: &PortOfBridge, reach: Ports) -> PortPlan {
    PortPlan {
        reach,
        vlan: port.vlan.unwrap_or(0),
        accept: port.accept,
        learns: port.learn,
        max_macs: port.max_macs.unwrap_or(u32::MAX),
        storm: storm(&port.storm),
        fast_leave: port.fast_leave,
    }
}

fn storm(config: &StormConfig) -> [Bounds; KINDS] {
    /// The longest frame, in bits: a reserve below that would let none pass.
    const FRAME: u64 = 8 * weir_packet::MAX_FRAME as u64;
    let bounds = |frames: Option<weir_config::PacketRate>, bits: Option<weir_config::Rate>| {
        [
            frames.map(|rate| Pace::saving_a_tenth(rate.packets_per_second(), 1)),
            bits.map(|rate| Pace::saving_a_tenth(rate.bits_per_second(), FRAME)),
        ]
    };
    [
        bounds(config.broadcast, config.broadcast_bits),
        bounds(config.multicast, config.multicast_bits),
        bounds(config.unknown, config.unknown_bits),
    ]
}

fn numbers(ports: &[PortInfo]) -> Vec<u8> {
    let most = ports.iter().map(|port| usize::from(port.index) + 1).max().unwrap_or(0);
    let mut numbers = vec![NOWHERE; most];
    for (number, port) in (0..).zip(ports) {
        if let Some(place) = numbers.get_mut(usize::from(port.index)) {
            *place = number;
        }
    }
    numbers
}

fn vlans(config: &BridgeConfig, routed: &RoutedSides) -> Box<[VlanPlan; VLANS]> {
    let mut vlans = Box::new([VlanPlan::default(); VLANS]);
    let mut join = |vlan: u16, port: u8, untagged: bool| {
        let plan = &mut vlans[usize::from(vlan) % VLANS];
        plan.members |= bit(port);
        plan.untagged |= if untagged { bit(port) } else { 0 };
    };
    for (number, port) in (0..).zip(config.ports.values()) {
        if config.tagging == Tagging::None {
            join(0, number, true);
        }
        port.vlan.into_iter().for_each(|vlan| join(vlan, number, true));
        port.tagged.iter().flat_map(|vlans| vlans.iter()).for_each(|vlan| join(vlan, number, false));
    }
    for (port, side) in routed.iter().filter(|_| config.tagging != Tagging::None) {
        side.vlans().for_each(|vlan| join(vlan, *port, false));
    }
    vlans
}

fn snooping(config: &BridgeConfig, snooping: &SnoopingConfig) -> Option<Snooping> {
    // Who routes hears all: interfaces report no groups, not even those in which neighbours ask for them (RFC 4861 section 7.2.1).
    let kind_of = |port: &PortOfBridge| match port.multicast_router {
        RouterPort::Auto if port.routed => RouterPort::Always,
        kind => kind,
    };
    let with = |kind| {
        let ports = (0..).zip(config.ports.values());
        ports.filter(|(_, port)| kind_of(port) == kind).map(|(n, _)| bit(n)).sum()
    };
    snooping.enabled.then(|| Snooping {
        floods: snooping.unregistered == Unregistered::Flood,
        membership: snooping.membership.nanos(),
        router: snooping.router.nanos(),
        last_member: snooping.last_member.nanos(),
        rate: Pace::saving_a_tenth(snooping.rate.packets_per_second(), 64),
        always: with(RouterPort::Always),
        never: with(RouterPort::Never),
        groups: config.limits.groups as usize,
    })
}
