//! The packets of a batch as a script sees them: copied in before it is called, copied back if it has changed them.
//!
//! A copy costs less than one call of the script's accessors, and leaves nothing in the script's hands that lives in the
//! data path: what it keeps from one batch to the next is at worst stale bytes of its own.

use mlua::{Error, Lua, LuaString, Result, UserData, UserDataMethods, Value};
use weir_packet::{Batch, MAX_FRAME, Packet, Slot};
use weir_stage::Out;

use crate::stage::Ways;

/// What a script says about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Straight on.
    Out,
    /// Dropped.
    Drop,
    /// By an indexed way.
    Indexed(u8),
}

/// One packet.
#[derive(Debug)]
struct Frame {
    slot: Slot,
    port: u16,
    time: u64,
    answer: Answer,
    changed: bool,
    bytes: Vec<u8>,
}

/// The packets of one batch.
#[derive(Debug)]
pub(crate) struct Frames {
    frames: Vec<Frame>,
    /// Frames of earlier batches, whose memory is used again.
    spare: Vec<Frame>,
    now: u64,
    indexed: u8,
    /// Whether addresses are handed out.
    raw: bool,
}

impl Frames {
    /// For a stage with so many indexed ways.
    pub(crate) fn new(indexed: u8, raw: bool) -> Self {
        Self { frames: Vec::new(), spare: Vec::new(), now: 0, indexed, raw }
    }

    /// Takes the bytes of a batch.
    pub(crate) fn load(&mut self, batch: &mut Batch, now: u64) {
        self.now = now;
        self.spare.append(&mut self.frames);
        batch.each(|slot, packet, lanes| {
            let mut bytes = self.spare.pop().map(|frame| frame.bytes).unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(packet.bytes());
            let (port, time) = (lanes.port[slot], lanes.time[slot]);
            self.frames.push(Frame { slot, port, time, answer: Answer::Out, changed: false, bytes });
        });
    }

    /// Gives changed bytes back and answers for every packet.
    pub(crate) fn store(&self, batch: &mut Batch, out: &mut Out<'_>) {
        for frame in &self.frames {
            let copied = !frame.changed || batch.get_mut(frame.slot).is_some_and(|packet| frame.copy_to(packet));
            match (copied, frame.answer) {
                (false, _) => out.answer(frame.slot, Ways::Error),
                (true, Answer::Out) => {}
                (true, Answer::Drop) => out.answer(frame.slot, Ways::Dropped),
                (true, Answer::Indexed(way)) => out.answer_indexed(frame.slot, way),
            }
        }
    }

    fn frame(&mut self, number: usize) -> Result<&mut Frame> {
        let count = self.frames.len();
        let frame = number.checked_sub(1).and_then(|index| self.frames.get_mut(index));
        frame.ok_or_else(|| Error::runtime(format!("there is no packet {number}: the batch has 1 to {count}")))
    }
}

impl Frame {
    /// False if the packet has no room for so many bytes.
    fn copy_to(&self, packet: &mut Packet) -> bool {
        packet.set_len(self.bytes.len()) && {
            packet.bytes_mut().copy_from_slice(&self.bytes);
            true
        }
    }

    /// So many bytes at an offset.
    fn range(&mut self, offset: usize, count: usize) -> Result<&mut [u8]> {
        let length = self.bytes.len();
        let end = offset.checked_add(count);
        let range = end.and_then(|end| self.bytes.get_mut(offset..end));
        range.ok_or_else(|| {
            Error::runtime(format!("{count} bytes at offset {offset} lie outside the packet, which has {length}"))
        })
    }

    /// A big-endian number at an offset.
    fn number(&mut self, offset: usize, count: usize) -> Result<u64> {
        Ok(self.range(offset, count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Writes a big-endian number at an offset; a number that does not fit is an error.
    fn set_number(&mut self, offset: usize, count: usize, number: u64) -> Result<()> {
        let bytes = number.to_be_bytes();
        let (excess, low) = bytes.split_at(bytes.len().saturating_sub(count));
        if excess.iter().any(|byte| *byte != 0) {
            return Err(Error::runtime(format!("{number} does not fit in {count} bytes")));
        }
        self.range(offset, count)?.copy_from_slice(low);
        self.changed = true;
        Ok(())
    }
}

impl UserData for Frames {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("count", |_, frames, ()| Ok(frames.frames.len()));
        // Exact up to 2^53 ns, which is 104 days of the engine's clock.
        methods.add_method("now", |_, frames, ()| Ok(frames.now as f64));
        methods.add_method_mut("length", |_, frames, number| Ok(frames.frame(number)?.bytes.len()));
        methods.add_method_mut("port", |_, frames, number| Ok(frames.frame(number)?.port));
        methods.add_method_mut("time", |_, frames, number| Ok(frames.frame(number)?.time as f64));
        methods.add_method_mut("drop", |_, frames, number| {
            frames.frame(number)?.answer = Answer::Drop;
            Ok(())
        });
        methods.add_method_mut("way", |_, frames, (number, way): (usize, u8)| {
            let indexed = frames.indexed;
            if way >= indexed {
                return Err(Error::runtime(format!("there is no way {way}: the stage has {indexed}, counted from 0")));
            }
            frames.frame(number)?.answer = Answer::Indexed(way);
            Ok(())
        });
        add_numbers(methods);
        add_bytes(methods);
    }
}

/// `u8`, `set_u8` and so on.
fn add_numbers<M: UserDataMethods<Frames>>(methods: &mut M) {
    for (name, count) in [("u8", 1), ("u16", 2), ("u32", 4)] {
        methods.add_method_mut(name, move |_, frames, (number, offset): (usize, usize)| {
            frames.frame(number)?.number(offset, count)
        });
        methods.add_method_mut(
            format!("set_{name}"),
            move |_, frames, (number, offset, value): (usize, usize, u64)| {
                frames.frame(number)?.set_number(offset, count, value)
            },
        );
    }
}

fn add_bytes<M: UserDataMethods<Frames>>(methods: &mut M) {
    methods.add_method_mut("bytes", |lua: &Lua, frames, (number, offset, count): (usize, usize, usize)| {
        lua.create_string(frames.frame(number)?.range(offset, count)?)
    });
    methods.add_method_mut("set_bytes", |_, frames, (number, offset, bytes): (usize, usize, LuaString)| {
        let frame = frames.frame(number)?;
        let bytes = bytes.as_bytes();
        frame.range(offset, bytes.len())?.copy_from_slice(&bytes);
        frame.changed = true;
        Ok(())
    });
    methods.add_method_mut("set_length", |_, frames, (number, length): (usize, usize)| {
        if length > MAX_FRAME {
            return Err(Error::runtime(format!("a packet has at most {MAX_FRAME} bytes, not {length}")));
        }
        let frame = frames.frame(number)?;
        frame.bytes.resize(length, 0);
        frame.changed = true;
        Ok(())
    });
    methods.add_method_mut("pointer", |_, frames, number| {
        if !frames.raw {
            return Err(Error::runtime("addresses are for scripts that may use ffi"));
        }
        let frame = frames.frame(number)?;
        frame.changed = true;
        Ok(Value::LightUserData(mlua::LightUserData(frame.bytes.as_mut_ptr().cast())))
    });
}
