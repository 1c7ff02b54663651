//! What the gateway tells collectors of sampled packets: the customer's own packet, without the tunnel around it, and where it goes.
//!
//! | packet | what is told | where it goes |
//! |---|---|---|
//! | from a customer | the frame, with both tags | as routes say: the next hop is the gateway of the core, by the interface that its outer packet leaves by |
//! | to a customer, from the core | the packet in the tunnel, behind its labels | the customer's port and tags |
//! | all else | the frame | as the network layer says |

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use weir_ip::{Discern, Discerned, Goes, Seen};
use weir_net::DEFAULT_VRF;
use weir_wire::{Ethernet, Ipv4, Ipv6, View};

use crate::control::inner;
use crate::decapsulate::{Here, decapsulate};
use crate::downstream::Exit;
use crate::ports::Side;
use crate::registry::half;
use crate::state::{Control, lock};
use crate::table::{Address, BindingKey};

/// See the module.
pub(crate) struct Told {
    pub(crate) shared: Arc<Mutex<Control>>,
    /// The gateway's end of tunnels.
    pub(crate) local: u32,
}

/// A customer's packet in a frame.
struct Found {
    /// Where it begins.
    at: usize,
    /// What parts its destination from equal ones of others.
    scope: u32,
}

impl Discern for Told {
    fn discern(&self, seen: Seen<'_>) -> Discerned {
        let control = &*lock(&self.shared);
        let position = usize::from(control.ports.ingress(seen.port).position);
        if control.ports.list().get(position).is_some_and(|port| port.side == Side::Access) {
            let packet = seen.frame.get(seen.l3..).and_then(destination).filter(|to| control.is_customers(*to));
            let goes = packet.and_then(|to| control.to_customer(to, 0)).unwrap_or(Goes::On);
            return Discerned { inside: None, goes };
        }
        let Some(Found { at, scope }) = self.find(control, seen) else { return Discerned::NOTHING };
        let to = seen.frame.get(at..).and_then(destination);
        // Who has an address in a network where some are learned may not be known yet.
        let unknown = || if to.is_some_and(|to| control.is_customers(to)) { Goes::On } else { Goes::Nowhere };
        let goes = to.and_then(|to| control.to_customer(to, scope)).unwrap_or_else(unknown);
        Discerned { inside: Some(at).filter(|at| *at != seen.l3), goes }
    }
}

impl Told {
    /// Finds the packet to a customer in a frame from the core, if there is one; customers have what comes in the default VRF alone.
    fn find(&self, control: &Control, seen: Seen<'_>) -> Option<Found> {
        let tags = seen.l3.checked_sub(Ethernet::LEN).filter(|_| seen.vrf == DEFAULT_VRF)?;
        let (addresses, behind) = seen.frame.split_at_checked(Ethernet::LEN - 2)?;
        let untagged = [addresses, behind.get(tags..)?].concat();
        let here = Here { ports: &control.ports, core: &control.core, local: self.local };
        let is_tunnel = control.core.is_tunnel;
        let found = match is_tunnel {
            true => decapsulate::<true>(here, &untagged, seen.port),
            false => decapsulate::<false>(here, &untagged, seen.port),
        };
        match found {
            Ok(found) => Some(Found { at: tags + usize::from(found.offset), scope: found.key }),
            Err(Exit::Ipv6) => inner(&untagged, is_tunnel).map(|six| Found { at: tags + six.at, scope: six.scope }),
            Err(_) => None,
        }
    }
}

impl Control {
    /// Whether a route says that customers have an address; none does in tunnels.
    fn is_customers(&self, address: IpAddr) -> bool {
        self.layer.leads_into_function(DEFAULT_VRF, address)
    }

    /// How a packet leaves for the customer who has an address.
    fn to_customer(&self, address: IpAddr, scope: u32) -> Option<Goes> {
        let address = match address {
            IpAddr::V4(address) => Address::V4(address),
            IpAddr::V6(address) => Address::V6(half(address)),
        };
        let host = self.registry.host(BindingKey::new(scope, address))?;
        let tags = self.registry.subscriber(host.subscriber)?.tags;
        let port = self.ports.list().get(usize::from(tags.port))?;
        Some(Goes::Out(port.index, [tags.svlan, tags.cvlan]))
    }
}

/// The destination of an IP packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4::view(packet)?.destination_addr().into()),
        6 => Some(Ipv6::view(packet)?.destination_addr().into()),
        _ => None,
    }
}
