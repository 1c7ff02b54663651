//! What the control side knows. Requests, shows and the slow path share it; workers see it through tables.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::{Ipv4Net, Ipv6Net};
use weir_net::neighbor::own;

use crate::config::BngConfig;
use crate::control::ErrorLimits;
use crate::core_side::CoreSide;
use crate::fib::Fib;
use crate::ports::Ports;
use crate::registry::Registry;
use crate::table::Tags;

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
    /// When the gateway's addresses were defended, by line.
    pub(crate) defences: Defences,
    /// How many ICMP errors are sent.
    pub(crate) errors: ErrorLimits,
    /// The configuration as it is now.
    pub(crate) config: Arc<BngConfig>,
}

/// When the gateway last defended its address on a line; of a bounded number of lines.
#[derive(Debug, Default)]
pub(crate) struct Defences(HashMap<Tags, u64>);

/// Lines that are defended within [`own::DEFEND_INTERVAL`]; on others a station that uses the gateway's address is not answered.
const DEFENDED: usize = 4096;

impl Defences {
    /// Whether the address may be defended on a line now; if so, it is noted.
    pub(crate) fn may(&mut self, line: Tags, now: u64) -> bool {
        if !own::may_defend(self.0.get(&line).copied(), now) {
            return false;
        }
        if self.0.len() >= DEFENDED {
            self.0.retain(|_, defended| !own::may_defend(Some(*defended), now));
        }
        let has_room = self.0.len() < DEFENDED;
        if has_room {
            self.0.insert(line, now);
        }
        has_room
    }
}

/// The lock on what requests, shows and the slow path share. A panic elsewhere does not make it unusable: every change
/// keeps it whole.
pub(crate) fn lock(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
