//! Stage `NAME.check`, of a pipeline: the first part of the [fast path](crate::forward), on a worker of its own. What passes goes on
//! to `NAME.forward`, which looks it up and sends it.

use weir_packet::{Batch, Key, LaneId, Packet};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, View};

use crate::bad::{ways_of_checks, with_reasons};
use crate::checker::{Checker, reach};
use crate::classify::{Finding, classify};
use crate::lookups::Lookups;
use crate::punt::{Kind, Policing, Punts};

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
    checker: Checker,
    kind: Key<Kind>,
    policing: Policing,
}

impl<T: Lookup4> Check<T> {
    /// Sends to the slow path as much as `policing` allows.
    pub(crate) fn new(lookups: Lookups<T>, kernel: Kernel, policing: Policing, kind: Key<Kind>) -> Check<T> {
        Check { lookups, checker: Checker::new(kernel), kind, policing }
    }

    /// Takes care of the packets in `mask`, which the kernel refused.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        let mut allowance = self.policing.batch(out.now());
        let (lookups, key) = (&self.lookups, self.kind);
        batch.each_in(mask, |slot, packet, lanes| {
            let exit = find_out(lookups, packet, lanes.port[slot]);
            allowance.answer(exit, slot, lanes, key, out);
        });
    }
}

/// What becomes of a packet that came in by `port`.
fn find_out<T: Lookup4>(lookups: &Lookups<T>, packet: &Packet, port: u16) -> Exit {
    match classify(packet, Some(lookups.fib.ingress().mac_word(port))) {
        None => Exit::Out,
        Some(Finding::Bad(bad)) => bad.into(),
        Some(Finding::Arp) => Exit::Arp,
        Some(Finding::Options) => Exit::Options,
        Some(Finding::LastHop) if lookups.has_arrived(packet) => Exit::Local,
        Some(Finding::LastHop) => Exit::TtlExpired,
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
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let good = self.checker.check(batch, reach(batch), Some(self.lookups.fib.ingress()), |_| {}, |_| {});
        let rest = batch.live() & !good;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }
}
