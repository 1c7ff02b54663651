//! Stage `NAME.relay`, the first: takes what the binding table owns, and leaves all else to the network layer. The same behind the layer takes
//! what routes lead to the relay from elsewhere: `NAME.inlet` from the fast path, `NAME.inlet-slow` from the slow one.
//!
//! Packets that softwires see all day long are found and wrapped, or unwrapped, by the [fast path](fast). Whatever that does not know goes packet by
//! packet to the [`Border`], by the letter; fragments wait here until their packets are whole.

mod fast;
pub(crate) mod fragments;
mod sort;

use std::sync::Arc;

use weir_ip::{Arrivals, Behind, Ingress, InletKeys, Onward};
use weir_packet::{Batch, Held, LaneId, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ipv6, View};

use crate::border::{Border, End, Frame, HEADER, Verdict, answer_beyond};
use crate::exit::Exit;
use crate::rules::Rules;
use crate::table::{Softwires, WorkerCounters};
use crate::tally::Tally;
use fast::Passes;
use fragments::{Kept, Waiting};

/// Where a relay stands.
pub(crate) enum Stand {
    /// Before the network layer: it finds out what is its own, and counts what comes in.
    First(Arc<Ingress>, Arrivals),
    /// Behind it: all that comes here is the relay's.
    Inlet(InletKeys),
}

/// What the stage is made of.
pub(crate) struct Parts {
    pub(crate) softwires: Arc<Softwires>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) onward: Onward,
    pub(crate) stand: Stand,
    /// How many ports there are.
    pub(crate) ports: usize,
    /// Whether there is no fast path.
    pub(crate) by_the_letter: bool,
}

/// See the module.
pub(crate) struct Relay {
    border: Border,
    stand: Stand,
    waiting: Waiting,
    passes: Box<Passes>,
    ports: usize,
    by_the_letter: bool,
    kernel: Kernel,
}

impl Relay {
    pub(crate) fn new(parts: Parts) -> Relay {
        let Parts { softwires, counters, tally, rules, onward, stand, ports, by_the_letter } = parts;
        let waiting = Waiting::new(&rules);
        let border = Border::new(softwires, counters, tally, rules, onward);
        Relay { border, stand, waiting, passes: Box::default(), ports, by_the_letter, kernel: Kernel::detect() }
    }
}

/// What [`Relay`] declares.
pub(crate) fn declaration(ports: usize, inlet: Option<InletKeys>) -> Declaration {
    let declaration = Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).polled();
    match inlet {
        None => declaration.writes(&[LaneId::L3]),
        Some(keys) => keys.reads(declaration.reads(&[LaneId::L3])),
    }
}

impl Stage for Relay {
    fn declare(&self) -> Declaration {
        declaration(self.ports, if let Stand::Inlet(keys) = self.stand { Some(keys) } else { None })
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut rest = batch.live();
        if let Stand::First(_, arrivals) = &mut self.stand {
            let arrived = arrivals.count(batch);
            if !self.by_the_letter {
                rest &= !self.pass(batch, arrived, out);
            }
        }
        if rest != 0 {
            self.one_by_one(batch, rest, out);
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        while let Some(kept) = self.waiting.expire(now) {
            kept.into_iter().for_each(|kept| out.send(kept.packet, Exit::FragmentTimeout));
        }
        self.waiting.next_deadline()
    }

    fn held(&self) -> u64 {
        self.waiting.held()
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.clear().into_iter().for_each(|kept| give(kept.packet));
    }
}

/// What becomes of a packet of a batch.
enum Fate {
    /// None of the relay's.
    Others,
    /// As the border said.
    Decided(Verdict),
    /// A fragment.
    Fragment(fragments::Fragment),
}

impl Relay {
    #[inline(never)]
    fn one_by_one(&mut self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        for slot in Slots(mask) {
            let (port, l3) = (batch.lanes.port[slot], batch.lanes.l3[slot]);
            let Some(packet) = batch.get(slot) else { continue };
            match self.sort(packet, (port, l3), out.now()) {
                Fate::Others => {}
                Fate::Decided(verdict) => self.settle(batch, slot, verdict, out),
                Fate::Fragment(fragment) => {
                    if let Some(held) = batch.hold(slot) {
                        self.keep(Kept { packet: held, at: fragment.at }, fragment, out);
                    }
                }
            }
        }
    }

    /// Does what was decided of a packet that is in its batch.
    fn settle(&mut self, batch: &mut Batch, slot: Slot, verdict: Verdict, out: &mut Out<'_>) {
        let Verdict { end, answer } = verdict;
        match end {
            End::Stop(exit) => out.answer(slot, exit),
            End::Pieces(pieces) => {
                out.answer(slot, Exit::Fragmented);
                self.emit_all(pieces, out);
            }
            End::Go(frame) => match batch.get_mut(slot).map(|packet| refill(&self.border.onward, packet, &frame)) {
                Some(Ok(Some(port))) => out.answer_indexed(slot, port),
                Some(Ok(None)) => out.answer(slot, Exit::Send),
                Some(Err(exit)) => out.answer(slot, exit),
                None => {}
            },
        }
        if let Some((frame, why)) = answer {
            self.emit(&frame, why, out);
        }
    }

    /// The same of one that was taken out of its batch.
    fn settle_held(&mut self, mut packet: Held, verdict: Verdict, out: &mut Out<'_>) {
        let Verdict { end, answer } = verdict;
        match end {
            End::Stop(exit) => out.send(packet, exit),
            End::Pieces(pieces) => {
                out.send(packet, Exit::Fragmented);
                self.emit_all(pieces, out);
            }
            End::Go(frame) => match refill(&self.border.onward, packet.packet_mut(), &frame) {
                Ok(Some(port)) => out.send_indexed(packet, port),
                Ok(None) => out.send(packet, Exit::Send),
                Err(exit) => out.send(packet, exit),
            },
        }
        if let Some((frame, why)) = answer {
            self.emit(&frame, why, out);
        }
    }

    fn emit_all(&mut self, pieces: Vec<Frame>, out: &mut Out<'_>) {
        pieces.iter().for_each(|piece| self.emit(piece, Exit::Piece, out));
    }

    /// Sends a frame that was made here, if there is a buffer for it and a way.
    fn emit(&mut self, frame: &[u8], why: Exit, out: &mut Out<'_>) {
        let Some(mut packet) = out.alloc() else { return };
        match refill(&self.border.onward, &mut packet, frame) {
            Ok(port) => {
                let held = Held::fresh(packet, 0, out.now());
                match port {
                    Some(port) => out.emit_indexed(held, port, why),
                    None => out.emit(held, Exit::Send, why),
                }
            }
            Err(_) => out.unalloc(packet),
        }
    }
}

/// Lets a packet hold a frame that was made here, with the header of the link that it leaves by. Answers the position of its port; `None` where the
/// slow path has to find the neighbour.
fn refill(onward: &Onward, packet: &mut Packet, frame: &[u8]) -> Result<Option<u8>, Exit> {
    if !packet.fill(frame) {
        return Err(Exit::NoBuffer);
    }
    let bytes = frame.get(HEADER..).unwrap_or_default();
    let (answer, behind) = match Ipv6::view(bytes).filter(|ip| ip.version() == 6) {
        Some(ip) => (onward.lookup6(ip.destination_addr().to_bits()), Behind::IPV6),
        None => {
            let destination = weir_wire::Ipv4::view(bytes).map_or(0, |ip| ip.destination.get());
            (answer_beyond(onward, destination), Behind::IPV4)
        }
    };
    // Flows keep their order: what the packet itself says tells them apart.
    let hash = || match behind {
        Behind::IPV6 => weir_wire::flow::hash6(packet.window::<64>(HEADER), bytes.len(), 0),
        _ => weir_wire::flow::hash(packet.window::<64>(HEADER), bytes.len(), 0),
    };
    let found = onward.leaving(answer, hash);
    match found {
        Ok(leaving) if leaving.longest() > 0 && packet.headroom() >= leaving.room() => {
            leaving.write(packet, behind);
            onward.view().count(leaving, packet.len() as u64);
            Ok(Some(leaving.port()))
        }
        Ok(_)
        | Err(
            weir_ip::Fate::NoRoute
            | weir_ip::Fate::Unreachable
            | weir_ip::Fate::Prohibited
            | weir_ip::Fate::Function(_),
        ) => Err(Exit::NoRoute),
        Err(weir_ip::Fate::Blackhole) => Err(Exit::Blackhole),
        // To a neighbour that is asked for first, or to the relay itself.
        Err(_) => Ok(None),
    }
}
