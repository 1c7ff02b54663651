//! Other programs beside Weir: what they say about themselves, read; and what was measured of both, put side by side.
//!
//! Processes are started elsewhere; here is what can be tested without any.

pub mod fib;
mod figures;
pub mod linux;
pub mod lookup;
pub mod lookup6;
pub mod openvswitch;
pub mod sched;
pub mod testpmd;

pub use figures::{Beside, Measured, PairFigures, limit, pair};

/// Weir's configurations for the comparisons. Each is Lua that some variables stand before: `core` always.
pub mod configurations {
    /// Port to port over DPDK's null devices.
    pub const UNTOUCHED: &str = include_str!("../../peers/untouched.lua");
    /// The same with MAC addresses exchanged.
    pub const SWAPPED: &str = include_str!("../../peers/swapped.lua");
    /// Back by the link that it came by; needs `device` and `swap`.
    pub const LINKED: &str = include_str!("../../peers/linked.lua");
    /// IPv4 from a capture file to a null device; needs `capture` and `prefixes`.
    pub const IPV4: &str = include_str!("../../peers/ipv4.lua");
    /// A switch with two ports; needs `devices` and `channel`.
    pub const SWITCH: &str = include_str!("../../peers/switch.lua");
    /// IPv4 between two veth interfaces, `r0` and `r1`.
    pub const VETH: &str = include_str!("../../peers/veth.lua");
}

/// What Weir's generator is told, the words behind the program's name.
pub mod generator {
    /// A capture file; `--count`, addresses, `--port` and `--dst-mac` are to be added.
    pub const CAPTURE: &[&str] = &["gen", "--size", "64", "--seed", "1"];
    /// Addresses of packets from one sender to destinations all over 198.18.0.0/16.
    pub const ONE_SENDER: &[&str] = &["--src", "10.0.0.1", "--dst", "198.18.0.0/16 random"];
    /// Addresses of packets from all over 20.0.0.0/8 to all over 10.0.0.0/8 and to 16 ports.
    pub const MANY_SENDERS: &[&str] =
        &["--src", "20.0.0.0/8 random", "--dst", "10.0.0.0/8 random", "--dport", "5000-5015 random"];
    /// One flow by the interface `g0` to `r0` for as long as it runs; `--core` is to be added.
    pub const FLOW: &[&str] = &[
        "gen",
        "--size",
        "64",
        "--port",
        "af_packet:g0",
        "--src",
        "192.0.2.2",
        "--dst",
        "198.18.0.9",
        "--dst-mac",
        super::linux::R0,
    ];
}

/// The line of `text` that holds a number, cut to be quoted: what a program said that is not understood.
fn quoted(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    line.chars().take(200).collect()
}
