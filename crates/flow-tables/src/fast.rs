//! The fast path: what becomes of most packets, changed where they lie.
//!
//! It goes through the tables with the words of the packet alone, and changes those words as the actions would change the packet. Where it comes
//! upon something that takes the interpreter, nothing has happened yet, and it gives up: [`Switch::judge`] takes the packet from the beginning.
//! Otherwise it goes the same way again, counts, and changes the frame; where several leave, that is the first, and the others are copies. So everything has one effect, and the interpreter is the definition.
//!
//! What most packets are needs no such way: their flows lead on until one changes the packet and sends it, by itself or by one bucket of a group. They go plainly, without it.
//! Where the switch has machine code, that puts the words, and knows the flows of small tables.

use std::slice;

use weir_codegen::Code;
use weir_openflow::Field;
use weir_openflow::flow::PacketInReason;
use weir_openflow::group::Counted;

use crate::compiled::{Found, Target, Then};
use crate::counts::Worker;
use crate::depth::Depth;
use crate::fields::Fields;
use crate::index::{FirstRead, Prefixes, Slot};
use crate::meters::Metered;
use crate::parse::{self, Ip, Layout};
use crate::pipeline::{Report, Why};
use crate::ports::Ports;
use crate::switch::Switch;

mod alike;
pub(crate) mod direct;
pub(crate) mod frame;
mod going;
mod met;
mod plain;
pub(crate) mod program;
pub(crate) mod programs;
mod short;
mod steps;
mod way;

use alike::Alike;
pub use frame::Frame;
use frame::{At, TAG};
pub use going::Copies;
use going::{Desk, Going};
use met::AllMet;
use program::{End, Program};
pub use short::ShortWay;
use short::Tally;
use steps::{Cause, Step, Steps, Telling};
use way::{MOST_FLOODED, Way};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It is as it is to be sent by this port, which is up, and was counted there. The [copies](Copies) that were sent leave behind it.
    Sent(u32),
    /// It goes to the controllers that were [told](Copies::tell) of it, and nowhere else.
    Told,
    /// Nothing.
    Dropped(Why),
}

/// What is known of a frame that came in by a port.
#[derive(Clone, Debug, Default)]
struct Parsed {
    fields: Fields,
    /// A flow that it meets in this table, unless it is changed before, if that is known beside those that were found at the same time.
    known: Option<(u8, Slot)>,
    in_port: u32,
    /// What machine code found, if it did.
    found: Option<Found>,
    at: At,
    /// Not said of what code found something of.
    is_fragment: bool,
}

impl Parsed {
    /// What code found of a frame whose port is known. Where things are in it is of no account if it leaves at once.
    #[inline]
    fn set_found(&mut self, found: Found) {
        (self.found, self.known) = (Some(found), None);
    }

    /// What is known of a frame whose port is known, which is looked into so far.
    #[inline]
    fn set(&mut self, bytes: &[u8], depth: Depth) {
        let (fields, in_port, mut layout) = (&mut self.fields, self.in_port, Layout::default());
        *fields = Fields::default();
        parse::parse_to(depth, bytes, fields, &mut layout);
        fields.set(Field::InPort, in_port.into());
        fields.set(Field::InPhyPort, in_port.into());
        fields.set(Field::Metadata, 0);
        fields.set(Field::TunnelId, 0);
        self.is_fragment = layout.ip.is_some_and(|ip: Ip| ip.fragment);
        (self.found, self.known, self.at) = (None, None, At::of(&layout));
    }
}

/// What is known of the frames of a batch.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Who has them.
    worker: Worker,
    parsed: Vec<Parsed>,
    /// So many were looked into.
    count: usize,
    /// The flows that they meet, of those that were found at the same time.
    met: AllMet,
    /// How far those are looked into that code does not look into.
    depth: Depth,
    /// Code looks into frames.
    by_code: bool,
    searches: bool,
    /// Those that were led last.
    alike: Option<Alike>,
    /// Those that went the short way last.
    tally: Tally,
    /// The steps of the one that is forwarded.
    steps: Steps,
    /// Where its copies are changed.
    desk: Desk,
}

impl Frames {
    /// Room for so many frames of a worker.
    pub fn new(most: usize, worker: Worker) -> Frames {
        Frames {
            worker,
            parsed: vec![Parsed::default(); most],
            count: 0,
            met: AllMet::new(most),
            depth: Depth::Port,
            by_code: false,
            searches: false,
            alike: None,
            tally: Tally::new(worker),
            steps: Steps::new(),
            desk: Desk::new(),
        }
    }

    /// Whether code leads frames one by one, and none has to be looked into before: [`Switch::lead`] in place of [`Switch::look`].
    #[inline]
    pub fn is_led(&self) -> bool {
        self.by_code && !self.searches
    }
}

/// What looks into the frames of a batch, one after the other.
pub struct Looking<'f> {
    /// Code that does, where there is some.
    code: Option<&'f Code>,
    /// Flows among which most frames are looked up, if these are prefixes: what is read first is asked for.
    prefixes: Option<FirstRead<'f>>,
    /// Those that packets come in by, if some of them may not receive.
    ports: Option<&'f Ports>,
    parsed: slice::IterMut<'f, Parsed>,
    /// So many frames there is room for; how many were looked into is said in the end.
    most: usize,
    count: &'f mut usize,
    /// How far those are looked into that code does not look into.
    depth: Depth,
}

impl Drop for Looking<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.count = self.most - self.parsed.len();
    }
}

impl Looking<'_> {
    /// Looks into the next frame, which came in by the port of a number; it may be changed as its flows say. A frame for which there is no room is left out.
    #[inline(always)]
    pub fn look(&mut self, frame: &mut impl Frame, in_port: u32) {
        let Some(parsed) = self.parsed.next() else { return };
        parsed.in_port = in_port;
        match find_by_code(self.code, self.ports, frame, parsed) {
            Some(found) => parsed.set_found(found),
            None => parsed.set(frame.bytes(), self.depth),
        }
        if let Some(prefixes) = &self.prefixes {
            prefixes.prefetch(&parsed.fields.0);
        }
    }
}

/// What code finds of a frame, of which the port is known.
#[inline(always)]
fn find_by_code(
    code: Option<&Code>,
    ports: Option<&Ports>,
    frame: &mut impl Frame,
    parsed: &mut Parsed,
) -> Option<Found> {
    let code = code.filter(|_| ports.is_none_or(|ports| ports.receives(parsed.in_port)))?;
    let length = frame.bytes().len();
    Found::by(code, frame.window()?, length, parsed.in_port, &mut parsed.fields.0)
}

impl Switch {
    /// How far it is looked into frames for flows, groups and settings.
    fn depth(&self) -> Depth {
        let setting = if self.drops_fragments() { Depth::Network } else { Depth::Port };
        self.tables.depth().max(self.groups.depth()).max(setting)
    }

    /// Begins with a batch: no frame was [looked into](Switch::look).
    #[inline]
    pub fn begin(&self, frames: &mut Frames) {
        frames.count = 0;
        frames.met.clear();
        frames.depth = self.depth();
        // What would be too many copies is known too late where code changes frames.
        frames.by_code = self.is_compiled() && self.ports.count() <= MOST_FLOODED;
        frames.searches = self.tables.code().searches();
    }

    /// What looks into the frames of a batch.
    #[inline]
    pub fn looking<'f>(&'f self, frames: &'f mut Frames) -> Looking<'f> {
        let Frames { parsed, count, depth, by_code, .. } = frames;
        let code = self.tables.code().code().filter(|_| *by_code);
        let mut searched = self.tables.approached().filter_map(|(_, table)| table.prefixes());
        let (most, ports) = (parsed.len(), self.ports.barring());
        let prefixes = searched.next().map(Prefixes::first_read);
        Looking { code, prefixes, ports, parsed: parsed.iter_mut(), most, count, depth: *depth }
    }

    /// Looks the frames of a batch up, as far as their flows are found at the same time. The memory that all will need is asked for together.
    #[inline]
    pub fn approach(&self, frames: &mut Frames) {
        if frames.is_led() {
            return;
        }
        let Frames { worker, parsed, count, met, .. } = frames;
        let parsed = parsed.get(..*count).unwrap_or_default();
        met.clear();
        for (number, table) in self.tables.approached() {
            let Some(room) = met.next(number, table.is_first_found()) else { break };
            room.find(table, *worker, parsed);
        }
    }

    /// Takes the frame of this number of those that were [looked into](Switch::look) and [looked up](Switch::approach) after flows changed last, and says
    /// what became of it; nothing if that takes [`Switch::judge`]: the frame was not changed then, and has no copies. What is known of it is used up.
    #[inline]
    pub fn forward(
        &self,
        number: usize,
        frame: &mut impl Frame,
        frames: &mut Frames,
        copies: &mut impl Copies,
        now: u64,
    ) -> Option<Forwarded> {
        let Frames { worker, parsed, met, steps, desk, .. } = frames;
        let (worker, parsed) = (*worker, parsed.get_mut(number)?);
        parsed.known = parsed.known.or_else(|| met.find(number, parsed.found));
        let target = match parsed.found {
            Some(found) => {
                let target = self.tables.code().target(found)?;
                // Most that code knows leave at once: nothing more needs to be noted of them.
                if let Then::Leave(end) = target.then {
                    return Some(self.leave(worker, (found, end), (frame, parsed.in_port), (copies, desk), now));
                }
                parsed.at = At::found(found);
                *target
            }
            None if !self.ports.receives(parsed.in_port) || parsed.is_fragment && self.drops_fragments() => {
                return None;
            }
            None => Target::USUAL,
        };
        let is_by_code = parsed.found.is_some();
        let became = match self.go_plainly(worker, &target, frame, parsed, now) {
            Some(became) => Some(became),
            None => self.go_any_way(worker, &target, (frame, parsed), (steps, copies, desk), now),
        }?;
        if is_by_code {
            self.tables.count_by_code(worker);
        }
        Some(became)
    }

    /// Takes a frame whatever way its flows lead it; nothing, and nothing happened, if that takes the interpreter.
    #[inline(never)]
    fn go_any_way(
        &self,
        worker: Worker,
        target: &Target,
        (frame, parsed): (&mut impl Frame, &mut Parsed),
        (steps, copies, desk): (&mut Steps, &mut impl Copies, &mut Desk),
        now: u64,
    ) -> Option<Forwarded> {
        let Parsed { in_port, fields, at, known, found, .. } = parsed;
        let ttl = at.ttl(frame.bytes());
        let mut way = Way::new(steps, fields, (frame.bytes(), *in_port), (*known, ttl, at.tags), target);
        way.find(self).ok()?;
        let Way { pushed, popped, has_copies, .. } = way;
        let is_changed = pushed + popped > 0 || has_copies;
        if is_changed && !frame.has_room(pushed * TAG, popped * TAG) {
            return None;
        }
        if popped > 0 && at.headers_may_grow(frame.bytes()) {
            return None;
        }
        if has_copies && !Desk::has_room(frame.bytes().len(), pushed) {
            return None;
        }
        Some(self.go(worker, (steps, *in_port), Going::new(frame, copies, desk, (at.clone(), *found)), now))
    }

    /// Counts a frame that code has changed, and lets it leave.
    #[inline]
    fn leave(
        &self,
        worker: Worker,
        (found, end): (Found, End),
        (frame, in_port): (&mut impl Frame, u32),
        (copies, desk): (&mut impl Copies, &mut Desk),
        now: u64,
    ) -> Forwarded {
        let bytes = frame.bytes().len();
        self.ports.received(worker, in_port, bytes, true);
        self.tables.meet_found(worker, found, Counted::one(bytes), now);
        if let End::Others(others) = end {
            let mut going = Going::new(frame, copies, desk, (At::default(), None));
            let became = self.ports.send_by_others(worker, others, in_port, bytes, |port| going.leave(port));
            let why = became.err().unwrap_or(going.why);
            return going.left_by().map_or(Forwarded::Dropped(why), Forwarded::Sent);
        }
        self.send(worker, end, in_port, bytes)
    }

    /// Counts a packet at flows that it met.
    #[inline]
    fn meet(&self, worker: Worker, met: &[(u8, Slot)], bytes: usize, now: u64) {
        met.iter().for_each(|met| self.tables.meet(worker, *met, Counted::one(bytes), now));
    }

    /// Sends a packet of so many bytes by one port at most.
    #[inline]
    fn send(&self, worker: Worker, end: End, in_port: u32, bytes: usize) -> Forwarded {
        let port = match end {
            End::Port(port) if port == in_port => return Forwarded::Dropped(Why::SamePort),
            End::Port(port) => port,
            End::InPort => in_port,
            // None of them comes here.
            End::Nowhere | End::Group(_) | End::Others(_) | End::Controllers(_) => {
                return Forwarded::Dropped(Why::NoAction);
            }
        };
        self.ports.send(worker, port, bytes).map_or_else(Forwarded::Dropped, |()| Forwarded::Sent(port))
    }

    /// Goes a way that was found.
    #[inline]
    fn go<F: Frame, C: Copies>(
        &self,
        worker: Worker,
        (steps, in_port): (&Steps, u32),
        mut going: Going<'_, F, C>,
        now: u64,
    ) -> Forwarded {
        self.ports.received(worker, in_port, going.len(), true);
        let mut only = None;
        for step in steps.iter() {
            let bytes = going.len();
            match step {
                Step::Flow { table, slot } => {
                    self.tables.meet(worker, (table, slot), Counted::one(bytes), now);
                    let Some(program) = self.program(table, slot) else { break };
                    if let Some(meter) = program.meter
                        && self.meters.take(meter, bytes, now) == Metered::Drop
                    {
                        going.why = Why::Metered;
                        break;
                    }
                    going.change_some(&program.applied.first.ops, &mut only);
                }
                Step::More { table, leg, slot } => {
                    let program = self.program(table, slot);
                    if let Some(leg) = program.and_then(|program| program.applied.more.get(usize::from(leg))) {
                        going.change_some(&leg.ops, &mut only);
                    }
                }
                Step::Written { table, slot } => {
                    if let Some(leg) = self.program(table, slot).and_then(|program| program.written.as_ref()) {
                        going.change_some(&leg.ops, &mut only);
                    }
                }
                Step::Group { bucket, slot } => {
                    if let Some(leg) = self.groups.take(worker, slot, bucket, bytes) {
                        match only {
                            None => going.change_leg(leg),
                            Some(_) => going.change_some(&leg.ops, &mut only),
                        }
                    }
                }
                Step::Bucket { bucket, slot } => {
                    if let Some(leg) = self.groups.take_too(worker, slot, bucket, bytes) {
                        going.change_leg(leg);
                    }
                }
                Step::Apart => going.part(),
                Step::Back => going.go_back(),
                Step::Miss { table } => {
                    self.tables.miss(worker, table);
                    going.why = Why::Miss;
                }
                Step::Port(port) => match self.ports.send(worker, port, bytes) {
                    Ok(()) => going.leave(port),
                    Err(why) => going.why = why,
                },
                Step::Others(others) => {
                    let became = self.ports.send_by_others(worker, others, in_port, bytes, |port| going.leave(port));
                    going.why = became.err().unwrap_or(going.why);
                }
                Step::SamePort => going.why = Why::SamePort,
                Step::Tell(_) if !self.ports.tells(in_port) => going.why = Why::NotTold,
                Step::Tell(nth) => {
                    if let Some(report) = steps.telling(nth).and_then(|telling| self.report(telling, in_port)) {
                        going.tell(report);
                    }
                }
                Step::Only(some) => only = Some(some),
                Step::TtlEnded => going.why = Why::TtlEnded,
            }
        }
        match going.left_by() {
            Some(port) => Forwarded::Sent(port),
            None if going.is_told => Forwarded::Told,
            None => Forwarded::Dropped(going.why),
        }
    }

    /// What controllers are told of a packet beside its bytes.
    fn report(&self, telling: &Telling, in_port: u32) -> Option<Report> {
        let Telling { table, slot, cause, max_len, metadata } = *telling;
        let flow = self.tables.get(table)?.in_slot(slot)?;
        let reason = match cause {
            Cause::TtlEnded => PacketInReason::InvalidTtl,
            Cause::Applied if flow.is_miss() => PacketInReason::NoMatch,
            Cause::Applied | Cause::Otherwise => PacketInReason::Action,
        };
        Some(Report { reason, table, cookie: flow.cookie, max_len, in_port, metadata })
    }

    /// What the flow of a slot does.
    #[inline]
    fn program(&self, table: u8, slot: Slot) -> Option<&Program> {
        self.tables.get(table)?.in_slot(slot)?.program.as_deref()
    }
}
