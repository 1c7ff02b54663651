//! Stage `NAME.forward`: the fast path, from the received frame to the port that it leaves by.
//!
//! Packets that a router sees all day long are checked 64 at a time by a vector kernel, which asks for their table adjacencies as
//! soon as it knows their destinations; then each is looked up, loses a hop of its TTL, gets a new Ethernet header and is
//! counted. Whatever the kernel refuses is looked at again to name what is wrong with it, or to find who takes care of it.
//!
//! All of it is one stage because the packets' first lines and their addresses are at hand: as two stages the batch would be
//! handed on once more and every buffer header read again, which was measured at 6 to 8 cycles per packet. Only a pipeline parts it,
//! whose workers have to be handed packets anyway: there [`Check`](crate::fast::check::Check) comes first.

mod pass;

use std::sync::Arc;

use weir_net::nexthop::Inlet;
use weir_packet::{Batch, LaneId, Packet};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, View};

use crate::fast::bad::{ways_of_checks, with_reasons};
use crate::fast::check::Keys;
use crate::fast::checker::{common_port, may_be_tagged, reach};
use crate::fast::classify::{Family, Finding, Frame, answers_verdicts, classify};
use crate::fast::examine::{Examiner, Good};
use crate::fast::lookups::{Lookups, arrived, l3_of};
use crate::fast::path::Path;
use crate::fast::punt::{Origin, PuntPolicer, PuntReason, Punts};
use crate::fast::received::Received;
use crate::fast::rewrite::trim;
use crate::fast::scope::{Chosen, Known, Scope};
use crate::tables::fib::Action;
use weir_table::counters::WorkerCounters;

with_reasons! { ways_of_checks {
    /// Ways out of [`Forward`], before those to the ports.
    pub enum Exit {
        /// The next hop's Ethernet address is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// Neighbour discovery, for the slow path.
        Nd => way "nd",
        /// For one of the router's own addresses, or for whoever listens on its link.
        Local => way "local",
        /// Has IP options, or hop-by-hop options: the slow path carries them out.
        Options => way "options",
        /// A control protocol of its link, for Linux, which speaks for the VRF.
        Host => way "host",
        /// Its TTL or hop limit ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// No route leads there: the slow path answers with Network Unreachable, or No Route.
        NoRoute => way "no-route",
        /// Its route says that it is rejected: the slow path answers so.
        Rejected => way "rejected",
        /// From a link-local address to one beyond the link: the slow path answers so.
        BeyondScope => way "beyond-scope",
        /// Longer than the next hop's MTU: the slow path takes it apart, or answers with Fragmentation Needed or Packet Too Big.
        TooBig => way "too-big",
        /// Its route leads into the function.
        Function => way "function",
    } {
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// Its route says that it is dropped without an answer.
        Blackhole => drop "blackhole",
        /// The interface that its route leads to has just gone down; the route follows within moments.
        PortDown => drop "port-down",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More neighbour discovery than the slow path takes from a worker.
        PolicedNd => drop "punt-policed-nd",
        /// More for the router's own addresses and its links than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More to hosts whose Ethernet address is not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL or hop limit than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        PolicedNoRoute => drop "punt-policed-no-route",
        /// More of what routes reject than the slow path takes from a worker.
        PolicedRejected => drop "punt-policed-rejected",
        /// More from link-local addresses to others than the slow path takes from a worker.
        PolicedBeyondScope => drop "punt-policed-beyond-scope",
        /// More beyond the next hop's MTU than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More of control protocols of links than the slow path takes from a worker.
        PolicedHost => drop "punt-policed-host",
        /// More with IP options, or hop-by-hop options, than the slow path takes from a worker.
        PolicedOptions => drop "punt-policed-options",
    }
} }

answers_verdicts!(Exit);

/// The ways of [`Forward`] to the slow path.
pub(crate) const TO_THE_SLOW_PATH: [&str; 11] = [
    "unresolved",
    "arp",
    "nd",
    "local",
    "host",
    "options",
    "ttl-expired",
    "no-route",
    "rejected",
    "beyond-scope",
    "too-big",
];

/// The fast path. It checks packets itself, or, as the later part of one that is `PARTED`, is handed those that passed
/// [`Check`](crate::fast::check::Check).
pub(crate) struct Forward<T, const PARTED: bool = false> {
    shared: Shared<T>,
    examiner: Examiner,
    ports: usize,
    keys: Keys,
    policer: PuntPolicer,
    is_counted: bool,
}

/// Where a packet goes on.
enum Onto {
    /// Out by a port.
    Port(u8),
    /// Into the function.
    Function(Inlet),
}

/// What packets are looked up in and counted by.
pub(crate) struct Shared<T> {
    pub(crate) lookups: Lookups<T>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// Counts what comes in by interfaces; nobody's in the later part of a fast path that is parted.
    pub(crate) received: Option<Received>,
}

impl<T: Lookup4, const PARTED: bool> Forward<T, PARTED> {
    /// Sends out of `ports` ports, and to the slow path as much as `policer` allows. What comes in `is_counted` where a stage before did it.
    pub(crate) fn new(
        shared: Shared<T>,
        kernel: Kernel,
        ports: usize,
        policer: PuntPolicer,
        (keys, is_counted): (Keys, bool),
    ) -> Forward<T, PARTED> {
        Forward { shared, examiner: Examiner::new(kernel), ports, keys, policer, is_counted }
    }

    /// Takes care of the packets in `mask`, which were not simply forwarded: they are not `good`, or their route leads elsewhere.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, (good, scope): (Good, Scope), out: &mut Out<'_>) {
        let mut batch_policer = self.policer.batch(out.now());
        let (shared, vrfs, keys) = (&self.shared, &self.examiner.vrfs, self.keys);
        batch.each_in(mask, |slot, packet, lanes| {
            let known = |family| Known { vrf: vrfs.of(slot, scope), family };
            // What is good has its network header where the lane says, be it tagged or not.
            let l3 = l3_of::<true>(lanes, slot);
            let answer = match slot.bit() {
                bit if good.four & bit != 0 => shared.forward_otherwise(packet, l3, known(Family::Four)),
                bit if good.six & bit != 0 => shared.forward_otherwise(packet, l3, known(Family::Six)),
                _ => {
                    let chosen = Chosen::of(lanes, slot, keys.chosen);
                    shared.find_out(packet, (lanes.port[slot], chosen), &mut lanes.l3[slot])
                }
            };
            match answer {
                Ok(Onto::Port(port)) => out.answer_indexed(slot, port),
                Ok(Onto::Function(inlet)) => {
                    if let Some(keys) = keys.inlet {
                        keys.note(lanes, slot, inlet);
                    }
                    out.answer(slot, Exit::Function);
                }
                Err(exit) => {
                    let (ingress, port) = (shared.lookups.fib.ingress(), lanes.port[slot]);
                    let origin = || Origin::of(ingress, packet, port);
                    batch_policer.answer((exit, origin), (slot, lanes), keys.kind, out);
                    keys.tell_chosen(lanes, slot);
                }
            }
        });
    }

    /// Whether all that is in the batch may be taken for IPv4 without tags in the default VRF: then nothing else needs to be asked for. Where
    /// packets were checked before, that is what was found then: the interfaces may be others by now.
    #[inline(always)]
    fn is_usual(&self, batch: &Batch, port: Option<u16>) -> bool {
        if PARTED {
            let tags = batch.lanes.l3.all().iter().fold(0, |differ, l3| differ | (l3 ^ Ethernet::LEN as u8));
            let known =
                self.keys.known.map_or(0, |key| batch.lanes.numbers(key).iter().fold(0, |any, word| any | word));
            return u32::from(tags) | known == 0;
        }
        let ingress = self.shared.lookups.fib.ingress();
        let is_special = self.examiner.expects_six || ingress.has_vrfs() || may_be_tagged(port, ingress);
        !(is_special || Chosen::is_any(batch, self.keys.chosen))
    }
}

impl<T: Lookup4> Shared<T> {
    /// What forwarding needs for every packet.
    #[inline(always)]
    fn path(&self) -> Path<'_> {
        // One number for both, so that a place needs to be checked once.
        let places = self.lookups.fib.places().min(self.counters.places());
        Path { fib: self.lookups.fib.view(places), counters: self.counters.view(places) }
    }

    /// What becomes of a valid packet that is not simply forwarded: its route leads to a group, or elsewhere.
    fn forward_otherwise(&self, packet: &mut Packet, l3: usize, Known { vrf, family }: Known) -> Result<Onto, Exit> {
        let value = self.lookups.lookup(vrf, packet, l3, family);
        let place = self.lookups.place(packet, l3, family, value);
        let adjacency = self.lookups.fib.adjacency(place);
        match adjacency.action() {
            Action::Forward => self.forward_or_trim(packet, l3, family, place),
            Action::Function => self.hand_over(packet, place).ok_or(Exit::NoRoute),
            Action::NoRoute => Err(Exit::NoRoute),
            Action::Receive => Err(arrived(packet, l3, family).into()),
            Action::Glean => Err(Exit::Unresolved),
            Action::Broadcast => Err(Exit::DirectedBroadcast),
            Action::LinkLocal => Err(Exit::LinkLocal),
            Action::Blackhole => Err(Exit::Blackhole),
            Action::Unreachable | Action::Prohibit => Err(Exit::Rejected),
        }
    }

    /// Counts a packet whose route leads into the function; `None` if it leads elsewhere.
    fn hand_over(&self, packet: &Packet, place: u32) -> Option<Onto> {
        let path = self.path();
        let inlet = path.fib.adjacency(place)?.inlet()?;
        path.counters.count(place, 1, packet.len() as u64);
        Some(Onto::Function(inlet))
    }

    /// The same of one that a router would not simply forward: what is for the function, the function looks at, be it at the end of its TTL or with
    /// options.
    fn find_function(&self, finding: Finding, packet: &Packet, (vrf, l3): (u16, usize)) -> Option<Onto> {
        let family = match finding {
            Finding::Options if packet.window::<1>(l3)[0] >> 4 == 4 => Family::Four,
            Finding::Options => Family::Six,
            Finding::LastHop(family) => family,
            _ => return None,
        };
        let value = self.lookups.lookup(vrf, packet, l3, family);
        self.hand_over(packet, self.lookups.place(packet, l3, family, value))
    }

    /// Forwards a packet, if need be without what follows the IP packet.
    fn forward_or_trim(&self, packet: &mut Packet, l3: usize, family: Family, place: u32) -> Result<Onto, Exit> {
        let path = self.path();
        if let Some(port) = path.forward_of(family, packet, l3, place) {
            return Ok(Onto::Port(port));
        }
        trim(packet, l3, family);
        let why_not = if path.is_closed(place) { Exit::PortDown } else { Exit::TooBig };
        path.forward_of(family, packet, l3, place).map(Onto::Port).ok_or(why_not)
    }

    /// What becomes of a packet that came in by `port`, of which it is to be found out; a list may have chosen its VRF.
    fn find_out(&self, packet: &mut Packet, (port, chosen): (u16, Chosen), lanes_l3: &mut u8) -> Result<Onto, Exit> {
        let ingress = self.lookups.fib.ingress();
        let frame = Frame::of(packet, port, ingress)?;
        let vrf = chosen.or(ingress.vrf_of(frame.interface));
        *lanes_l3 = frame.l3 as u8;
        match classify(packet, frame) {
            Ok(family) => self.forward_otherwise(packet, frame.l3, Known { vrf, family }),
            Err(finding) => match self.find_function(finding, packet, (vrf, frame.l3)) {
                Some(onto) => Ok(onto),
                None => Err(self.lookups.settle(finding, vrf, packet, frame).into()),
            },
        }
    }
}

/// What [`Forward`] declares.
pub(crate) fn declaration(parted: bool, ports: usize, (keys, is_counted): (Keys, bool)) -> Declaration {
    let declaration = Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]);
    let declaration = keys.known.iter().fold(declaration, |declaration, known| declaration.reads(&[(*known).into()]));
    let declaration =
        keys.chosen.iter().fold(declaration, |declaration, chosen| declaration.reads(&[(*chosen).into()]));
    let declaration = keys.inlet.iter().fold(declaration, |declaration, inlet| declaration.writes(&inlet.lanes()));
    match parted {
        // Who counts knows where network headers begin.
        false if is_counted => declaration.updates(&[LaneId::L3]).writes(&[keys.kind.into()]),
        false => declaration.writes(&[LaneId::L3, keys.kind.into()]),
        true => declaration.reads(&[LaneId::L3]).updates(&[keys.kind.into()]),
    }
}

impl<T: Lookup4, const PARTED: bool> Stage for Forward<T, PARTED> {
    fn declare(&self) -> Declaration {
        declaration(PARTED, self.ports, (self.keys, self.is_counted))
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.examiner.checker.kernel.run(
            #[inline(always)]
            || {
                let port = common_port(&batch.lanes.port);
                match self.is_usual(batch, port) {
                    true if reach(batch) <= pass::FEW => self.pass_few(batch, port, out),
                    true => self.pass(batch, port, out),
                    false => self.pass_others(batch, out),
                }
            },
        );
    }
}

impl Punts for Exit {
    fn punted(self) -> Option<(PuntReason, Exit)> {
        Some(match self {
            Exit::Arp => (PuntReason::Arp, Exit::PolicedArp),
            Exit::Nd => (PuntReason::Nd, Exit::PolicedNd),
            Exit::Local => (PuntReason::Local, Exit::PolicedLocal),
            Exit::Host => (PuntReason::Host, Exit::PolicedHost),
            Exit::Unresolved => (PuntReason::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (PuntReason::TtlExpired, Exit::PolicedTtlExpired),
            Exit::NoRoute => (PuntReason::NoRoute, Exit::PolicedNoRoute),
            Exit::Rejected => (PuntReason::Rejected, Exit::PolicedRejected),
            Exit::BeyondScope => (PuntReason::BeyondScope, Exit::PolicedBeyondScope),
            Exit::TooBig => (PuntReason::TooBig, Exit::PolicedTooBig),
            Exit::Options => (PuntReason::Options, Exit::PolicedOptions),
            _ => return None,
        })
    }
}
