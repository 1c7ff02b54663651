//! Stage `NAME.control`, on the control side: lets time pass for the switch, and sends what controllers send.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{Batch, Held};
use weir_stage::{Declaration, Out, PortInfo, Stage};

use crate::core::{Live, Shared};
use crate::forward::{copy_of, way_of};

weir_stage::ways! {
    /// Ways out of [`Control`].
    pub(crate) enum Exit {
        /// Not decided: a defect, as nothing comes to this stage.
        Undecided => way "undecided",
        /// A packet of a controller.
        Sent => create "packet-out",
    }
}

/// How long a packet of a controller waits at most, and news for one, nanoseconds.
const ATTENTION: u64 = 1_000_000;

/// The same while no controller is connected.
const REST: u64 = 50_000_000;

/// How long the flows of a table change before code is made of it again, nanoseconds: making it takes milliseconds.
const COMPILE_PAUSE: u64 = 100_000_000;

/// What [`Control`] declares.
pub(crate) fn declaration(ports: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).polled()
}

/// The control side of a switch.
pub(crate) struct Control {
    shared: Arc<Shared>,
    ports: usize,
    /// The ports that the switch has from the first call on, and what else may have changed.
    entering: Option<(Vec<PortInfo>, Live)>,
    /// When code may be made next.
    compile_at: u64,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>, ports: &[PortInfo], live: Live) -> Control {
        Control { shared, ports: ports.len(), entering: Some((ports.to_vec(), live)), compile_at: 0 }
    }
}

impl Stage for Control {
    fn declare(&self) -> Declaration {
        declaration(self.ports)
    }

    fn run(&mut self, _batch: &mut Batch, _out: &mut Out<'_>) {
        // Nothing comes to this stage.
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        self.shared.set_now(now);
        let mut core = self.shared.core();
        if let Some((ports, live)) = self.entering.take() {
            core.configure(&live);
            core.set_ports(&ports, now);
            self.shared.has_news.store(true, Ordering::Release);
        }
        if core.agent.next_tick().is_some_and(|at| now >= at) {
            core.agent.tick(now);
            self.shared.has_news.store(true, Ordering::Release);
        }
        for (port, bytes) in core.decide_sent(now) {
            match copy_of(&bytes, out).zip(way_of(port, self.ports)) {
                Some((packet, way)) => {
                    let held = Held::fresh(packet, 0, now);
                    out.emit_indexed(held, way, Exit::Sent);
                }
                None => _ = self.shared.missed.fetch_add(1, Ordering::Relaxed),
            }
        }
        let next = core.stations.age(now).min(core.agent.next_tick().unwrap_or(u64::MAX));
        let rest = if core.peers.is_empty() { REST } else { ATTENTION };
        drop(core);
        if now >= self.compile_at && self.shared.compile() {
            self.compile_at = now.saturating_add(COMPILE_PAUSE);
        }
        self.shared.wake();
        next.min(out.look_again(rest)).max(now.saturating_add(1))
    }
}
