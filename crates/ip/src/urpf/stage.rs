//! Stage `NAME.urpf`: packets are dropped to whose sources no route leads, or none by the interface that they came in by.

use std::sync::Arc;

use weir_mem::Published;
use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Stage};

use super::{Asked, Mode, ReversePaths, Tables};
use crate::fast::by_interface::ByInterface;
use crate::fast::ends::{End, Ends};
use crate::tables::fib::Fib;
use crate::tables::prefixes::Readers;

weir_stage::ways! {
    /// Ways out of [`Urpf`].
    pub(crate) enum Exit {
        /// It may come from where it says, or nobody asks.
        Out => way "out",
        /// No route to its source leads out by the interface that it came in by, which asks for that (strict uRPF, RFC 3704 section 2.2).
        Strict => drop "urpf-strict",
        /// No route leads to its source, or one that drops what goes there (loose uRPF, RFC 3704 section 2.4).
        Loose => drop "urpf-loose",
    }
}

/// Looks whether packets come from where routes lead to.
pub(crate) struct Urpf {
    tables: Arc<Published<Tables>>,
    /// By number of the VRF.
    readers: Arc<[Readers]>,
    fib: Arc<Fib>,
    packets: ByInterface,
    sources: Ends,
}

impl ReversePaths {
    /// A stage that looks at packets.
    pub(crate) fn stage(&self, readers: Arc<[Readers]>, fib: Arc<Fib>) -> Urpf {
        let (packets, sources) = (ByInterface::default(), Ends::new(End::Source));
        Urpf { tables: Arc::clone(&self.tables), readers, fib, packets, sources }
    }
}

impl Stage for Urpf {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Urpf { tables, readers, fib, packets, sources } = self;
        let tables = tables.load(out.reader());
        packets.find_out(None, fib.ingress(), batch);
        let mut left = batch.live();
        while left != 0 {
            let (alike, interface) = packets.like_the_first(left);
            left &= !alike;
            let Some(Some(Asked { mode, vrf })) = tables.get(usize::from(interface)) else { continue };
            let Some(readers) = readers.get(usize::from(*vrf)) else { continue };
            // What counts on a link only is no router's to look up: it goes no further than here.
            let known = sources.look_up(batch, alike, &packets.l3, readers);
            match mode {
                Mode::Strict => {
                    let wrong = known.those(&sources.answers, |answer| !fib.leads_out_by(answer, interface));
                    out.answer_all(wrong, Exit::Strict);
                }
                Mode::Loose => {
                    let wrong = known.those(&sources.answers, |answer| !fib.leads_on(answer));
                    out.answer_all(wrong, Exit::Loose);
                }
            }
        }
    }
}

/// What [`Urpf`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Port])
}
