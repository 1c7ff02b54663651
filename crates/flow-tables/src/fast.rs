//! The fast path: what becomes of most packets, without a copy.
//!
//! It goes through the tables with the words of the packet alone, and changes those words as the actions would change the packet. Where it comes
//! upon something that takes the interpreter, nothing has happened yet, and it gives up: [`Switch::judge`] takes the packet from the beginning.
//! Otherwise it goes the same way again, counts, and changes the frame. So everything has one effect, and the interpreter is the definition.

use weir_openflow::Field;
use weir_openflow::meter::BandKind;
use weir_openflow::oxm::VLAN_PRESENT;

use crate::depth::Depth;
use crate::fields::Fields;
use crate::groups::GroupSlot;
use crate::index::{BATCH, NO_SLOT, Slot};
use crate::meters::Metered;
use crate::parse::{self, Ip, Layout, VLAN_TYPES};
use crate::pipeline::Why;
use crate::switch::Switch;
use crate::table::FlowTable;
use crate::words::{METADATA, presence};

pub(crate) mod frame;
pub(crate) mod program;

pub use frame::Frame;
use frame::{At, TAG};
use program::{ActionList, End, Op};

/// Through more tables and groups a packet goes by the interpreter.
const MOST_STEPS: usize = 16;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It is as it is to be sent by this port, which is up, and was counted there.
    Sent(u32),
    /// Nothing.
    Dropped(Why),
}

/// Part of the way of a packet.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It met the flow of this slot in this table.
    Flow {
        table: u8,
        slot: Slot,
    },
    /// No flow of this table matched.
    Miss {
        table: u8,
    },
    /// The list that this flow wrote is carried out.
    Written {
        table: u8,
        slot: Slot,
    },
    /// It goes to this bucket of the group in this slot.
    Group {
        bucket: u16,
        slot: GroupSlot,
    },
    Port(u32),
}

/// The steps of a packet.
#[derive(Clone, Debug)]
struct Steps {
    all: [Step; MOST_STEPS],
    count: usize,
}

impl Steps {
    #[inline]
    fn push(&mut self, step: Step) -> Result<(), NeedsInterpreter> {
        let place = self.all.get_mut(self.count).ok_or(NeedsInterpreter)?;
        *place = step;
        self.count += 1;
        Ok(())
    }
}

/// The way of a packet, as it is found.
struct Way<'a> {
    steps: &'a mut Steps,
    fields: &'a mut Fields,
    /// A flow that it meets in this table, unless it was changed before.
    known: Option<(u8, Slot)>,
    in_port: u32,
    /// Of IP, while the packet is of IP.
    ttl: Option<u8>,
    tags: usize,
    pushed: usize,
    popped: usize,
    /// It was sent: nothing may be changed any more.
    is_sent: bool,
    /// A group had a copy of it, which is what is known now: the packet itself may go nowhere any more.
    is_copy: bool,
}

/// It takes the interpreter.
struct NeedsInterpreter;

/// What is known of a frame that came in by a port.
#[derive(Clone, Debug, Default)]
struct Parsed {
    fields: Fields,
    /// A flow that it meets in this table, unless it is changed before.
    known: Option<(u8, Slot)>,
    in_port: u32,
    at: At,
    /// Of IP, as it came.
    ttl: Option<u8>,
    is_fragment: bool,
}

impl Parsed {
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
    }
}

/// What is known of the frames of a batch.
#[derive(Clone, Debug)]
pub struct Frames {
    parsed: Vec<Parsed>,
    /// The steps of the one that is forwarded.
    steps: Steps,
}

impl Frames {
    /// Room for so many frames.
    pub fn new(most: usize) -> Frames {
        let steps = Steps { all: [Step::Port(0); MOST_STEPS], count: 0 };
        Frames { parsed: vec![Parsed::default(); most], steps }
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
    /// if that takes [`Switch::judge`]: the frame was not changed then. What is known of it is used up.
    #[inline]
    pub fn forward(
        &mut self,
        number: usize,
        frame: &mut impl Frame,
        frames: &mut Frames,
        now: u64,
    ) -> Option<Forwarded> {
        let Frames { parsed, steps } = frames;
        let Parsed { in_port, fields, at, known, ttl, is_fragment } = parsed.get_mut(number)?;
        if !self.ports.receives(*in_port) || *is_fragment && self.drops_fragments() {
            return None;
        }
        steps.count = 0;
        let mut way = Way {
            steps,
            fields,
            known: *known,
            in_port: *in_port,
            ttl: *ttl,
            tags: at.tags,
            pushed: 0,
            popped: 0,
            is_sent: false,
            is_copy: false,
        };
        way.find(self).ok()?;
        if way.pushed + way.popped > 0 && !frame.has_room(way.pushed * TAG, way.popped * TAG) {
            return None;
        }
        Some(self.go(&way, frame, at.clone(), now))
    }

    /// Goes a way that was found.
    #[inline]
    fn go(&mut self, way: &Way<'_>, frame: &mut impl Frame, mut at: At, now: u64) -> Forwarded {
        self.ports.received(way.in_port, frame.bytes().len(), true);
        let mut became = Forwarded::Dropped(Why::NoAction);
        for step in way.steps.all.iter().take(way.steps.count) {
            let bytes = frame.bytes().len();
            match *step {
                Step::Flow { table, slot } => {
                    let Some(flow) = self.tables.meet(table, slot) else { break };
                    flow.count(bytes, now);
                    let Some(program) = &flow.program else { break };
                    if let Some(meter) = program.meter
                        && self.meters.take(meter, bytes, now) == Metered::Drop
                    {
                        if let Forwarded::Dropped(why) = &mut became {
                            *why = Why::Metered;
                        }
                        break;
                    }
                    at.change(frame, &program.applied.ops);
                }
                Step::Written { table, slot } => {
                    let flow = self.tables.get(table).and_then(|table| table.in_slot(slot));
                    if let Some(list) = flow.and_then(|flow| flow.program.as_ref()?.written.as_ref()) {
                        at.change(frame, &list.ops);
                    }
                }
                Step::Group { bucket, slot } => {
                    if let Some(list) = self.groups.take(slot, bucket, bytes) {
                        at.change(frame, &list.ops);
                    }
                }
                Step::Miss { table } => {
                    self.tables.miss(table);
                    if let Forwarded::Dropped(why) = &mut became {
                        *why = Why::Miss;
                    }
                }
                Step::Port(port) => {
                    self.ports.sent(port, bytes);
                    became = Forwarded::Sent(port);
                }
            }
        }
        became
    }
}

impl Way<'_> {
    /// Finds the way through the tables (section 5.1).
    #[inline]
    fn find(&mut self, switch: &Switch) -> Result<(), NeedsInterpreter> {
        let mut written: Option<(u8, Slot, &ActionList)> = None;
        let mut next = Some(0);
        while let Some(number) = next {
            if self.is_copy {
                return Err(NeedsInterpreter);
            }
            let Some(table) = switch.tables.get(number) else { break };
            let known = self.known.filter(|(known, _)| *known == number).map(|(_, slot)| slot);
            let Some((slot, flow)) = table.find(self.fields, known) else {
                // The set of actions is not carried out then.
                return self.steps.push(Step::Miss { table: number });
            };
            let program = flow.program.as_ref().ok_or(NeedsInterpreter)?;
            self.steps.push(Step::Flow { table: number, slot })?;
            if program.meter.is_some_and(|meter| !only_drops(switch, meter)) {
                return Err(NeedsInterpreter);
            }
            self.follow(switch, &program.applied)?;
            if program.clears {
                written = None;
            }
            if let Some(list) = &program.written {
                // What two flows write is one set, and its order another one.
                if written.replace((number, slot, list)).is_some() {
                    return Err(NeedsInterpreter);
                }
            }
            if let Some((value, mask)) = program.metadata {
                self.write_metadata(value, mask);
            }
            next = program.next;
        }
        let Some((table, slot, list)) = written else { return Ok(()) };
        if self.is_copy {
            return Err(NeedsInterpreter);
        }
        self.steps.push(Step::Written { table, slot })?;
        self.follow(switch, list)
    }

    fn write_metadata(&mut self, value: u64, mask: u64) {
        self.known = None;
        for (at, shift) in [(METADATA, 32), (METADATA + 1, 0)] {
            let (value, mask) = ((value >> shift) as u32, (mask >> shift) as u32);
            self.fields.0[at] = self.fields.0[at] & !mask | value & mask;
        }
    }

    /// Follows a list of actions to where it leads.
    #[inline]
    fn follow(&mut self, switch: &Switch, list: &ActionList) -> Result<(), NeedsInterpreter> {
        let mut list = list;
        loop {
            if self.is_sent && (!list.ops.is_empty() || list.end != End::Nowhere) {
                return Err(NeedsInterpreter);
            }
            if !list.ops.is_empty() {
                self.known = None;
                list.ops.iter().try_for_each(|op| self.change(*op))?;
            }
            let port = match list.end {
                End::Nowhere => return Ok(()),
                End::InPort => self.in_port,
                End::Port(port) if port != self.in_port => port,
                End::Port(_) => return Err(NeedsInterpreter),
                End::Group(number) => {
                    let found = switch.groups.find(number, self.fields, &switch.ports);
                    let (slot, bucket, next) = found.ok_or(NeedsInterpreter)?;
                    self.steps.push(Step::Group { bucket, slot })?;
                    list = next;
                    self.is_copy = true;
                    continue;
                }
            };
            if !switch.ports.sends(port) {
                return Err(NeedsInterpreter);
            }
            self.is_sent = true;
            return self.steps.push(Step::Port(port));
        }
    }

    /// Changes what is known of the packet as the packet would change.
    #[inline]
    fn change(&mut self, op: Op) -> Result<(), NeedsInterpreter> {
        match op {
            Op::EthDst(address) => self.fields.set(Field::EthDst, number(address)),
            Op::EthSrc(address) => self.fields.set(Field::EthSrc, number(address)),
            Op::Set(Field::VlanVid, value) => {
                if self.tags > 0 {
                    self.fields.set(Field::VlanVid, VLAN_PRESENT | value);
                }
            }
            Op::Set(field, value) => {
                if self.fields.get(field).is_some() {
                    self.fields.set(field, value);
                }
            }
            Op::PushVlan(_) => {
                if self.tags == 0 {
                    let kind = self.fields.get(Field::EthType).unwrap_or_default() as u16;
                    if VLAN_TYPES.contains(&kind) {
                        // A tag that breaks off: what of it is there is copied.
                        return Err(NeedsInterpreter);
                    }
                    self.fields.set(Field::VlanVid, VLAN_PRESENT);
                    self.fields.set(Field::VlanPcp, 0);
                }
                self.tags += 1;
                self.pushed += 1;
            }
            Op::PopVlan if self.tags == 0 => {}
            Op::PopVlan if self.tags == 1 => {
                self.fields.set(Field::VlanVid, 0);
                self.fields.set(Field::VlanPcp, 0);
                let (word, bit) = presence(Field::VlanPcp);
                self.fields.0[word] &= !bit;
                self.tags = 0;
                self.popped += 1;
            }
            // What the next tag says is not known.
            Op::PopVlan => return Err(NeedsInterpreter),
            Op::DecrementTtl => match &mut self.ttl {
                Some(0 | 1) => return Err(NeedsInterpreter),
                Some(ttl) => *ttl -= 1,
                None => {}
            },
        }
        Ok(())
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

/// Whether a meter only lets through or drops.
fn only_drops(switch: &Switch, meter: u32) -> bool {
    switch.meters.get(meter).is_none_or(|meter| meter.bands.iter().all(|band| band.kind == BandKind::Drop))
}

fn number(address: [u8; 6]) -> u128 {
    address.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
