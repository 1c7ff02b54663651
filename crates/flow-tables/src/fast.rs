//! The fast path: what becomes of most packets, without a copy.
//!
//! It goes through the tables with the words of the packet alone, and changes those words as the actions would change the packet. Where it comes
//! upon something that takes the interpreter, nothing has happened yet, and it gives up: [`Switch::judge`] takes the packet from the beginning.
//! Otherwise it goes the same way again, counts, and changes the frame. So everything has one effect, and the interpreter is the definition.

use weir_openflow::Field;
use weir_openflow::meter::BandKind;
use weir_openflow::oxm::VLAN_PRESENT;

use crate::fields::Fields;
use crate::meters::Metered;
use crate::parse::{self, Layout, VLAN_TYPES};
use crate::pipeline::Why;
use crate::switch::Switch;
use crate::words::{METADATA, presence};

pub(crate) mod frame;
pub(crate) mod program;

pub use frame::Frame;
use frame::TAG;
use program::{ActionList, End, Op};

/// So many frames wait for memory at the same time.
const BATCH: usize = weir_table::lpm4::BATCH;

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
#[derive(Clone, Copy)]
enum Step {
    /// It met the flow of this slot in this table.
    Flow {
        table: u8,
        slot: u32,
    },
    /// No flow of this table matched.
    Miss {
        table: u8,
    },
    /// The list that this flow wrote is carried out.
    Written {
        table: u8,
        slot: u32,
    },
    Group(u32),
    Port(u32),
}

/// The way of a packet, as it is found.
struct Way {
    steps: [Step; MOST_STEPS],
    count: usize,
    fields: Fields,
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
#[derive(Clone, Debug)]
pub struct Parsed {
    in_port: u32,
    fields: Fields,
    layout: Layout,
}

impl Parsed {
    /// A frame that came in by a port.
    #[inline]
    pub fn new(bytes: &[u8], in_port: u32) -> Parsed {
        let (mut fields, layout) = parse::parse(bytes);
        fields.set(Field::InPort, in_port.into());
        fields.set(Field::InPhyPort, in_port.into());
        fields.set(Field::Metadata, 0);
        fields.set(Field::TunnelId, 0);
        Parsed { in_port, fields, layout }
    }
}

impl Switch {
    /// Asks for the memory that frames will need which are [forwarded](Switch::forward) next, so that all wait for it at the same time.
    #[inline]
    pub fn approach(&self, frames: &[Parsed]) {
        for frames in frames.chunks(BATCH) {
            self.tables.routed().for_each(|table| table.approach(frames.iter().map(|frame| &frame.fields)));
        }
    }

    /// Takes a frame that was [parsed](Parsed::new), and says what became of it; nothing if that takes [`Switch::judge`]: nothing was changed
    /// then.
    #[inline]
    pub fn forward(&mut self, frame: &mut impl Frame, parsed: &Parsed, now: u64) -> Option<Forwarded> {
        let Parsed { in_port, fields, layout } = parsed;
        let in_port = *in_port;
        let is_fragment = layout.ip.is_some_and(|ip| ip.fragment);
        if !self.ports.receives(in_port) || is_fragment && self.config().flags == 1 {
            return None;
        }
        let mut way = Way {
            steps: [Step::Port(0); MOST_STEPS],
            count: 0,
            fields: fields.clone(),
            in_port,
            ttl: layout.ip.and_then(|ip| frame.bytes().get(ip.start + if ip.is_v6 { 7 } else { 8 }).copied()),
            tags: layout.tags,
            pushed: 0,
            popped: 0,
            is_sent: false,
            is_copy: false,
        };
        way.find(self).ok()?;
        if way.pushed + way.popped > 0 && !frame.has_room(way.pushed * TAG, way.popped * TAG) {
            return None;
        }
        Some(self.go(&way, frame, layout, now))
    }

    /// Goes a way that was found.
    #[inline]
    fn go(&mut self, way: &Way, frame: &mut impl Frame, layout: &Layout, now: u64) -> Forwarded {
        self.ports.received(way.in_port, frame.bytes().len(), true);
        let (mut became, mut at) = (Forwarded::Dropped(Why::NoAction), frame::At::of(layout));
        for step in way.steps.iter().take(way.count) {
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
                Step::Group(number) => {
                    if let Some(list) = self.groups.take(number, bytes) {
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

impl Way {
    fn push(&mut self, step: Step) -> Result<(), NeedsInterpreter> {
        let place = self.steps.get_mut(self.count).ok_or(NeedsInterpreter)?;
        *place = step;
        self.count += 1;
        Ok(())
    }

    /// Finds the way through the tables (section 5.1).
    #[inline]
    fn find(&mut self, switch: &Switch) -> Result<(), NeedsInterpreter> {
        let mut written: Option<(u8, u32, &ActionList)> = None;
        let mut next = Some(0);
        while let Some(number) = next {
            if self.is_copy {
                return Err(NeedsInterpreter);
            }
            let Some(table) = switch.tables.get(number) else { break };
            let Some((slot, flow)) = table.find(&self.fields) else {
                // The set of actions is not carried out then.
                return self.push(Step::Miss { table: number });
            };
            let program = flow.program.as_ref().ok_or(NeedsInterpreter)?;
            self.push(Step::Flow { table: number, slot })?;
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
        self.push(Step::Written { table, slot })?;
        self.follow(switch, list)
    }

    fn write_metadata(&mut self, value: u64, mask: u64) {
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
            list.ops.iter().try_for_each(|op| self.change(*op))?;
            let port = match list.end {
                End::Nowhere => return Ok(()),
                End::InPort => self.in_port,
                End::Port(port) if port != self.in_port => port,
                End::Port(_) => return Err(NeedsInterpreter),
                End::Group(number) => {
                    list = switch.groups.list(number).ok_or(NeedsInterpreter)?;
                    self.push(Step::Group(number))?;
                    self.is_copy = true;
                    continue;
                }
            };
            if !switch.ports.sends(port) {
                return Err(NeedsInterpreter);
            }
            self.is_sent = true;
            return self.push(Step::Port(port));
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

/// Whether a meter only lets through or drops.
fn only_drops(switch: &Switch, meter: u32) -> bool {
    switch.meters.get(meter).is_none_or(|meter| meter.bands.iter().all(|band| band.kind == BandKind::Drop))
}

fn number(address: [u8; 6]) -> u128 {
    address.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
