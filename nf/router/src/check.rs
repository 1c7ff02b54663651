//! Stage `NAME.check`, of a pipeline: the first part of the [fast path](crate::forward), on a worker of its own. What passes goes on
//! to `NAME.forward`, which looks it up and sends it.

use weir_packet::{Batch, Key, LaneId, Packet};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, View};

use crate::bad::{ways_of_checks, with_reasons};
use crate::checker::{Checker, may_be_tagged, reach};
use crate::classify::{Finding, Frame, classify};
use crate::lookups::Lookups;
use crate::punt::{Kind, Policing, Punts};
use crate::received::Received;

with_reasons! { ways_of_checks {
    /// Ways out of [`Check`].
    pub enum Exit {
        /// Valid: it is looked up next.
        Out => way "out",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// For one of the router's own addresses, at the end of its TTL.
        Local => way "local",
        /// Has IP options: the slow path carries them out.
        Options => way "options",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
    } {
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More for the router's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More with IP options than the slow path takes from a worker.
        PolicedOptions => drop "punt-policed-options",
    }
} }

impl Punts for Exit {
    fn punted(self) -> Option<(Kind, Exit)> {
        Some(match self {
            Exit::Arp => (Kind::Arp, Exit::PolicedArp),
            Exit::Local => (Kind::Local, Exit::PolicedLocal),
            Exit::TtlExpired => (Kind::TtlExpired, Exit::PolicedTtlExpired),
            Exit::Options => (Kind::Options, Exit::PolicedOptions),
            _ => return None,
        })
    }
}

/// The ways of [`Check`] to the slow path.
pub(crate) const TO_THE_SLOW_PATH: [&str; 4] = ["arp", "local", "options", "ttl-expired"];

/// Checks packets, so that others need only look up where they go.
pub(crate) struct Check<T> {
    lookups: Lookups<T>,
    received: Received,
    checker: Checker,
    kind: Key<Kind>,
    policing: Policing,
}

impl<T: Lookup4> Check<T> {
    /// Sends to the slow path as much as `policing` allows.
    pub(crate) fn new(
        lookups: Lookups<T>,
        received: Received,
        kernel: Kernel,
        policing: Policing,
        kind: Key<Kind>,
    ) -> Check<T> {
        Check { lookups, received, checker: Checker::new(kernel), kind, policing }
    }

    /// The mask of packets that are forwarded without a second look; it is noted where their network headers begin.
    fn check(&mut self, batch: &mut Batch) -> u64 {
        let (count, ingress) = (reach(batch), self.lookups.fib.ingress());
        if may_be_tagged(batch, ingress) {
            let ours = self.received.enter(batch, ingress);
            return ours & self.checker.check_tagged(batch, count, |_| {}, |_| {});
        }
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let checked = self.checker.check(batch, count, Some(ingress), |_| {}, |_| {});
        self.received.count_untagged(batch, checked, ingress);
        checked.good
    }

    /// Takes care of the packets in `mask`, which the kernel refused.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        let mut allowance = self.policing.batch(out.now());
        let (lookups, key) = (&self.lookups, self.kind);
        batch.each_in(mask, |slot, packet, lanes| {
            let exit = match find_out(lookups, packet, lanes.port[slot]) {
                Ok(l3) => {
                    lanes.l3[slot] = l3 as u8;
                    Exit::Out
                }
                Err(exit) => exit,
            };
            allowance.answer(exit, slot, lanes, key, out);
        });
    }
}

/// Where the network header of a packet begins that came in by `port` and may go on; else what becomes of it.
fn find_out<T: Lookup4>(lookups: &Lookups<T>, packet: &Packet, port: u16) -> Result<usize, Exit> {
    let frame = Frame::of(packet, port, lookups.fib.ingress())?;
    match classify(packet, frame) {
        None => Ok(frame.l3),
        Some(Finding::Bad(bad)) => Err(bad.into()),
        Some(Finding::Arp) => Err(Exit::Arp),
        Some(Finding::Options) => Err(Exit::Options),
        Some(Finding::LastHop) if lookups.has_arrived(packet, frame.l3) => Err(Exit::Local),
        Some(Finding::LastHop) => Err(Exit::TtlExpired),
    }
}

/// What [`Check`] declares.
pub(crate) fn declaration(kind: Key<Kind>) -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3, kind.into()])
}

impl<T: Lookup4> Stage for Check<T> {
    fn declare(&self) -> Declaration {
        declaration(self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let good = self.check(batch);
        let rest = batch.live() & !good;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }
}
