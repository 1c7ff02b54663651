//! A capture file, sent again.

use std::sync::Arc;

use weir_packet::Packet;

/// The latest that a round begins, nanoseconds: more than a hundred years, and no sum of two overflows.
const LATEST: u64 = u64::MAX / 4;

/// The frames of a capture file on their way.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// Frames without check sequence, and when each was captured, nanoseconds behind the first.
    frames: Arc<Vec<(u64, Vec<u8>)>>,
    /// The frame that is drawn next, and the one that is written next: behind by those that are drawn and not written.
    drawn: usize,
    written: usize,
    recorded: bool,
    /// Whether it starts again at its end.
    again: bool,
    /// Time of the rounds before, where stamps count.
    before: u64,
}

impl Replay {
    pub(crate) fn new(frames: Vec<(u64, Vec<u8>)>, recorded: bool, again: bool) -> Replay {
        Replay { frames: Arc::new(frames), drawn: 0, written: 0, recorded, again, before: 0 }
    }

    /// Whether packets are due at the distances of their stamps.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Whether every frame was drawn that there is to send.
    pub(crate) fn is_over(&self) -> bool {
        self.drawn >= self.frames.len()
    }

    /// Draws the next frame; each is a shape of its own.
    pub(crate) fn next_shape(&mut self) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        let shape = self.drawn;
        self.drawn += 1;
        if self.again && self.is_over() {
            // A round takes as long as its stamps say, and the distance of the last two once more.
            let time = |back: usize| {
                self.frames.len().checked_sub(back).and_then(|at| self.frames.get(at)).map_or(0, |frame| frame.0)
            };
            let round = time(1).saturating_add(time(1).saturating_sub(time(2)));
            self.before = self.before.saturating_add(round).min(LATEST);
            self.drawn = 0;
        }
        Some(shape)
    }

    /// When the frame that is drawn next is due.
    pub(crate) fn next_time(&self) -> u64 {
        self.before.saturating_add(self.frames.get(self.drawn).map_or(0, |frame| frame.0))
    }

    /// Writes the frames that were drawn; returns their bytes.
    pub(crate) fn write(&mut self, packets: &mut [Packet]) -> u64 {
        let mut bytes = 0;
        for packet in packets {
            let Some((_, frame)) = self.frames.get(self.written) else { break };
            packet.fill(frame);
            bytes += frame.len() as u64;
            self.written = (self.written + 1) % self.frames.len();
        }
        bytes
    }
}
