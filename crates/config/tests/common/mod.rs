//! A configuration with every sort of key, and documents written as JSON.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use serde_json::Value as Json;
use weir_config::{
    Catalogue, Checked, Declaration, Document, FilePath, InterfaceAddress, Key, Kind, MacAddress, NAME, Nanos,
    OneOrMany, PacketRate, Place, PortName, Rate, Size, Table, Value, choice, config, either,
};

choice! {
    /// What a worker does while nothing comes.
    pub enum Idle {
        /// It polls without a pause.
        Spin = "spin",
        /// It sleeps.
        Sleep = "sleep",
    }
}

config! {
    /// A route with more than its next hops.
    pub struct RouteDetail {
        /// The next hops.
        pub via: OneOrMany<Ipv4Addr> = required, live, length(1..=16);
        /// Which of several routes is taken: the one with the least.
        pub metric: u32 = default(0), live;
    }
}

either! {
    /// Where a route leads.
    pub enum Target {
        /// To these neighbours.
        Via(OneOrMany<Ipv4Addr>),
        /// The same with more detail.
        Detail(RouteDetail),
    }
}

config! {
    /// Limits of the slow path.
    pub struct Limits {
        /// ICMP errors.
        pub icmp: PacketRate = default(PacketRate::new(1_000)), live,
            range(PacketRate::new(1)..=PacketRate::new(1_000_000));
        /// How long a neighbour is believed.
        pub ageing: Nanos = default(Nanos::new(30_000_000_000)), live;
    }
}

config! {
    /// Routes packets.
    pub struct RouterConfig {
        /// The ports that belong to it.
        pub ports: Vec<PortName> = required, rebuild, length(1..=4);
        /// The workers that it runs on.
        pub workers: Vec<u16> = empty, restart_process, range(0..=127);
        /// Next hops by prefix.
        pub routes: BTreeMap<Ipv4Net, Target> = empty, live;
        /// More routes.
        pub routes_csv: Option<FilePath> = optional, live;
        /// The largest packet.
        pub mtu: u16 = default(1500), live, range(68..=9216);
        /// How much of the load the slow path may be.
        pub share: f64 = default(0.5), live, range(0.0..=1.0);
        /// The most that is let through.
        pub rate: Option<Rate> = optional, live, range(Rate::new(1_000)..=Rate::new(100_000_000_000));
        /// The memory of its tables.
        pub memory: Size = default(Size::new(1 << 20)), rebuild;
        /// Whether it answers for others.
        pub proxy_arp: bool = default(false), live;
        /// Who answers.
        pub mac: Option<MacAddress> = optional, rebuild;
        /// What it does while nothing comes.
        pub idle: Idle = default(Idle::Spin), live;
        /// A word for the log.
        pub label: Option<String> = optional, live, length(1..=8);
        /// A name for its metrics.
        pub metrics: Option<String> = optional, live, pattern(NAME);
        /// What must not pass.
        pub martians: Vec<IpNet> = empty, live;
        /// Limits of the slow path.
        pub limits: Limits = empty, live;
        /// Costs by class.
        pub costs: BTreeMap<u8, u32> = empty, live, length(0..=3);
    }
}

config! {
    /// A place where packets enter and leave.
    pub struct PortConfig {
        /// What it stands for.
        pub device: String = required, restart_port;
        /// Its addresses.
        pub address: OneOrMany<InterfaceAddress> = empty, rebuild;
    }
}

config! {
    /// The program as a whole.
    pub struct EngineConfig {
        /// How many buffers there are.
        pub buffers: u32 = default(4096), restart_process, range(64..=1_000_000);
    }
}

pub(crate) fn catalogue() -> Catalogue {
    [
        Kind::named("port", PortConfig::schema()),
        Kind::single("engine", EngineConfig::schema()),
        Kind::function("router", RouterConfig::schema()),
    ]
    .into_iter()
    .collect()
}

/// JSON as a script's value.
pub(crate) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(boolean) => Value::Bool(*boolean),
        Json::Number(number) => number.as_i64().map_or_else(|| Value::Number(number.as_f64().unwrap()), Value::Integer),
        Json::String(text) => Value::text(text),
        Json::Array(list) => Value::List(list.iter().map(value).collect()),
        Json::Object(object) => {
            let key = |key: &str| key.parse::<i64>().map_or_else(|_| Key::from(key), Key::from);
            Value::Table(object.iter().map(|(name, inner)| (key(name), value(inner))).collect::<Table>())
        }
    }
}

/// A document of declarations on lines 1, 2, ...
pub(crate) fn document(declarations: &[(&str, Json)]) -> Document {
    let declaration = |(line, (kind, table)): (u64, &(&str, Json))| Declaration {
        kind: (*kind).to_owned(),
        table: value(table),
        place: Place::line("router.lua", line),
        incomplete: false,
    };
    Document {
        file: "router.lua".to_owned(),
        declarations: (1..).zip(declarations).map(declaration).collect(),
        ..Document::default()
    }
}

pub(crate) fn checked(declarations: &[(&str, Json)]) -> Checked {
    document(declarations).check(&catalogue(), None).unwrap()
}
