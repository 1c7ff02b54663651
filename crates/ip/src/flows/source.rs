//! What the service that speaks to collectors asks for.

use std::net::IpAddr;
use std::sync::Arc;

use weir_net::{DEFAULT_VRF, VrfId};
use weir_stage::flows::{HEAD, InterfaceCounters, InterfaceKind};
use weir_stage::{Exported, FlowHop, FlowSource, Output, Sample};
use weir_wire::{Ipv4, Ipv6, View, ethernet, flow};

use super::stage::{KEPT, Sampled};
use super::{Discern, Discerned, Flows, Goes, Seen};
use crate::explain::lookup;
use crate::state::Control;
use crate::state::routing::Decision;
use crate::state::shared::{CHANGES, Shared, lock};
use crate::tags::{FRONT_LEN, Front};
use crate::{Interface, InterfaceId, Tags};

/// Samples and counters of a layer.
pub(crate) struct Source {
    shared: Arc<Shared>,
    flows: Arc<Flows>,
    /// A function that knows more of packets than the layer.
    function: Option<Arc<dyn Discern>>,
    /// What flows are hashed with.
    seed: u64,
}

/// What is known of a frame without the layer.
struct Looked {
    vrf: VrfId,
    l3: u8,
    /// Its VLANs, where its interface does not say them.
    vlans: Option<[u16; 2]>,
    discerned: Discerned,
}

impl Source {
    pub(crate) fn new(
        (shared, flows): (&Arc<Shared>, &Arc<Flows>),
        function: Option<Arc<dyn Discern>>,
        seed: u64,
    ) -> Source {
        Source { shared: Arc::clone(shared), flows: Arc::clone(flows), function, seed }
    }

    /// Looks at a frame that came in by an interface of a VRF, with what the function knows, which may lock what it has of its own.
    fn look(&self, sampled: &Sampled, mut vrf: VrfId) -> Looked {
        let Sampled { port, interface, l3, len, front } = sampled;
        let (mut l3, mut vlans) = (*l3, None);
        if l3 == 0 {
            // Of a line, whatever the interface of its port is in.
            vrf = DEFAULT_VRF;
            let window = front.first_chunk().copied().unwrap_or([0; FRONT_LEN]);
            let parsed = Front::parse(&window, |ethertype| matches!(ethertype, ethernet::CVLAN | ethernet::SVLAN));
            (l3, vlans) = (parsed.l3, Some(vlans_of(parsed.tags)));
        }
        let discern = |function: &Arc<dyn Discern>| {
            let mut frame = vec![0; *len as usize];
            frame.iter_mut().zip(front).for_each(|(to, from)| *to = *from);
            function.discern(Seen { port: *port, interface: *interface, vrf, l3: l3.into(), frame: &frame })
        };
        let mut discerned = self.function.as_ref().map_or(Discerned::NOTHING, discern);
        // What begins further behind was not kept.
        if discerned.inside.is_some_and(|at| at > KEPT - HEAD) {
            discerned = Discerned::NOTHING;
        }
        Looked { vrf, l3, vlans, discerned }
    }

    fn sample(&self, control: &Control, sampled: &Sampled, looked: Looked) -> Sample {
        let Sampled { interface, len, front, .. } = sampled;
        let Looked { vrf, l3, vlans, discerned } = looked;
        let [pool, lost] = self.flows.counted(Some(*interface));
        let stripped = discerned.inside.unwrap_or(0);
        let l3 = if discerned.inside.is_some() { 0 } else { l3 };
        let mut head = [0; HEAD];
        head.iter_mut().zip(front.iter().skip(stripped)).for_each(|(to, from)| *to = *from);
        let vlans = vlans.unwrap_or_else(|| tags_of(control, *interface));
        // What is in front of a packet is among what was kept of its frame.
        let stripped = stripped as u16;
        let hop = FlowHop { vrf, ..FlowHop::UNKNOWN };
        let mut sample = Sample { len: *len, stripped, head, l3, input: *interface, vlans, vrf, hop, pool, lost };
        if let Some(hop) = self.hop(control, &sample, discerned.goes) {
            sample.hop = hop;
        }
        sample
    }

    /// Where a packet goes, as routes are now; `None` if it is not IP, or cut off.
    fn hop(&self, control: &Control, sample: &Sample, goes: Goes) -> Option<FlowHop> {
        let packet = sample.packet();
        let mut window = [0; 64];
        window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
        let received = (sample.rest() as usize).saturating_sub(usize::from(sample.l3));
        let (source, destination, hash): (IpAddr, IpAddr, u32) = match sample.ethertype()? {
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
        Some(match goes {
            Goes::On => routed(control, (sample.vrf, destination, hash), hop),
            Goes::Toward { vrf, address, hash, tunnel } => {
                let found = routed(control, (vrf, address, hash), FlowHop { vrf, ..hop });
                match found.output {
                    // What the function sends itself does not come back to it.
                    Output::Unknown => FlowHop { output: Output::Nowhere, ..found },
                    Output::Interface(_) if tunnel => FlowHop { next_hop: Some(address), ..found },
                    _ => found,
                }
            }
            Goes::Out(port, vlans) => {
                let output = Output::Interface(control.interfaces.ingress().untagged_of(port));
                FlowHop { output, vlans, ..hop }
            }
            Goes::Nowhere => FlowHop { output: Output::Nowhere, ..hop },
        })
    }
}

/// Where routes of a VRF lead to an address; `hop` has what is known beside.
fn routed(control: &Control, (vrf, address, hash): (VrfId, IpAddr, u32), hop: FlowHop) -> FlowHop {
    match control.routing.decide(vrf, address, || hash) {
        Decision::Via(next) if control.routing.is_inlet(next.interface) => through(control, next.interface, hash, hop),
        Decision::Via(next) => by(control, next.interface, next.gateway, hop),
        Decision::Flood(interface) => by(control, interface, None, hop),
        Decision::Into(_) => hop,
        Decision::NoRoute if address.is_multicast() => hop,
        Decision::NoRoute | Decision::Discard(_) => FlowHop { output: Output::Nowhere, ..hop },
        Decision::Local | Decision::Broadcast | Decision::LinkLocal => FlowHop { output: Output::Here, ..hop },
    }
}

fn by(control: &Control, interface: InterfaceId, next_hop: Option<IpAddr>, hop: FlowHop) -> FlowHop {
    let (vrf, vlans) = (control.vrf_of(interface), tags_of(control, interface));
    FlowHop { output: Output::Interface(interface), vrf, next_hop, vlans, ..hop }
}

/// By a tunnel whose mouth is an inlet: the packet's next hop is its other end, to which it leaves by an interface.
fn through(control: &Control, inlet: InterfaceId, hash: u32, hop: FlowHop) -> FlowHop {
    let Some(tunnel) = control.interfaces.get(inlet).and_then(|inlet| inlet.wanted.tunnel) else { return hop };
    match control.routing.decide(control.vrf_of(inlet), tunnel.end, || hash) {
        Decision::Via(next) if !control.routing.is_inlet(next.interface) => {
            by(control, next.interface, Some(tunnel.end), hop)
        }
        _ => FlowHop { output: Output::Nowhere, ..hop },
    }
}

/// The VLANs of an interface.
fn tags_of(control: &Control, interface: InterfaceId) -> [u16; 2] {
    control.interfaces.get(interface).map_or([0; 2], |one| vlans_of(one.tags()))
}

fn vlans_of(tags: Tags) -> [u16; 2] {
    [tags.outer(), tags.inner()].map(|tag| tag.vlan)
}

impl FlowSource for Source {
    fn take(&self) -> Vec<Sample> {
        let taken = self.flows.take();
        if taken.is_empty() {
            return Vec::new();
        }
        let ingress = Arc::clone(lock(&self.shared).interfaces.ingress());
        let looked: Vec<Looked> =
            taken.iter().map(|sampled| self.look(sampled, ingress.vrf_of(sampled.interface))).collect();
        let control = lock(&self.shared);
        taken.iter().zip(looked).map(|(sampled, looked)| self.sample(&control, sampled, looked)).collect()
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
