//! Stage `NAME.gateways`: asks for the next routers of the configuration before anybody's packets wait for them.

use std::net::IpAddr;

use weir_ip::{Reach, Via};
use weir_net::neighbor::Resolution;
use weir_net::{DEFAULT_VRF, VrfId};
use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

use crate::config::LwaftrConfig;

weir_stage::ways! {
    /// Ways out of the stage `gateways`, which has no packets.
    pub enum Exit {
        /// Never taken.
        Out => way "out",
    }
}

/// Time between two questions, nanoseconds: as long as there is no answer, and then.
const SOON: u64 = 100_000_000;
const LATER: u64 = 1_000_000_000;

/// See the module.
pub(crate) struct Gateways {
    layer: weir_ip::Running,
    /// Next routers: the VRF, the address, and the interface that is said of some.
    all: Vec<(VrfId, IpAddr, Option<Box<str>>)>,
    next: u64,
}

impl Gateways {
    /// Those of a configuration.
    pub(crate) fn new(layer: &weir_ip::Running, config: &LwaftrConfig) -> Gateways {
        let others = config.vrfs.iter().filter_map(|(name, vrf)| Some((layer.vrf(name)?, &vrf.routes)));
        let tables = [(DEFAULT_VRF, &config.routes)].into_iter().chain(others);
        let vias =
            tables.flat_map(|(vrf, routes)| routes.values().flat_map(|vias| vias.iter()).map(move |via| (vrf, via)));
        let gateways = vias.filter_map(|(vrf, via)| match via {
            Via::Gateway(address) => Some((vrf, *address, None)),
            Via::GatewayOn(address, on) => Some((vrf, *address, Some(on.clone()))),
            Via::On(_) | Via::Into(..) | Via::Discard(_) => None,
        });
        let mut all: Vec<_> = gateways.collect();
        all.sort();
        all.dedup();
        Gateways { layer: layer.clone(), all, next: 0 }
    }

    /// Whether a next router is known; it is asked for if not.
    fn ask(&self, now: u64, (vrf, address, on): (VrfId, IpAddr, Option<&str>)) -> bool {
        match on.map(|on| self.layer.interface(on)) {
            Some(Some(interface)) => matches!(self.layer.ask(now, interface, address), Resolution::Known(_)),
            Some(None) => false,
            None => matches!(self.layer.reach_in(vrf, now, address, 0), Reach::Neighbor(_, _, Resolution::Known(_))),
        }
    }
}

/// What [`Gateways`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().polled()
}

impl Stage for Gateways {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {}

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        if now < self.next {
            return self.next;
        }
        let known = self.all.iter().filter(|(vrf, address, on)| self.ask(now, (*vrf, *address, on.as_deref()))).count();
        self.next = match self.all.len() {
            0 => u64::MAX,
            all => now.saturating_add(if known == all { LATER } else { SOON }),
        };
        self.next
    }
}
