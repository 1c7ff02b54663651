//! The way of a packet, found before anything happens: which flows it meets, what changes it, by which ports it and its copies leave.

mod labels;

use weir_openflow::Field;
use weir_openflow::meter::BandKind;
use weir_openflow::oxm::VLAN_PRESENT;

use self::labels::Entry;
use super::frame::TAG;
use super::going::LEVELS;
use super::program::{ActionList, End, Leg, Op};
use super::steps::{Cause, MOST_STEPS, Step, Steps, Telling};
use crate::compiled::Target;
use crate::fields::Fields;
use crate::groups::Chosen;
use crate::index::Slot;
use crate::parse::{self, VLAN_TYPES};
use crate::pipeline::MAX_COPIES;
use crate::switch::Switch;
use crate::tags::{FIRST_TYPE, LEAST};
use crate::words::presence;

/// The ports of floods that make no packet have more than [`MAX_COPIES`], whatever else it meets: a step is two at most, a group and a bucket.
pub(super) const MOST_FLOODED: usize = MAX_COPIES - 2 * MOST_STEPS;

/// What is known of a packet beside its fields, as it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// A flow that it meets in this table, unless it was changed before.
    pub(super) known: Option<(u8, Slot)>,
    /// Of IP, while the packet is of IP.
    pub(super) ttl: Option<u8>,
    pub(super) tags: usize,
    /// The outer MPLS entry.
    mpls: Option<Entry>,
    pushed: usize,
    popped: usize,
    /// Of these, so many VLAN tags.
    popped_tags: usize,
}

/// The way of a packet, as it is found.
pub(super) struct Way<'a> {
    /// The frame as it came.
    bytes: &'a [u8],
    pub(super) steps: &'a mut Steps,
    fields: &'a mut Fields,
    /// Where it is known to begin.
    target: &'a Target,
    state: State,
    pub(super) in_port: u32,
    /// The most tags that any copy got...
    pub(super) pushed: usize,
    /// ...and lost.
    pub(super) popped: usize,
    /// It was to be sent: what changes it from now on changes a copy.
    is_sent: bool,
    /// Some of its copies are changed apart from it.
    pub(super) has_copies: bool,
    /// How many copies what follows is in.
    level: usize,
    /// How many ports it was flooded to.
    flooded: usize,
    /// The flow that it met last, and whether that says by what it applies what is followed.
    met: (u8, Slot),
    is_applied: bool,
    /// Its TTL has ended, and its way with it.
    has_ended: bool,
}

/// It takes the interpreter.
pub(super) struct NeedsInterpreter;

impl<'a> Way<'a> {
    #[inline]
    pub(super) fn new(
        steps: &'a mut Steps,
        fields: &'a mut Fields,
        (bytes, in_port): (&'a [u8], u32),
        (known, ttl, tags): (Option<(u8, Slot)>, Option<u8>, usize),
        target: &'a Target,
    ) -> Way<'a> {
        steps.clear();
        let mpls = fields.get(Field::MplsLabel).map(|_| Entry::at(bytes, FIRST_TYPE + 2 + TAG * tags));
        let state = State { known, ttl, tags, mpls, pushed: 0, popped: 0, popped_tags: 0 };
        Way {
            bytes,
            steps,
            fields,
            target,
            state,
            in_port,
            pushed: 0,
            popped: 0,
            is_sent: false,
            has_copies: false,
            level: 0,
            flooded: 0,
            met: (0, 0),
            is_applied: false,
            has_ended: false,
        }
    }

    /// Finds the way through the tables (section 5.1).
    #[inline]
    pub(super) fn find(&mut self, switch: &Switch) -> Result<(), NeedsInterpreter> {
        let mut written: Option<(u8, Slot, &Leg)> = None;
        let mut next = Some(0);
        let (leading, mut last) = self.target.parts();
        // What they write into metadata is among the fields already.
        for (table, slot) in leading {
            self.steps.push(Step::Flow { table: *table, slot: *slot })?;
            next = switch.tables.get(*table).and_then(|table| table.in_slot(*slot)?.program.as_ref()?.next);
        }
        while let Some(number) = next {
            let Some(table) = switch.tables.get(number) else { break };
            let known = last.take().or(self.state.known);
            let known = known.filter(|(known, _)| *known == number).map(|(_, slot)| slot);
            let Some((slot, flow)) = table.find(self.fields, known) else {
                // The set of actions is not carried out then.
                return self.steps.push(Step::Miss { table: number });
            };
            let program = flow.program.as_ref().ok_or(NeedsInterpreter)?;
            (self.met, self.is_applied) = ((number, slot), true);
            if program.meter.is_some_and(|meter| !only_drops(switch, meter)) {
                return Err(NeedsInterpreter);
            }
            let is_last = program.next.is_none() && program.written.is_none() && written.is_none();
            let ActionList { first, more } = &program.applied;
            self.step(switch, Step::Flow { table: number, slot }, first)?;
            if !self.has_ended {
                self.follow(switch, first, is_last && more.is_empty())?;
            }
            if !more.is_empty() && !self.has_ended {
                self.follow_more(switch, (number, slot), more, is_last)?;
            }
            if self.has_ended {
                return Ok(());
            }
            if program.clears {
                written = None;
            }
            if let Some(leg) = &program.written {
                // What two flows write is one set, and its order another one.
                if written.replace((number, slot, leg)).is_some() {
                    return Err(NeedsInterpreter);
                }
            }
            if let Some((value, mask)) = program.metadata {
                self.state.known = None;
                self.fields.write_metadata(value, mask);
            }
            next = program.next;
        }
        let Some((table, slot, leg)) = written else { return Ok(()) };
        self.is_applied = false;
        self.step(switch, Step::Written { table, slot }, leg)?;
        if self.has_ended { Ok(()) } else { self.follow(switch, leg, true) }
    }

    /// Takes a step, by which the packet meets the changes of `leg`. If its TTL ends among them, it meets those before alone, controllers are told, and nothing
    /// else becomes of it (section 5.12).
    #[inline]
    fn step(&mut self, switch: &Switch, step: Step, leg: &Leg) -> Result<(), NeedsInterpreter> {
        match self.state.ttl {
            Some(0 | 1) if self.level == 0 => self.step_to_the_end(switch, step, leg),
            _ => self.steps.push(step),
        }
    }

    #[inline(never)]
    fn step_to_the_end(&mut self, switch: &Switch, step: Step, leg: &Leg) -> Result<(), NeedsInterpreter> {
        let is_plain = |op: &Op| matches!(op, Op::EthDst(_) | Op::EthSrc(_) | Op::Set(..));
        let met = leg.ops.iter().take_while(|op| is_plain(op)).count();
        if leg.ops.get(met) != Some(&Op::DecrementTtl) {
            return self.steps.push(step);
        }
        self.has_copies |= self.is_sent && met > 0;
        self.steps.push(Step::Only(u16::try_from(met).map_err(|_| NeedsInterpreter)?))?;
        self.steps.push(step)?;
        self.tell(Cause::TtlEnded, switch.config().miss_send_len)?;
        self.has_ended = true;
        self.steps.push(Step::TtlEnded)
    }

    /// Controllers are told of the packet as it is then.
    fn tell(&mut self, cause: Cause, max_len: u16) -> Result<(), NeedsInterpreter> {
        let ((table, slot), metadata) = (self.met, self.fields.get(Field::Metadata).unwrap_or_default() as u64);
        self.steps.tell(Telling { table, slot, cause, max_len, metadata })
    }

    /// Follows the legs of a list that a flow of a table applies, behind the first one. With the last one it ends if `is_last`.
    #[inline(never)]
    fn follow_more(
        &mut self,
        switch: &Switch,
        (table, slot): (u8, Slot),
        legs: &[Leg],
        is_last: bool,
    ) -> Result<(), NeedsInterpreter> {
        for (nth, number) in (1..=legs.len()).zip(0..=u8::MAX) {
            let leg = legs.get(usize::from(number)).ok_or(NeedsInterpreter)?;
            if !leg.ops.is_empty() {
                self.step(switch, Step::More { table, leg: number, slot }, leg)?;
            }
            if self.has_ended {
                break;
            }
            self.follow(switch, leg, is_last && nth == legs.len())?;
        }
        Ok(())
    }

    /// Follows changes to where they lead. What is known of the packet then is of no use to anybody if it `is_last`, and is what goes on otherwise.
    #[inline]
    fn follow(&mut self, switch: &Switch, leg: &Leg, is_last: bool) -> Result<(), NeedsInterpreter> {
        let is_applied = self.is_applied;
        let followed = self.follow_leg(switch, leg, is_last);
        self.is_applied = is_applied;
        followed
    }

    #[inline]
    fn follow_leg(&mut self, switch: &Switch, leg: &Leg, is_last: bool) -> Result<(), NeedsInterpreter> {
        let mut leg = leg;
        loop {
            if !leg.ops.is_empty() {
                self.state.known = None;
                self.has_copies |= self.is_sent;
                leg.ops.iter().try_for_each(|op| self.change(*op))?;
            }
            let step = match leg.act.end {
                End::Nowhere => return Ok(()),
                End::InPort => Step::Port(self.in_port),
                End::Port(port) if port == self.in_port => return self.steps.push(Step::SamePort),
                End::Port(port) => Step::Port(port),
                End::Others(others) => {
                    self.flooded += switch.ports.count();
                    if self.flooded > MOST_FLOODED {
                        return Err(NeedsInterpreter);
                    }
                    Step::Others(others)
                }
                // They have a copy, made at once: what changes the packet from now on changes the frame.
                End::Controllers(max_len) => {
                    return self.tell(if self.is_applied { Cause::Applied } else { Cause::Otherwise }, max_len);
                }
                End::Group(number) => {
                    self.is_applied = false;
                    let chosen = switch.groups.find(number, self.fields, &switch.ports).ok_or(NeedsInterpreter)?;
                    match chosen.legs {
                        [Some(next)] if is_last || next.ops.is_empty() => {
                            self.step(switch, Step::Group { bucket: chosen.first, slot: chosen.slot }, next)?;
                            if self.has_ended {
                                return Ok(());
                            }
                            leg = next;
                            continue;
                        }
                        _ => return self.follow_all(switch, &chosen, is_last),
                    }
                }
            };
            self.is_sent = true;
            return self.steps.push(step);
        }
    }

    /// Follows the buckets of a group: each has a packet of its own (section 5.6.1).
    #[inline(never)]
    fn follow_all(&mut self, switch: &Switch, chosen: &Chosen<'_>, is_last: bool) -> Result<(), NeedsInterpreter> {
        let slot = chosen.slot;
        if chosen.legs.is_empty() {
            return Err(NeedsInterpreter);
        }
        for (left, (leg, bucket)) in
            chosen.legs.iter().zip(chosen.first..).enumerate().map(|(nth, leg)| (chosen.legs.len() - nth, leg))
        {
            let leg = leg.as_ref().ok_or(NeedsInterpreter)?;
            let step =
                if bucket == chosen.first { Step::Group { bucket, slot } } else { Step::Bucket { bucket, slot } };
            let is_last = is_last && left == 1;
            if is_last || leg.ops.is_empty() {
                self.steps.push(step)?;
                self.follow(switch, leg, is_last)?;
            } else {
                self.follow_apart(switch, step, leg)?;
            }
        }
        Ok(())
    }

    /// Follows a bucket that changes its packet: what goes on is as it was before.
    fn follow_apart(&mut self, switch: &Switch, step: Step, leg: &Leg) -> Result<(), NeedsInterpreter> {
        let (fields, state) = (self.fields.clone(), self.state);
        self.level += 1;
        if self.level >= LEVELS {
            return Err(NeedsInterpreter);
        }
        self.has_copies = true;
        self.steps.push(Step::Apart)?;
        self.steps.push(step)?;
        self.follow(switch, leg, true)?;
        self.level -= 1;
        (*self.fields, self.state) = (fields, state);
        self.steps.push(Step::Back)
    }

    /// Changes what is known of the packet as the packet would change.
    #[inline]
    fn change(&mut self, op: Op) -> Result<(), NeedsInterpreter> {
        match op {
            Op::EthDst(address) => self.fields.set(Field::EthDst, number(address)),
            Op::EthSrc(address) => self.fields.set(Field::EthSrc, number(address)),
            Op::Set(Field::VlanVid, value) => {
                if self.state.tags > 0 {
                    self.fields.set(Field::VlanVid, VLAN_PRESENT | value);
                }
            }
            // What a copied TTL was copied to would be something else.
            Op::Set(Field::MplsBos, _) if self.state.mpls.is_some_and(|entry| entry.copied.is_some()) => {
                return Err(NeedsInterpreter);
            }
            Op::Set(field, value) => {
                if self.fields.get(field).is_some() {
                    self.fields.set(field, value);
                }
            }
            Op::PushVlan(_) => {
                if self.state.tags == 0 {
                    let kind = self.fields.get(Field::EthType).unwrap_or_default() as u16;
                    if VLAN_TYPES.contains(&kind) {
                        // A tag that breaks off: what of it is there is copied.
                        return Err(NeedsInterpreter);
                    }
                    self.fields.set(Field::VlanVid, VLAN_PRESENT);
                    self.fields.set(Field::VlanPcp, 0);
                }
                self.state.tags += 1;
                self.count_pushed();
            }
            Op::PopVlan => self.pop_vlan()?,
            Op::DecrementTtl => match &mut self.state.ttl {
                Some(0 | 1) => return Err(NeedsInterpreter),
                Some(ttl) => *ttl -= 1,
                None => {}
            },
            Op::SetTtl(to) => self.state.ttl = self.state.ttl.map(|_| to),
            Op::PushMpls(kind) => self.push_mpls(kind)?,
            Op::PopMpls(kind) => self.pop_mpls(kind)?,
            Op::SetMplsTtl(to) => self.state.mpls.iter_mut().for_each(|entry| entry.ttl = Some(to)),
            Op::DecrementMplsTtl => {
                if let Some(entry) = &mut self.state.mpls {
                    let more = entry.ttl.filter(|ttl| *ttl > 1).ok_or(NeedsInterpreter)?;
                    entry.ttl = Some(more - 1);
                }
            }
            Op::CopyTtlOut => self.copy_ttl(|entry, inner| entry.ttl = inner)?,
            Op::CopyTtlIn => self.copy_ttl(|entry, _| entry.copied = entry.ttl)?,
        }
        Ok(())
    }

    /// The outer tag comes off; what is behind it is read in the frame as it came.
    fn pop_vlan(&mut self) -> Result<(), NeedsInterpreter> {
        let is_only_one = self.state.tags == 1 && self.state.popped == 0;
        match self.state.tags {
            0 => return Ok(()),
            1 => {
                self.fields.set(Field::VlanVid, 0);
                self.fields.set(Field::VlanPcp, 0);
                let (word, bit) = presence(Field::VlanPcp);
                self.fields.0[word] &= !bit;
            }
            // What it was put before is not where it came.
            _ if self.state.pushed > 0 => return Err(NeedsInterpreter),
            _ => {
                let at = FIRST_TYPE + 2 + TAG * (self.state.popped_tags + 1);
                let tag = parse::number(self.bytes, at, 2).ok_or(NeedsInterpreter)?;
                self.fields.set(Field::VlanVid, VLAN_PRESENT | tag & 0x0fff);
                self.fields.set(Field::VlanPcp, tag >> 13);
            }
        }
        self.state.tags -= 1;
        self.state.popped_tags += 1;
        self.count_popped();
        // Of what was behind an entry that is gone, or behind a second tag, headers may have been completed.
        if !is_only_one && self.was_filled_up(0) {
            return Err(NeedsInterpreter);
        }
        Ok(())
    }

    fn count_pushed(&mut self) {
        self.state.pushed += 1;
        self.pushed = self.pushed.max(self.state.pushed);
    }

    fn count_popped(&mut self) {
        self.state.popped += 1;
        self.popped = self.popped.max(self.state.popped);
    }

    /// Whether the frame may have been filled up on its way, if so many tags come off beside those that did.
    fn was_filled_up(&self, more: usize) -> bool {
        let (length, State { pushed, popped, .. }) = (self.bytes.len(), self.state);
        popped + more > 0 && length < LEAST + TAG * (popped + more) && length + TAG * pushed >= LEAST
    }
}

/// Whether a meter only lets through or drops.
fn only_drops(switch: &Switch, meter: u32) -> bool {
    switch.meters.get(meter).is_none_or(|meter| meter.bands.iter().all(|band| band.kind == BandKind::Drop))
}

fn number(address: [u8; 6]) -> u128 {
    address.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
