//! Stage `NAME.lines`: the end of the slow path. What the gateway says to customers gets the tags of their lines; what is as from customers, what
//! the core is to get; pieces of packets to customers are delivered as if they had come so. Whose each is, is a word that came with it ([`Punt`]).

use std::sync::{Arc, Mutex};

use weir_ip::{Line, LineTally, Punt, PuntReason, Side};
use weir_packet::{Batch, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, ethernet};

use crate::core::{Core, Stop, flow_of, flow_of6};
use crate::encap::{Each, Outer, Rewrite, TAGGED, TAGS, TUNNEL};
use crate::six;
use crate::state::{Control, lock};
use crate::table::counters::{Direction, WorkerCounters};

weir_stage::ways! {
    /// Ways out of [`Lines`], before those to the ports.
    pub enum Exit {
        /// To a customer, and from somebody else: it is delivered as if it had come like this.
        Down => way "down",
        /// Nobody subscribes there any more.
        UnknownSubscriber => drop "unknown-subscriber",
        /// The interface of the port to the customer is set down.
        InterfaceDown => drop "interface-down",
        /// No route leads there any more, or the next router's Ethernet address is not known any more.
        NoRoute => drop "no-route",
        /// Its buffer has no room for the headers of the other side.
        NoHeadroom => drop "no-headroom",
    }
}

/// See the module.
pub(crate) struct Lines {
    shared: Arc<Mutex<Control>>,
    counters: Arc<WorkerCounters>,
    tally: LineTally,
    kind: Key<Punt>,
    ports: usize,
    /// The gateway's end of tunnels, if there are any.
    local: Option<u32>,
}

impl Lines {
    /// For a gateway with so many ports. What subscribers send is counted by `counters`, which no other worker writes.
    pub(crate) fn new(
        shared: Arc<Mutex<Control>>,
        (counters, tally): (Arc<WorkerCounters>, LineTally),
        kind: Key<Punt>,
        ports: usize,
        local: Option<u32>,
    ) -> Lines {
        Lines { shared, counters, tally, kind, ports, local }
    }

    /// Readies a packet that came in by a port to leave by the one at the position that it answers.
    fn ready(&self, control: &mut Control, now: u64, punt: Punt, packet: &mut Packet, port: u16) -> Result<u8, Exit> {
        let line = punt.line.ok_or(Exit::UnknownSubscriber)?;
        match line.side {
            Side::From => self.wrap(control, now, (line, punt.reason), packet),
            Side::To if punt.reason == PuntReason::Originated => {
                let position = tag(control, line, packet)?;
                let port = control.ports.egress(position).index;
                if self.tally.is_shut(port) {
                    return Err(Exit::InterfaceDown);
                }
                self.tally.left(port, 1, packet.len() as u64);
                Ok(position)
            }
            Side::To => Err(self.as_from_core(control, line, packet, port).unwrap_or(Exit::NoHeadroom)),
        }
    }

    /// Makes a piece of a packet from the core what such packets are when they come in, by the port of this index: in its subscriber's
    /// tunnel, if there are tunnels.
    fn as_from_core(&self, control: &Control, line: Line, packet: &mut Packet, port: u16) -> Option<Exit> {
        let [d0, d1, d2, d3, d4, d5, _, _] = control.ports.ingress(port).mac.to_le_bytes();
        let Some(local) = self.local else {
            *packet.window_mut(0) = [d0, d1, d2, d3, d4, d5];
            return Some(Exit::Down);
        };
        let total = Ipv4::view(packet.bytes().get(Ethernet::LEN..)?)?.total_length.get();
        let key = control.registry.subscriber(line.number)?.fields().key?;
        let outer = Outer { source: local, destination: local, ttl: u8::MAX, dscp: Some(0), dont_fragment: true };
        let [t0, t1] = ethernet::IPV4.to_be_bytes();
        let head = Rewrite::tunnel(&[], outer).with_header([d0, d1, d2, d3, d4, d5, 0, 0, 0, 0, 0, 0, t0, t1]);
        let each = Each { key, total, tos: 0, identification: None };
        (packet.prepend(TAGS) && head.wrap::<false>(packet, each).is_some()).then_some(Exit::Down)
    }

    /// Readies a packet for the core as one of a subscriber's, who has sent it unless it was made here.
    fn wrap(
        &self,
        control: &mut Control,
        now: u64,
        (line, reason): (Line, PuntReason),
        packet: &mut Packet,
    ) -> Result<u8, Exit> {
        let subscriber = control.registry.subscriber(line.number).ok_or(Exit::UnknownSubscriber)?;
        let key = subscriber.fields().key.unwrap_or(0);
        if !packet.prepend(TAGS) {
            return Err(Exit::NoHeadroom);
        }
        let Wrapped { port, total, .. } = wrap(&control.core, key, packet).ok_or(Exit::NoRoute)?;
        if control.core.is_tunnel && !control.config.tunnel.df {
            let outer = packet.len().saturating_sub(usize::from(total) + TUNNEL);
            control.identifications.identify(now, packet.bytes_mut().get_mut(outer..).unwrap_or_default());
        }
        if reason != PuntReason::Originated {
            self.counters.count(line.number, Direction::Up, TAGGED as u64 + u64::from(total));
        }
        Ok(port)
    }
}

/// Puts tags on a packet for a subscriber's line.
fn tag(control: &Control, line: Line, packet: &mut Packet) -> Result<u8, Exit> {
    let tags = control.registry.subscriber(line.number).ok_or(Exit::UnknownSubscriber)?.tags;
    let port = control.ports.list().get(usize::from(tags.port)).ok_or(Exit::UnknownSubscriber)?;
    let [d0, d1, d2, d3, d4, d5, .., high, low] = *packet.window::<{ Ethernet::LEN }>(0);
    if !packet.prepend(TAGS) {
        return Err(Exit::NoHeadroom);
    }
    let whole = Ethernet::split_mut(packet.bytes_mut()).and_then(|(link, rest)| {
        *link = Ethernet::new(MacAddr([d0, d1, d2, d3, d4, d5]), port.mac, control.registry.settings().tpid);
        let (outer, rest) = Vlan::split_mut(rest)?;
        *outer = Vlan::new(tags.svlan, 0, false, ethernet::CVLAN);
        *Vlan::view_mut(rest)? = Vlan::new(tags.cvlan, 0, false, u16::from_be_bytes([high, low]));
        Some(tags.port)
    });
    whole.ok_or(Exit::NoHeadroom)
}

/// How a packet was wrapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrapped {
    /// Position of the port.
    pub(crate) port: u8,
    /// Bytes of the customer's packet.
    pub(crate) total: u16,
    /// How many would fit.
    pub(crate) longest: u16,
}

/// Puts in front of a customer's packet what the core is to get, in place of its Ethernet header and tags, without an identification. `None`, and
/// nothing done, if no way leads there at present.
pub(crate) fn wrap(core: &Core, key: u32, packet: &mut Packet) -> Option<Wrapped> {
    let bytes = packet.bytes().get(TAGGED..)?;
    let is_six = bytes.first()? >> 4 == 6;
    let (hop, total, tos): (Result<_, Stop>, usize, u8) = match is_six {
        true => {
            let ip = Ipv6::view(bytes)?;
            let answer = core.onward.lookup6(u128::from_be_bytes(ip.destination));
            let total = Ipv6::LEN + usize::from(ip.payload_length.get());
            (core.hop_of(answer, || flow_of6(packet)), total, ip.traffic_class())
        }
        false => {
            let ip = Ipv4::view(bytes)?;
            (core.hop_of(core.onward.lookup(ip.destination.get()), || flow_of(packet)), ip.total_len(), ip.tos)
        }
    };
    let (hop, total) = (hop.ok()?, u16::try_from(total).ok()?);
    let each = Each { key, total, tos, identification: None };
    let (port, longest) = (hop.port, hop.longest);
    six::wrap(core, hop, packet, each, is_six).then_some(Wrapped { port, total, longest })
}

/// Takes a hop off a customer's packet.
pub(crate) fn one_hop_less(packet: &mut [u8]) {
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        if let Some(ip) = Ipv6::view_mut(packet) {
            ip.hop_limit = ip.hop_limit.saturating_sub(1);
        }
    } else if let Some(ip) = Ipv4::view_mut(packet) {
        ip.decrement_ttl();
    }
}

/// What [`Lines`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<Punt>) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port, kind.into()])
}

impl Stage for Lines {
    fn declare(&self) -> Declaration {
        declaration(self.ports, self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut control = lock(&self.shared);
        let now = out.now();
        batch.each(|slot, packet, lanes| {
            match self.ready(&mut control, now, lanes.get(self.kind, slot), packet, lanes.port[slot]) {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => out.answer(slot, exit),
            }
        });
    }
}
