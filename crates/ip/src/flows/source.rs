//! What the service that speaks to collectors asks for.

use std::net::IpAddr;
use std::sync::Arc;

use weir_net::VrfId;
use weir_stage::flows::{InterfaceCounters, InterfaceKind};
use weir_stage::{Exported, FlowHop, FlowSource, Output, Sample};
use weir_wire::{Ipv4, Ipv6, View, ethernet, flow};

use super::Flows;
use super::stage::Sampled;
use crate::explain::lookup;
use crate::state::Control;
use crate::state::routing::Decision;
use crate::state::shared::{CHANGES, Shared, lock};
use crate::{Interface, InterfaceId, Tags};

/// Samples and counters of a layer.
pub(crate) struct Source {
    shared: Arc<Shared>,
    flows: Arc<Flows>,
    /// What flows are hashed with.
    seed: u64,
}

impl Source {
    pub(crate) fn new(shared: &Arc<Shared>, flows: &Arc<Flows>, seed: u64) -> Source {
        Source { shared: Arc::clone(shared), flows: Arc::clone(flows), seed }
    }

    fn sample(&self, control: &Control, sampled: &Sampled) -> Sample {
        let Sampled { interface, l3, len, head } = *sampled;
        let [pool, lost] = self.flows.counted(Some(interface));
        let vrf = control.vrf_of(interface);
        let unknown = FlowHop { vrf, ..FlowHop::UNKNOWN };
        let mut sample = Sample { len, head, l3, input: interface, vlan: 0, vrf, hop: unknown, pool, lost };
        if let Some(one) = control.interfaces.get(interface) {
            sample.vlan = one.tags().outer().vlan;
        }
        if let Some(hop) = self.hop(control, &sample) {
            sample.hop = hop;
        }
        sample
    }

    /// Where a packet goes, as routes are now; `None` if it is not IP, or cut off.
    fn hop(&self, control: &Control, sample: &Sample) -> Option<FlowHop> {
        let packet = sample.packet();
        let ethertype = sample.head().get(usize::from(sample.l3).checked_sub(2)?..)?.first_chunk()?;
        let mut window = [0; 64];
        window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
        let received = (sample.len as usize).saturating_sub(usize::from(sample.l3));
        let (source, destination, hash): (IpAddr, IpAddr, u32) = match u16::from_be_bytes(*ethertype) {
            ethernet::IPV4 => {
                let ip = Ipv4::view(packet)?;
                (ip.source_addr().into(), ip.destination_addr().into(), flow::hash(&window, received, self.seed))
            }
            ethernet::IPV6 => {
                let ip = Ipv6::view(packet)?;
                (ip.source_addr().into(), ip.destination_addr().into(), flow::hash6(&window, received, self.seed))
            }
            _ => return None,
        };
        let length =
            |address| lookup(control.routing.rib(), sample.vrf, address).map_or(0, |(net, _)| net.prefix_len());
        let hop = FlowHop {
            vrf: sample.vrf,
            source_len: length(source),
            destination_len: length(destination),
            ..FlowHop::UNKNOWN
        };
        let by = |interface: InterfaceId, next_hop| {
            let vrf = control.vrf_of(interface);
            FlowHop { output: Output::Interface(interface), vrf, next_hop, ..hop }
        };
        Some(match control.routing.decide(sample.vrf, destination, || hash) {
            Decision::Via(next) if control.routing.is_inlet(next.interface) => hop,
            Decision::Via(next) => by(next.interface, next.gateway),
            Decision::Flood(interface) => by(interface, None),
            Decision::Into(_) => hop,
            Decision::NoRoute if destination.is_multicast() => hop,
            Decision::NoRoute | Decision::Discard(_) => FlowHop { output: Output::Nowhere, ..hop },
            Decision::Local | Decision::Broadcast | Decision::LinkLocal => FlowHop { output: Output::Here, ..hop },
        })
    }
}

impl FlowSource for Source {
    fn take(&self) -> Vec<Sample> {
        let taken = self.flows.take();
        if taken.is_empty() {
            return Vec::new();
        }
        let control = lock(&self.shared);
        taken.iter().map(|sampled| self.sample(&control, sampled)).collect()
    }

    fn interfaces(&self, from: u16) -> Vec<InterfaceCounters> {
        let control = lock(&self.shared);
        let some = |one: &&Interface| one.id >= from && !control.routing.is_inlet(one.id);
        let some: Vec<&Interface> = control.interfaces.iter().filter(some).take(CHANGES).collect();
        let sent = control.routing.sent(some.iter().map(|one| one.id));
        let tell = |one: &Interface| {
            let (received, sent) = (control.ledger.received(one.id), sent.get(&one.id).copied().unwrap_or_default());
            let kind = match (one.is_virtual(), one.tags() == Tags::NONE) {
                (true, _) => InterfaceKind::Loopback,
                (false, true) => InterfaceKind::Ethernet,
                (false, false) => InterfaceKind::Vlan,
            };
            InterfaceCounters {
                id: one.id,
                name: one.name().to_owned(),
                kind,
                enabled: one.wanted.enabled,
                up: one.up,
                received: received.into(),
                sent: sent.into(),
            }
        };
        some.into_iter().map(tell).collect()
    }

    fn vrfs(&self) -> Vec<String> {
        let control = lock(&self.shared);
        (0..control.vrfs.len() as VrfId).map(|vrf| control.vrf_name(vrf).to_owned()).collect()
    }

    fn set_exported(&self, exported: &[Exported], flows: usize) {
        let mut book = self.flows.book();
        book.exported = exported.to_vec();
        book.flows = flows;
    }
}
