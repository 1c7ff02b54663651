//! Neighbours on links of the function's interfaces that stages of other functions send to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_net::nexthop::NextHop;
use weir_stage::FollowedNeighbor;

use super::Control;
use crate::InterfaceId;

/// Those neighbours, by the names of the interfaces: a number may be another interface's after a while.
#[derive(Debug, Default)]
pub(super) struct Followed(HashMap<String, Vec<Arc<FollowedNeighbor>>>);

impl Followed {
    /// Those on the link of an interface.
    fn on(&self, interface: &str) -> &[Arc<FollowedNeighbor>] {
        self.0.get(interface).map_or(&[], Vec::as_slice)
    }

    /// Those for which others have had packets since the last call.
    fn take_wanted(&self) -> Vec<Arc<FollowedNeighbor>> {
        self.0.values().flatten().filter(|neighbor| neighbor.take_wanted()).cloned().collect()
    }
}

impl Control {
    /// From here on others send to these neighbours, and to none else.
    pub(crate) fn set_followed(&mut self, followed: Vec<Arc<FollowedNeighbor>>) {
        let mut by_interface: HashMap<String, Vec<Arc<FollowedNeighbor>>> = HashMap::new();
        for neighbor in followed {
            by_interface.entry(neighbor.interface().to_owned()).or_default().push(neighbor);
        }
        self.followed = Followed(by_interface);
        for neighbor in self.followed.0.values().flatten() {
            neighbor.publish(self.mac_of(neighbor));
        }
    }

    /// Says where the neighbours on an interface are, of whom others are to know.
    pub(super) fn publish_on(&self, interface: InterfaceId) {
        if !self.followed.0.is_empty() {
            self.publish_on_named(self.name_of(interface));
        }
    }

    /// The same of an interface that may be gone.
    pub(super) fn publish_on_named(&self, interface: &str) {
        for neighbor in self.followed.on(interface) {
            neighbor.publish(self.mac_of(neighbor));
        }
    }

    /// The Ethernet address of a neighbour, as long as its interface is there and up. It is the table's, as what forwarding follows may lie behind that.
    fn mac_of(&self, neighbor: &FollowedNeighbor) -> Option<[u8; 6]> {
        let interface = self.interfaces.find(neighbor.interface()).filter(|interface| interface.up)?;
        Some(self.neighbor(interface.id, neighbor.address())?.mac?.0)
    }

    /// Asks for neighbours to which others have packets, and keeps those fresh that are known.
    pub(super) fn resolve_followed(&mut self, now: u64) {
        for neighbor in self.followed.take_wanted() {
            if let Some(interface) = self.interfaces.find(neighbor.interface()).map(|found| found.id) {
                let gateway: IpAddr = neighbor.address();
                // What is found out, or not, is published as it is.
                _ = self.resolve(now, NextHop { interface, gateway: Some(gateway) }, gateway);
            }
        }
    }
}
