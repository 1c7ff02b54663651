//! The keys of `bridge`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_config::{FilePath, MacAddress, Nanos, PacketRate, PortName, Rate, choice, config};
use weir_stage::entry;

use crate::acl::{Action, Rule};
use crate::words::Vlans;

choice! {
    /// What a bridge makes of tags.
    pub enum Tagging {
        /// Nothing: frames pass as they are, and a station is known by its address alone.
        None = "none",
        /// It is aware of customer VLANs, tags of EtherType 0x8100 (IEEE 802.1Q). Frames with other tags count as untagged.
        Customer = "802.1q",
        /// It is aware of service VLANs, tags of EtherType 0x88a8 (IEEE 802.1ad). Frames with other tags count as untagged.
        Service = "802.1ad",
    }
}

choice! {
    /// Which frames a port takes, by their tags (IEEE 802.1Q section 6.9).
    pub enum Accept {
        /// With a tag or without.
        All = "all",
        /// Only those with a tag that names a VLAN.
        Tagged = "tagged",
        /// Only those without, or with a tag of a priority alone.
        Untagged = "untagged",
    }
}

choice! {
    /// What becomes of frames from a station that is not learned because a limit is reached.
    pub enum OnLimit {
        /// They are forwarded, and answers to them flooded.
        Forward = "forward",
        /// They are dropped as `mac-limit`.
        Drop = "drop",
    }
}

choice! {
    /// Which frames to 01:80:c2:00:00:00 to 0f, the addresses that bridges keep to themselves, are passed.
    pub enum ControlFrames {
        /// None (IEEE 802.1Q section 8.6.3).
        Drop = "drop",
        /// Those of the spanning tree protocols, to 01:80:c2:00:00:00: bridges around find loops through this one.
        Stp = "stp",
        /// All but MAC pause frames, to 01:80:c2:00:00:01: spanning tree, LACP, 802.1X, LLDP.
        All = "all",
    }
}

choice! {
    /// Whether a multicast router is behind a port.
    pub enum RouterPort {
        /// As long as queries, PIM hellos or router advertisements of RFC 4286 come from there.
        Auto = "auto",
        /// Yes.
        Always = "always",
        /// No, whatever comes from there.
        Never = "never",
    }
}

choice! {
    /// Where frames go to groups that nobody has asked for.
    pub enum Unregistered {
        /// To all ports of the VLAN.
        Flood = "flood",
        /// To the ports of multicast routers.
        Routers = "routers",
    }
}

config! {
    /// How much of what is sent to many a port takes in. Each bound has a reserve of a tenth of a second; what exceeds it is dropped as `storm-broadcast`,
    /// `storm-multicast` or `storm-unknown`.
    pub struct StormConfig {
        /// Broadcasts.
        pub broadcast: Option<PacketRate> = optional, live, range(PacketRate::new(1)..=PacketRate::new(1_000_000_000));
        /// Bits of broadcasts, of Ethernet without check sequence.
        pub broadcast_bits: Option<Rate> = optional, live, range(Rate::new(1_000)..=Rate::new(1_000_000_000_000));
        /// Frames to groups, but broadcasts.
        pub multicast: Option<PacketRate> = optional, live, range(PacketRate::new(1)..=PacketRate::new(1_000_000_000));
        /// Bits of frames to groups, but broadcasts.
        pub multicast_bits: Option<Rate> = optional, live, range(Rate::new(1_000)..=Rate::new(1_000_000_000_000));
        /// Frames to stations that are not known.
        pub unknown: Option<PacketRate> = optional, live, range(PacketRate::new(1)..=PacketRate::new(1_000_000_000));
        /// Bits of frames to stations that are not known.
        pub unknown_bits: Option<Rate> = optional, live, range(Rate::new(1_000)..=Rate::new(1_000_000_000_000));
    }
}

config! {
    /// An access list: rules in their order, of which the first that a frame matches says what becomes of it.
    pub struct AclConfig {
        /// Rules, such as `deny from 02:00:00:00:00:00/24 vlan 10 ethertype ipv4`.
        pub rules: Vec<Rule> = empty, live;
        /// Further rules, behind those, from a file with the column `rule`.
        pub rules_csv: Option<FilePath> = optional, live;
        /// What becomes of a frame that no rule matches.
        pub default: Action = required, live;
    }
}

config! {
    /// A port of a bridge.
    pub struct PortOfBridge {
        /// The VLAN of frames without a tag, both ways. Without it, and with `tagging`, the port takes none of them.
        pub vlan: Option<u16> = optional, live, range(1..=4094);
        /// The VLANs whose frames have their tag here, both ways.
        pub tagged: Option<Vlans> = optional, live;
        /// Which frames it takes, by their tags.
        pub accept: Accept = default(Accept::All), live;
        /// Whether it is cut off from all other isolated ports.
        pub isolated: bool = default(false), live;
        /// Whether it is a routed side, an end of a joint: it is in the VLANs of the interfaces at the other end, too, and those are stations that stay
        /// there. `interface { on = "bridge:NAME" }` makes such a port.
        pub routed: bool = default(false), live;
        /// Whether stations behind it are learned.
        pub learn: bool = default(true), live;
        /// Stations that are learned behind it at most.
        pub max_macs: Option<u32> = optional, live;
        /// How much of what is sent to many it takes in.
        pub storm: StormConfig = empty, live;
        /// The access list that judges frames that come in by it, one of `acls`.
        pub acl_in: Option<String> = optional, rebuild;
        /// The access list that judges frames that leave by it.
        pub acl_out: Option<String> = optional, rebuild;
        /// Whether a multicast router is behind it.
        pub multicast_router: RouterPort = default(RouterPort::Auto), live;
        /// Whether a group ends at once when a station leaves it: for ports with one station behind them.
        pub fast_leave: bool = default(false), live;
    }
}

entry! {
    /// A station that stays where it is said to be: it is not learned elsewhere, and does not age.
    pub struct StaticMac by (mac: MacAddress, vlan: Option<u16>) {
        /// Its address.
        pub mac: MacAddress = required, live;
        /// Its VLAN, if the bridge is aware of VLANs.
        pub vlan: Option<u16> = optional, live, range(1..=4094);
        /// The port that it is behind; frames to it are dropped as `blackhole` when absent.
        pub port: Option<PortName> = optional, live;
    }
}

/// A time in seconds.
const fn seconds(count: u64) -> Nanos {
    Nanos::new(count * 1_000_000_000)
}

config! {
    /// A querier (RFC 3376, RFC 3810): the bridge asks who listens to what, where no multicast router does.
    pub struct QuerierConfig {
        /// Whether it asks.
        pub enabled: bool = default(false), live;
        /// The VLANs in which it asks; all that have ports when absent.
        pub vlans: Option<Vlans> = optional, live;
        /// The address that it asks from in IPv4. When absent, 0.0.0.0, before which any other querier goes; else the one with the lowest address asks.
        pub address: Option<Ipv4Addr> = optional, live;
        /// The link-local address that it asks from in IPv6; one that is made of the bridge's name when absent.
        pub address_ipv6: Option<Ipv6Addr> = optional, live;
        /// Time between two questions (RFC 3376 section 8.2).
        pub interval: Nanos = default(seconds(125)), live, range(seconds(2)..=seconds(18_000));
        /// Time within which stations answer (section 8.3); shorter than `interval`.
        pub response: Nanos = default(seconds(10)), live, range(seconds(1)..=seconds(30));
        /// How many messages in a row may be lost (section 8.1).
        pub robustness: u8 = default(2), live, range(1..=7);
    }
}

config! {
    /// IGMP and MLD snooping (RFC 4541): frames to a group go where somebody listens to it, and to multicast routers.
    pub struct SnoopingConfig {
        /// Whether it is done.
        pub enabled: bool = default(false), live;
        /// Where frames go to groups that nobody has asked for.
        pub unregistered: Unregistered = default(Unregistered::Flood), live;
        /// How long a port that reported a group stays in it without another report (RFC 3376 section 8.4).
        pub membership: Nanos = default(seconds(260)), live, range(seconds(1)..=seconds(86_400));
        /// How long a multicast router is believed in without a query (RFC 3376 section 8.5).
        pub router: Nanos = default(seconds(255)), live, range(seconds(1)..=seconds(86_400));
        /// How long a port stays in a group after the querier asked for just that group (RFC 3376 section 8.8: the time of two answers).
        pub last_member: Nanos = default(seconds(2)), live, range(Nanos::new(100_000_000)..=seconds(60));
        /// Messages that are looked at per second, from each worker; what comes beyond is dropped as `snoop-policed`.
        pub rate: PacketRate = default(PacketRate::new(1_000)), live, range(PacketRate::new(1)..=PacketRate::new(100_000));
        /// Whether, and how, the bridge asks who listens.
        pub querier: QuerierConfig = empty, live;
    }
}

config! {
    /// Bounds of what a bridge keeps in mind.
    pub struct BridgeLimits {
        /// Stations that are learned on all ports together; 16 bytes for each, rounded up to a power of two, and at least 1 MiB.
        pub macs: u32 = default(65_536), rebuild, range(1..=4_194_304);
        /// Stations that are learned in each VLAN at most.
        pub macs_per_vlan: Option<u32> = optional, live;
        /// Groups that are kept in mind, over all VLANs. What is asked for beyond is not registered.
        pub groups: u32 = default(1_024), live, range(1..=65_536);
    }
}

config! {
    /// Switches frames among ports by Ethernet address, and by VLAN if it is told to.
    pub struct BridgeConfig {
        /// Its ports, by name, each with what is special about it: `{ a = {}, b = { vlan = 10 } }`.
        pub ports: BTreeMap<PortName, PortOfBridge> = required, rebuild, length(1..=64);
        /// What it makes of tags.
        pub tagging: Tagging = default(Tagging::None), rebuild;
        /// Access lists by name, which ports have for what comes in and for what leaves: `acl_in` and `acl_out` of the port.
        pub acls: BTreeMap<String, AclConfig> = empty, live;
        /// How long a station is remembered that sends nothing, to within a sixteenth more.
        pub ageing: Nanos = default(seconds(300)), live, range(seconds(1)..=seconds(1_000_000));
        /// Stations that stay where they are said to be.
        pub macs: Vec<StaticMac> = empty, live;
        /// What becomes of frames from a station that is not learned because a limit is reached.
        pub on_limit: OnLimit = default(OnLimit::Forward), live;
        /// How often stations may move to a port, per second; frames of those that move more often are dropped as `move-limit`.
        pub max_moves: Option<PacketRate> = optional, live, range(PacketRate::new(1)..=PacketRate::new(1_000_000));
        /// Which frames to the addresses that bridges keep to themselves are passed.
        pub control_frames: ControlFrames = default(ControlFrames::Drop), live;
        /// IGMP and MLD snooping.
        pub snooping: SnoopingConfig = empty, live;
        /// Bounds of what it keeps in mind.
        pub limits: BridgeLimits = empty, rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(BridgeConfig::schema().defects(), Vec::<String>::new());
    }
}
