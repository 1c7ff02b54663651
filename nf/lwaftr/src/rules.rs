//! What the configuration says of packets, as workers need it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_filter::Filter;
use weir_ip::InterfaceId;

use crate::config::{EchoPort, LwaftrConfig, SideConfig};
use crate::words::FilterText;

/// Of one side.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// Which interfaces it has, by number; `None`: all.
    interfaces: Option<Vec<bool>>,
    /// Bytes of the longest packet that leaves, as far as the configuration says it.
    pub(crate) mtu: usize,
    pub(crate) allow_icmp: bool,
    pub(crate) icmp_errors: bool,
    /// Errors in a period, and its nanoseconds.
    pub(crate) rate: (u32, u64),
    /// Fragments that wait, and those of one packet.
    pub(crate) fragments: (usize, usize),
    pub(crate) ingress: Option<Filter>,
    pub(crate) egress: Option<Filter>,
}

impl Side {
    fn new(config: &SideConfig, number: &impl Fn(&str) -> Option<InterfaceId>) -> Side {
        let numbers: Vec<InterfaceId> = config.interfaces.iter().filter_map(|name| number(name)).collect();
        let highest = numbers.iter().copied().max().map_or(0, usize::from);
        let interfaces = (0..=highest).map(|n| numbers.iter().any(|number| usize::from(*number) == n)).collect();
        Side {
            interfaces: Some(interfaces).filter(|_| !config.interfaces.is_empty()),
            mtu: config.mtu.map_or(usize::MAX, usize::from),
            allow_icmp: config.allow_icmp,
            icmp_errors: config.icmp_errors,
            rate: (config.error_rate.packets, config.error_rate.period.nanos()),
            fragments: (config.reassembly.fragments as usize, config.reassembly.per_packet as usize),
            ingress: config.ingress_filter.as_ref().map(compiled),
            egress: config.egress_filter.as_ref().map(compiled),
        }
    }

    /// Whether an interface is on this side.
    #[inline(always)]
    pub(crate) fn has(&self, interface: InterfaceId) -> bool {
        self.interfaces.as_ref().is_none_or(|all| all.get(usize::from(interface)) == Some(&true))
    }
}

/// A filter that is put to packets from now on.
fn compiled(filter: &FilterText) -> Filter {
    filter.0.compile();
    filter.0.clone()
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) four: Side,
    pub(crate) six: Side,
    pub(crate) hairpinning: bool,
    pub(crate) echo: EchoPort,
    /// The address that ICMPv4 errors come from.
    pub(crate) source: Ipv4Addr,
    /// The VRFs of IPv4 and of IPv6.
    pub(crate) vrfs: [u16; 2],
    pub(crate) flow_label: u32,
    pub(crate) mss: Option<u16>,
    aftr: HashSet<Ipv6Addr>,
    owned4: Vec<Ipv4Net>,
    owned6: Vec<Ipv6Net>,
}

impl Rules {
    /// Of a checked configuration, whose ICMPv4 errors come from `source`; `number` knows interfaces by their names.
    pub(crate) fn new(
        config: &LwaftrConfig,
        source: Ipv4Addr,
        vrfs: [u16; 2],
        number: impl Fn(&str) -> Option<InterfaceId>,
    ) -> Rules {
        let (mut owned4, mut owned6) = (Vec::new(), Vec::new());
        for net in config.prefixes.iter() {
            match net {
                IpNet::V4(net) => owned4.push(*net),
                IpNet::V6(net) => owned6.push(*net),
            }
        }
        Rules {
            four: Side::new(&config.ipv4, &number),
            six: Side::new(&config.ipv6, &number),
            hairpinning: config.hairpinning,
            echo: config.echo_port,
            source,
            vrfs,
            flow_label: config.flow_label,
            mss: config.mss,
            aftr: config.aftr.iter().copied().collect(),
            owned4,
            owned6,
        }
    }

    /// Whether an address is one of the relay's prefixes.
    pub(crate) fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.owned4.iter().any(|net| net.contains(&address)),
            IpAddr::V6(address) => self.owned6.iter().any(|net| net.contains(&address)),
        }
    }

    /// Whether an address is the relay's end of tunnels.
    pub(crate) fn is_aftr(&self, address: Ipv6Addr) -> bool {
        self.aftr.contains(&address)
    }
}
