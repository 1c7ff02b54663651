//! A template that writes packets: whole lines are copied, then what varies is put in, and checksums follow.

use weir_measure::signature::{Form, Signer};
use weir_packet::{BATCH, Packet};

use crate::config::RowOrder;
use crate::layers::{Built, LengthPlace, Part, Place, SumPlace};
use crate::load::CHECK_SEQUENCE;
use crate::ports;
use crate::random::Random;
use crate::sequence::Sequence;
use crate::size::{Drawing, Sizes};
use crate::table::{Columns, Cursor, Taken};

/// A cache line.
const LINE: usize = 64;

/// Positions from which a window of 8 bytes is reached without looking at the packet's length.
const NEAR: usize = 120;

/// Positions at which a window may begin at all.
const REACH: usize = 128;

/// A field on its way.
#[derive(Debug, Clone)]
struct Varying {
    at: usize,
    width: usize,
    shift: u32,
    /// Whether it fills its word.
    whole: bool,
    source: Source,
    /// Which checksums cover it.
    sums: Vec<usize>,
}

/// Where the values of a field come from.
#[derive(Debug, Clone)]
enum Source {
    Sequence(Sequence),
    /// A word of a row.
    Word(usize),
    /// A random port of the set in a word of a row.
    Port(usize, Random),
}

impl Source {
    fn of(place: &Place, taken: Option<Taken>, random: Random) -> Source {
        match taken {
            Some(Taken::Word(word)) => Source::Word(word),
            Some(Taken::Port(word)) => Source::Port(word, random),
            None => Source::Sequence(Sequence::of(&place.values, place.part, random)),
        }
    }

    #[inline]
    fn fill(&mut self, cursor: Option<&Cursor>, values: &mut [u64]) {
        match (self, cursor) {
            (Source::Sequence(sequence), _) => sequence.fill(values),
            (Source::Word(word), Some(cursor)) => cursor.fill(*word, values),
            (Source::Port(word, random), Some(cursor)) => {
                cursor.fill(*word, values);
                let mut own = *random;
                values.iter_mut().for_each(|value| *value = ports::pick(*value, own.next()));
                *random = own;
            }
            (Source::Word(_) | Source::Port(..), None) => {}
        }
    }
}

/// A checksum that has to be made for each packet.
#[derive(Debug, Clone, Copy)]
struct Summed {
    at: usize,
    never_zero: bool,
}

/// What frames of one length have in common beside the lines of all.
#[derive(Debug, Clone)]
struct Shape {
    /// Bytes, without the check sequence.
    len: usize,
    /// Lines that hold so many.
    lines: usize,
    /// Words that differ from shape to shape: lengths, and checksums that follow from nothing else.
    words: Vec<(usize, [u8; 2])>,
    /// For each checksum that has to be made: the sum over everything that does not vary.
    bases: Vec<u64>,
    /// Signs these packets. What a signature covers sums up to zero, so that no checksum changes with it.
    signer: Option<Signer>,
}

/// Writes the packets of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    lines: Vec<[u8; LINE]>,
    shapes: Vec<Shape>,
    drawing: Drawing,
    varying: Vec<Varying>,
    /// The rows of a table that packets take.
    cursor: Option<Cursor>,
    summed: Vec<Summed>,
    /// Working memory: the sums of each packet, per checksum.
    sums: Vec<[u64; BATCH]>,
}

impl Template {
    /// A template of these layers and lengths. `signature`: the form, and the stream's number.
    pub(crate) fn new(
        built: &Built,
        sizes: &Sizes,
        columns: Option<(&Columns, RowOrder)>,
        signature: Option<(Form, u16)>,
        seed: (u64, u64),
    ) -> Template {
        let longest = usize::from(sizes.longest()).saturating_sub(CHECK_SEQUENCE as usize).max(built.bytes.len());
        let mut lines = vec![[0; LINE]; longest.div_ceil(LINE)];
        lines.as_flattened_mut().iter_mut().zip(&built.bytes).for_each(|(to, from)| *to = *from);
        let is_made = |sum: &SumPlace| built.places.iter().any(|place| sum.covers(place.at));
        let (made, fixed): (Vec<SumPlace>, Vec<SumPlace>) = built.sums.iter().cloned().partition(is_made);
        let lengths = sizes.lengths.iter().map(|&length| usize::from(length) - CHECK_SEQUENCE as usize);
        let mut shapes: Vec<Shape> = lengths.map(|len| shape(&lines, len, &built.lengths, &fixed, &made)).collect();
        if let [shape] = shapes.as_mut_slice() {
            // Of one length: the template can hold everything.
            let bytes = lines.as_flattened_mut();
            shape.words.drain(..).for_each(|(at, word)| put(bytes, at, word));
        }
        if let Some((form, stream)) = signature {
            for shape in &mut shapes {
                let data = lines.as_flattened().get(built.bytes.len()..shape.len - form.len()).unwrap_or_default();
                shape.signer = Some(Signer::new(form, stream, data));
            }
        }
        let random = |n: u64| Random::new(seed.0, seed.1.wrapping_mul(256).wrapping_add(n));
        let varying = built.places.iter().enumerate().map(|(at, place)| {
            // Both halves of a value are drawn alike.
            let n = if place.part == Part::Lower { at } else { at + 1 };
            let taken = columns.and_then(|(columns, _)| columns.taken(at));
            varying(place, &made, Source::of(place, taken, random(n as u64)))
        });
        let varying = varying.collect();
        // There are fewer fields than that.
        let cursor = columns.map(|(columns, order)| Cursor::new(columns, order, random(255)));
        let summed: Vec<Summed> = made.iter().map(|sum| Summed { at: sum.at, never_zero: sum.never_zero }).collect();
        let drawing = Drawing::new(sizes, Random::new(seed.0, seed.1.wrapping_mul(256)));
        let sums = vec![[0; BATCH]; summed.len()];
        Template { lines, shapes, drawing, varying, cursor, summed, sums }
    }

    /// The position of the next packet's shape. Every packet takes one, before it is written.
    #[inline(always)]
    pub(crate) fn next_shape(&mut self) -> usize {
        if self.drawing.is_fixed() { 0 } else { self.drawing.next() }
    }

    /// Whether frames have several lengths.
    pub(crate) fn has_shapes(&self) -> bool {
        !self.drawing.is_fixed()
    }

    /// Bytes of so many packets of these shapes.
    #[inline]
    pub(crate) fn bytes(&self, shapes: &[u16; BATCH], count: usize) -> u64 {
        if let [shape] = self.shapes.as_slice() {
            return (shape.len * count) as u64;
        }
        let len = |shape: &u16| self.shapes.get(usize::from(*shape)).map_or(0, |shape| shape.len as u64);
        shapes.iter().take(count).map(len).sum()
    }

    /// The mean length of its frames, with check sequences, bytes.
    pub(crate) fn mean_length(&self) -> f64 {
        let places = self.drawing.period();
        let length =
            |place: &u16| self.shapes.get(usize::from(*place)).map_or(0, |shape| shape.len as u64 + CHECK_SEQUENCE);
        places.iter().map(length).sum::<u64>() as f64 / places.len().max(1) as f64
    }

    /// Changes the bytes of all packets from here on; for what no checksum covers.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        let lines = self.lines.as_flattened_mut();
        if let Some(to) = lines.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    /// Writes at most a batch of packets, of these shapes. False if one does not fit its buffer.
    #[inline]
    pub(crate) fn write(&mut self, packets: &mut [Packet], shapes: &[u16; BATCH]) -> bool {
        let fits = if let [shape] = self.shapes.as_slice() {
            stamp_all(&self.lines, shape, packets)
        } else {
            self.stamp_each(packets, shapes)
        };
        if fits && !self.varying.is_empty() {
            self.vary(packets, shapes);
        }
        fits
    }

    /// Signs packets that were just written: the first has this number, all were sent at `nanos`.
    #[inline]
    pub(crate) fn sign(&self, packets: &mut [Packet], shapes: &[u16; BATCH], sequence: u64, nanos: u64) {
        if let [Shape { signer: Some(signer), len, .. }] = self.shapes.as_slice()
            && signer.form() == Form::Full
            && *len - Form::Full.len() < REACH
        {
            let at = *len - Form::Full.len();
            for (packet, sequence) in packets.iter_mut().zip(sequence..) {
                signer.write_full(packet.window_mut(at), sequence, nanos);
            }
            return;
        }
        for ((packet, shape), sequence) in packets.iter_mut().zip(shapes).zip(sequence..) {
            let signer = self.shapes.get(usize::from(*shape)).and_then(|shape| shape.signer.as_ref());
            // It fits: the form was chosen for the shortest frame.
            signer.map(|signer| signer.write(packet.bytes_mut(), sequence, nanos));
        }
    }

    fn stamp_each(&self, packets: &mut [Packet], shapes: &[u16; BATCH]) -> bool {
        let mut fits = true;
        for (packet, shape) in packets.iter_mut().zip(shapes) {
            let Some(shape) = self.shapes.get(usize::from(*shape)) else { return false };
            let Some(lines) = self.lines.get(..shape.lines) else { return false };
            fits &= packet.stamp(lines, shape.len);
            for (at, word) in &shape.words {
                put_word(packet, *at, *word);
            }
        }
        fits
    }

    #[inline]
    fn vary(&mut self, packets: &mut [Packet], shapes: &[u16; BATCH]) {
        let count = packets.len().min(BATCH);
        for (n, sums) in self.sums.iter_mut().enumerate() {
            if let [shape] = self.shapes.as_slice() {
                sums.fill(shape.bases.get(n).copied().unwrap_or(0));
            } else {
                for (sum, shape) in sums.iter_mut().zip(shapes) {
                    let shape = self.shapes.get(usize::from(*shape));
                    *sum = shape.and_then(|shape| shape.bases.get(n)).copied().unwrap_or(0);
                }
            }
        }
        let mut values = [0; BATCH];
        for varying in &mut self.varying {
            let Some(values) = values.get_mut(..count) else { return };
            varying.source.fill(self.cursor.as_ref(), values);
            values.iter_mut().for_each(|value| *value <<= varying.shift);
            for (packet, value) in packets.iter_mut().zip(values.iter()) {
                put_value(packet, varying, *value);
            }
            for n in &varying.sums {
                let Some(sums) = self.sums.get_mut(*n) else { continue };
                for (sum, value) in sums.iter_mut().zip(values.iter()) {
                    *sum += (value >> 32) + (value & 0xffff_ffff);
                }
            }
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.pass(count);
        }
        for (summed, sums) in self.summed.iter().zip(&self.sums) {
            // In two loops: the first has no memory but arrays, so that it is done by vectors.
            let zero = if summed.never_zero { 0xffff } else { 0 };
            let words: [u16; BATCH] = std::array::from_fn(|n| match !fold(sums.get(n).copied().unwrap_or(0)) {
                0 => zero,
                word => word,
            });
            for (packet, word) in packets.iter_mut().zip(words) {
                put_word(packet, summed.at, word.to_be_bytes());
            }
        }
    }
}

/// Stamps packets that are all of one length.
#[inline(always)]
fn stamp_all(lines: &[[u8; LINE]], shape: &Shape, packets: &mut [Packet]) -> bool {
    let mut fits = true;
    // Another core may have read them last, and then each takes a trip to its cache.
    packets.iter().for_each(Packet::prefetch_data);
    // One line is by far the most frequent case, and the one that is asked to be fast.
    if let [line] = lines {
        let line = [*line];
        packets.iter_mut().for_each(|packet| fits &= packet.stamp(&line, shape.len));
    } else {
        packets.iter_mut().for_each(|packet| fits &= packet.stamp(lines, shape.len));
    }
    fits
}

fn varying(place: &Place, made: &[SumPlace], source: Source) -> Varying {
    let sums = made.iter().enumerate().filter(|(_, sum)| sum.covers(place.at)).map(|(n, _)| n).collect();
    let whole = place.bits as usize == place.width * 8;
    Varying { at: place.at, width: place.width, shift: place.shift, whole, source, sums }
}

/// Writes a value into its word.
#[inline(always)]
fn put_value(packet: &mut Packet, varying: &Varying, value: u64) {
    let Varying { at, width, whole, .. } = *varying;
    if at >= NEAR {
        return put_far(packet, at, width, value);
    }
    match (width, whole) {
        (2, true) => *packet.window_mut(at) = (value as u16).to_be_bytes(),
        (4, true) => *packet.window_mut(at) = (value as u32).to_be_bytes(),
        (8, true) => *packet.window_mut(at) = value.to_be_bytes(),
        (2, _) => join(packet.window_mut::<2>(at), (value as u16).to_be_bytes()),
        (4, _) => join(packet.window_mut::<4>(at), (value as u32).to_be_bytes()),
        _ => join(packet.window_mut::<8>(at), value.to_be_bytes()),
    }
}

#[inline(always)]
fn join<const N: usize>(to: &mut [u8; N], bytes: [u8; N]) {
    to.iter_mut().zip(bytes).for_each(|(to, from)| *to |= from);
}

/// The same behind the windows.
#[cold]
fn put_far(packet: &mut Packet, at: usize, width: usize, value: u64) {
    let bytes = value.to_be_bytes();
    let word = bytes.get(8 - width.min(8)..).unwrap_or_default();
    if let Some(to) = packet.bytes_mut().get_mut(at..at + width) {
        to.iter_mut().zip(word).for_each(|(to, from)| *to |= *from);
    }
}

/// Writes two bytes.
#[inline(always)]
fn put_word(packet: &mut Packet, at: usize, word: [u8; 2]) {
    if at < NEAR {
        *packet.window_mut(at) = word;
    } else {
        put(packet.bytes_mut(), at, word);
    }
}

fn put(bytes: &mut [u8], at: usize, word: [u8; 2]) {
    if let Some(to) = bytes.get_mut(at..at + 2) {
        to.copy_from_slice(&word);
    }
}

/// The sum of 16-bit words with the carries brought round (RFC 1071), of a sum of words of any even length.
#[inline(always)]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The sum of the words of `bytes`, a last odd byte filled up with zero.
fn sum_of(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(*pair.first().unwrap_or(&0)) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// The shape of frames of one length.
fn shape(lines: &[[u8; LINE]], len: usize, lengths: &[LengthPlace], fixed: &[SumPlace], made: &[SumPlace]) -> Shape {
    let bytes = lines.as_flattened().get(..len).unwrap_or_default();
    let mut bytes = bytes.to_vec();
    let mut words = Vec::new();
    for length in lengths {
        let word = ((len - length.from) as u16).to_be_bytes();
        put(&mut bytes, length.at, word);
        words.push((length.at, word));
    }
    for sum in fixed {
        let folded = !fold(base(&bytes, sum));
        let word = if sum.never_zero && folded == 0 { 0xffff } else { folded }.to_be_bytes();
        put(&mut bytes, sum.at, word);
        words.push((sum.at, word));
    }
    let bases = made.iter().map(|sum| base(&bytes, sum)).collect();
    Shape { len, lines: len.div_ceil(LINE), words, bases, signer: None }
}

/// The sum over what a checksum covers, itself still zero.
fn base(bytes: &[u8], sum: &SumPlace) -> u64 {
    let end = sum.to.unwrap_or(bytes.len());
    let own = sum_of(bytes.get(sum.from..end).unwrap_or_default());
    let pseudo = sum.pseudo.map_or(0, |(from, to)| {
        sum_of(bytes.get(from..to).unwrap_or_default()) + u64::from(sum.protocol) + (end - sum.from) as u64
    });
    own + pseudo
}
