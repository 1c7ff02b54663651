//! What the process that runs a configuration script says to its parent: it may have got out of its sandbox.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::IpNet;
use weir_config::{
    Catalogue, ConfigError, InterfaceAddress, Kind, MacAddress, Nanos, OneOrMany, PacketRate, PortName, Rate, Schema,
    Size, config,
};
use weir_lua::{Limits, LuaConfig, overhear};
use weir_stage::PortConfig;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "child",
    help: "JSON lines from the process that runs a configuration script",
    run,
    tokens: &[
        b"{\"Done\":",
        b"{\"Failed\":[",
        b"{\"Include\":\"x.lua\"}\n",
        b"\"kind\":\"port\"",
        b"{\"t\":[[",
        b"{\"l\":[",
        b"{\"s\":\"",
        b"{\"i\":",
        b"{\"n\":1e308}",
        b"{\"b\":true}",
        b"\"z\"",
        b"-9223372036854775808",
        b"\\u0000",
        b"\\ud800",
        b"\n",
        b"]]}",
        b"null",
    ],
    text: true,
    inputs: 100_000,
    deep: 10,
};

config! {
    /// A declaration with every sort of key.
    struct Anything {
        /// Ports.
        pub ports: Vec<PortName> = empty, live, length(0..=4);
        /// Addresses by network.
        pub routes: BTreeMap<IpNet, OneOrMany<Ipv4Addr>> = empty, live;
        /// An address with its network.
        pub address: Option<InterfaceAddress> = optional, live;
        /// A neighbour.
        pub mac: Option<MacAddress> = optional, live;
        /// How fast.
        pub rate: Option<Rate> = optional, live;
        /// How often.
        pub packets: Option<PacketRate> = optional, live;
        /// How long.
        pub time: Option<Nanos> = optional, live;
        /// How much.
        pub size: Option<Size> = optional, live;
        /// A number.
        pub number: f64 = default(0.5), live, range(0.0..=1.0);
        /// A whole number.
        pub count: u8 = default(1), live, range(1..=9);
    }
}

fn catalogue() -> Catalogue {
    let anything: Schema = Anything::schema();
    let kinds = [
        Kind::named("port", PortConfig::schema()),
        Kind::function("lua", LuaConfig::schema()),
        Kind::function("anything", anything.clone()),
        Kind::single("engine", anything),
    ];
    kinds.into_iter().collect()
}

fn run(input: &[u8]) -> bool {
    let limits = Limits { includes: 16, ..Limits::default() };
    match overhear(input, &limits) {
        Ok(Some(Ok(document))) => {
            match document.check(&catalogue(), None) {
                // What was checked is printed as a script, and read by the functions.
                Ok(checked) => {
                    assert!(!checked.to_string().is_empty(), "the engine is always there");
                    for element in checked.elements() {
                        readable(element);
                    }
                }
                Err(errors) => told(&errors),
            }
            true
        }
        Ok(Some(Err(errors))) => {
            errors.iter().for_each(|error| drop(error.to_string()));
            true
        }
        Ok(None) | Err(_) => false,
    }
}

/// What passes the schema can be read by its type.
fn readable(element: &weir_config::Element) {
    let errors = match element.kind() {
        "port" => element.read::<PortConfig>().err(),
        "lua" => element.read::<LuaConfig>().err(),
        _ => element.read::<Anything>().err(),
    };
    assert_eq!(errors, None, "{element}");
}

fn told(errors: &[ConfigError]) {
    assert!(!errors.is_empty(), "refused without a reason");
    for error in errors {
        assert!(!error.to_string().is_empty());
    }
}
