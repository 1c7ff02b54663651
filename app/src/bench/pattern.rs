//! Traffic in as little memory as it takes: what frames have in common once, and for each frame what differs.
//!
//! A million frames of 64 bytes are 64 MiB, which would drive the tables under test out of the caches; the few words in
//! which they differ are 16.

use std::collections::HashMap;
use std::sync::Arc;

use weir_mem::prefetch::prefetch_slice;
use weir_packet::{HEADROOM, Packet};
use weir_port_mem::Pattern;
use weir_stage::case::{HEADER, Traffic};

const WORDS: usize = HEADER / 8;

/// A cache line, bytes.
const LINE: usize = 64;

type Words = [[u8; 8]; WORDS];

/// Frames that differ in length, and in a few of the 8-byte words of their headers.
#[derive(Clone)]
pub(super) struct Varying {
    shapes: Arc<[Shape]>,
    /// Of each frame in turn the position of its shape; empty where there is only one.
    order: Arc<[u16]>,
    /// Of each frame in turn the words in which frames of its shape differ.
    words: Arc<[[u8; 8]]>,
    /// Whether anything stands behind the first line.
    is_long: bool,
    longest: usize,
    frames: u64,
    /// Position in `words` where the next frame's begin.
    next: usize,
    next_frame: u64,
}

/// What frames of one length have in common.
struct Shape {
    len: usize,
    common: [u8; HEADER],
    /// Words in which any two of them differ.
    places: Vec<usize>,
}

/// Frames of one length, while they are gathered: the words of the first, and in which another differed from it.
struct Gathered {
    len: usize,
    first: Words,
    differs: [bool; WORDS],
}

impl Gathered {
    fn add(&mut self, frame: &Words) {
        let differing = self.first.iter().zip(frame).map(|(first, word)| first != word);
        self.differs.iter_mut().zip(differing).for_each(|(differs, now)| *differs |= now);
    }

    fn shape(self) -> Shape {
        let mut common = [0; HEADER];
        common.iter_mut().zip(self.first.as_flattened()).for_each(|(to, from)| *to = *from);
        let places = self.differs.iter().enumerate().filter_map(|(at, differs)| differs.then_some(at)).collect();
        Shape { len: self.len, common, places }
    }
}

impl Shape {
    /// Whether its frames have anything behind the first line.
    fn is_long(&self) -> bool {
        let behind = self.common.get(LINE..).unwrap_or_default();
        behind.iter().any(|byte| *byte != 0) || self.places.iter().any(|at| at * 8 >= LINE)
    }
}

impl Varying {
    /// The frames of a case.
    pub(super) fn new(traffic: &mut Traffic) -> Varying {
        let (mut frames, mut order) = (Vec::new(), Vec::new());
        let (mut gathered, mut known) = (Vec::<Gathered>::new(), HashMap::new());
        for n in 0..traffic.frames.max(1) {
            let mut bytes = [0; HEADER];
            let len = (traffic.frame)(n, &mut bytes);
            let (words, _) = bytes.as_chunks::<8>();
            let frame: Words = std::array::from_fn(|at| words.get(at).copied().unwrap_or_default());
            let at = *known.entry(len).or_insert_with(|| {
                gathered.push(Gathered { len, first: frame, differs: [false; WORDS] });
                gathered.len() - 1
            });
            if let Some(alike) = gathered.get_mut(at) {
                alike.add(&frame);
            }
            frames.push(frame);
            // There are fewer lengths than that.
            order.push(at as u16);
        }
        let shapes: Vec<Shape> = gathered.into_iter().map(Gathered::shape).collect();
        let of = |at: &u16| shapes.get(usize::from(*at)).map_or(&[][..], |shape| &shape.places);
        let own =
            |(frame, at): (&Words, &u16)| of(at).iter().filter_map(|at| frame.get(*at).copied()).collect::<Vec<_>>();
        let words = frames.iter().zip(&order).flat_map(own).collect();
        Varying {
            is_long: shapes.iter().any(Shape::is_long),
            longest: shapes.iter().map(|shape| shape.len).max().unwrap_or(0),
            order: if shapes.len() > 1 { order.into() } else { Arc::default() },
            shapes: shapes.into(),
            words,
            frames: frames.len() as u64,
            next: 0,
            next_frame: 0,
        }
    }

    /// The same frames, beginning behind `part` parts of `parts`, so that several queues do not go in step.
    pub(super) fn starting_at(&self, part: usize, parts: usize) -> Varying {
        let next_frame = self.frames * part as u64 / parts.max(1) as u64;
        let shapes = (0..next_frame).filter_map(|frame| shape_of(&self.shapes, &self.order, frame));
        Varying { next_frame, next: shapes.map(|shape| shape.places.len()).sum(), ..self.clone() }
    }

    /// Makes these packets the next frames, of whose headers the first `N` bytes are written. Returns their bytes together.
    #[inline(always)]
    fn renew<const N: usize>(&mut self, packets: &mut [Packet]) -> u64 {
        let Varying { shapes, order, words, frames, next, next_frame, .. } = self;
        // Nearly always all frames have one shape.
        let only = if let [shape] = &**shapes { Some(shape) } else { None };
        let mut bytes = 0;
        for packet in packets {
            let Some(shape) = only.or_else(|| shape_of(shapes, order, *next_frame)) else { break };
            let Shape { len, common, places } = shape;
            let Some(front) = common.first_chunk::<N>() else { break };
            // What differs in length is not filled up with zeroes: that would cost more than most functions do.
            let _fits = if only.is_some() { packet.renew(front, *len) } else { packet.renew_stale(front, *len) };
            let (header, _) = packet.window_mut::<N>(0).as_chunks_mut::<8>();
            for (at, word) in places.iter().zip(words.get(*next..).unwrap_or_default()) {
                if let Some(to) = header.get_mut(*at) {
                    *to = *word;
                }
            }
            bytes += *len as u64;
            *next += places.len();
            *next_frame += 1;
            if *next_frame >= *frames {
                (*next, *next_frame) = (0, 0);
            }
        }
        bytes
    }
}

/// The shape of a frame.
#[inline(always)]
fn shape_of<'a>(shapes: &'a [Shape], order: &[u16], frame: u64) -> Option<&'a Shape> {
    shapes.get(usize::from(order.get(frame as usize).copied().unwrap_or(0)))
}

impl Pattern for Varying {
    fn period(&self) -> Option<u64> {
        Some(self.frames)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    fn write(&mut self, _first: u64, packets: &mut [Packet]) -> u64 {
        // The source is not what is measured: it does not wait for buffers that were used long ago, nor does it matter to it what was
        // done to their packets.
        packets.iter().for_each(Packet::prefetch_header);
        packets.iter().for_each(|packet| prefetch_slice(packet.bytes(), HEADROOM.wrapping_sub(packet.headroom())));
        if self.is_long {
            let behind = |packet: &Packet| (HEADROOM + LINE).wrapping_sub(packet.headroom());
            packets.iter().for_each(|packet| prefetch_slice(packet.bytes(), behind(packet)));
            return self.renew::<HEADER>(packets);
        }
        self.renew::<LINE>(packets)
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{Burst, HeapPool, Pool};
    use weir_stage::Random;

    use super::*;

    /// What a case writes, frame by frame.
    type Make = fn(u64, &mut [u8; HEADER]) -> usize;

    fn traffic(frames: u64, make: Make) -> Traffic {
        Traffic { frame: Box::new(make), frames, check: Box::new(|_| Ok(())) }
    }

    /// The next `count` frames of a pattern, in buffers that hold other packets, some of them begun elsewhere.
    fn frames(pattern: &mut Varying, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
        let mut pool = HeapPool::new(64, weir_packet::DATA_ROOM);
        let mut out = Vec::new();
        while out.len() < count {
            let mut burst = Burst::new();
            assert!(pool.alloc_burst(random.below(64) as usize + 1, &mut burst));
            for packet in burst.packets_mut() {
                assert!(packet.fill(&vec![0xaa; 60 + random.below(1500) as usize]));
                assert!(packet.prepend(random.below(100) as usize) && packet.trim_front(random.below(60) as usize));
            }
            pattern.write(out.len() as u64, burst.packets_mut());
            out.extend(burst.packets().iter().map(|packet| packet.bytes().to_vec()));
            pool.free_burst(&mut burst);
        }
        out.truncate(count);
        out
    }

    /// Twice round and a bit, each frame is the one that the case made: its length, and the first bytes of it; the first of them are those behind
    /// `part` parts of four.
    fn round(all: u64, make: Make, part: usize) {
        let mut random = Random::new(part as u64 + 1);
        let mut pattern = Varying::new(&mut traffic(all, make)).starting_at(part, 4);
        assert_eq!(pattern.period(), Some(all));
        let first = all * part as u64 / 4;
        let mut longest = 0;
        for (n, frame) in frames(&mut pattern, 2 * all as usize + 7, &mut random).iter().enumerate() {
            let mut bytes = [0; HEADER];
            let len = make((first + n as u64) % all, &mut bytes);
            let known = len.min(if pattern.is_long { HEADER } else { LINE });
            assert_eq!((frame.len(), &frame[..known]), (len, &bytes[..known]), "frame {n}");
            longest = longest.max(len);
        }
        assert_eq!(pattern.longest(), longest);
    }

    fn mixed(part: u64, n: u64, bytes: &mut [u8; HEADER]) -> usize {
        let mut random = Random::new(n * 4 + part);
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        match n {
            // A kind of frames that is seldom, and of another length than others of its kind.
            n if n % 100 == 99 => {
                bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
                100 + random.below(1400) as usize
            }
            n if n % 1000 == 500 => {
                bytes[14..54].fill(7);
                98
            }
            _ => {
                bytes[66..70].copy_from_slice(&(random.next() as u32).to_be_bytes());
                bytes[74..76].copy_from_slice(&(random.next() as u16).to_be_bytes());
                82
            }
        }
    }

    #[test]
    fn what_comes_out_is_what_the_case_wrote() {
        for part in 0..4 {
            // All alike; of one length, with differences in the first line only, behind it only, and at its end.
            round(1, |_, bytes| (bytes[..60].fill(3), 60).1, part);
            round(300, |n, bytes| (bytes[30..34].copy_from_slice(&(n as u32).to_be_bytes()), 60).1, part);
            round(300, |n, bytes| (bytes[66..70].copy_from_slice(&(n as u32).to_be_bytes()), 82).1, part);
            round(300, |n, bytes| (bytes[120..128].copy_from_slice(&n.to_be_bytes()), 1514).1, part);
            round(300, |_, bytes| (bytes[100] = 1, 1514).1, part);
            // Of two lengths in turn, of every length, and a mix of kinds.
            round(2, |n, bytes| (bytes[14..20].fill(n as u8), [60, 1514][n as usize]).1, part);
            round(1455, |n, bytes| (bytes[..60].fill(n as u8), 60 + n as usize).1, part);
            round(3000, |n, bytes| mixed(0, n, bytes), part);
        }
    }

    #[test]
    fn what_does_not_vary_is_not_kept() {
        let one = Varying::new(&mut traffic(1000, |n, bytes| {
            bytes[..64].fill(9);
            bytes[26..30].copy_from_slice(&(n as u32).to_be_bytes());
            60
        }));
        // Bytes 24 to 31: one word of each frame, none of the second line, and no list of shapes.
        assert_eq!((one.words.len(), one.is_long, one.order.len()), (1000, false, 0));
        let mix = Varying::new(&mut traffic(3000, |n, bytes| mixed(1, n, bytes)));
        // The addresses and ports of most frames lie in two words (bytes 64 to 79).
        assert!(mix.is_long && mix.words.len() < 3000 * 3, "{}", mix.words.len());
    }
}
