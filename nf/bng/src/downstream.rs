//! Stage `NAME.down`: from the core to customers.
//!
//! As upstream, packets are looked at 64 at a time and in passes: first labels are walked and headers read, and the word of the GRE key
//! is asked for, and, some packets later, the binding that it leads to. Where it leads nowhere, or there are no keys, the bucket of
//! (key, destination) is asked for instead, and its binding when all packets have been through this. Then the vector kernel checks the outer and the
//! inner headers; at last packets are compared with their bindings, and get the tags of their customers, while the lines of counters
//! are asked for some packets ahead. What is not plain is looked at again one by one ([`unwrap`](crate::decapsulate)).

mod exit;

use std::sync::Arc;

use weir_ip::{Inward, LineTally, PuntReason, Punts, Untagged};
use weir_packet::{BATCH, Batch, Key, LaneId, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, Frame, LinkPattern, NO_FRAME};
use weir_stage::{Declaration, Out, Stage};
use weir_table::exact::Hash;
use weir_wire::{Ethernet, Ipv4, View, ethernet};

pub(crate) use exit::{Exit, PUNTED};

use crate::core::Core;
use crate::decapsulate::{Here, Inner, decapsulate};
use crate::encap::{GRE_IPV6, MAC_BITS, TAGGED, TUNNEL as TUNNEL_BYTES, Tagged};
use crate::frame::{Ipv4Bytes, NOT_PLAIN, is_tunnel, key_of, labels_of, pattern, protocol_of, total_of, wrapped};
use crate::loss::Losses;
use crate::marking::{CONGESTED, Marking};
use crate::ports::Ports;
use crate::punt::Policer;
use crate::table::counters::{Direction, WorkerCounters};
use crate::table::{BindingKey, BindingRecord, Found, Subscribers};
use crate::upstream::LAG;

/// What packets from the core are looked up in and counted by.
pub(crate) struct Shared {
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) ports: Arc<Ports>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// What counts by interfaces.
    pub(crate) tally: Arc<LineTally>,
    pub(crate) marking: Marking,
    /// The gateway's end of tunnels.
    pub(crate) local: u32,
    /// The gateway's own addresses.
    pub(crate) core: Core,
    /// Those of IPv6 towards customers, sorted.
    pub(crate) own6: Vec<u128>,
}

/// The way from the core to customers, of IPv4 and of [plain](crate::six::plain) IPv6. `TUNNEL` says whether packets are wrapped in GRE.
pub(crate) struct Down<const TUNNEL: bool> {
    shared: Shared,
    kernel: Kernel,
    pattern: LinkPattern,
    passes: Passes,
    aside: Aside,
    /// By which interfaces packets come in, unless a stage before has found out.
    inward: Option<Inward>,
}

/// What is found out about the packets of a batch, pass by pass. What was found out about earlier batches is still there where this one
/// has no packets.
pub(crate) struct Passes {
    /// GRE keys of each.
    pub(crate) keys: [u32; BATCH],
    /// Destinations of outer packets, and of those inside.
    outer: Destinations,
    inner: Destinations,
    /// Of those whose key leads to no binding.
    pub(crate) hashes: [Hash; BATCH],
    /// Where their inner packets begin.
    pub(crate) offsets: [u8; BATCH],
    /// What their keys or their hashes lead to.
    pub(crate) found: [Found; BATCH],
}

/// What the first pass answers.
struct Gathered {
    /// Packets of IPv4 that are sound and for us.
    good: u64,
    /// Those of IPv6 behind such headers.
    of_six: u64,
    /// Bytes of all packets together.
    bytes: u64,
}

/// What packets that are not simply delivered need.
struct Aside {
    policer: Policer,
    kind: Key<PuntReason>,
    losses: Losses,
}

/// Packets between asking for the word of a key and reading it.
const HALF_LAG: usize = LAG / 2;

impl<const TUNNEL: bool> Down<TUNNEL> {
    pub(crate) fn new(
        shared: Shared,
        kernel: Kernel,
        policer: Policer,
        kind: Key<PuntReason>,
        inward: Option<Inward>,
    ) -> Down<TUNNEL> {
        Down {
            pattern: if TUNNEL { pattern(shared.local) } else { LinkPattern::ANY },
            shared,
            kernel,
            passes: Passes {
                keys: [0; BATCH],
                outer: Destinations::default(),
                inner: Destinations::default(),
                hashes: [Hash::from_bits(0); BATCH],
                offsets: [0; BATCH],
                found: [Found::NONE; BATCH],
            },
            aside: Aside { policer, kind, losses: Losses::of::<Exit>() },
            inward,
        }
    }

    /// One pass over a batch.
    #[inline(always)]
    fn pass(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Down { shared, kernel, pattern, passes, aside, inward } = self;
        let came = inward.as_mut().map(|inward| inward.enter(batch));
        let others = came.map_or(0, |came| came.of_the_layer);
        let count = BATCH - batch.live().leading_zeros() as usize;
        let Gathered { good, of_six, bytes } = shared.gather::<TUNNEL>(batch, count, passes, (*kernel, *pattern));
        if let (Some(inward), Some(came)) = (inward, came) {
            inward.count(batch, came, bytes);
        }
        // What is shut is looked for packet by packet.
        let usual = if shared.all_open() { !others } else { 0 };
        let (good, of_six) = (good & usual, of_six & usual);
        let (mut ports, mut gone, mut sent) = ([0; BATCH], 0, 0);
        batch.each_in(
            good,
            #[inline(always)]
            |slot, packet, _| {
                if let Some(port) = shared.send(packet, slot, passes) {
                    ports[slot.index()] = port;
                    gone |= slot.bit();
                    sent += packet.len() as u64;
                }
            },
        );
        if of_six != 0 {
            let (of_these, bytes) = shared.carry_six(*kernel, batch, of_six, passes, &mut ports);
            (gone, sent) = (gone | of_these, sent + bytes);
        }
        shared.count_left(batch, (gone, sent), &ports);
        out.answer_indexed_each(gone, &ports);
        Slots(others).for_each(|slot| out.answer(slot, Exit::Layer));
        let rest = batch.live() & !(gone | others);
        if rest != 0 {
            shared.sort_out::<TUNNEL>(batch, rest, aside, out);
        }
    }
}

impl Shared {
    /// The first pass: reads headers, and asks for what they lead to.
    #[inline(always)]
    fn gather<const TUNNEL: bool>(
        &self,
        batch: &Batch,
        count: usize,
        passes: &mut Passes,
        (kernel, pattern): (Kernel, LinkPattern),
    ) -> Gathered {
        let (mut outer_frames, mut inner_frames) = ([&NO_FRAME; BATCH], [&NO_FRAME; BATCH]);
        let (mut outer_lengths, mut inner_lengths) = ([0_u16; BATCH], [0_u16; BATCH]);
        let (mut index, mut station) = (0, self.ports.ingress(0));
        let (mut others, mut led, mut missing) = (0, 0, 0);
        let (mut six, mut passed, mut protocols) = (0, 0, 0);
        let subscribers = &*self.subscribers;
        let mut bytes = 0;
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                bytes += packet.len() as u64;
                if batch.lanes.port[slot] != index {
                    index = batch.lanes.port[slot];
                    station = self.ports.ingress(index);
                }
                let is_ours = u64::from_le_bytes(*packet.window(0)) & MAC_BITS == station.mac;
                if !TUNNEL && *packet.window(Ethernet::LEN - 2) == ethernet::IPV6.to_be_bytes() {
                    six |= u64::from(is_ours) << at;
                    passed |= 1 << at;
                    (passes.keys[at], passes.offsets[at]) = (0, Ethernet::LEN as u8);
                    return;
                }
                let labels = labels_of(packet);
                let mut is_plain = is_ours & (labels != NOT_PLAIN);
                // Buffers are far shorter than 64 KiB.
                let length = (packet.len() as u16).saturating_sub(labels as u16);
                let (mut key, mut inside) = (0, Ethernet::LEN + labels);
                if TUNNEL {
                    let Some((frame, inner)) = wrapped(packet.window(labels)) else { return };
                    let outer: &Ipv4Bytes = frame.last_chunk().unwrap_or(&[0; Ipv4::LEN]);
                    outer_frames[at] = frame;
                    outer_lengths[at] = length;
                    passes.outer.0[at] = frame_check::destination_of(frame);
                    is_plain &= is_tunnel(outer);
                    inner_frames[at] = inner;
                    inner_lengths[at] = total_of(outer);
                    key = key_of(inner);
                    inside += TUNNEL_BYTES;
                    protocols |= protocol_of(inner);
                } else {
                    inner_frames[at] = packet.window(labels);
                    inner_lengths[at] = length;
                }
                let destination = frame_check::destination_of(inner_frames[at]);
                passes.inner.0[at] = destination;
                (passes.keys[at], passes.offsets[at]) = (key, inside as u8);
                if TUNNEL {
                    subscribers.prefetch_key(key);
                } else {
                    self.ask(at, passes);
                }
                others |= u64::from(!is_plain) << at;
                if TUNNEL && at >= led + HALF_LAG {
                    missing |= self.lead(led, passes);
                    led += 1;
                }
            },
        );
        if TUNNEL {
            for at in led..count {
                missing |= self.lead(at, passes);
            }
        } else {
            missing = batch.live() & !passed;
        }
        for slot in Slots(missing) {
            self.find(slot.index(), passes);
        }
        if batch.live() & !passed == 0 {
            return Gathered { good: 0, of_six: six, bytes };
        }
        let inside = frame_check::check(kernel, pattern, &inner_frames, &inner_lengths, &passes.inner, count);
        if !TUNNEL {
            return Gathered { good: inside & !(others | passed), of_six: six, bytes };
        }
        let any = LinkPattern::pattern([0; Ethernet::LEN], [0; Ethernet::LEN]);
        let outside = frame_check::check(kernel, any, &outer_frames, &outer_lengths, &passes.outer, count);
        if protocols != ethernet::IPV4.to_be() {
            six = self.sift(&inner_frames, batch.live() & !others & outside);
        }
        Gathered { good: inside & !others & outside, of_six: six, bytes }
    }

    /// Which of these have the gateway's end of a tunnel and a GRE header with a key of IPv6 in front of their inner packets.
    #[inline(never)]
    fn sift(&self, inner: &[&Frame; BATCH], of: u64) -> u64 {
        let [l0, l1, l2, l3] = self.local.to_be_bytes();
        let [g0, g1, g2, g3] = GRE_IPV6;
        let front = [l0, l1, l2, l3, g0, g1, g2, g3];
        let is_six = |slot: &Slot| inner[slot.index()].get(2..).and_then(<[u8]>::first_chunk) == Some(&front);
        Slots(of).filter(is_six).fold(0, |six, slot| six | slot.bit())
    }

    /// Asks for the bucket of a packet's key and destination.
    #[inline(always)]
    fn ask(&self, at: usize, passes: &mut Passes) {
        let hash = self.subscribers.hash(self.subscribers.key4(passes.keys[at], passes.inner.0[at]));
        self.subscribers.prefetch_bucket(hash);
        passes.hashes[at] = hash;
    }

    /// Goes from a packet's GRE key to the only binding that has it, or asks for the bucket. Answers the packet's bit if it is to be
    /// found in that.
    #[inline(always)]
    fn lead(&self, at: usize, passes: &mut Passes) -> u64 {
        let at = at % BATCH;
        let found = self.subscribers.only4(passes.keys[at]);
        passes.found[at] = found;
        if found.is_none() {
            self.ask(at, passes);
            return 1 << at;
        }
        self.expect(at, found);
        0
    }

    /// Goes from a packet's bucket to its binding.
    #[inline(always)]
    fn find(&self, at: usize, passes: &mut Passes) {
        let at = at % BATCH;
        let found = self.subscribers.candidate(passes.hashes[at]);
        passes.found[at] = found;
        self.expect(at, found);
    }

    /// Asks for what the last pass needs of a packet.
    #[inline(always)]
    fn expect(&self, at: usize, found: Found) {
        self.subscribers.prefetch_binding(found.place());
        if at < LAG {
            self.counters.prefetch(found.number(), Direction::Down);
        }
    }

    /// The last pass, for one packet: gives it its tags and counts it. Answers the position of the port that it leaves by.
    #[inline(always)]
    fn send(&self, packet: &mut Packet, slot: Slot, passes: &Passes) -> Option<u8> {
        let at = slot.index();
        self.counters.prefetch(passes.found[(at + LAG) % BATCH].number(), Direction::Down);
        let binding = self.subscribers.binding(passes.found[at].place())?;
        if !binding.is(self.subscribers.key4(passes.keys[at], passes.inner.0[at])) {
            return None;
        }
        self.deliver(packet, binding, passes.offsets[at]).ok()
    }

    /// Whether packets may leave by all access ports.
    #[inline(always)]
    fn all_open(&self) -> bool {
        !self.ports.access().any(|port| self.tally.is_shut(port))
    }

    /// Whether packets may leave by the port to a customer.
    pub(crate) fn check_open(&self, binding: BindingRecord<'_>) -> Result<(), Exit> {
        let is_shut = self.tally.is_shut(self.ports.egress(binding.port()).index);
        if is_shut { Err(Exit::InterfaceDown) } else { Ok(()) }
    }

    /// Counts packets that leave for customers by the ports at these positions, with so many bytes together.
    #[inline(always)]
    fn count_left(&self, batch: &Batch, (gone, bytes): (u64, u64), ports: &[u8; BATCH]) {
        match self.ports.only_access() {
            Some(port) => self.tally.left(port, gone.count_ones().into(), bytes),
            None => self.count_left_by(batch, gone, ports),
        }
    }

    /// The same where there are several access ports.
    #[inline(never)]
    fn count_left_by(&self, batch: &Batch, gone: u64, ports: &[u8; BATCH]) {
        batch.each_ref_in(gone, |slot, packet| {
            self.tally.left(self.ports.egress(ports[slot.index()]).index, 1, packet.len() as u64);
        });
    }

    /// Takes care of the packets that were not simply delivered.
    #[inline(never)]
    fn sort_out<const TUNNEL: bool>(&self, batch: &mut Batch, mask: u64, aside: &mut Aside, out: &mut Out<'_>) {
        let Aside { policer, kind, losses } = aside;
        let mut policer = policer.batch(out.now());
        let here = Here { ports: &self.ports, core: &self.core, local: self.local };
        batch.each_in(mask, |slot, packet, lanes| {
            let mut subscriber = None;
            let fate = decapsulate::<TUNNEL>(here, packet.bytes(), lanes.port[slot]).and_then(|inner| {
                let binding = self.look_up(inner).ok_or(Exit::Unresolved)?;
                subscriber = Some(binding.subscriber());
                self.check_open(binding)?;
                self.last_checks(packet, inner)?;
                self.deliver(packet, binding, inner.offset)
            });
            match fate {
                Ok(port) => {
                    self.tally.left(self.ports.egress(port).index, 1, packet.len() as u64);
                    out.answer_indexed(slot, port);
                }
                Err(exit) => {
                    let exit = policer.settle((exit, Exit::PolicedSubscriber), subscriber, (*kind, slot, &mut *lanes));
                    if let Some(subscriber) = subscriber.filter(|_| exit.punted().is_none()) {
                        losses.count(&self.counters, subscriber, exit);
                    }
                    out.answer(slot, exit);
                }
            }
        });
    }

    /// Where a packet's destination is, for certain.
    fn look_up(&self, inner: Inner) -> Option<BindingRecord<'_>> {
        let key: BindingKey = self.subscribers.key4(inner.key, inner.destination);
        self.subscribers.find(key, self.subscribers.hash(key)).and_then(|place| self.subscribers.binding(place))
    }

    /// What speaks against delivering a packet whose subscriber is known. Marks congestion that was met in the tunnel.
    fn last_checks(&self, packet: &mut Packet, inner: Inner) -> Result<(), Exit> {
        let Some(ip) = packet.bytes_mut().get_mut(usize::from(inner.offset)..).and_then(Ipv4::view_mut) else {
            return Err(Exit::IpTooShort);
        };
        if ip.ttl < 2 {
            return Err(Exit::TtlExpired);
        }
        if inner.congested && ip.tos & CONGESTED == 0 {
            return Err(Exit::Congestion);
        }
        if inner.congested {
            ip.set_tos(ip.tos | CONGESTED);
        }
        Ok(())
    }

    /// Gives a packet that is sound and may go the tags of its customer, and counts it; answers the position of the port that it
    /// leaves by. Changes nothing when it answers otherwise.
    #[inline(always)]
    pub(crate) fn deliver(&self, packet: &mut Packet, binding: BindingRecord<'_>, offset: u8) -> Result<u8, Exit> {
        if !binding.is_resolved() {
            return Err(Exit::Unresolved);
        }
        let egress = self.ports.egress(binding.port());
        let offset = usize::from(offset);
        let total = Ipv4::view(packet.window::<{ Ipv4::LEN }>(offset)).map_or(0, |ip| ip.total_length.get());
        if total > egress.mtu {
            return Err(Exit::TooBig);
        }
        // The packet is sound: it is as long as it says.
        let Some((header, ip)) = packet.replace_head::<TAGGED, { Ipv4::LEN }>(offset, TAGGED, usize::from(total))
        else {
            return Err(Exit::NoHeadroom);
        };
        if let Some(ip) = Ipv4::view_mut(ip) {
            ip.decrement_ttl();
            let tags = binding.tags_word() | self.marking.priority(ip.tos);
            self.marking.remark(ip);
            Tagged { destination: binding.mac_word(), source: egress.mac & MAC_BITS, tags }
                .write(ethernet::IPV4, header);
        }
        self.counters.count(binding.subscriber(), Direction::Down, TAGGED as u64 + u64::from(total));
        Ok(binding.port())
    }
}

/// What [`Down`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<PuntReason>, untagged: Option<Key<Untagged>>) -> Declaration {
    let declared = Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).writes(&[kind.into()]);
    untagged.iter().fold(declared, |declared, key| declared.writes(&[LaneId::L3, (*key).into()]))
}

impl<const TUNNEL: bool> Stage for Down<TUNNEL> {
    fn declare(&self) -> Declaration {
        let untagged = self.inward.as_ref().map(Inward::key);
        declaration(self.shared.ports.list().len(), self.aside.kind, untagged)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}
