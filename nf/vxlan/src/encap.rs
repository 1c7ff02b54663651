//! Stage `NAME.encap`, the first for what comes by the ports of tunnels: puts frames into them, and sends them as routes say.

use std::sync::Arc;

use weir_ip::{Fate, Onward};
use weir_packet::{Batch, LaneId, Packet, Slots};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::udp::Udp;
use weir_wire::vxlan::HEADER;
use weir_wire::{Ethernet, Ipv4, Ipv6, View};

use crate::inner;
use crate::tunnels::{FRONT4, FRONT6, Front, Tunnels};

weir_stage::ways! {
    /// Ways out of the stage `encap`.
    pub enum Exit {
        /// The neighbour on its way is not known yet: the slow path asks for it.
        Send => way "send",

        /// Shorter than an Ethernet header.
        TooShort => drop "too-short",
        /// It has a VLAN tag, and its tunnel is not `tagged` (RFC 7348 section 6.1).
        Tagged => drop "vxlan-inner-tagged",
        /// In its tunnel it would be longer than what fits the interface that it would leave by: tunnels are not fragmented (RFC 7348 section 4.3).
        TooLong => drop "too-long",
        /// No route leads to the other end of its tunnel.
        NoRoute => drop "no-route",
        /// A route to the other end of its tunnel says that it is dropped silently.
        Blackhole => drop "blackhole",
        /// There is no room in its buffer for the headers of its tunnel.
        NoBuffer => drop "no-buffer",
    }
}

/// Source ports of tunnels are from 49152 on (RFC 7348 section 5: "in the dynamic/private port range 49152-65535 [RFC6335]").
const FIRST_PORT: u16 = 0xc000;

/// Where the lengths and the port stand in front of a frame.
const UDP4: usize = Ethernet::LEN + Ipv4::LEN;
const UDP6: usize = Ethernet::LEN + Ipv6::LEN;

/// See the module.
pub(crate) struct Encap {
    pub(crate) tunnels: Arc<Tunnels>,
    pub(crate) onward: Onward,
    pub(crate) seed: u64,
    /// How many ports lead to the other ends.
    pub(crate) ports: usize,
}

/// What [`Encap`] declares.
pub(crate) fn declaration(ports: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port])
}

impl Stage for Encap {
    fn declare(&self) -> Declaration {
        declaration(self.ports)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut last = None;
        for slot in Slots(batch.live()) {
            let port = batch.lanes.port[slot];
            let Some(packet) = batch.get_mut(slot) else { continue };
            match self.put_in(packet, port, &mut last) {
                Ok(Some(port)) => out.answer_indexed(slot, port),
                Ok(None) => out.answer(slot, Exit::Send),
                Err(exit) => out.answer(slot, exit),
            }
        }
    }
}

impl Encap {
    /// What routes answer for the other end of a tunnel.
    #[inline]
    fn route_to(&self, front: &Front) -> u32 {
        match *front {
            Front::Four { remote, .. } => self.onward.lookup(remote),
            Front::Six { remote, .. } => self.onward.lookup6(remote),
        }
    }

    /// Puts a frame that came in by the port of this index into its tunnel; answers the position of the port that it leaves by, or `None` if the slow
    /// path has to find the neighbour. `last` is what routes answered for the frame before it, and the port of that one: of a batch, many are often of
    /// one tunnel.
    ///
    /// # Errors
    ///
    /// Why it is dropped.
    #[inline]
    fn put_in(&self, packet: &mut Packet, port: u16, last: &mut Option<(u16, u32)>) -> Result<Option<u8>, Exit> {
        let Some(tunnel) = self.tunnels.of_port(port) else { return Err(Exit::NoRoute) };
        if packet.len() < Ethernet::LEN {
            return Err(Exit::TooShort);
        }
        if !tunnel.is_tagged && inner::is_tagged(packet.bytes()) {
            return Err(Exit::Tagged);
        }
        let flow = inner::flow_of(packet, self.seed);
        let answer = match *last {
            Some((before, answer)) if before == port => answer,
            _ => self.route_to(&tunnel.front),
        };
        *last = Some((port, answer));
        let found = match self.onward.leaving(answer, || flow) {
            Ok(leaving) if leaving.longest() > 0 => Some(leaving),
            Err(Fate::Glean) => None,
            Err(Fate::Blackhole) => return Err(Exit::Blackhole),
            Ok(_) | Err(_) => return Err(Exit::NoRoute),
        };
        let total = packet.len() + tunnel.front.len() - Ethernet::LEN;
        let (longest, room) = found.map_or((MOST, 0), |leaving| (leaving.longest().min(MOST), leaving.room()));
        if total > longest {
            return Err(Exit::TooLong);
        }
        if packet.headroom() < tunnel.front.len() + room {
            return Err(Exit::NoBuffer);
        }
        tunnel.front.write(packet, flow);
        let Some(leaving) = found else { return Ok(None) };
        leaving.write(packet, tunnel.front.behind());
        self.onward.view().count(leaving, packet.len() as u64);
        Ok(Some(leaving.port()))
    }
}

/// Bytes of the longest IP packet that the lengths of IPv4 and UDP can say, over either family.
const MOST: usize = u16::MAX as usize;

impl Front {
    /// Writes the headers of a tunnel in front of a frame of this flow, for which there is room. The Ethernet header is to be written yet.
    #[inline]
    fn write(&self, packet: &mut Packet, flow: u32) {
        let datagram = packet.len() + Udp::LEN + HEADER;
        let length = (datagram as u16).to_be_bytes();
        // All bits of a hash are equally good: the port has these, a route that shares traffic looks at all.
        let source = (FIRST_PORT | (flow >> 16) as u16 & !FIRST_PORT).to_be_bytes();
        if !packet.prepend(self.len()) {
            return;
        }
        match self {
            Front::Four { bytes, sum, .. } => {
                let window = packet.window_mut::<FRONT4>(0);
                *window = *bytes;
                let total = (Ipv4::LEN + datagram) as u16;
                let sum = sum + u32::from(total);
                // Both halves added to each other the other way round as well: the upper half has their sum, with the carry of the lower.
                let sum = !(sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
                put(window, Ethernet::LEN + 2, total.to_be_bytes());
                put(window, Ethernet::LEN + 10, sum.to_be_bytes());
                put(window, UDP4, source);
                put(window, UDP4 + 4, length);
            }
            Front::Six { bytes, .. } => {
                let window = packet.window_mut::<FRONT6>(0);
                *window = *bytes;
                // The flow label tells flows apart where routers do not look at ports (RFC 6438).
                put(window, Ethernet::LEN + 2, (flow as u16).to_be_bytes());
                put(window, Ethernet::LEN + 4, length);
                put(window, UDP6, source);
                put(window, UDP6 + 4, length);
            }
        }
    }
}

/// Writes two bytes.
#[inline(always)]
fn put<const N: usize>(window: &mut [u8; N], at: usize, two: [u8; 2]) {
    if let Some(place) = window.get_mut(at..at + 2).and_then(|place| place.first_chunk_mut()) {
        *place = two;
    }
}
