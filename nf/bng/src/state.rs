//! What the control side knows. Requests, shows and the slow path share it; workers see it through tables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::{Ipv4Net, Ipv6Net};

use crate::config::BngConfig;
use crate::control::ErrorLimits;
use crate::core_side::CoreSide;
use crate::fib::Fib;
use crate::ports::Ports;
use crate::registry::Registry;

/// All that the control side knows.
pub(crate) struct Control {
    /// Subscribers and their addresses.
    pub(crate) registry: Registry,
    /// Routes and gateways.
    pub(crate) fib: Fib,
    /// Neighbours on the core side.
    pub(crate) core: CoreSide,
    pub(crate) ports: Arc<Ports>,
    /// The gateway's addresses towards customers, with their networks.
    pub(crate) addresses: Vec<Ipv4Net>,
    /// The same of IPv6.
    pub(crate) addresses6: Vec<Ipv6Net>,
    /// How many ICMP errors are sent.
    pub(crate) errors: ErrorLimits,
    /// The configuration as it is now.
    pub(crate) config: BngConfig,
}

/// The lock on what requests, shows and the slow path share. A panic elsewhere does not make it unusable: every change
/// keeps it whole.
pub(crate) fn lock(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
