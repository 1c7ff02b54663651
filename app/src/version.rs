//! What runs.

use serde::{Deserialize, Serialize};

use weir_protocol::VERSION;

/// The versions of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// The version of the form.
    pub(crate) version: u32,
    /// The program's version.
    pub(crate) weir: String,
    /// The version of the control socket's protocol.
    pub(crate) protocol: u32,
    /// The version of the DPDK library that it uses.
    pub(crate) dpdk: String,
    /// The network functions it knows.
    pub(crate) functions: Vec<String>,
    /// Its process number.
    pub(crate) process: u32,
}

/// This program's.
pub(crate) fn here(functions: impl Iterator<Item = &'static str>) -> Version {
    Version {
        version: VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: VERSION,
        dpdk: weir_port_dpdk::eal::Eal::version().to_owned(),
        functions: functions.map(str::to_owned).collect(),
        process: std::process::id(),
    }
}
