//! The fast path: what becomes of most packets, changed where they lie.
//!
//! It goes through the tables with the words of the packet alone, and changes those words as the actions would change the packet. Where it comes
//! upon something that takes the interpreter, nothing has happened yet, and it gives up: [`Switch::judge`] takes the packet from the beginning.
//! Otherwise it goes the same way again, counts, and changes the frame; where several leave, that is the first, and the others are copies. So everything has one effect, and the interpreter is the definition.

use weir_openflow::Field;

use crate::depth::Depth;
use crate::fields::Fields;
use crate::index::{BATCH, NO_SLOT, Slot};
use crate::meters::Metered;
use crate::parse::{self, Ip, Layout};
use crate::pipeline::Why;
use crate::switch::Switch;
use crate::table::FlowTable;

pub(crate) mod frame;
mod going;
pub(crate) mod program;
mod way;

pub use frame::Frame;
use frame::{At, TAG};
pub use going::Copies;
use going::{Desk, Going};
use program::{End, Program};
use way::{MOST_FLOODED, Step, Steps, Way};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It is as it is to be sent by this port, which is up, and was counted there. The [copies](Copies) that were sent leave behind it.
    Sent(u32),
    /// Nothing.
    Dropped(Why),
}

/// What is known of a frame that came in by a port.
#[derive(Clone, Debug, Default)]
struct Parsed {
    fields: Fields,
    /// A flow that it meets in this table, unless it is changed before.
    known: Option<(u8, Slot)>,
    in_port: u32,
    /// It was looked into; else only the port is known.
    is_seen: bool,
    at: At,
    /// Of IP, as it came.
    ttl: Option<u8>,
    is_fragment: bool,
}

impl Parsed {
    /// Of another frame: only where it came in.
    #[inline]
    fn set_port(&mut self, in_port: u32) {
        (self.in_port, self.is_seen) = (in_port, false);
    }

    /// What is known of another frame, which is looked into so far.
    #[inline]
    fn set(&mut self, bytes: &[u8], in_port: u32, depth: Depth) {
        let (fields, mut layout) = (&mut self.fields, Layout::default());
        *fields = Fields::default();
        parse::parse_to(depth, bytes, fields, &mut layout);
        fields.set(Field::InPort, in_port.into());
        fields.set(Field::InPhyPort, in_port.into());
        fields.set(Field::Metadata, 0);
        fields.set(Field::TunnelId, 0);
        let ttl = |ip: Ip| bytes.get(ip.start + if ip.is_v6 { 7 } else { 8 }).copied();
        (self.ttl, self.is_fragment) = (layout.ip.and_then(ttl), layout.ip.is_some_and(|ip| ip.fragment));
        (self.in_port, self.known, self.at) = (in_port, None, At::of(&layout));
        self.is_seen = true;
    }
}

/// What is known of the frames of a batch.
#[derive(Clone, Debug)]
pub struct Frames {
    parsed: Vec<Parsed>,
    /// The steps of the one that is forwarded.
    steps: Steps,
    /// Where its copies are changed.
    desk: Desk,
}

impl Frames {
    /// Room for so many frames.
    pub fn new(most: usize) -> Frames {
        Frames { parsed: vec![Parsed::default(); most], steps: Steps::new(), desk: Desk::new() }
    }
}

impl Switch {
    /// How far it is looked into frames for flows, groups and settings.
    fn depth(&self) -> Depth {
        let setting = if self.drops_fragments() { Depth::Network } else { Depth::Port };
        self.tables.depth().max(self.groups.depth()).max(setting)
    }

    /// Looks into frames with the numbers of the ports that they came in by, before they are [forwarded](Switch::forward). The memory that all will
    /// need is asked for at the same time. Frames for which there is no room are left out.
    #[inline]
    pub fn approach<'f>(&self, packets: impl Iterator<Item = (&'f [u8], u32)>, frames: &mut Frames) {
        if self.is_compiled() {
            // Code looks into frames by itself.
            frames.parsed.iter_mut().zip(packets).for_each(|(parsed, (_, in_port))| parsed.set_port(in_port));
            return;
        }
        let depth = self.depth();
        let mut count = 0;
        for (parsed, (bytes, in_port)) in frames.parsed.iter_mut().zip(packets) {
            parsed.set(bytes, in_port, depth);
            count += 1;
        }
        for parsed in frames.parsed.get_mut(..count).unwrap_or_default().chunks_mut(BATCH) {
            self.tables.approached().for_each(|(number, table)| approach(number, table, parsed));
        }
    }

    /// Takes the frame of this number of those that were [looked into](Switch::approach) after flows changed last, and says what became of it; nothing
    /// if that takes [`Switch::judge`]: the frame was not changed then, and has no copies. What is known of it is used up.
    #[inline]
    pub fn forward(
        &mut self,
        number: usize,
        frame: &mut impl Frame,
        frames: &mut Frames,
        copies: &mut impl Copies,
        now: u64,
    ) -> Option<Forwarded> {
        let Frames { parsed, steps, desk } = frames;
        let parsed = parsed.get_mut(number)?;
        if !parsed.is_seen {
            if let Some(became) = self.forward_by_code(frame, parsed.in_port, copies, desk, now) {
                return Some(became);
            }
            parsed.set(frame.bytes(), parsed.in_port, self.depth());
        }
        let Parsed { in_port, fields, at, known, ttl, is_fragment, .. } = parsed;
        if !self.ports.receives(*in_port) || *is_fragment && self.drops_fragments() {
            return None;
        }
        let mut way = Way::new(steps, fields, *in_port, (*known, *ttl, at.tags));
        way.find(self).ok()?;
        let is_changed = way.pushed + way.popped > 0 || way.has_copies;
        if is_changed && !frame.has_room(way.pushed * TAG, way.popped * TAG) {
            return None;
        }
        if way.popped > 0 && at.headers_may_grow(frame.bytes()) {
            return None;
        }
        if way.has_copies && !Desk::has_room(frame.bytes().len(), way.pushed) {
            return None;
        }
        Some(self.go(&way, Going::new(frame, copies, desk, at.clone()), now))
    }

    /// Takes a frame by the code of the first table; nothing, and nothing happened, if that takes the usual way.
    #[inline]
    fn forward_by_code(
        &mut self,
        frame: &mut impl Frame,
        in_port: u32,
        copies: &mut impl Copies,
        desk: &mut Desk,
        now: u64,
    ) -> Option<Forwarded> {
        // What would be too many copies is known too late here: after the change.
        if !self.is_compiled() || self.ports.count() > MOST_FLOODED || !self.ports.receives(in_port) {
            return None;
        }
        let bytes = frame.bytes().len();
        let (slot, end) = self.tables.decide(frame.window()?, bytes, in_port)?;
        self.ports.received(in_port, bytes, true);
        if let Some(flow) = self.tables.meet(0, slot) {
            flow.count(bytes, now);
        }
        let port = match end {
            // Code is for no flow that leads to a group.
            End::Nowhere | End::Group(_) => return Some(Forwarded::Dropped(Why::NoAction)),
            End::Port(port) if port == in_port => return Some(Forwarded::Dropped(Why::SamePort)),
            End::Port(port) => port,
            End::InPort => in_port,
            End::Others(others) => {
                let mut going = Going::new(frame, copies, desk, At::default());
                let became = self.ports.send_by_others(others, in_port, bytes, |port| going.leave(port));
                let why = became.err().unwrap_or(going.why);
                return Some(going.left_by().map_or(Forwarded::Dropped(why), Forwarded::Sent));
            }
        };
        Some(self.ports.send(port, bytes).map_or_else(Forwarded::Dropped, |()| Forwarded::Sent(port)))
    }

    /// Goes a way that was found.
    #[inline]
    fn go<F: Frame, C: Copies>(&mut self, way: &Way<'_>, mut going: Going<'_, F, C>, now: u64) -> Forwarded {
        self.ports.received(way.in_port, going.len(), true);
        for step in way.steps.iter() {
            let bytes = going.len();
            match step {
                Step::Flow { table, slot } => {
                    let Some(flow) = self.tables.meet(table, slot) else { break };
                    flow.count(bytes, now);
                    let Some(program) = &flow.program else { break };
                    if let Some(meter) = program.meter
                        && self.meters.take(meter, bytes, now) == Metered::Drop
                    {
                        going.why = Why::Metered;
                        break;
                    }
                    going.change(&program.applied.first.ops);
                }
                Step::More { table, leg, slot } => {
                    let program = self.program(table, slot);
                    if let Some(leg) = program.and_then(|program| program.applied.more.get(usize::from(leg))) {
                        going.change(&leg.ops);
                    }
                }
                Step::Written { table, slot } => {
                    if let Some(leg) = self.program(table, slot).and_then(|program| program.written.as_ref()) {
                        going.change(&leg.ops);
                    }
                }
                Step::Group { bucket, slot } => {
                    if let Some(leg) = self.groups.take(slot, bucket, bytes) {
                        going.change(&leg.ops);
                    }
                }
                Step::Bucket { bucket, slot } => {
                    if let Some(leg) = self.groups.take_too(slot, bucket, bytes) {
                        going.change(&leg.ops);
                    }
                }
                Step::Apart => going.part(),
                Step::Back => going.go_back(),
                Step::Miss { table } => {
                    self.tables.miss(table);
                    going.why = Why::Miss;
                }
                Step::Port(port) => match self.ports.send(port, bytes) {
                    Ok(()) => going.leave(port),
                    Err(why) => going.why = why,
                },
                Step::Others(others) => {
                    let became = self.ports.send_by_others(others, way.in_port, bytes, |port| going.leave(port));
                    going.why = became.err().unwrap_or(going.why);
                }
                Step::SamePort => going.why = Why::SamePort,
            }
        }
        going.left_by().map_or(Forwarded::Dropped(going.why), Forwarded::Sent)
    }

    /// What the flow of a slot does.
    #[inline]
    fn program(&self, table: u8, slot: Slot) -> Option<&Program> {
        self.tables.get(table)?.in_slot(slot)?.program.as_deref()
    }
}

/// Finds the flows that frames meet in a table, as far as they are found at the same time.
#[inline]
fn approach(number: u8, table: &FlowTable, frames: &mut [Parsed]) {
    let found = table.approach(frames.iter().map(|frame| &frame.fields));
    if table.is_first_found() {
        // Where there are several such tables, the first is as good as any.
        let met = frames.iter_mut().zip(found).filter(|(frame, slot)| frame.known.is_none() && *slot != NO_SLOT);
        met.for_each(|(frame, slot)| frame.known = Some((number, slot)));
    }
}
