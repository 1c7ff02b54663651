//! Stage `NAME.up`: from customers to the core.
//!
//! Packets are looked at 64 at a time, and in passes, so that memory is asked for long before it is needed: first the headers are
//! read, and the lines of tags, routes and headroom asked for, and, some packets later, those of the records that tags lead to; then
//! the vector kernel checks all headers; at last packets are compared with their records, wrapped and counted, while the lines of
//! counters are asked for some packets ahead. So lines are asked for evenly: of many at once, a core forgets some. Packets from
//! further addresses of their subscribers take one more pass. Whatever is not plain is looked at again one by one
//! ([`examine`](crate::examine)).

mod exit;

use std::sync::Arc;

use weir_ip::{LineTally, PuntReason, Punts};
use weir_mem::prefetch::prefetch_slice;
use weir_packet::{BATCH, Batch, Key, LaneId, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, LinkPattern, NO_FRAME};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ipv4, View, ethernet};

pub(crate) use exit::{Exit, PUNTED};

use crate::across::Across;
use crate::core::{Core, CoreView, ToCore, flow_of};
use crate::encap::{Each, MAC_BITS, TAGGED};
use crate::examine::{Examined, Onto, examine};
use crate::identification::Identifications;
use crate::loss::Losses;
use crate::ports::{Ports, WorkerPort};
use crate::punt::Policer;
use crate::six::plain;
use crate::table::counters::{Direction, WorkerCounters};
use crate::table::{Found, SubscriberRecord, Subscribers};

/// What packets from customers are looked up in and counted by.
pub(crate) struct Shared {
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) core: Core,
    pub(crate) ports: Arc<Ports>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// What counts by interfaces.
    pub(crate) tally: Arc<LineTally>,
    /// The way to other customers.
    pub(crate) across: Across,
    /// EtherType of the outer tag.
    pub(crate) tpid: u16,
}

/// The way from customers to the core, of IPv4 and of [plain] IPv6. `TUNNEL` says whether packets are wrapped in GRE.
pub(crate) struct Up<const TUNNEL: bool> {
    shared: Shared,
    kernel: Kernel,
    pattern: LinkPattern,
    passes: Passes,
    six: plain::Passes,
    identifications: Identifications,
    aside: Aside,
}

/// What is found out about the packets of a batch, pass by pass. What was found out about earlier batches is still there where this one
/// has no packets.
struct Passes {
    /// Where the words of their tags lie.
    tags: [u32; BATCH],
    /// What those lead to.
    found: [Found; BATCH],
    destinations: Destinations,
    /// What routes answer for them.
    answers: [u32; BATCH],
}

/// What the first pass answers.
struct Gathered {
    /// Packets of IPv4 that are sound and for us.
    good: u64,
    /// Those of IPv6 that are for us.
    of_six: u64,
    /// Bytes of all packets together.
    bytes: u64,
}

/// What packets that are not simply forwarded need.
struct Aside {
    policer: Policer,
    kind: Key<PuntReason>,
    losses: Losses,
}

impl<const TUNNEL: bool> Up<TUNNEL> {
    pub(crate) fn new(
        shared: Shared,
        kernel: Kernel,
        policer: Policer,
        kind: Key<PuntReason>,
        identifications: Identifications,
    ) -> Up<TUNNEL> {
        Up {
            pattern: pattern(shared.tpid),
            shared,
            kernel,
            passes: Passes {
                tags: [0; BATCH],
                found: [Found::NONE; BATCH],
                destinations: Destinations::default(),
                answers: [0; BATCH],
            },
            six: plain::Passes::default(),
            identifications,
            aside: Aside { policer, kind, losses: Losses::of::<Exit>() },
        }
    }

    /// One pass over a batch.
    #[inline(always)]
    fn pass(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Up { shared, kernel, pattern, passes, six, identifications, aside } = self;
        let core = shared.core.view_of(out.reader());
        let count = BATCH - batch.live().leading_zeros() as usize;
        let Gathered { good, of_six, bytes } = shared.gather(batch, count, passes, (*kernel, *pattern));
        shared.count_came(batch, bytes);
        let mut ports = [0; BATCH];
        let mut gone = shared.send_all::<TUNNEL>(batch, (good, false), (core, passes), identifications, &mut ports);
        let others = good & !gone;
        if others != 0 {
            gone |= shared.send_others::<TUNNEL>(batch, others, (core, passes), identifications, &mut ports);
        }
        if of_six != 0 {
            let (found, ports) = (&passes.found, &mut ports);
            gone |= shared.carry_six::<TUNNEL>(*kernel, batch, of_six, (six, found), (core, identifications), ports);
        }
        out.answer_indexed_each(gone, &ports);
        let rest = batch.live() & !gone;
        if rest != 0 {
            shared.sort_out::<TUNNEL>(batch, rest, aside, identifications, out);
        }
    }
}

/// Packets between asking for a line and using it, at least.
pub(crate) const LAG: usize = 16;

/// Bytes of a tagged Ethernet header and the fixed part of an IPv4 header.
const FRONT: usize = TAGGED + Ipv4::LEN;

/// The line before a slice's first byte, as an offset that wraps.
const BEFORE: usize = usize::MAX - 63;

impl Shared {
    /// The first pass: reads headers, and asks for what they lead to.
    #[inline(always)]
    fn gather(
        &self,
        batch: &Batch,
        count: usize,
        passes: &mut Passes,
        (kernel, pattern): (Kernel, LinkPattern),
    ) -> Gathered {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0_u16; BATCH];
        let (mut index, mut station) = (0, self.station(0));
        let (mut others, mut found, mut ethertypes) = (0, 0, 0);
        let (subscribers, routes) = (&*self.subscribers, &self.core.onward);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                // The line in front of the packet is where its new headers begin.
                prefetch_slice(packet.bytes(), BEFORE);
                if batch.lanes.port[slot] != index {
                    index = batch.lanes.port[slot];
                    station = self.station(index);
                }
                let front = packet.window::<FRONT>(0);
                others |= u64::from(word(front, 0) & MAC_BITS != station.mac) << at;
                // Both tags, from the outer one's identifier to the inner one's.
                let tags = word(front, 12).swap_bytes();
                passes.tags[at] = subscribers.seek(station.position, (tags >> 32) as u16 & VLAN, tags as u16 & VLAN);
                let frame = front.last_chunk().unwrap_or(&NO_FRAME);
                ethertypes |= plain::ethertype_of(frame);
                let destination = frame_check::destination_of(frame);
                routes.prefetch(destination);
                passes.destinations.0[at] = destination;
                frames[at] = frame;
                // Buffers are far shorter than 64 KiB.
                lengths[at] = packet.len() as u16;
                if at >= found + LAG {
                    self.find(found, passes);
                    found += 1;
                }
            },
        );
        (found..count).for_each(|at| self.find(at, passes));
        let bytes = lengths.iter().fold(0_u32, |sum, length| sum + u32::from(*length)).into();
        let mut six = 0;
        if ethertypes != ethernet::IPV4.to_be() {
            six = plain::sift(&frames, batch.live(), &mut passes.destinations);
            if batch.live() & !six == 0 {
                return Gathered { good: 0, of_six: six & !others, bytes };
            }
        }
        if let (Some(from), Some(to)) = (passes.destinations.0.get(..count), passes.answers.get_mut(..count)) {
            routes.lookup_batch(from, to);
        }
        let good = !others & frame_check::check(kernel, pattern, &frames, &lengths, &passes.destinations, count);
        Gathered { good, of_six: six & !others, bytes }
    }

    /// The port that packets came in by; for nobody where it is set down.
    #[inline(always)]
    fn station(&self, index: u16) -> WorkerPort {
        let station = self.ports.ingress(index);
        if self.tally.is_shut(index) { station.shut() } else { station }
    }

    /// Counts the packets of a batch, which have so many bytes, as customers'.
    #[inline(always)]
    fn count_came(&self, batch: &Batch, bytes: u64) {
        match self.ports.only_access() {
            Some(port) => self.tally.came(port, batch.live().count_ones().into(), bytes),
            None => batch.each_ref(|slot, packet| self.tally.came(batch.lanes.port[slot], 1, packet.len() as u64)),
        }
    }

    /// Goes from a packet's tags to its record, which is asked for.
    #[inline(always)]
    fn find(&self, at: usize, passes: &mut Passes) {
        let at = at % BATCH;
        let found = self.subscribers.found(passes.tags[at]);
        self.subscribers.prefetch_subscriber(found.place());
        passes.found[at] = found;
        if at < LAG {
            self.counters.prefetch(found.number(), Direction::Up);
        }
    }

    /// The last pass, for the packets in a mask; answers which of them are gone, whose `ports` are said.
    #[inline(always)]
    fn send_all<const TUNNEL: bool>(
        &self,
        batch: &mut Batch,
        (mask, is_bound): (u64, bool),
        (core, passes): (CoreView<'_>, &Passes),
        identifications: &mut Identifications,
        ports: &mut [u8; BATCH],
    ) -> u64 {
        let mut gone = 0;
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, packet, _| {
                if let Some(port) = self.send::<TUNNEL>(packet, slot, (core, passes), identifications, is_bound) {
                    ports[slot.index()] = port;
                    gone |= slot.bit();
                }
            },
        );
        gone
    }

    /// The same for those of them that come from further addresses of their subscribers.
    #[inline(never)]
    fn send_others<const TUNNEL: bool>(
        &self,
        batch: &mut Batch,
        others: u64,
        (core, passes): (CoreView<'_>, &Passes),
        identifications: &mut Identifications,
        ports: &mut [u8; BATCH],
    ) -> u64 {
        let bound = self.find_bound(batch, others, passes);
        self.send_all::<TUNNEL>(batch, (bound, true), (core, passes), identifications, ports)
    }

    /// The last pass, for one packet: wraps and counts it if it comes from where its subscriber's packets come from or, where this
    /// `is_bound` to be so, from anywhere. Answers the position of the port that it leaves by.
    #[inline(always)]
    fn send<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        slot: Slot,
        (core, passes): (CoreView<'_>, &Passes),
        identifications: &mut Identifications,
        is_bound: bool,
    ) -> Option<u8> {
        self.counters.prefetch(passes.found[(slot.index() + LAG) % BATCH].number(), Direction::Up);
        let record = self.subscribers.subscriber(passes.found[slot.index()].place())?;
        if !is_bound && record.differs(source_of(packet), word(packet.window(0), 6)) != 0 {
            return None;
        }
        let answer = passes.answers[slot.index()];
        if !TUNNEL {
            let hop = core.hop::<TUNNEL>(answer, || flow_of(packet)).ok()?;
            return self.forward::<TUNNEL>(packet, record, (core, hop), identifications).ok();
        }
        match core.written(answer, || flow_of(packet)) {
            Some(written) => self.forward::<TUNNEL>(packet, record, (core, written), identifications).ok(),
            None => self.send_unprepared::<TUNNEL>(packet, record, (core, answer), identifications),
        }
    }

    /// The same by a gateway for which nothing is prepared: its router's Ethernet address or a link has just changed, there are several ways
    /// to it, or its interface has tags.
    #[inline(never)]
    fn send_unprepared<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        (core, answer): (CoreView<'_>, u32),
        identifications: &mut Identifications,
    ) -> Option<u8> {
        let hop = core.hop::<TUNNEL>(answer, || flow_of(packet)).ok()?;
        self.forward::<TUNNEL>(packet, record, (core, hop), identifications).ok()
    }

    /// Which of these packets come from further addresses of their subscribers, entered or learned: looked up in passes, too.
    #[inline(never)]
    fn find_bound(&self, batch: &Batch, others: u64, passes: &Passes) -> u64 {
        let subscribers = &*self.subscribers;
        let mut keys = [subscribers.key4(0, 0); BATCH];
        let mut found = [Found::NONE; BATCH];
        let mut allowed = 0;
        for slot in Slots(others) {
            let at = slot.index();
            let (Some(record), Some(packet)) = (subscribers.subscriber(passes.found[at].place()), batch.get(slot))
            else {
                continue;
            };
            let key = subscribers.key4(record.scope(), source_of(packet));
            subscribers.prefetch_bucket(subscribers.hash(key));
            keys[at] = key;
            allowed |= u64::from(record.may_send_from(word(packet.window(0), 6))) << at;
        }
        for slot in Slots(allowed) {
            let candidate = subscribers.candidate(subscribers.hash(keys[slot.index()]));
            subscribers.prefetch_binding(candidate.place());
            found[slot.index()] = candidate;
        }
        let mut bound = 0;
        for slot in Slots(allowed) {
            let at = slot.index();
            let binding = subscribers.binding(found[at].place()).filter(|binding| binding.is(keys[at]));
            let is_its = binding.is_some_and(|binding| binding.subscriber() == passes.found[at].number());
            bound |= u64::from(is_its) << at;
        }
        bound
    }

    /// Wraps a packet that is sound and may go, and counts it; answers the position of the port that it leaves by. Changes nothing
    /// when it answers otherwise.
    #[inline(always)]
    fn forward<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        (core, hop): (CoreView<'_>, impl ToCore),
        identifications: &mut Identifications,
    ) -> Result<u8, Exit> {
        let Some(ip) = Ipv4::view(&packet.window::<FRONT>(0)[TAGGED..]) else { return Err(Exit::IpTooShort) };
        let (total, tos) = (ip.total_length.get(), ip.tos);
        if total > hop.longest() {
            return Err(Exit::TooBig);
        }
        let identification = if TUNNEL { identifications.next() } else { None };
        let each = Each { key: record.key(), total, tos, identification };
        let is_wrapped = hop.wrap::<TUNNEL, false>(core, packet, each, |inner| {
            if let Some(ip) = Ipv4::view_mut(inner) {
                ip.decrement_ttl();
            }
        });
        // The packet is sound: it is as long as it says.
        if !is_wrapped {
            return Err(Exit::NoHeadroom);
        }
        self.counters.count(record.number(), Direction::Up, TAGGED as u64 + u64::from(total));
        Ok(hop.port())
    }

    /// Takes care of the packets that were not simply forwarded.
    #[inline(never)]
    fn sort_out<const TUNNEL: bool>(
        &self,
        batch: &mut Batch,
        mask: u64,
        aside: &mut Aside,
        identifications: &mut Identifications,
        out: &mut Out<'_>,
    ) {
        let Aside { policer, kind, losses } = aside;
        let mut policer = policer.batch(out.now());
        batch.each_in(mask, |slot, packet, lanes| {
            let Examined { subscriber, fate, beside } = examine::<TUNNEL>(self, packet, lanes.port[slot]);
            let fate = fate.and_then(|(record, onto)| match onto {
                Onto::Core(hop) => self.forward::<TUNNEL>(packet, record, (self.core.view(), hop), identifications),
                Onto::Customer(destination) => {
                    let (port, bytes) = self.across.deliver(packet, destination)?;
                    self.counters.count(record.number(), Direction::Up, bytes);
                    self.tally.left(self.ports.egress(port).index, 1, packet.len() as u64);
                    Ok(port)
                }
            });
            if let Some(interface) = beside {
                self.tally.came_beside(interface, lanes.port[slot], packet.len() as u64);
            }
            match fate {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => {
                    let exit = policer.settle((exit, Exit::PolicedSubscriber), subscriber, (*kind, slot, &mut *lanes));
                    if exit.punted().is_none() {
                        let nobody = || self.counters.nobody_at(self.ports.ingress(lanes.port[slot]).position);
                        losses.count(&self.counters, subscriber.unwrap_or_else(nobody), exit);
                    }
                    out.answer(slot, exit);
                }
            }
        });
    }
}

/// What [`Up`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<PuntReason>) -> Declaration {
    // What was on its way to a customer has it from there, where one scheduler is behind both.
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).renews(&[kind.into()])
}

impl<const TUNNEL: bool> Stage for Up<TUNNEL> {
    fn declare(&self) -> Declaration {
        declaration(self.shared.ports.list().len(), self.aside.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}

/// What stands in the 14 bytes before a customer's IPv4 header: the end of an address, two tags, the EtherType of IPv4.
fn pattern(tpid: u16) -> LinkPattern {
    let [t0, t1] = tpid.to_be_bytes();
    let [c0, c1] = ethernet::CVLAN.to_be_bytes();
    let [i0, i1] = ethernet::IPV4.to_be_bytes();
    let value = [0, 0, 0, 0, t0, t1, 0, 0, c0, c1, 0, 0, i0, i1];
    let mask = [0, 0, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff];
    LinkPattern::pattern(value, mask).with_front(TAGGED as u16)
}

/// The source address of a customer's packet.
#[inline(always)]
fn source_of(packet: &Packet) -> u32 {
    Ipv4::view(&packet.window::<FRONT>(0)[TAGGED..]).map_or(0, |ip| ip.source.get())
}

/// The bits of an identifier in a tag.
const VLAN: u16 = 0xfff;

/// Eight bytes of the headers, first byte lowest.
#[inline(always)]
fn word(front: &[u8; FRONT], at: usize) -> u64 {
    front.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
