//! What the control side knows. Requests, shows and the slow path share it; workers see it through tables.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::Ipv4Net;

use crate::config::BngConfig;
use crate::fib::Fib;
use crate::ports::Ports;
use crate::registry::Registry;

/// All that the control side knows.
pub(crate) struct Control {
    /// Subscribers and their addresses.
    pub(crate) registry: Registry,
    /// Routes and gateways.
    pub(crate) fib: Fib,
    pub(crate) ports: Arc<Ports>,
    /// The gateway's addresses towards customers, with their networks.
    pub(crate) addresses: Vec<Ipv4Net>,
    /// Addresses of the core ports, by position of the port.
    pub(crate) core_addresses: Vec<(u8, Ipv4Net)>,
    /// The gateway's end of tunnels; 0.0.0.0 with plain IP.
    pub(crate) local: Ipv4Addr,
    /// The configuration as it is now.
    pub(crate) config: BngConfig,
}

/// The lock on what requests, shows and the slow path share. A panic elsewhere does not make it unusable: every change
/// keeps it whole.
pub(crate) fn lock(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
