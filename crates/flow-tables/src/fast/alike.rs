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

/// Packets of a batch that came in by one port, met the same flows, and leave by one port, which is up: not counted yet.
#[derive(Clone, Debug)]
pub(super) struct Alike {
    found: Found,
    in_port: u32,
    port: u32,
    counted: Several,
    /// All that come in by the port are such, as they are.
    is_all: bool,
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
        {
            alike.counted.add(bytes);
            return Some(alike.port);
        }
        let parsed = parsed.first_mut()?;
        parsed.in_port = in_port;
        let Some(found) = find_by_code(self.tables.code().code(), &self.ports, frame, parsed) else {
            parsed.set(frame.bytes(), *depth);
            return None;
        };
        if let Some(alike) = alike
            && alike.found == found
            && alike.in_port == in_port
        {
            alike.counted.add(bytes);
            return Some(alike.port);
        }
        let Some(port) = self.leaves_by(found, in_port) else {
            parsed.set_found(found);
            return self.take_led((frame, found), (parsed, met), tally, now);
        };
        let mut counted = Several::default();
        counted.add(bytes);
        let is_all = self.tables.code().is_by_port();
        let before = alike.replace(Alike { found, in_port, port, counted, is_all });
        self.count_alike(*worker, before, now);
        Some(port)
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
        if let Some(Alike { found, in_port, port, counted, .. }) = alike {
            let counted = counted.counted();
            self.ports.received_all(worker, in_port, counted);
            self.tables.meet_found(worker, found, counted, now);
            self.ports.sent_all(worker, port, counted);
        }
    }

    /// The port by which all frames leave that code found this of, if it is one that sends them.
    #[inline]
    fn leaves_by(&self, found: Found, in_port: u32) -> Option<u32> {
        let port = match self.tables.code().target(found)?.then {
            Then::Leave(End::Port(port)) if port != in_port => port,
            Then::Leave(End::InPort) => in_port,
            _ => return None,
        };
        self.ports.sends(port).then_some(port)
    }
}
