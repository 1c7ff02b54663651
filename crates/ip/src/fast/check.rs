//! Stage `NAME.check`, of a pipeline: the first part of the [fast path](crate::fast::forward), on a worker of its own. What passes goes on
//! to `NAME.forward`, which looks it up and sends it.

use weir_packet::{Batch, Key, LaneId, Lanes, Packet, Slot};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;

use crate::fast::bad::{ways_of_checks, with_reasons};
use crate::fast::classify::{Family, Frame, answers_verdicts, classify};
use crate::fast::examine::Examiner;
use crate::fast::inlet::InletKeys;
use crate::fast::lookups::Lookups;
use crate::fast::punt::{Origin, PuntPolicer, PuntReason, Punts};
use crate::fast::received::{Entered, Received};
use crate::fast::scope::{Chosen, Known};
use crate::lines::Punt;

with_reasons! { ways_of_checks {
    /// Ways out of [`Check`].
    pub enum Exit {
        /// Valid: it is looked up next.
        Out => way "out",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// Neighbour discovery, for the slow path.
        Nd => way "nd",
        /// For whoever listens on its link, or for one of the router's own addresses, at the end of its TTL or hop limit.
        Local => way "local",
        /// Has IP options, or hop-by-hop options: the slow path carries them out.
        Options => way "options",
        /// A control protocol of its link, for Linux, which speaks for the VRF.
        Host => way "host",
        /// Its TTL or hop limit ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// From a link-local address to one beyond the link: the slow path answers so.
        BeyondScope => way "beyond-scope",
    } {
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More neighbour discovery than the slow path takes from a worker.
        PolicedNd => drop "punt-policed-nd",
        /// More for the router's own addresses and its links than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More at the end of their TTL or hop limit than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More of control protocols of links than the slow path takes from a worker.
        PolicedHost => drop "punt-policed-host",
        /// More with IP options, or hop-by-hop options, than the slow path takes from a worker.
        PolicedOptions => drop "punt-policed-options",
        /// More from link-local addresses to others than the slow path takes from a worker.
        PolicedBeyondScope => drop "punt-policed-beyond-scope",
    }
} }

impl Punts for Exit {
    fn punted(self) -> Option<(PuntReason, Exit)> {
        Some(match self {
            Exit::Arp => (PuntReason::Arp, Exit::PolicedArp),
            Exit::Nd => (PuntReason::Nd, Exit::PolicedNd),
            Exit::Local => (PuntReason::Local, Exit::PolicedLocal),
            Exit::Host => (PuntReason::Host, Exit::PolicedHost),
            Exit::TtlExpired => (PuntReason::TtlExpired, Exit::PolicedTtlExpired),
            Exit::Options => (PuntReason::Options, Exit::PolicedOptions),
            Exit::BeyondScope => (PuntReason::BeyondScope, Exit::PolicedBeyondScope),
            _ => return None,
        })
    }
}

answers_verdicts!(Exit);

/// The ways of [`Check`] to the slow path.
pub(crate) const TO_THE_SLOW_PATH: [&str; 7] = ["arp", "nd", "local", "host", "options", "ttl-expired", "beyond-scope"];

/// What a stage writes on a packet.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// Why it goes to the slow path.
    pub(crate) kind: Key<PuntReason>,
    /// What the next worker of a pipeline is told of it; there is none where one worker does all.
    pub(crate) known: Option<Key<Known>>,
    /// What the function is told of it; there is nothing where no route leads into a function.
    pub(crate) inlet: Option<InletKeys>,
    /// The VRF that a list chose for it, which is read only; there is none where no list judges what comes in.
    pub(crate) chosen: Option<Key<Chosen>>,
}

impl Keys {
    /// Tells the slow path of the VRF that a list chose, behind the reason.
    pub(crate) fn tell_chosen(self, lanes: &mut Lanes, slot: Slot) {
        if let vrf @ Some(_) = Chosen::of(lanes, slot, self.chosen).0 {
            let reason = lanes.get(self.kind, slot);
            lanes.numbers_mut(self.kind)[slot.index()] = Punt { chosen: vrf, ..Punt::from(reason) }.into();
        }
    }
}

/// Checks packets, so that others need only look up where they go.
pub(crate) struct Check<T> {
    lookups: Lookups<T>,
    received: Received,
    examiner: Examiner,
    keys: Keys,
    policer: PuntPolicer,
}

impl<T: Lookup4> Check<T> {
    /// Sends to the slow path as much as `policer` allows.
    pub(crate) fn new(
        lookups: Lookups<T>,
        received: Received,
        kernel: Kernel,
        policer: PuntPolicer,
        keys: Keys,
    ) -> Check<T> {
        Check { lookups, received, examiner: Examiner::new(kernel), keys, policer }
    }

    /// The mask of packets that are forwarded without a second look; it is noted where their network headers begin, and what else is known.
    fn check(&mut self, batch: &mut Batch) -> u64 {
        let (examiner, ingress) = (&mut self.examiner, self.lookups.fib.ingress());
        let mut entered = self.received.enter(batch, ingress, &mut examiner.vrfs);
        if Chosen::is_any(batch, self.keys.chosen) {
            entered.scope = examiner.vrfs.choose(batch, entered.scope, self.keys.chosen);
        }
        let good = match entered.is_tagged {
            true => examiner.check::<true>(batch, &entered, ingress, |_| {}, |_| {}),
            false => examiner.check::<false>(batch, &entered, ingress, |_| {}, |_| {}),
        };
        if !entered.is_tagged {
            self.received.count_untagged(batch, entered.port, good.bytes, ingress);
        }
        self.tell(batch, good.six, &entered);
        good.four | good.six
    }

    /// Tells the next worker what is known of all packets.
    fn tell(&mut self, batch: &mut Batch, six: u64, entered: &Entered) {
        let Some(key) = self.keys.known else { return };
        let vrfs = &self.examiner.vrfs;
        batch.each(|slot, _, lanes| {
            let family = if six & slot.bit() == 0 { Family::Four } else { Family::Six };
            lanes.set(key, slot, Known { vrf: vrfs.of(slot, entered.scope), family });
        });
    }

    /// Takes care of the packets in `mask`, which were refused.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        let mut batch_policer = self.policer.batch(out.now());
        let (lookups, keys) = (&self.lookups, self.keys);
        batch.each_in(mask, |slot, packet, lanes| {
            let chosen = Chosen::of(lanes, slot, keys.chosen);
            let exit = match find_out(lookups, packet, (lanes.port[slot], chosen)) {
                Ok((l3, known)) => {
                    note(lanes, slot, keys, l3, known);
                    Exit::Out
                }
                Err(exit) => exit,
            };
            let port = lanes.port[slot];
            let origin = || Origin::of(lookups.fib.ingress(), packet, port);
            batch_policer.answer((exit, origin), (slot, lanes), keys.kind, out);
            keys.tell_chosen(lanes, slot);
        });
    }
}

/// Tells the next worker what is known of a packet.
fn note(lanes: &mut Lanes, slot: Slot, keys: Keys, l3: usize, known: Known) {
    lanes.l3[slot] = l3 as u8;
    if let Some(key) = keys.known {
        lanes.set(key, slot, known);
    }
}

/// Where the network header of a packet begins that came in by `port` and may go on, and what the next worker is told of it; else what
/// becomes of it.
fn find_out<T: Lookup4>(
    lookups: &Lookups<T>,
    packet: &Packet,
    (port, chosen): (u16, Chosen),
) -> Result<(usize, Known), Exit> {
    let ingress = lookups.fib.ingress();
    let frame = Frame::of(packet, port, ingress)?;
    let vrf = chosen.or(ingress.vrf_of(frame.interface));
    match classify(packet, frame) {
        Ok(family) => Ok((frame.l3, Known { vrf, family })),
        Err(finding) => Err(lookups.settle(finding, vrf, packet, frame).into()),
    }
}

/// What [`Check`] declares.
pub(crate) fn declaration(keys: Keys) -> Declaration {
    let declaration = Declaration::of::<Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3, keys.kind.into()]);
    let declaration =
        keys.chosen.iter().fold(declaration, |declaration, chosen| declaration.reads(&[(*chosen).into()]));
    match keys.known {
        Some(known) => declaration.writes(&[known.into()]),
        None => declaration,
    }
}

impl<T: Lookup4> Stage for Check<T> {
    fn declare(&self) -> Declaration {
        declaration(self.keys)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let good = self.check(batch);
        let rest = batch.live() & !good;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }
}
