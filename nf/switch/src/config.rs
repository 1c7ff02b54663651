//! The keys of `switch`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use weir_config::{FilePath, OneOrMany, Pattern, PortName, choice, config};
use weir_stage::{Channel, Endpoint};

/// The TCP port of controllers, where none is given (section 6.3.3).
const PORT: u16 = 6653;

/// The longest path of a socket that Linux takes (unix(7)).
const LONGEST_PATH: usize = 107;

/// The form of a controller.
static CONTROLLER: Pattern = Pattern {
    what: "a controller (tcp: or tls: and its address, with a port behind it unless that is 6653; or unix: and the path of a socket from the root)",
    example: "tcp:192.0.2.9:6653",
    matches: |text| endpoint(text).is_some(),
};

/// The form of a place to listen at.
static LISTEN: Pattern = Pattern {
    what: "a place to listen at (tcp: or tls: and an address of this machine with a port; or unix: and a path from the root)",
    example: "tcp:127.0.0.1:6654",
    matches: |text| place(text).is_some(),
};

/// The form of a datapath's number.
static DATAPATH: Pattern = Pattern {
    what: "a datapath's number (16 hexadecimal digits, not all of them 0)",
    example: "0000020000000001",
    matches: |text| datapath(text).is_some(),
};

/// Where a controller is, as it is written.
fn endpoint(text: &str) -> Option<Endpoint> {
    match text.split_once(':')? {
        ("tcp", address) => address_and_port(address).map(Endpoint::Tcp),
        ("tls", address) => address_and_port(address).map(Endpoint::Tls),
        ("unix", path) => socket(path).map(Endpoint::Unix),
        _ => None,
    }
}

/// A place to listen at, as it is written: an address with a port alone is one of TCP.
fn place(text: &str) -> Option<Endpoint> {
    let bare = || text.parse().ok().filter(|address: &SocketAddr| address.port() != 0).map(Endpoint::Tcp);
    endpoint(text).or_else(bare)
}

fn address_and_port(text: &str) -> Option<SocketAddr> {
    let bare = || text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let address = text.parse().ok().or_else(|| Some(SocketAddr::new(bare()?, PORT)))?;
    (address.port() != 0).then_some(address)
}

/// The path of a socket, which leads to one place whatever folder Weir runs in.
fn socket(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let fits = text.len() <= LONGEST_PATH && !text.ends_with('/') && !text.contains(char::is_control);
    (path.is_absolute() && path.file_name().is_some() && is_plain && fits).then(|| path.to_owned())
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
    /// What a switch proves itself by to controllers, and whom it trusts: files in PEM.
    pub struct SwitchTls {
        /// Its certificate, and behind it those between it and its CA.
        pub certificate: FilePath = required, live;
        /// The key that belongs to the certificate, without a pass phrase.
        pub private_key: FilePath = required, live;
        /// The certificate of the CA, or of several, that controllers have to be signed by. Whoever it has signed can do anything with the
        /// switch, so let it sign nobody but controllers.
        pub ca: FilePath = required, live;
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
        /// Where it takes connections of controllers, and of tools like `ovs-ofctl`. By `tcp:` nothing is encrypted, and nobody has to prove
        /// who they are: whoever can connect there can do anything with it. By `tls:` both ends prove who they are. By `unix:` the file's mode
        /// lets in the user of Weir only, and root.
        pub listen: OneOrMany<String> = empty, live, length(0..=16), pattern(LISTEN);
        /// What it proves itself by over `tls:`, and whom it trusts.
        pub tls: Option<SwitchTls> = optional, live;
        /// What becomes of packets while no controller is connected.
        pub fail: Fail = default(Fail::Secure), live;
        /// Machine code may be made of what flows ask of packets, and of small tables: the manual says when. Everything becomes of packets that would without.
        pub compile: bool = default(true), live;
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
        let controllers = self.controllers.iter().filter_map(|text| endpoint(text)).map(Channel::Connect);
        let listen = self.listen.iter().filter_map(|text| place(text)).map(Channel::Listen);
        let mut channels: Vec<Channel> = controllers.chain(listen).collect();
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
        let tcp = |text: &str| Some(Endpoint::Tcp(text.parse().unwrap()));
        let tls = |text: &str| Some(Endpoint::Tls(text.parse().unwrap()));
        assert_eq!(endpoint("tcp:192.0.2.9"), tcp("192.0.2.9:6653"));
        assert_eq!(endpoint("tcp:192.0.2.9:6633"), tcp("192.0.2.9:6633"));
        assert_eq!(endpoint("tcp:[2001:db8::9]:6633"), tcp("[2001:db8::9]:6633"));
        assert_eq!(endpoint("tcp:[2001:db8::9]"), tcp("[2001:db8::9]:6653"));
        assert_eq!(endpoint("tcp:2001:db8::9"), tcp("[2001:db8::9]:6653"));
        assert_eq!(endpoint("tls:192.0.2.9"), tls("192.0.2.9:6653"));
        assert_eq!(endpoint("tls:[2001:db8::9]:6633"), tls("[2001:db8::9]:6633"));
        assert_eq!(endpoint("unix:/run/c.sock"), Some(Endpoint::Unix("/run/c.sock".into())));
        for wrong in
            ["192.0.2.9:6653", "ssl:192.0.2.9", "tcp:", "tls:", "tcp:controller", "tcp:192.0.2.9:0", "tcp:192.0.2.9:x"]
        {
            assert_eq!(endpoint(wrong), None, "{wrong}");
        }
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        for wrong in ["", "/", "c.sock", "./c.sock", "/run/../c.sock", "/run/", "/run/c\n", &long] {
            assert_eq!(endpoint(&format!("unix:{wrong}")), None, "{wrong}");
        }
        assert!(socket(&long[..LONGEST_PATH]).is_some());
    }

    #[test]
    fn an_address_alone_is_listened_at_by_tcp() {
        assert_eq!(place("127.0.0.1:6654"), place("tcp:127.0.0.1:6654"));
        assert_eq!(place("[::1]:6654"), Some(Endpoint::Tcp("[::1]:6654".parse().unwrap())));
        assert_eq!(place("unix:/run/c.sock"), endpoint("unix:/run/c.sock"));
        for wrong in ["127.0.0.1", "127.0.0.1:0", "6654", "localhost:6654", "udp:127.0.0.1:6654"] {
            assert_eq!(place(wrong), None, "{wrong}");
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
