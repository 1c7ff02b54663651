//! The keys of `switch`.

use std::net::{IpAddr, SocketAddr};

use weir_config::{Pattern, PortName, choice, config};
use weir_stage::Channel;

/// The TCP port of controllers, where none is given (section 6.3.3).
const PORT: u16 = 6653;

/// The form of a controller.
static CONTROLLER: Pattern = Pattern {
    what: "a controller (tcp: and its address, with a port behind it unless that is 6653; TLS is not there yet)",
    example: "tcp:192.0.2.9:6653",
    matches: |text| controller(text).is_some(),
};

/// The form of a place to listen at.
static LISTEN: Pattern = Pattern {
    what: "an address of this machine and a TCP port",
    example: "127.0.0.1:6654",
    matches: |text| text.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0),
};

/// The form of a datapath's number.
static DATAPATH: Pattern = Pattern {
    what: "a datapath's number (16 hexadecimal digits, not all of them 0)",
    example: "0000020000000001",
    matches: |text| datapath(text).is_some(),
};

/// A controller as it is written.
fn controller(text: &str) -> Option<Channel> {
    let address = text.strip_prefix("tcp:")?;
    let bare = || address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let address = address.parse().ok().or_else(|| Some(SocketAddr::new(bare()?, PORT)))?;
    (address.port() != 0).then_some(Channel::Connect(address))
}

/// A datapath's number as it is written.
pub(crate) fn datapath(text: &str) -> Option<u64> {
    let is_whole = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|number| is_whole && *number != 0)
}

choice! {
    /// What becomes of packets while no controller is connected (section 6.3.2).
    pub enum Fail {
        /// The tables go on as they are; what should go to controllers is dropped.
        Secure = "secure",
        /// All packets are switched as by a bridge that learns where stations are.
        Standalone = "standalone",
    }
}

config! {
    /// Bounds of what controllers may enter, and of what is learned.
    pub struct SwitchLimits {
        /// Flows in each table; one takes about 1 kB, more with many actions.
        pub flows: u32 = default(16_384), rebuild, range(1..=1_000_000);
        /// Groups.
        pub groups: u32 = default(1_024), rebuild, range(1..=65_536);
        /// Meters.
        pub meters: u32 = default(1_024), rebuild, range(1..=65_536);
        /// Stations that are learned for packets that are switched as by a bridge.
        pub stations: u32 = default(16_384), rebuild, range(1..=1_048_576);
    }
}

config! {
    /// An OpenFlow 1.3 switch: packets go through flow tables that controllers fill.
    pub struct SwitchConfig {
        /// Its ports, by name. The first is port 1 to controllers, the second port 2, and so on.
        pub ports: Vec<PortName> = required, rebuild, length(1..=200);
        /// Its number, by which controllers know it; when absent, the Ethernet address of its first port.
        pub datapath_id: Option<String> = optional, rebuild, pattern(DATAPATH);
        /// Controllers that it connects to.
        pub controllers: Vec<String> = empty, live, length(0..=16), pattern(CONTROLLER);
        /// Where it takes connections of controllers, and of tools like `ovs-ofctl`. Whoever can connect there can do anything with it: nothing is
        /// encrypted, and nobody has to prove who they are.
        pub listen: Option<String> = optional, live, pattern(LISTEN);
        /// What becomes of packets while no controller is connected.
        pub fail: Fail = default(Fail::Secure), live;
        /// How many flow tables it has.
        pub tables: u8 = default(16), rebuild, range(1..=254);
        /// Bounds of what controllers may enter, and of what is learned.
        pub limits: SwitchLimits = empty, rebuild;
    }
}

impl SwitchConfig {
    /// Its channels: controllers that it connects to, and where it listens; each once.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        // The schema has checked all of them.
        let listen = self.listen.iter().filter_map(|text| text.parse().ok()).map(Channel::Listen);
        let mut channels: Vec<Channel> =
            self.controllers.iter().filter_map(|text| controller(text)).chain(listen).collect();
        channels.sort_unstable();
        channels.dedup();
        channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(SwitchConfig::schema().defects(), Vec::<String>::new());
    }

    #[test]
    fn controllers_are_read_as_people_write_them() {
        let at = |text: &str| Some(Channel::Connect(text.parse().unwrap()));
        assert_eq!(controller("tcp:192.0.2.9"), at("192.0.2.9:6653"));
        assert_eq!(controller("tcp:192.0.2.9:6633"), at("192.0.2.9:6633"));
        assert_eq!(controller("tcp:[2001:db8::9]:6633"), at("[2001:db8::9]:6633"));
        assert_eq!(controller("tcp:[2001:db8::9]"), at("[2001:db8::9]:6653"));
        assert_eq!(controller("tcp:2001:db8::9"), at("[2001:db8::9]:6653"));
        for wrong in ["192.0.2.9:6653", "tls:192.0.2.9", "tcp:", "tcp:controller", "tcp:192.0.2.9:0", "tcp:192.0.2.9:x"]
        {
            assert_eq!(controller(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_datapath_has_16_digits() {
        assert_eq!(datapath("00000200000000aF"), Some(0x0200_0000_00af));
        for wrong in
            ["0000000000000000", "1", "0x00020000000001", "00000000000000001", "000000000000000g", "+000000000000001"]
        {
            assert_eq!(datapath(wrong), None, "{wrong}");
        }
    }
}
