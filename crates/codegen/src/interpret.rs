//! What programs mean.

use crate::program::{End, INPUTS, Op, Program, REGISTERS, RESULTS, Read, SLICES, Test, Value, WINDOW};

/// What a program looks at.
struct Sight<'a> {
    window: &'a mut [u8],
    results: &'a mut [u32],
    slices: [&'a [u8]; SLICES],
    inputs: [u64; INPUTS],
    data: &'a [u32],
}

impl Program {
    /// What it answers, what it changes, and what it hands on: its meaning, word by word. Words of data that are not there are zeroes, and slices are empty.
    pub fn interpret(
        &self,
        window: &mut [u8; WINDOW],
        inputs: [u64; INPUTS],
        data: &[u32],
        results: &mut [u32; RESULTS],
    ) -> u32 {
        self.carry_out(Sight { window, results, slices: [&[]; SLICES], inputs, data })
    }

    /// The same of a program that looks at slices: what it answers.
    pub fn interpret_slices(&self, slices: [&[u8]; SLICES], inputs: [u64; INPUTS]) -> u32 {
        self.carry_out(Sight { window: &mut [], results: &mut [], slices, inputs, data: &[] })
    }

    fn carry_out(&self, sight: Sight<'_>) -> u32 {
        let mut registers = [0; REGISTERS];
        let mut at = self.entry;
        loop {
            let Some(block) = self.blocks.get(at as usize) else { return 0 };
            let values = self.values(&sight, &registers);
            let value = |value: Value| values.get(value.0 as usize).copied().unwrap_or(0);
            for store in &block.stores {
                let bytes = value(store.value).to_be_bytes();
                let count = usize::from(store.count);
                let places = sight.window.iter_mut().skip(store.at.into()).take(count);
                places.zip(bytes.iter().skip(bytes.len() - count)).for_each(|(place, byte)| *place = *byte);
            }
            for result in &block.results {
                if let Some(place) = sight.results.get_mut(usize::from(result.word)) {
                    *place = value(result.value) as u32;
                }
            }
            at = match block.end {
                End::Answer(answer) => return answer,
                End::Branch(Test::Same(one, other), yes, no) => {
                    if value(one) == value(other) {
                        yes.0
                    } else {
                        no.0
                    }
                }
                End::Branch(Test::AtLeast(one, other), yes, no) => {
                    if value(one) >= value(other) {
                        yes.0
                    } else {
                        no.0
                    }
                }
                End::Read(read, register, there, beyond) => match read.of(&sight.slices, value(read.at)) {
                    Some(number) => {
                        if let Some(place) = registers.get_mut(usize::from(register)) {
                            *place = number;
                        }
                        there.0
                    }
                    None => beyond.0,
                },
            };
        }
    }

    /// All values.
    fn values(&self, sight: &Sight<'_>, registers: &[u64]) -> Vec<u64> {
        let mut values: Vec<u64> = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            let value = |value: Value| values.get(value.0 as usize).copied().unwrap_or(0);
            let shift = |bits: u64| u32::try_from(bits).unwrap_or(u32::MAX);
            values.push(match *op {
                Op::Constant(number) => number,
                Op::Input(number) => sight.inputs.get(usize::from(number)).copied().unwrap_or(0),
                Op::Data(number) => sight.data.get(number as usize).copied().unwrap_or(0).into(),
                Op::Bytes(at, count) => number(sight.window.iter().skip(at.into()).take(count.into())),
                Op::Register(number) => registers.get(usize::from(number)).copied().unwrap_or(0),
                Op::And(a, b) => value(a) & value(b),
                Op::Or(a, b) => value(a) | value(b),
                Op::Xor(a, b) => value(a) ^ value(b),
                Op::Add(a, b) => value(a).wrapping_add(value(b)),
                Op::Subtract(a, b) => value(a).wrapping_sub(value(b)),
                Op::Multiply(a, b) => value(a).wrapping_mul(value(b)),
                Op::Divide(a, b) => value(a).checked_div(value(b)).unwrap_or(0),
                Op::Remainder(a, b) => value(a).checked_rem(value(b)).unwrap_or(0),
                Op::Left(a, bits) => value(a) << bits,
                Op::Right(a, bits) => value(a) >> bits,
                Op::Swapped(a, count) => value(a).swap_bytes() >> (u64::BITS - 8 * u32::from(count).clamp(1, 8)),
                Op::LeftBy(a, b) => value(a).checked_shl(shift(value(b))).unwrap_or(0),
                Op::RightBy(a, b) => value(a).checked_shr(shift(value(b))).unwrap_or(0),
            });
        }
        values
    }
}

impl Read {
    /// What is there.
    fn of(self, slices: &[&[u8]; SLICES], at: u64) -> Option<u64> {
        let bytes = slices.get(usize::from(self.slice))?;
        let tail = bytes.get(usize::try_from(at).ok()?..)?;
        tail.get(..usize::from(self.count)).map(|bytes| number(bytes.iter()))
    }
}

/// The number that bytes are, the most significant first.
fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
