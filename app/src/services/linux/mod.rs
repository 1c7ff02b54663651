//! The services by which a Linux network namespace speaks for a VRF: one that moves frames through TAPs, and one that takes routes. They share
//! nothing, so that a flood of routes keeps no frame waiting.

mod compare;
mod daemon;
mod routes;
mod taps;

use weir_stage::{HostSide, MakeService, Need, Service};

use super::{Bell, SideSlot};

/// Makes one of the services.
pub(super) struct Maker {
    name: String,
    function: String,
    need: Need,
    side: SideSlot<dyn HostSide>,
}

impl Maker {
    /// That of a function's need.
    pub(super) fn new(function: &str, need: &Need, side: SideSlot<dyn HostSide>) -> Maker {
        let (what, vrf) = match need {
            Need::Taps { vrf, .. } => ("taps", vrf.as_str()),
            Need::Routes { vrf, .. } => ("routes", vrf.as_str()),
            // Others' makers have those.
            Need::Export { .. } | Need::Channel(_) | Need::Flows(_) => ("", ""),
        };
        let name = format!("{function}.{what}.{vrf}");
        Maker { name, function: function.to_owned(), need: need.clone(), side }
    }
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> &str {
        &self.function
    }

    fn make(&self, now: u64) -> Result<Box<dyn Service>, String> {
        match &self.need {
            Need::Taps { netns, .. } => Ok(Box::new(taps::Taps::new(netns.as_deref(), self.side.clone())?)),
            Need::Routes { netns, table, fpm, .. } => {
                Ok(Box::new(routes::Routes::new(netns.as_deref(), (*table, *fpm), self.side.clone(), now)?))
            }
            Need::Export { .. } | Need::Channel(_) | Need::Flows(_) => Err("this is no service for Linux".to_owned()),
        }
    }
}

/// How often it is looked whether the namespace is still there, nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// Moves the thread into a network namespace.
pub(super) fn enter(netns: Option<&str>) -> Result<weir_host::namespace::Namespace, String> {
    let name = netns.unwrap_or_default();
    weir_host::namespace::Namespace::enter(netns).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("there is no network namespace {name}: make it by `ip netns add {name}`")
        }
        _ => format!("cannot enter the network namespace {name}: {error}"),
    })
}

/// A bell, as a failure to have one is told.
fn bell() -> Result<Bell, String> {
    Bell::new().map_err(|error| format!("it cannot be woken: {error}"))
}
