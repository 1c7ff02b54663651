//! The short way of most packets that code knows, from the flow on that was found for them: it changes the packet, and sends it by one port, by itself or by one
//! bucket of a group.
//!
//! Nothing is counted for each packet but its flow, and its bucket. What packets of a batch have in common one after the other is counted for all of them, when
//! another one comes.

use weir_openflow::group::Counted;
use weir_openflow::port::number;

use super::direct::Direct;
use super::frame::Frame;
use super::met::AllMet;
use super::program::{Act, Changes, End};
use super::programs::ProgramNumber;
use super::{Frames, Parsed};
use crate::compiled::{Alone, Found, MOST_MET, Met, Then};
use crate::counts::{OfFlow, OfTable, OnePiece, Several, Worker};
use crate::fields::Fields;
use crate::index::{AHEAD, Slot};
use crate::ports::Ports;
use crate::switch::Switch;

/// Packets that came one after the other by one port, and of which code found the same; and those that left one after the other by one port, another one: not counted
/// yet.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Who counts them.
    worker: Worker,
    /// [`Found::NOTHING`] if none came.
    found: Found,
    in_port: u32,
    came: Several,
    /// It sends, and is not the one that they came by; [`NO_PORT`] if none left.
    port: u32,
    left: Several,
    /// Those that came so and left so, as long as they were: they are counted among both.
    same: Several,
}

/// Through so many groups a packet goes the short way, behind the first one.
const MOST_THROUGH: usize = 4;

/// No packet is sent by it.
const NO_PORT: u32 = number::ANY;

impl Tally {
    pub(super) fn new(worker: Worker) -> Tally {
        let [came, left, same] = [Several::default(); 3];
        Tally { worker, found: Found::NOTHING, in_port: 0, came, port: NO_PORT, left, same }
    }

    /// Whether a port sends what came by another one, and is the one that those who leave are counted at now.
    #[inline(always)]
    fn leaves_by(&mut self, ports: &Ports, port: u32) -> bool {
        self.port == port || self.turn(ports, port)
    }

    #[inline(never)]
    fn turn(&mut self, ports: &Ports, port: u32) -> bool {
        self.count_left(ports);
        let goes = port != self.in_port && ports.sends(port);
        self.port = if goes { port } else { NO_PORT };
        goes
    }

    /// Counts those that came and left alike among both.
    fn spread(&mut self) {
        let same = std::mem::take(&mut self.same);
        self.came.add_all(same);
        self.left.add_all(same);
    }

    fn count_left(&mut self, ports: &Ports) {
        self.spread();
        let left = std::mem::take(&mut self.left).counted();
        if left.packets > 0 {
            ports.sent_all(self.worker, self.port, left);
        }
    }
}

/// The short way, for the packets of a batch.
pub struct ShortWay<'f> {
    switch: &'f Switch,
    parsed: &'f mut [Parsed],
    met: &'f AllMet,
    tally: &'f mut Tally,
    now: u64,
    /// Where packets meet flows of which code found the same as of the packet before, as far as these were found at the same time.
    here: Here<'f>,
    /// What programs come to, by their numbers, behind nothing for none.
    directs: &'f [Option<Direct>],
    /// The code by which the last frame was changed that did not follow others.
    at_hand: Option<Alone<'f>>,
}

/// A table, and the flows of it that all packets of a batch meet; nothing where these are not known.
#[derive(Clone, Copy, Default)]
struct Here<'f> {
    slots: &'f [Slot],
    /// Those whose lines are asked for, each while a packet is taken that came so much earlier: none where all are near.
    ahead: &'f [Slot],
    /// All rows, where they are one piece.
    rows: OnePiece<'f>,
    flows: Option<&'f OfTable>,
}

impl<'f> Here<'f> {
    /// The flow that a packet meets, and what that comes to, if it is no more than changes and one port.
    #[inline(always)]
    fn direct(&self, number: usize, directs: &'f [Option<Direct>]) -> Option<(OfFlow<'f>, &'f Direct)> {
        if let Some(slot) = self.ahead.get(number) {
            self.flows.iter().for_each(|flows| flows.prefetch(*slot));
        }
        let slot = *self.slots.get(number)?;
        let flow = match self.rows.of_flow(slot) {
            Some(flow) => flow,
            None => self.flows?.of_flow(slot)?,
        };
        Some((flow, directs.get(flow.program_place())?.as_ref()?))
    }
}

impl Switch {
    /// The short way, for frames that were [looked into](Switch::looking) and [looked up](Switch::approach). What it takes is counted when the batch is
    /// [settled](Switch::settle).
    #[inline]
    pub fn short_way<'f>(&'f self, frames: &'f mut Frames, now: u64) -> ShortWay<'f> {
        let Frames { parsed, met, tally, .. } = frames;
        let mut short = ShortWay::new(self, (parsed, met), tally, now);
        if short.tally.found != Found::NOTHING {
            short.here = self.here_for(short.tally.worker, met, short.tally.found);
        }
        short
    }

    /// The table that is searched for packets of which code found this, as far as flows of it were found at the same time.
    fn here_for<'f>(&'f self, worker: Worker, met: &'f AllMet, found: Found) -> Here<'f> {
        let here = met.in_table(found.search()).and_then(|met| {
            let flows = self.tables.get(met.table)?.of_worker(worker)?;
            let ahead = if flows.is_near() { None } else { met.slots.get(AHEAD..) };
            let (rows, ahead) = (flows.one_piece(), ahead.unwrap_or_default());
            Some(Here { slots: &met.slots, ahead, rows, flows: Some(flows) })
        });
        here.unwrap_or_default()
    }
}

impl<'f> ShortWay<'f> {
    #[inline]
    pub(super) fn new(
        switch: &'f Switch,
        (parsed, met): (&'f mut [Parsed], &'f AllMet),
        tally: &'f mut Tally,
        now: u64,
    ) -> ShortWay<'f> {
        let (here, directs) = (Here::default(), switch.tables.directs());
        ShortWay { switch, parsed, met, tally, now, here, directs, at_hand: None }
    }

    /// Takes the frame of this number, if it goes the short way: answers the port that it is to be sent by, as it is now.
    ///
    /// `None` if there is more to do, and nothing happened: [`Switch::forward`] takes it then.
    #[inline(always)]
    pub fn take(&mut self, number: usize, frame: &mut impl Frame) -> Option<u32> {
        let ShortWay { switch, parsed, tally, now, here, directs, at_hand, .. } = self;
        let parsed = parsed.get_mut(number)?;
        let found = tally.found;
        if parsed.found == Some(found)
            && parsed.in_port == tally.in_port
            && let Some((flow, direct)) = here.direct(number, directs)
            && tally.leaves_by(&switch.ports, direct.port)
        {
            let (bytes, results) = (frame.bytes().len(), &mut parsed.fields.0);
            let stays = direct.change_by(*at_hand, frame, found, results);
            if stays || direct.change_beside(frame, found, results) {
                direct.count(tally.worker, bytes);
                flow.count(Counted::one(bytes), *now);
                if stays {
                    tally.same.add(bytes);
                } else {
                    tally.came.add(bytes);
                    tally.left.add(frame.bytes().len());
                }
                return Some(direct.port);
            }
        }
        self.take_otherwise(number, frame)
    }

    /// Takes any other frame, and those that are the first that something was found of.
    #[inline(never)]
    fn take_otherwise(&mut self, number: usize, frame: &mut impl Frame) -> Option<u32> {
        let parsed = self.parsed.get_mut(number)?;
        let found = parsed.found?;
        if self.tally.found != found || self.tally.in_port != parsed.in_port {
            self.switch.turn(self.tally, found, parsed.in_port, self.now);
            self.here = self.switch.turn_here(self.tally.worker, self.met, found, number);
        }
        let met = match parsed.known.or_else(|| self.met.find(number, Some(found))) {
            Some(met) => met,
            None => self.switch.find_first(found, parsed)?,
        };
        let bytes = frame.bytes().len();
        let port = self.take_from(number, met, (&mut *frame, found))?;
        self.tally.came.add(bytes);
        self.tally.left.add(frame.bytes().len());
        Some(port)
    }

    /// Takes a frame from a flow on that it meets.
    #[inline(always)]
    fn take_from(&mut self, number: usize, met: Met, (frame, found): (&mut impl Frame, Found)) -> Option<u32> {
        let port = self.carry_out(number, met, (&mut *frame, found));
        port.or_else(|| self.lead_on(number, met, (frame, found)))
    }

    /// Takes the only frame, for which nothing is searched: code found its flow.
    #[inline(always)]
    pub(super) fn take_led(&mut self, frame: &mut impl Frame, found: Found) -> Option<u32> {
        let Then::Go(met) = self.switch.tables.code().target(found)?.then else { return None };
        let in_port = self.parsed.first()?.in_port;
        if self.tally.found != found || self.tally.in_port != in_port {
            self.switch.turn(self.tally, found, in_port, self.now);
        }
        let bytes = frame.bytes().len();
        let port = self.take_from(0, met, (&mut *frame, found))?;
        self.tally.came.add(bytes);
        self.tally.left.add(frame.bytes().len());
        Some(port)
    }

    /// Carries a flow out that a packet meets, and counts the packet there: answers the port. `None` if there is more to do, and nothing happened.
    #[inline(always)]
    fn carry_out(
        &mut self,
        number: usize,
        (table, slot): Met,
        (frame, found): (&mut impl Frame, Found),
    ) -> Option<u32> {
        let ShortWay { switch, tally, now, directs, .. } = self;
        let flow = switch.tables.get(table)?.of_flow(tally.worker, slot)?;
        let (program, bytes) = (flow.program()?, frame.bytes().len());
        let parsed = self.parsed.get_mut(number)?;
        let direct = directs.get(flow.program_place()).and_then(Option::as_ref);
        let port = match direct {
            Some(direct) if switch.go_directly(direct, (&mut *frame, found), parsed, tally) => {
                self.at_hand = direct.alone();
                direct.port
            }
            _ => switch.go_by_program(program, (&mut *frame, found), parsed, tally)?,
        };
        flow.count(Counted::one(bytes), *now);
        Some(port)
    }

    /// Takes a packet through the tables that this flow and those behind it lead on to, if they do nothing else, and then as before.
    #[inline(never)]
    fn lead_on(&mut self, number: usize, first: Met, (frame, found): (&mut impl Frame, Found)) -> Option<u32> {
        let (switch, worker, now) = (self.switch, self.tally.worker, self.now);
        let fields = &mut self.parsed.get_mut(number)?.fields;
        let (bytes, before) = (frame.bytes().len(), fields.metadata());
        let mut passed = [first; MOST_MET];
        let count = switch.follow(worker, &mut passed, fields);
        let led = count.and_then(|count| {
            let (last, leading) = passed.get(..count)?.split_last()?;
            Some((self.carry_out(number, *last, (frame, found))?, *last, leading))
        });
        let Some((port, last, leading)) = led else {
            self.parsed.get_mut(number)?.fields.set_metadata(before);
            return None;
        };
        // The first is of the table that all who came are counted at.
        for (nth, (table, slot)) in leading.iter().enumerate() {
            let table = switch.tables.get(*table)?;
            table.count(worker, *slot, Counted::one(bytes), now);
            if nth > 0 {
                table.pass(worker, 1);
            }
        }
        // It has counted the packet itself.
        switch.tables.get(last.0)?.pass(worker, 1);
        Some(port)
    }
}

impl Switch {
    /// Carries out what a program does for a packet that a flow led there: answers the port. `None` if there is more to do, and nothing happened.
    #[inline(always)]
    fn go_by_program(
        &self,
        number: ProgramNumber,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
    ) -> Option<u32> {
        let Act { changes, end } = self.tables.program(number)?.plain.as_ref()?;
        match *end {
            End::Port(port) => self.leave_by(port, changes, (frame, found), parsed, tally),
            // What a group chooses by is what the packet is by then.
            End::Group(number) if changes.is_nothing => self.go_by_group(number, (frame, found), parsed, tally),
            _ => None,
        }
    }

    /// Changes a packet, and counts it at the group that it goes by. If not, nothing happened.
    #[inline(always)]
    fn go_directly(
        &self,
        direct: &Direct,
        (frame, found): (&mut impl Frame, Found),
        parsed: &mut Parsed,
        tally: &mut Tally,
    ) -> bool {
        let bytes = frame.bytes().len();
        let goes = tally.leaves_by(&self.ports, direct.port) && direct.change(frame, found, &mut parsed.fields.0);
        if goes {
            direct.count(tally.worker, bytes);
        }
        goes
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
        let goes = tally.leaves_by(&self.ports, port) && changes.carry_out(frame, found, &mut parsed.fields.0);
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
        (tally.found, tally.in_port) = (found, in_port);
        if tally.port == in_port {
            tally.count_left(&self.ports);
            tally.port = NO_PORT;
        }
    }

    /// The table that packets are searched for in that come from the one of this number on. The lines of the first flows are fetched.
    #[inline(never)]
    fn turn_here<'f>(&'f self, worker: Worker, met: &'f AllMet, found: Found, number: usize) -> Here<'f> {
        let here = self.here_for(worker, met, found);
        if let Some(flows) = here.flows.filter(|_| !here.ahead.is_empty()) {
            flows.fetch(here.slots.get(number..).unwrap_or_default().get(..AHEAD).unwrap_or_default());
        }
        here
    }

    fn count_came(&self, tally: &mut Tally, now: u64) {
        tally.spread();
        let came = std::mem::take(&mut tally.came).counted();
        if came.packets > 0 {
            self.ports.received_all(tally.worker, tally.in_port, came);
            self.tables.meet_leading(tally.worker, tally.found, came, now);
        }
    }

    /// Counts all.
    pub(super) fn count_tally(&self, tally: &mut Tally, now: u64) {
        self.count_came(tally, now);
        tally.count_left(&self.ports);
        // What code finds may be something else from now on, and ports may not send.
        (tally.found, tally.port) = (Found::NOTHING, NO_PORT);
    }
}
