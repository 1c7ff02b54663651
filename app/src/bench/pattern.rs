//! Traffic in as little memory as it takes: what frames have in common once, and for each frame what differs.
//!
//! A million frames of 64 bytes are 64 MiB, which would drive the tables under test out of the caches; the few words in
//! which they differ are 16.

use std::sync::Arc;

use weir_mem::prefetch::prefetch_slice;
use weir_packet::{HEADROOM, Packet};
use weir_port_mem::{HEADER, Pattern};
use weir_stage::case::Traffic;

const WORDS: usize = HEADER / 8;

/// Frames of one length that differ in a few of their first eight 8-byte words.
#[derive(Clone)]
pub(super) struct Varying {
    common: [u8; HEADER],
    /// Words in which any two frames differ.
    places: Vec<usize>,
    /// Of each frame in turn the words at `places`.
    words: Arc<Vec<[u8; 8]>>,
    len: usize,
    frames: u64,
    /// Position in `words` where the next frame's begin.
    next: usize,
    next_frame: u64,
}

impl Varying {
    /// The frames of a case, which must be of one length.
    pub(super) fn new(traffic: &mut Traffic) -> Varying {
        let mut frames = Vec::new();
        let mut len = 0;
        for n in 0..traffic.frames.max(1) {
            let mut bytes = [0; HEADER];
            len = (traffic.frame)(n, &mut bytes);
            let (words, _) = bytes.as_chunks::<8>();
            frames.push(std::array::from_fn::<_, WORDS, _>(|at| words.get(at).copied().unwrap_or_default()));
        }
        let common = frames.first().copied().unwrap_or_default();
        let differs = |at: &usize| frames.iter().any(|frame| frame.get(*at) != common.get(*at));
        let places: Vec<usize> = (0..WORDS).filter(differs).collect();
        let words = frames.iter().flat_map(|frame| places.iter().filter_map(|at| frame.get(*at).copied())).collect();
        let mut header = [0; HEADER];
        header.iter_mut().zip(common.as_flattened()).for_each(|(to, from)| *to = *from);
        Varying {
            common: header,
            places,
            words: Arc::new(words),
            len,
            frames: frames.len() as u64,
            next: 0,
            next_frame: 0,
        }
    }

    /// The same frames, beginning behind `part` parts of `parts`, so that several queues do not go in step.
    pub(super) fn starting_at(&self, part: usize, parts: usize) -> Varying {
        let next_frame = self.frames * part as u64 / parts.max(1) as u64;
        Varying { next_frame, next: next_frame as usize * self.places.len(), ..self.clone() }
    }
}

impl Pattern for Varying {
    fn period(&self) -> Option<u64> {
        Some(self.frames)
    }

    fn longest(&self) -> usize {
        self.len
    }

    #[inline]
    fn write(&mut self, _first: u64, packets: &mut [Packet]) -> u64 {
        let mut bytes = 0;
        // The source is not what is measured: it does not wait for buffers that were used long ago, nor does it matter to it what was
        // done to their packets.
        packets.iter().for_each(Packet::prefetch_header);
        packets.iter().for_each(|packet| prefetch_slice(packet.bytes(), HEADROOM.wrapping_sub(packet.headroom())));
        for packet in packets {
            packet.renew(&self.common, self.len);
            let (words, _) = packet.window_mut::<HEADER>(0).as_chunks_mut::<8>();
            let own = self.words.get(self.next..).unwrap_or_default();
            for (at, word) in self.places.iter().zip(own) {
                if let Some(to) = words.get_mut(*at) {
                    *to = *word;
                }
            }
            self.next += self.places.len();
            self.next_frame += 1;
            if self.next_frame >= self.frames {
                (self.next, self.next_frame) = (0, 0);
            }
            bytes += self.len as u64;
        }
        bytes
    }
}
