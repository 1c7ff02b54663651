//! The core side: where customers' packets go by the routes of the network layer, and what stands in front of them then.
//!
//! A gateway of the core is an inlet of the layer ([`Virtual`](weir_ip::Virtual)): routes lead to it as to any interface, and share traffic
//! among several. What goes there is wrapped, and the outer packet goes where the same routes lead its destination. Without tunnels, routes
//! lead to the next router itself, or to an inlet where there is more to say of it: an MTU, or that IPv6 goes by its IPv4 address.

pub(crate) mod keys;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_ip::{Behind, Fate, InterfaceId, Leaving, Onward, Place};
use weir_mem::Domain;
use weir_mem::qsbr::{Published, Reader};
use weir_packet::Packet;
use weir_wire::mpls::Label;
use weir_wire::{Ipv4, View, flow};

use crate::encap::{Each, Outer, ROOM, Rewrite, TAGGED, TUNNEL, bare};

/// What is behind an inlet: a gateway of the core, in one cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Tunnel {
    head: Rewrite,
    /// Bytes of outer packet and labels that fit; 0 where there is no gateway.
    mtu: u16,
}

const _: () = assert!(size_of::<Tunnel>() == 64);

impl Tunnel {
    const NONE: Tunnel = Tunnel { head: Rewrite::NONE, mtu: 0 };

    /// A tunnel with these labels, the outermost first; bytes of labels and outer packet together that fit.
    pub(crate) fn new(labels: &[Label], outer: Outer, mtu: u16) -> Tunnel {
        Tunnel { head: Rewrite::tunnel(labels, outer), mtu }
    }

    /// As the network layer knows it, with packets that go to `end`.
    pub(crate) fn as_interface(&self, end: IpAddr) -> weir_ip::Tunnel {
        weir_ip::Tunnel { end, mtu: self.mtu, overhead: self.head.overhead() }
    }

    /// A router to which packets go as they are.
    pub(crate) fn plain(mtu: u16) -> Tunnel {
        Tunnel { head: Rewrite::NONE, mtu }
    }
}

/// What is written in front of packets to a gateway as long as routes, neighbours and links are as they were when it was prepared: all of it,
/// in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Prepared {
    head: Rewrite,
    /// What packets to it are counted at.
    place: Place,
    /// Bytes of the longest packet of a customer that fits; 0 where there is nothing.
    longest: u16,
    /// Position of the port.
    port: u8,
}

impl Prepared {
    const NONE: Prepared = Prepared { head: Rewrite::NONE, place: Place::NONE, longest: 0, port: 0 };
}

const _: () = assert!(size_of::<Prepared>() == 64);

/// What is prepared for all gateways.
#[derive(Debug)]
struct AllPrepared {
    /// [`Onward::version`] for which it counts.
    version: u64,
    /// By what routes answer that lead to one of them.
    heads: Vec<Prepared>,
}

/// All tunnels, by the number of their inlet.
pub(crate) struct Tunnels {
    tunnels: Vec<Tunnel>,
    /// The addresses of their other ends: 0.0.0.0 where there is none.
    ends: Vec<u32>,
    prepared: Published<AllPrepared>,
    /// What was prepared last; [`NEVER`] at first.
    version: AtomicU64,
    domain: Domain,
}

/// The version of routes that never are.
const NEVER: u64 = u64::MAX;

impl Tunnels {
    /// Without any.
    pub(crate) fn new(domain: &Domain) -> Tunnels {
        let none = AllPrepared { version: NEVER, heads: Vec::new() };
        Tunnels {
            tunnels: Vec::new(),
            ends: Vec::new(),
            prepared: Published::new(domain, Box::new(none)),
            version: AtomicU64::new(NEVER),
            domain: domain.clone(),
        }
    }

    /// Enters one, whose packets go to the address `end`.
    pub(crate) fn insert(&mut self, inlet: InterfaceId, tunnel: Tunnel, end: Ipv4Addr) {
        let at = usize::from(inlet);
        if self.tunnels.len() <= at {
            self.tunnels.resize(at + 1, Tunnel::NONE);
            self.ends.resize(at + 1, 0);
        }
        self.tunnels.iter_mut().skip(at).take(1).for_each(|place| *place = tunnel.clone());
        self.ends.iter_mut().skip(at).take(1).for_each(|place| *place = end.to_bits());
    }

    /// All inlets, with the ends of their tunnels.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (InterfaceId, u32)> {
        (0..).zip(self.ends.iter().copied()).filter(|(_, end)| *end != 0)
    }

    /// The other end of the tunnel behind an inlet; 0.0.0.0 if there is none.
    #[inline(always)]
    fn end(&self, inlet: InterfaceId) -> u32 {
        self.ends.get(usize::from(inlet)).copied().unwrap_or(0)
    }
}

/// Where packets to the core go, for one stage.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) onward: Onward,
    pub(crate) tunnels: Arc<Tunnels>,
    /// Whether packets go in tunnels.
    pub(crate) is_tunnel: bool,
}

/// Why a packet does not leave for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No route leads there.
    NoRoute,
    /// A route says that it is dropped.
    Blackhole,
    /// For the gateway itself.
    Local,
    /// For a customer: a route of the gateway's own leads there.
    Customer,
    /// To the broadcast address of a network of the core side.
    Broadcast,
    /// The Ethernet address of the next router is not known.
    Unresolved,
}

impl From<Fate> for Stop {
    fn from(fate: Fate) -> Stop {
        match fate {
            Fate::Receive => Stop::Local,
            Fate::Glean => Stop::Unresolved,
            Fate::Broadcast => Stop::Broadcast,
            Fate::Blackhole => Stop::Blackhole,
            Fate::Function(_) => Stop::Customer,
            Fate::NoRoute | Fate::Unreachable | Fate::Prohibited | Fate::LinkLocal => Stop::NoRoute,
        }
    }
}

/// A [`Core`], at hand.
#[derive(Clone, Copy)]
pub(crate) struct CoreView<'t> {
    core: &'t Core,
    onward: weir_ip::OnwardView<'t>,
    tunnels: &'t [Tunnel],
    heads: &'t [Prepared],
}

/// How a customer's packet leaves for the core.
pub(crate) trait ToCore: Copy {
    /// Position of the port.
    fn port(self) -> u8;

    /// Bytes of the longest packet of a customer that fits.
    fn longest(self) -> u16;

    /// Replaces the Ethernet header and tags in front of a customer's packet by what the core is to get, lets `change` have the packet's first
    /// bytes, and counts it for its next hop. False, and nothing done, if there is no room or the packet is shorter than it says.
    fn wrap<const TUNNEL: bool, const SIX: bool>(
        self,
        core: CoreView<'_>,
        packet: &mut Packet,
        each: Each,
        change: impl FnOnce(&mut [u8; Ipv4::LEN]),
    ) -> bool;
}

/// By a gateway, with a head that was prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'t>(&'t Prepared);

/// As was found out for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'t> {
    /// What is in front of it in a tunnel.
    head: Option<&'t Rewrite>,
    leaving: Leaving<'t>,
    /// Position of the port.
    pub(crate) port: u8,
    /// Bytes of the longest packet of a customer that fits.
    pub(crate) longest: u16,
}

impl Core {
    /// Prepares what is written in front of packets to gateways, if anything has changed since it was done last. Until then workers find it out
    /// packet by packet. Answers whether anything had changed. By the control side alone.
    pub(crate) fn prepare(&self) -> bool {
        // Of before: what changes in between makes it count no more.
        let version = self.onward.version();
        if self.tunnels.version.swap(version, Ordering::Relaxed) == version {
            return false;
        }
        if !self.is_tunnel {
            return true;
        }
        let by_inlet: Vec<Option<Prepared>> = self
            .tunnels
            .tunnels
            .iter()
            .zip(&self.tunnels.ends)
            .map(|(tunnel, end)| self.prepared(tunnel, *end))
            .collect();
        let mut heads = Vec::new();
        for (answer, inlet) in self.onward.interfaces() {
            if let Some(Some(prepared)) = by_inlet.get(usize::from(inlet)) {
                heads.resize(answer as usize, Prepared::NONE);
                heads.push(prepared.clone());
            }
        }
        self.tunnels.prepared.publish(Box::new(AllPrepared { version, heads }));
        self.tunnels.domain.collect();
        true
    }

    /// What is written in front of packets to the `end` of a tunnel, as long as nothing changes; none if packets to it are to be looked at one by
    /// one.
    fn prepared(&self, tunnel: &Tunnel, end: u32) -> Option<Prepared> {
        let answer = self.onward.lookup(end);
        if tunnel.mtu == 0 || self.onward.is_shared(answer) {
            return None;
        }
        let Routed { leaving, port, longest, .. } = self.view().through::<true>(tunnel, answer, || 0).ok()?;
        let head = tunnel.head.with_header(leaving.header(behind(&tunnel.head)));
        (leaving.room() == 0).then(|| Prepared { head, place: leaving.place(), longest, port })
    }

    /// What is needed for every packet of a batch, to be kept in registers, with what is prepared for gateways.
    #[inline(always)]
    pub(crate) fn view_of<'t>(&'t self, reader: &'t Reader) -> CoreView<'t> {
        let prepared = self.tunnels.prepared.load(reader);
        let heads = if prepared.version == self.onward.version() { prepared.heads.as_slice() } else { &[] };
        CoreView { heads, ..self.view() }
    }

    /// The same without what is prepared.
    #[inline(always)]
    pub(crate) fn view(&self) -> CoreView<'_> {
        let (onward, tunnels) = (self.onward.view(), self.tunnels.tunnels.as_slice());
        CoreView { core: self, onward, tunnels, heads: &[] }
    }

    /// As [`CoreView::hop`], in tunnels or not.
    pub(crate) fn hop_of(&self, answer: u32, hash: impl Fn() -> u32) -> Result<Routed<'_>, Stop> {
        if self.is_tunnel { self.view().hop::<true>(answer, hash) } else { self.view().hop::<false>(answer, hash) }
    }

    /// Whether an address is the gateway's own.
    pub(crate) fn is_own(&self, address: u32) -> bool {
        self.onward.leaving(self.onward.lookup(address), || 0).err() == Some(Fate::Receive)
    }

    /// The same of IPv6.
    pub(crate) fn is_own6(&self, address: u128) -> bool {
        self.onward.leaving(self.onward.lookup6(address), || 0).err() == Some(Fate::Receive)
    }
}

impl<'t> CoreView<'t> {
    /// What is prepared for the gateway that routes gave this answer for, if anything is; as [`CoreView::hop`].
    #[inline(always)]
    pub(crate) fn written(self, answer: u32, hash: impl Fn() -> u32) -> Option<Written<'t>> {
        let prepared = self.heads.get(self.onward.choose(answer, &hash) as usize)?;
        (prepared.longest > 0).then_some(Written(prepared))
    }

    /// How packets leave that routes gave this answer for; `hash` is that of the packet's flow.
    #[inline(always)]
    pub(crate) fn hop<const TUNNEL: bool>(self, answer: u32, hash: impl Fn() -> u32) -> Result<Routed<'t>, Stop> {
        let leaving = self.onward.leaving(answer, &hash)?;
        // Nothing leaves by an inlet itself.
        if TUNNEL || leaving.longest() == 0 {
            let inlet = leaving.interface();
            let tunnel = self.tunnel(inlet).ok_or(Stop::NoRoute)?;
            return self.through::<TUNNEL>(tunnel, self.core.onward.lookup(self.core.tunnels.end(inlet)), hash);
        }
        Ok(self.by(None, leaving, leaving.longest() as u16))
    }

    /// How packets leave by a tunnel for whose end routes gave this answer.
    #[inline(always)]
    fn through<const TUNNEL: bool>(
        self,
        tunnel: &'t Tunnel,
        answer: u32,
        hash: impl Fn() -> u32,
    ) -> Result<Routed<'t>, Stop> {
        let leaving = match self.onward.leaving(answer, hash) {
            Ok(leaving) if leaving.longest() > 0 => leaving,
            Err(Fate::Glean) => return Err(Stop::Unresolved),
            _ => return Err(Stop::NoRoute),
        };
        // MTUs have 16 bits.
        let longest = tunnel.mtu.min(leaving.longest() as u16).saturating_sub(tunnel.head.overhead());
        Ok(self.by(Some(&tunnel.head).filter(|_| TUNNEL), leaving, longest))
    }

    #[inline(always)]
    fn by(self, head: Option<&'t Rewrite>, leaving: Leaving<'t>, longest: u16) -> Routed<'t> {
        Routed { head, leaving, port: leaving.port(), longest }
    }

    /// The tunnel behind an inlet.
    #[inline(always)]
    fn tunnel(self, inlet: InterfaceId) -> Option<&'t Tunnel> {
        self.tunnels.get(usize::from(inlet)).filter(|tunnel| tunnel.mtu > 0)
    }
}

impl ToCore for Written<'_> {
    #[inline(always)]
    fn port(self) -> u8 {
        self.0.port
    }

    #[inline(always)]
    fn longest(self) -> u16 {
        self.0.longest
    }

    #[inline(always)]
    fn wrap<const TUNNEL: bool, const SIX: bool>(
        self,
        core: CoreView<'_>,
        packet: &mut Packet,
        each: Each,
        change: impl FnOnce(&mut [u8; Ipv4::LEN]),
    ) -> bool {
        let Some(inner) = self.0.head.wrap::<SIX>(packet, each) else { return false };
        change(inner);
        core.onward.count_at(self.0.place, packet.len() as u64);
        true
    }
}

impl Routed<'_> {
    /// Whether there is room in front of a packet for all that is put there.
    #[inline(always)]
    pub(crate) fn has_room(self, packet: &Packet) -> bool {
        self.leaving.room() == 0 || packet.headroom() >= ROOM + self.leaving.room()
    }
}

impl ToCore for Routed<'_> {
    #[inline(always)]
    fn port(self) -> u8 {
        self.port
    }

    #[inline(always)]
    fn longest(self) -> u16 {
        self.longest
    }

    #[inline(always)]
    fn wrap<const TUNNEL: bool, const SIX: bool>(
        self,
        core: CoreView<'_>,
        packet: &mut Packet,
        each: Each,
        change: impl FnOnce(&mut [u8; Ipv4::LEN]),
    ) -> bool {
        if !self.has_room(packet) {
            return false;
        }
        let (inner, behind) = match self.head {
            Some(head) if TUNNEL => (head.wrap::<SIX>(packet, each), behind(head)),
            _ => (bare(packet, each.total), if SIX { Behind::IPV6 } else { Behind::IPV4 }),
        };
        let Some(inner) = inner else { return false };
        change(inner);
        self.leaving.write(packet, behind);
        core.onward.count(self.leaving, packet.len() as u64);
        true
    }
}

/// What follows the Ethernet header of a tunnel's head.
#[inline(always)]
fn behind(head: &Rewrite) -> Behind {
    if head.overhead() > TUNNEL as u16 { Behind::MPLS } else { Behind::IPV4 }
}

/// The hash of a customer's IPv4 packet's flow, behind its tags.
#[inline(never)]
pub(crate) fn flow_of(packet: &Packet) -> u32 {
    flow::hash(packet.window::<64>(TAGGED), packet.len().saturating_sub(TAGGED), SEED.into())
}

/// The same of IPv6.
#[inline(never)]
pub(crate) fn flow_of6(packet: &Packet) -> u32 {
    flow::hash6(packet.window::<64>(TAGGED), packet.len().saturating_sub(TAGGED), SEED.into())
}

/// Flows are hashed otherwise than by routers on the way, which may share their traffic as well.
const SEED: u32 = 0x6762_6e67;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_found_by_their_inlets() {
        let outer = Outer { source: 1, destination: 2, ttl: 64, dscp: None, dont_fragment: true };
        let label = Label::new(17, 0, false, 64);
        let mut tunnels = Tunnels::new(&Domain::new());
        tunnels.insert(7, Tunnel::new(&[label], outer, 1500), Ipv4Addr::new(192, 0, 2, 9));
        tunnels.insert(3, Tunnel::plain(1400), Ipv4Addr::new(192, 0, 2, 2));
        let get = |inlet: usize| tunnels.tunnels.get(inlet).filter(|tunnel| tunnel.mtu > 0);
        assert!([0, 6, 8, 65_535].into_iter().all(|inlet| get(inlet).is_none()));
        assert_eq!(tunnels.iter().collect::<Vec<_>>(), [(3, 0xc000_0202), (7, 0xc000_0209)]);
        let tunnel = get(7).unwrap();
        assert_eq!((tunnel.head.overhead(), behind(&tunnel.head)), (32, Behind::MPLS));
        let bare = Tunnel::new(&[], outer, 1500);
        assert_eq!((bare.head.overhead(), behind(&bare.head)), (28, Behind::IPV4));
        assert_eq!(get(3).unwrap().head.overhead(), 0);
    }
}
