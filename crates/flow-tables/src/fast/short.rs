//! The short way of most packets that code knows, from the flow on that was found for them: it changes the packet, and sends it by one port, by itself or by one
//! bucket of a group.
//!
//! Nothing is counted for each packet but its flow, and its bucket. What packets of a batch have in common one after the other is counted for all of them, when
//! another one comes.

use weir_openflow::group::Counted;
use weir_openflow::port::number;

use super::frame::Frame;
use super::program::{Act, Changes, End};
use super::{Frames, Parsed};
use crate::compiled::{Found, MOST_MET, Met, Then};
use crate::counts::Worker;
use crate::fields::Fields;
use crate::ports::Ports;
use crate::switch::Switch;

/// Packets that came one after the other by one port, and of which code found the same; and those that left one after the other by one port: not counted yet.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Who counts them.
    worker: Worker,
    found: Option<Found>,
    in_port: u32,
    came: Counted,
    /// It sends.
    port: u32,
    left: Counted,
}

/// Through so many groups a packet goes the short way, behind the first one.
const MOST_THROUGH: usize = 4;

/// No packet is sent by it.
const NO_PORT: u32 = number::ANY;

impl Tally {
    pub(super) fn new(worker: Worker) -> Tally {
        Tally { worker, found: None, in_port: 0, came: Counted::default(), port: NO_PORT, left: Counted::default() }
    }

    /// Whether a port sends, and is the one that those who leave are counted at now.
    #[inline]
    fn leaves_by(&mut self, ports: &Ports, port: u32) -> bool {
        self.port == port || self.turn(ports, port)
    }

    #[inline(never)]
    fn turn(&mut self, ports: &Ports, port: u32) -> bool {
        self.count_left(ports);
        let sends = ports.sends(port);
        self.port = if sends { port } else { NO_PORT };
        sends
    }

    fn count_left(&mut self, ports: &Ports) {
        let left = std::mem::take(&mut self.left);
        if left.packets > 0 {
            ports.sent_all(self.worker, self.port, left);
        }
    }
}

impl Switch {
    /// Takes the frame of this number of those that were [looked into](Switch::look) and [looked up](Switch::approach), if it goes the short way: answers the port
    /// that it is to be sent by, as it is now. It is counted when the batch is [settled](Switch::settle).
    ///
    /// `None` if there is more to do, and nothing happened: [`Switch::forward`] takes it then.
    #[inline]
    pub fn hasten(&self, number: usize, frame: &mut impl Frame, frames: &mut Frames, now: u64) -> Option<u32> {
        let Frames { parsed, tally, .. } = frames;
        self.go_short_way(frame, parsed.get_mut(number)?, tally, now)
    }

    /// The same of one that was looked into.
    #[inline(never)]
    pub(super) fn take_short_way(
        &self,
        frame: &mut impl Frame,
        parsed: &mut Parsed,
        tally: &mut Tally,
        now: u64,
    ) -> Option<u32> {
        self.go_short_way(frame, parsed, tally, now)
    }

    #[inline(always)]
    fn go_short_way(&self, frame: &mut impl Frame, parsed: &mut Parsed, tally: &mut Tally, now: u64) -> Option<u32> {
        let found = parsed.found?;
        let met = match parsed.known {
            Some(met) => met,
            None => self.find_first(found, parsed)?,
        };
        if tally.found != Some(found) || tally.in_port != parsed.in_port {
            self.turn(tally, found, parsed.in_port, now);
        }
        let bytes = frame.bytes().len();
        let port = match self.carry_out(met, (&mut *frame, found), parsed, tally, now) {
            Some(port) => port,
            None => self.lead_on(met, (&mut *frame, found), parsed, tally, now)?,
        };
        tally.came.add(bytes);
        tally.left.add(frame.bytes().len());
        Some(port)
    }

    /// Carries a flow out that a packet meets, and counts the packet there: answers the port. `None` if there is more to do, and nothing happened.
    #[inline(always)]
    fn carry_out(
        &self,
        (table, slot): Met,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
        now: u64,
    ) -> Option<u32> {
        let flow = self.tables.get(table)?.of_flow(tally.worker, slot)?;
        let Act { changes, end } = self.tables.program(flow.program()?)?.plain.as_ref()?;
        let bytes = frame.bytes().len();
        let port = match *end {
            End::Port(port) => self.leave_by(port, changes, (frame, found), parsed, tally)?,
            // What a group chooses by is what the packet is by then.
            End::Group(number) if changes.is_nothing => self.go_by_group(number, (frame, found), parsed, tally)?,
            _ => return None,
        };
        flow.count(Counted::one(bytes), now);
        Some(port)
    }

    /// Changes a packet that leaves by a port: answers the port. `None` if there is more to do, and nothing happened.
    #[inline(always)]
    fn leave_by(
        &self,
        port: u32,
        changes: &Changes,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
    ) -> Option<u32> {
        let goes = port != parsed.in_port
            && tally.leaves_by(&self.ports, port)
            && changes.carry_out(frame, found, &mut parsed.fields.0);
        goes.then_some(port)
    }

    /// Takes a packet through a group, and counts it there: answers the port. `None` if there is more to do, and nothing happened.
    #[inline(never)]
    fn go_by_group(
        &self,
        number: u32,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
    ) -> Option<u32> {
        let bytes = frame.bytes().len();
        let (group, bucket) = self.groups.find_one(number, &parsed.fields, &self.ports)?;
        let Act { changes, end } = &group.leg(bucket)?.act;
        let port = match *end {
            End::Port(port) => self.leave_by(port, changes, (frame, found), parsed, tally)?,
            End::Group(next) if changes.is_nothing => self.go_through(next, (frame, found), parsed, tally)?,
            _ => return None,
        };
        group.count(tally.worker, bucket, bytes);
        Some(port)
    }

    /// Takes a packet through a group that another one leads to, and those that this leads to, and counts it there: answers the port. `None` if there is more to do,
    /// and nothing happened. Only the last one changes something, so that all choose by what the packet is.
    #[inline(never)]
    fn go_through(
        &self,
        first: u32,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
    ) -> Option<u32> {
        let Switch { groups, ports, .. } = self;
        let (bytes, mut passed, mut next) = (frame.bytes().len(), [None; MOST_THROUGH], first);
        for nth in 0..MOST_THROUGH {
            let (group, bucket) = groups.find_one(next, &parsed.fields, ports)?;
            *passed.get_mut(nth)? = Some((group, bucket));
            let Act { changes, end } = &group.leg(bucket)?.act;
            match *end {
                End::Group(number) if changes.is_nothing => next = number,
                End::Port(port) => {
                    let port = self.leave_by(port, changes, (frame, found), parsed, tally)?;
                    let counted = passed.into_iter().flatten();
                    counted.for_each(|(group, bucket)| group.count(tally.worker, bucket, bytes));
                    return Some(port);
                }
                _ => return None,
            }
        }
        None
    }

    /// Takes a packet through the tables that this flow and those behind it lead on to, if they do nothing else, and then as before.
    #[inline(never)]
    fn lead_on(
        &self,
        first: Met,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
        now: u64,
    ) -> Option<u32> {
        let (bytes, before) = (frame.bytes().len(), parsed.fields.metadata());
        let mut passed = [first; MOST_MET];
        let led = self.follow(tally.worker, &mut passed, &mut parsed.fields).and_then(|count| {
            let passed = passed.get(..count)?;
            let (last, leading) = passed.split_last()?;
            let port = self.carry_out(*last, (frame, found), parsed, tally, now)?;
            Some((port, *last, leading))
        });
        let Some((port, last, leading)) = led else {
            parsed.fields.set_metadata(before);
            return None;
        };
        // The first is of the table that all who came are counted at.
        for (nth, (table, slot)) in leading.iter().enumerate() {
            let table = self.tables.get(*table)?;
            table.count(tally.worker, *slot, Counted::one(bytes), now);
            if nth > 0 {
                table.pass(tally.worker, 1);
            }
        }
        // It has counted the packet itself.
        self.tables.get(last.0)?.pass(tally.worker, 1);
        Some(port)
    }

    /// The flows that a packet meets from the first one on, which only lead on but for the last one: how many.
    fn follow(&self, worker: Worker, passed: &mut [Met; MOST_MET], fields: &mut Fields) -> Option<usize> {
        let [first, rest @ ..] = passed;
        let (mut at, mut count) = (*first, 1);
        for place in rest {
            let flow = self.tables.get(at.0)?.of_flow(worker, at.1)?;
            let program = self.tables.program(flow.program()?)?;
            if !program.only_leads() {
                break;
            }
            if let Some((value, mask)) = program.metadata {
                fields.write_metadata(value, mask);
            }
            let next = program.next?;
            at = (next, self.tables.get(next)?.find_slot(fields)?);
            (*place, count) = (at, count + 1);
        }
        (count > 1).then_some(count)
    }

    /// The flow that code found, or the one that is found in the table that code says.
    #[inline]
    fn find_first(&self, found: Found, parsed: &mut Parsed) -> Option<Met> {
        match self.tables.code().target(found)?.then {
            Then::Go(met) => Some(met),
            Then::Search(number) => {
                let slot = self.tables.get(number)?.find_slot(&parsed.fields)?;
                parsed.known = Some((number, slot));
                parsed.known
            }
            Then::Leave(_) => None,
        }
    }

    /// Packets come of which code found this; what came before is counted.
    #[inline(never)]
    fn turn(&self, tally: &mut Tally, found: Found, in_port: u32, now: u64) {
        self.count_came(tally, now);
        (tally.found, tally.in_port) = (Some(found), in_port);
    }

    fn count_came(&self, tally: &mut Tally, now: u64) {
        let came = std::mem::take(&mut tally.came);
        if let Some(found) = tally.found
            && came.packets > 0
        {
            self.ports.received_all(tally.worker, tally.in_port, came);
            self.tables.meet_leading(tally.worker, found, came, now);
        }
    }

    /// Counts all.
    pub(super) fn count_tally(&self, tally: &mut Tally, now: u64) {
        self.count_came(tally, now);
        tally.count_left(&self.ports);
        // What code finds may be something else from now on, and ports may not send.
        (tally.found, tally.port) = (None, NO_PORT);
    }
}
