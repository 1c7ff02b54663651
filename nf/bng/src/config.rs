//! The keys of `bng`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use weir_config::{
    FilePath, InterfaceAddress, MacAddress, Nanos, OneOrMany, PacketRate, PortName, choice, config, either,
};
use weir_ip::{FlowExportConfig, NeighborTimers, VrfConfig};
use weir_sched::classify::ClassifyConfig;
use weir_sched::config::SchedulerConfig;
use weir_sched::police::PolicerConfig;
use weir_sched::remark::{MAX_RULES, RemarkConfig};
use weir_stage::entry;

use crate::words::{Profile, Source4, Source6};

choice! {
    /// What customers' packets are wrapped in towards the core.
    pub enum CoreEncapsulation {
        /// In GRE with the subscriber's key (RFC 2890) over IPv4, below MPLS labels where the gateway has some.
        GreMpls = "gre+mpls",
        /// In nothing: plain routed IP.
        Ip = "ip",
    }
}

choice! {
    /// The EtherType of the outer tag (SVLAN).
    pub enum Tpid {
        /// IEEE 802.1ad.
        Svlan = "0x88a8",
        /// IEEE 802.1Q, as older switches stack tags.
        Cvlan = "0x8100",
    }
}

impl Tpid {
    /// The EtherType.
    pub(crate) const fn ethertype(self) -> u16 {
        match self {
            Tpid::Svlan => weir_wire::ethernet::SVLAN,
            Tpid::Cvlan => weir_wire::ethernet::CVLAN,
        }
    }
}

choice! {
    /// Where the DSCP of the outer header comes from.
    pub enum DscpMode {
        /// The customer's packet (RFC 2983: uniform).
        Copy = "copy",
    }
}

either! {
    /// The DSCP of the outer header.
    pub enum TunnelDscp {
        /// That of the customer's packet.
        Mode(DscpMode),
        /// This one (RFC 2983: pipe).
        Value(u8),
    }
}

config! {
    /// The outer IPv4 header of packets to the core.
    pub struct TunnelConfig {
        /// Its TTL.
        pub ttl: u8 = default(64), rebuild, range(1..=255);
        /// Its DSCP: a number from 0 to 63, or `copy` for that of the customer's packet.
        pub dscp: TunnelDscp = default(TunnelDscp::Mode(DscpMode::Copy)), rebuild;
        /// Whether it must not be fragmented on its way. If it may, each packet gets an identification of its own.
        pub df: bool = default(true), rebuild;
        /// Whether a customer's packet that does not fit is wrapped all the same, and the outer packet fragmented (without DF). Otherwise
        /// the customer is told, or his packet is fragmented itself if it may be.
        pub fragment: bool = default(false), rebuild;
    }
}

config! {
    /// An entry of a label stack (RFC 3032).
    pub struct LabelConfig {
        /// The label; 0 is explicit null, and 1 to 15 have other meanings (RFC 3032 section 2.1).
        pub label: u32 = required, rebuild, range(0..=1_048_575);
        /// Its traffic class (RFC 5462).
        pub tc: u8 = default(0), rebuild, range(0..=7);
        /// Its TTL.
        pub ttl: u8 = default(64), rebuild, range(1..=255);
    }
}

either! {
    /// A label, alone or with its other fields.
    pub enum Label {
        /// The label, with the usual traffic class and TTL.
        Value(u32),
        /// All fields.
        Entry(LabelConfig),
    }
}

impl Label {
    /// All fields.
    pub(crate) fn entry(&self) -> LabelConfig {
        match self {
            Label::Value(label) => LabelConfig { label: *label, tc: 0, ttl: 64 },
            Label::Entry(entry) => entry.clone(),
        }
    }
}

config! {
    /// A gateway of the core: where routes lead. One whose Ethernet address is not written is asked for by ARP or neighbour discovery.
    pub struct GatewayConfig {
        /// The core port behind which it is, or the interface on one.
        pub port: String = required, rebuild;
        /// Its address: the other end of the tunnel with `gre+mpls`, of IPv4; the next router with `ip`.
        pub address: IpAddr = required, rebuild;
        /// The next router on the way to it, where that is another one; of either family (RFC 8950).
        pub via: Option<IpAddr> = optional, rebuild;
        /// The Ethernet address of the next router, which is not asked for then.
        pub mac: Option<MacAddress> = optional, rebuild;
        /// MPLS labels on packets to it, the outermost first.
        pub labels: Vec<Label> = empty, rebuild, length(0..=3);
        /// Bytes that labels and outer IPv4 packet may have together; the MTU of the port when absent.
        pub mtu: Option<u16> = optional, rebuild, range(116..=9198);
    }
}

entry! {
    /// A subscriber: who is behind a pair of tags.
    pub struct SubscriberConfig by (port: Option<PortName>, svlan: u16, cvlan: u16) {
        /// The access port; the only one when absent.
        pub port: Option<PortName> = optional, live;
        /// The outer tag's VLAN identifier.
        pub svlan: u16 = required, live, range(1..=4094);
        /// The inner tag's VLAN identifier.
        pub cvlan: u16 = required, live, range(1..=4094);
        /// The GRE key towards the core.
        pub key: Option<u32> = optional, live;
        /// The number of the user in schedulers; a number of its own when absent.
        pub user: Option<u32> = optional, live;
        /// IPv4 addresses and prefixes that the subscriber may use.
        pub ipv4: OneOrMany<Source4> = empty, live;
        /// IPv6 prefixes that the subscriber may use.
        pub ipv6: OneOrMany<Source6> = empty, live;
        /// The only Ethernet address that the subscriber may use.
        pub mac: Option<MacAddress> = optional, live;
        /// The name of the profile for schedulers.
        pub profile: Option<Profile> = optional, live;
    }
}

either! {
    /// The subscribers.
    pub enum SubscribersConfig {
        /// A CSV file with the columns `port,svlan,cvlan,key,user,ipv4,ipv6,mac,profile`, of which all but `svlan` and `cvlan` may
        /// be missing or empty; several prefixes are parted by `;`.
        File(FilePath),
        /// The subscribers themselves.
        List(Vec<SubscriberConfig>),
    }
}

/// A time in seconds.
const fn seconds(count: u64) -> Nanos {
    Nanos::new(count * 1_000_000_000)
}

config! {
    /// What is learned about who is where.
    pub struct LearnConfig {
        /// Networks in which subscribers may have addresses that nobody entered; none are learned when empty.
        pub networks: OneOrMany<Ipv4Net> = empty, live;
        /// Whether addresses are learned from any packet; otherwise from ARP alone.
        pub traffic: bool = default(true), live;
        /// How long an address is remembered that sends nothing.
        pub ageing: Nanos = default(seconds(1500)), live, range(seconds(1)..=seconds(86_400));
    }
}

config! {
    /// Policers of subscribers, by the names of their profiles, before the schedulers or without any.
    pub struct PoliceConfig {
        /// Of what customers send.
        pub up: BTreeMap<String, PolicerConfig> = empty, live;
        /// Of what customers get.
        pub down: BTreeMap<String, PolicerConfig> = empty, live;
    }
}

config! {
    /// What packets of subscribers are remarked with, before the schedulers or without any: DSCP, priority and drop eligible indicator.
    pub struct RemarkingConfig {
        /// What customers send.
        pub up: Vec<RemarkConfig> = empty, live, length(0..=MAX_RULES);
        /// What customers get; its DSCPs and priorities are those that `dscp` and `pcp` of the gateway have given it.
        pub down: Vec<RemarkConfig> = empty, live, length(0..=MAX_RULES);
    }
}

config! {
    /// Shaping, policing and remarking of subscribers. Each has the profile that its entry names, in the scheduler of its access port.
    pub struct QosConfig {
        /// Which traffic class and queue a packet belongs to.
        pub classify: ClassifyConfig = empty, live;
        /// The profile of subscribers that name none; without it what is to be shaped of theirs is dropped as `no-such-user`, and nothing polices them.
        pub usual: Option<String> = optional, live;
        /// Packets in each direction that each access port's policers and schedulers look at; what comes beyond is dropped before anybody looks
        /// whose it is.
        pub limit: Option<PacketRate> = optional, rebuild;
        /// Policers of subscribers.
        pub police: PoliceConfig = empty, live;
        /// What packets are remarked with.
        pub remark: RemarkingConfig = empty, live;
        /// What customers send: shaped before anything else is done with it, for each access port by itself.
        pub up: Option<SchedulerConfig> = optional, rebuild;
        /// What customers get: shaped last, so that nothing is lost behind it, for each access port by itself.
        pub down: Option<SchedulerConfig> = optional, rebuild;
        /// What customers send and get, through one scheduler for each access port, in place of `up` and `down`: rates and guarantees are those of both
        /// directions together.
        pub both: Option<SchedulerConfig> = optional, rebuild;
    }
}

config! {
    /// Bounds of the tables. What does not fit is refused by name; nothing grows beyond.
    pub struct BngLimits {
        /// Subscribers.
        pub subscribers: u32 = default(65_536), rebuild, range(1..=1_048_576);
        /// Addresses of all subscribers, fixed and learned.
        pub bindings: u32 = default(131_072), rebuild, range(1..=4_194_304);
        /// Pairs of access port and SVLAN that have subscribers; each takes 32 KiB.
        pub svlans: u32 = default(4096), rebuild, range(1..=131_072);
        /// Learned IPv4 addresses of one subscriber.
        pub addresses: u32 = default(8), live, range(1..=1024);
        /// IPv6 addresses of one subscriber whose Ethernet addresses are known, where several stations share a network.
        pub hosts_ipv6: u32 = default(32), live, range(2..=1024);
        /// Routes.
        pub routes: u32 = default(65_536), rebuild, range(1..=4_000_000);
        /// Packets that wait in the slow path.
        pub queue: u32 = default(1024), rebuild, range(1..=16_384);
        /// Fragments of outer packets that wait for the rest of theirs; none are put together when 0.
        pub fragments: u32 = default(256), rebuild, range(0..=16_384);
    }
}

config! {
    /// What the log tells of customers whose packets are refused because they are hostile or broken: spoofed sources, Ethernet addresses
    /// that move, storms of ARP, malformed tags and lengths.
    pub struct LogConfig {
        /// The time in which a subscriber has at most one line for each reason.
        pub interval: Nanos = default(seconds(60)), live, range(seconds(1)..=seconds(86_400));
        /// Lines about all subscribers in that time. What else there would be is counted in one more.
        pub lines: u32 = default(20), live, range(0..=1000);
    }
}

config! {
    /// Terminates broadband subscribers: QinQ on the access side, GRE over MPLS or plain IP on the core side.
    pub struct BngConfig {
        /// Ports towards customers.
        pub access: Vec<PortName> = required, rebuild, length(1..=32);
        /// Ports towards the core.
        pub core: Vec<PortName> = required, rebuild, length(1..=32);
        /// What packets are wrapped in towards the core.
        pub core_encapsulation: CoreEncapsulation = default(CoreEncapsulation::GreMpls), rebuild;
        /// The gateway's own end of its tunnels; needed with `gre+mpls`.
        pub local_address: Option<Ipv4Addr> = optional, rebuild;
        /// The outer IPv4 header.
        pub tunnel: TunnelConfig = empty, rebuild;
        /// The EtherType of the outer tag.
        pub tpid: Tpid = default(Tpid::Svlan), rebuild;
        /// The gateway's addresses on the access side, which customers have as their router.
        pub addresses: OneOrMany<InterfaceAddress> = empty, rebuild;
        /// The subscribers: a CSV file, or a list of tables.
        pub subscribers: SubscribersConfig = default(SubscribersConfig::List(Vec::new())), live;
        /// Gateways of the core, by names that routes refer to.
        pub gateways: BTreeMap<String, GatewayConfig> = required, rebuild, length(1..=4000);
        /// The gateway for each IPv4 prefix, or several that share the traffic, flow by flow. `weir route add` adds others, by gateways
        /// (`%west`) or next routers.
        pub routes: BTreeMap<Ipv4Net, OneOrMany<String>> = empty, live;
        /// The same for each IPv6 prefix.
        pub routes_ipv6: BTreeMap<Ipv6Net, OneOrMany<String>> = empty, rebuild;
        /// The IPv4 routes from a file with the columns `prefix` and `gateway`; several gateways are parted by `;`.
        pub routes_csv: Option<FilePath> = optional, live;
        /// VRFs by name for interfaces that are not for customers, such as one for management; customers' packets come and go by the default
        /// one.
        pub vrfs: BTreeMap<String, VrfConfig> = empty, rebuild;
        /// Priority (802.1p) of packets to customers, by their DSCP; 0 for those that are not named.
        pub pcp: BTreeMap<u8, u8> = empty, rebuild;
        /// The DSCP that packets to customers leave with, by that which they came with; those not named keep theirs.
        pub dscp: BTreeMap<u8, u8> = empty, rebuild;
        /// What is learned about who is where.
        pub learn: LearnConfig = empty, live;
        /// Shaping of subscribers; none when empty.
        pub qos: QosConfig = empty, live;
        /// Whether ARP requests of customers for each other's addresses are answered (RFC 1027), as neighbours can not reach
        /// each other but through here.
        pub proxy_arp: bool = default(true), live;
        /// How neighbours on the core side are found and believed in (ARP, neighbour discovery).
        pub neighbor_timers: NeighborTimers = empty, live;
        /// ICMP errors that are sent, of each kind.
        pub icmp_rate: PacketRate = default(PacketRate::new(1000)), live;
        /// Packets that each worker hands to the slow path at most.
        pub punt_rate: PacketRate = default(PacketRate::new(20_000)), rebuild;
        /// How many of them a single subscriber may cause.
        pub subscriber_punt_rate: PacketRate = default(PacketRate::new(100)), rebuild, range(PacketRate::new(1)..=PacketRate::new(1_000_000));
        /// Collectors that are told of packets which come in, one in so many, by sFlow or IPFIX; none when absent. They are told of customers' packets,
        /// without the tunnels around them. Access ports are interfaces of the same name.
        pub flow_export: Option<FlowExportConfig> = optional, live;
        /// What the log tells of hostile customers.
        pub log: LogConfig = empty, live;
        /// Bounds of the tables.
        pub limits: BngLimits = empty, rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(BngConfig::schema().defects(), Vec::<String>::new());
    }
}
