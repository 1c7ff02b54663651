//! Packets that code leads the same way, one after the other: they are counted together.

use std::slice;

use super::met::AllMet;
use super::program::End;
use super::short::{ShortWay, Tally};
use super::{Frame, Frames, Parsed, find_by_code};
use crate::compiled::{Found, Then};
use crate::counts::{Several, Worker};
use crate::switch::Switch;
use crate::tags::FIRST_TYPE;
use crate::words::Words;

/// Packets of a batch that came in by one port, met the same flows, and leave by one port, which is up: not counted yet.
#[derive(Clone, Debug)]
pub(super) struct Alike {
    found: Found,
    in_port: u32,
    /// Nothing if more is to be done with them, one by one: then none is counted here.
    way: Option<Way>,
    came: Several,
    /// Those that are not as long any more, perhaps, as they came.
    left: Several,
    /// All that come in by the port are such, as they are.
    is_all: bool,
}

/// How such packets leave: by a port, and changed as the program in this place says, if code did not change them.
#[derive(Clone, Copy, Debug)]
struct Way {
    port: u32,
    direct: Option<usize>,
}

/// Bytes of the shortest frame.
const SHORTEST: usize = FIRST_TYPE + 2;

impl Switch {
    /// Takes a frame of a batch that code [leads](Frames::is_led), which came in by a port, as far as code does: answers the port that it is to be sent by, as it is
    /// now. It is counted when the batch is [settled](Switch::settle).
    ///
    /// `None` if there is more to do: [`Switch::forward`] takes the frame then, as the first that was looked into.
    #[inline]
    pub fn lead(&self, frame: &mut impl Frame, in_port: u32, frames: &mut Frames, now: u64) -> Option<u32> {
        let Frames { worker, parsed, met, alike, tally, depth, .. } = frames;
        let bytes = frame.bytes().len();
        if let Some(alike) = alike
            && alike.is_all
            && alike.in_port == in_port
            && bytes >= SHORTEST
            && let Some(Way { port, direct: None }) = alike.way
        {
            alike.came.add(bytes);
            return Some(port);
        }
        let parsed = parsed.first_mut()?;
        parsed.in_port = in_port;
        let Some(found) = find_by_code(self.tables.code().code(), self.ports.barring(), frame, parsed) else {
            parsed.set(frame.bytes(), *depth);
            return None;
        };
        if let Some(alike) = alike
            && alike.found == found
            && alike.in_port == in_port
        {
            match alike.way {
                Some(Way { port, direct: None }) => {
                    alike.came.add(bytes);
                    return Some(port);
                }
                Some(Way { port, direct: Some(place) })
                    if self.change_led(*worker, place, (&mut *frame, found), &mut parsed.fields.0) =>
                {
                    alike.came.add(bytes);
                    alike.left.add(frame.bytes().len());
                    return Some(port);
                }
                _ => {
                    parsed.set_found(found);
                    return self.take_led((frame, found), (parsed, met), tally, now);
                }
            }
        }
        self.lead_otherwise((frame, found), frames, now)
    }

    /// Leads a frame that is not like the one before; it came in by a port that is known.
    #[inline(never)]
    fn lead_otherwise(&self, (frame, found): (&mut impl Frame, Found), frames: &mut Frames, now: u64) -> Option<u32> {
        let Frames { worker, parsed, met, alike, tally, .. } = frames;
        let (parsed, bytes) = (parsed.first_mut()?, frame.bytes().len());
        let way = self.way_of(*worker, found, parsed.in_port);
        let goes = way.filter(|way| {
            let place = way.direct;
            place.is_none_or(|place| self.change_led(*worker, place, (&mut *frame, found), &mut parsed.fields.0))
        });
        let [mut came, mut left] = [Several::default(); 2];
        if goes.is_some() {
            came.add(bytes);
            left.add(frame.bytes().len());
        }
        let is_all = self.tables.code().is_by_port();
        let before = alike.replace(Alike { found, in_port: parsed.in_port, way, came, left, is_all });
        self.count_alike(*worker, before, now);
        if let Some(way) = goes {
            return Some(way.port);
        }
        parsed.set_found(found);
        self.take_led((frame, found), (parsed, met), tally, now)
    }

    /// Changes a frame as the program in a place says, and counts it at the group that it goes by. If not, nothing happened.
    #[inline(always)]
    fn change_led(
        &self,
        worker: Worker,
        place: usize,
        (frame, found): (&mut impl Frame, Found),
        results: &mut Words,
    ) -> bool {
        let (direct, bytes) = (self.tables.directs().get(place).and_then(Option::as_ref), frame.bytes().len());
        direct.is_some_and(|direct| {
            let goes = direct.change(frame, found, results);
            if goes {
                direct.count(worker, bytes);
            }
            goes
        })
    }

    /// Takes one frame the short way.
    #[inline(never)]
    fn take_led(
        &self,
        (frame, found): (&mut impl Frame, Found),
        (parsed, met): (&mut Parsed, &AllMet),
        tally: &mut Tally,
        now: u64,
    ) -> Option<u32> {
        ShortWay::new(self, (slice::from_mut(parsed), met), tally, now).take_led(frame, found)
    }

    /// Counts all frames of a batch that were led, before anybody asks, and before anything changes.
    #[inline]
    pub fn settle(&self, frames: &mut Frames, now: u64) {
        self.count_alike(frames.worker, frames.alike.take(), now);
        self.count_tally(&mut frames.tally, now);
    }

    #[inline]
    fn count_alike(&self, worker: Worker, alike: Option<Alike>, now: u64) {
        if let Some(Alike { found, in_port, way: Some(Way { port, direct }), came, left, .. }) = alike {
            let left = if direct.is_none() { came } else { left }.counted();
            let came = came.counted();
            // The first one may have been left alone, and none that was like it changed.
            if came.packets == 0 {
                return;
            }
            self.ports.received_all(worker, in_port, came);
            self.tables.meet_found(worker, found, came, now);
            self.ports.sent_all(worker, port, left);
        }
    }

    /// How all frames leave that code found this of, if it is by a port that sends them, and no more is to be done than changes.
    fn way_of(&self, worker: Worker, found: Found, in_port: u32) -> Option<Way> {
        let (port, direct) = match self.tables.code().target(found)?.then {
            Then::Leave(End::Port(port)) if port != in_port => (port, None),
            Then::Leave(End::InPort) => (in_port, None),
            Then::Go((table, slot)) => {
                let place = self.tables.get(table)?.of_flow(worker, slot)?.program_place();
                let direct = self.tables.directs().get(place)?.as_ref().filter(|direct| direct.port != in_port)?;
                (direct.port, Some(place))
            }
            _ => return None,
        };
        self.ports.sends(port).then_some(Way { port, direct })
    }
}
