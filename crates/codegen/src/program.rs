//! Programs: what they are made of, and what they mean.

use std::collections::HashMap;

use crate::fault::Fault;

/// How many bytes of a packet a program sees, from its start. They are there whatever the packet's length, which is for the program to compare with.
pub const WINDOW: usize = 128;

/// How many numbers a program is given beside.
pub const INPUTS: usize = 2;

/// How many words a program may hand on beside its answer.
pub const RESULTS: usize = 32;

/// The most words of data.
pub const MOST_DATA: usize = 1 << 12;

/// How many slices of bytes a program may look at instead of a window.
pub const SLICES: usize = 2;

/// How many registers a program may read into.
pub const REGISTERS: usize = 256;

/// The most values and blocks: what has more is no small program, and takes long to compile.
pub(crate) const MOST_VALUES: usize = 1 << 14;
pub(crate) const MOST_BLOCKS: usize = 1 << 14;

/// A number of 64 bits in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

/// A part of a program that others lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub(crate) u32);

/// How a value comes about. What it refers to was there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Constant(u64),
    /// A number that is given beside the window.
    Input(u8),
    /// A word of data.
    Data(u32),
    /// 1, 2 or 4 bytes of the window, the most significant first.
    Bytes(u8, u8),
    /// What was read into a register last; 0 before.
    Register(u16),
    And(Value, Value),
    Or(Value, Value),
    Xor(Value, Value),
    Add(Value, Value),
    Subtract(Value, Value),
    Multiply(Value, Value),
    /// By 0: 0.
    Divide(Value, Value),
    Remainder(Value, Value),
    /// Shifted to the left and to the right by less than 64.
    Left(Value, u8),
    Right(Value, u8),
    /// The same by a value. By 64 or more: 0.
    LeftBy(Value, Value),
    RightBy(Value, Value),
    /// The last 2 or 4 bytes of a value, the other way round.
    Swapped(Value, u8),
}

impl Op {
    /// What it refers to.
    pub(crate) fn needs(self) -> impl Iterator<Item = Value> {
        let needs = match self {
            Op::Constant(_) | Op::Input(_) | Op::Data(_) | Op::Bytes(..) | Op::Register(_) => [None, None],
            Op::And(a, b) | Op::Or(a, b) | Op::Xor(a, b) => [Some(a), Some(b)],
            Op::Add(a, b) | Op::Subtract(a, b) | Op::Multiply(a, b) => [Some(a), Some(b)],
            Op::Divide(a, b) | Op::Remainder(a, b) | Op::LeftBy(a, b) | Op::RightBy(a, b) => [Some(a), Some(b)],
            Op::Left(a, _) | Op::Right(a, _) | Op::Swapped(a, _) => [Some(a), None],
        };
        needs.into_iter().flatten()
    }
}

/// Bytes of the window that change: at a place, so many, to a value's last ones, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) at: u8,
    pub(crate) count: u8,
    pub(crate) value: Value,
}

/// A word that is handed on beside the answer: which, and the value whose last 32 bits it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Given {
    pub(crate) word: u8,
    pub(crate) value: Value,
}

/// What is asked of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Whether they are the same.
    Same(Value, Value),
    /// Whether the first is at least the second, both without a sign.
    AtLeast(Value, Value),
}

impl Test {
    pub(crate) const fn values(self) -> [Value; 2] {
        match self {
            Test::Same(one, other) | Test::AtLeast(one, other) => [one, other],
        }
    }
}

/// Bytes of a slice: in which, where, and 1, 2 or 4 of them, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub(crate) slice: u8,
    pub(crate) at: Value,
    pub(crate) count: u8,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Answer(u32),
    /// Goes on with the first if the test holds, with the second if not: blocks that were there before.
    Branch(Test, Label, Label),
    /// Reads into a register and goes on with the first if the bytes are there, with the second, and nothing read, if not.
    Read(Read, u16, Label, Label),
}

impl End {
    /// Where it goes on.
    pub(crate) fn ways(self) -> impl Iterator<Item = Label> {
        let ways = match self {
            End::Answer(_) => [None, None],
            End::Branch(_, one, other) | End::Read(_, _, one, other) => [Some(one), Some(other)],
        };
        ways.into_iter().flatten()
    }

    /// The values that it depends on.
    pub(crate) fn needs(self) -> impl Iterator<Item = Value> {
        let needs = match self {
            End::Answer(_) => [None, None],
            End::Branch(test, ..) => test.values().map(Some),
            End::Read(read, ..) => [Some(read.at), None],
        };
        needs.into_iter().flatten()
    }
}

/// All values are found first, then bytes are changed and words handed on, then it ends; tests are of the values before the change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) stores: Vec<Store>,
    pub(crate) results: Vec<Given>,
    pub(crate) end: End,
}

impl Block {
    /// The values that are used in it.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> {
        let handed = self.results.iter().map(|result| result.value);
        self.stores.iter().map(|store| store.value).chain(handed).chain(self.end.needs())
    }
}

/// Makes a program, from its ends to its beginning: a block leads only to blocks that there are already, so that every way through it ends.
///
/// What is wrong is told at the [end](Builder::finish).
#[derive(Clone, Debug, Default)]
pub struct Builder {
    program: Program,
    /// Values that there are: what is asked for again is the same.
    known: HashMap<Op, Value>,
    /// The same of blocks.
    known_blocks: HashMap<Block, Label>,
    fault: Option<Fault>,
}

/// A program that decides about a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) blocks: Vec<Block>,
    /// The block that it begins with.
    pub(crate) entry: u32,
    /// How many words of data it sees.
    pub(crate) data: u32,
    /// Whether it looks at a window, its data or the words beside the answer.
    pub(crate) has_window: bool,
    /// Whether it looks at slices.
    pub(crate) has_slices: bool,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Builder {
        Builder::default()
    }

    fn wrong(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn value(&mut self, op: Op) -> Value {
        if let Some(known) = self.known.get(&op) {
            return *known;
        }
        let number = self.program.ops.len();
        if op.needs().any(|value| value.0 as usize >= number) {
            self.wrong(Fault::Stranger);
            return Value(0);
        }
        if number >= MOST_VALUES {
            self.wrong(Fault::TooLarge);
            return Value(0);
        }
        self.program.ops.push(op);
        let value = Value(number as u32);
        self.known.insert(op, value);
        value
    }

    /// Whether so many bytes there are inside the window.
    fn window(&mut self, at: usize, count: usize) -> (u8, u8) {
        if !matches!(count, 1 | 2 | 4) || at > WINDOW - count {
            self.wrong(Fault::Window { at, count });
            return (0, 1);
        }
        self.program.has_window = true;
        (at as u8, count as u8)
    }

    /// A number.
    pub fn constant(&mut self, number: u64) -> Value {
        self.value(Op::Constant(number))
    }

    /// A number that is given beside the window.
    pub fn input(&mut self, number: usize) -> Value {
        if number >= INPUTS {
            self.wrong(Fault::Input(number));
            return self.constant(0);
        }
        self.value(Op::Input(number as u8))
    }

    /// There are so many words of data, whether they are looked at or not.
    pub fn have_data(&mut self, words: usize) {
        if words > MOST_DATA {
            self.wrong(Fault::Data(words));
            return;
        }
        self.program.has_window = true;
        self.program.data = self.program.data.max(words as u32);
    }

    /// A word of the data.
    pub fn data(&mut self, number: usize) -> Value {
        if number >= MOST_DATA {
            self.wrong(Fault::Data(number));
            return self.constant(0);
        }
        let number = number as u32;
        self.program.has_window = true;
        self.program.data = self.program.data.max(number + 1);
        self.value(Op::Data(number))
    }

    /// 1, 2 or 4 bytes of the window, the most significant first.
    pub fn bytes(&mut self, at: usize, count: usize) -> Value {
        let (at, count) = self.window(at, count);
        self.value(Op::Bytes(at, count))
    }

    /// The last 2 or 4 bytes of a value, the other way round. Bytes that are swapped when they are read, and again when they are written, cost nothing for either:
    /// so they stand in memory.
    pub fn swapped(&mut self, value: Value, count: usize) -> Value {
        if !matches!(count, 2 | 4) {
            self.wrong(Fault::Swapped(count));
            return self.constant(0);
        }
        self.value(Op::Swapped(value, count as u8))
    }

    /// The bits that both have.
    pub fn and(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::And(one, other))
    }

    /// The bits that one of them has.
    pub fn or(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Or(one, other))
    }

    /// The bits that only one of them has.
    pub fn xor(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Xor(one, other))
    }

    /// The sum; what is more than 64 bits is lost.
    pub fn add(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Add(one, other))
    }

    /// The difference; what is less than 0 is more by 2^64.
    pub fn subtract(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Subtract(one, other))
    }

    /// The product; what is more than 64 bits is lost.
    pub fn multiply(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Multiply(one, other))
    }

    /// The quotient without a sign; 0 where it is divided by 0.
    pub fn divide(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Divide(one, other))
    }

    /// What is left by the division; 0 where it is divided by 0.
    pub fn remainder(&mut self, one: Value, other: Value) -> Value {
        self.value(Op::Remainder(one, other))
    }

    /// Shifted to the left by a value; 0 if by 64 or more.
    pub fn left_by(&mut self, value: Value, bits: Value) -> Value {
        self.value(Op::LeftBy(value, bits))
    }

    /// Shifted to the right by a value; 0 if by 64 or more.
    pub fn right_by(&mut self, value: Value, bits: Value) -> Value {
        self.value(Op::RightBy(value, bits))
    }

    /// What was read into a register last; 0 if nothing was.
    pub fn register(&mut self, number: usize) -> Value {
        let number = self.checked_register(number);
        self.value(Op::Register(number))
    }

    fn checked_register(&mut self, number: usize) -> u16 {
        if number >= REGISTERS {
            self.wrong(Fault::Register(number));
            return 0;
        }
        self.program.has_slices = true;
        number as u16
    }

    fn shift(&mut self, bits: u32) -> u8 {
        if bits >= u64::BITS {
            self.wrong(Fault::Shift(bits));
            return 0;
        }
        bits as u8
    }

    /// Shifted to the left.
    pub fn left(&mut self, value: Value, bits: u32) -> Value {
        let bits = self.shift(bits);
        self.value(Op::Left(value, bits))
    }

    /// Shifted to the right.
    pub fn right(&mut self, value: Value, bits: u32) -> Value {
        let bits = self.shift(bits);
        self.value(Op::Right(value, bits))
    }

    fn block(&mut self, stores: Vec<Store>, results: Vec<Given>, end: End) -> Label {
        let block = Block { stores, results, end };
        if let Some(known) = self.known_blocks.get(&block) {
            return *known;
        }
        let number = self.program.blocks.len();
        let values = self.program.ops.len();
        if end.ways().any(|label| label.0 as usize >= number) || block.values().any(|value| value.0 as usize >= values)
        {
            self.wrong(Fault::Stranger);
            return Label(0);
        }
        if number >= MOST_BLOCKS {
            self.wrong(Fault::TooLarge);
            return Label(0);
        }
        let label = Label(number as u32);
        self.known_blocks.insert(block.clone(), label);
        self.program.blocks.push(block);
        label
    }

    /// An end: the answer.
    pub fn answer(&mut self, answer: u32) -> Label {
        self.block(Vec::new(), Vec::new(), End::Answer(answer))
    }

    /// An end that changes bytes of the window before: at a place, so many, 1, 2 or 4, to what the value ends with. All values are of the window
    /// as it was.
    pub fn change_and_answer(&mut self, changes: &[(usize, usize, Value)], answer: u32) -> Label {
        self.change_give_and_answer(changes, &[], answer)
    }

    /// An end that hands on words beside the answer: which, and the value whose last 32 bits it becomes. Others stay as they are.
    pub fn give_and_answer(&mut self, words: &[(usize, Value)], answer: u32) -> Label {
        self.change_give_and_answer(&[], words, answer)
    }

    /// An end that does both. What is handed on is of the window as it was, too.
    pub fn change_give_and_answer(
        &mut self,
        changes: &[(usize, usize, Value)],
        words: &[(usize, Value)],
        answer: u32,
    ) -> Label {
        let (mut stores, mut results) = (Vec::new(), Vec::new());
        for (at, count, value) in changes {
            let (at, count) = self.window(*at, *count);
            stores.push(Store { at, count, value: *value });
        }
        for (word, value) in words {
            if *word >= RESULTS {
                self.wrong(Fault::Result(*word));
                continue;
            }
            self.program.has_window = true;
            results.push(Given { word: *word as u8, value: *value });
        }
        self.block(stores, results, End::Answer(answer))
    }

    /// A part that goes on with `yes` if the test holds, and else with `no`.
    pub fn branch(&mut self, test: Test, yes: Label, no: Label) -> Label {
        self.block(Vec::new(), Vec::new(), End::Branch(test, yes, no))
    }

    /// A part that reads 1, 2 or 4 bytes of a slice into a register, the most significant first, and goes on with `there` if the slice has them, and
    /// else with `beyond`.
    pub fn read(
        &mut self,
        (slice, at, count): (usize, Value, usize),
        register: usize,
        there: Label,
        beyond: Label,
    ) -> Label {
        let register = self.checked_register(register);
        if slice >= SLICES {
            self.wrong(Fault::Slice(slice));
            return Label(0);
        }
        if !matches!(count, 1 | 2 | 4) {
            self.wrong(Fault::Count(count));
            return Label(0);
        }
        let read = Read { slice: slice as u8, at, count: count as u8 };
        self.block(Vec::new(), Vec::new(), End::Read(read, register, there, beyond))
    }

    /// The program that begins with this part.
    ///
    /// # Errors
    ///
    /// The first thing that was wrong.
    pub fn finish(mut self, entry: Label) -> Result<Program, Fault> {
        if entry.0 as usize >= self.program.blocks.len() {
            self.wrong(Fault::Stranger);
        }
        if self.program.has_window && self.program.has_slices {
            self.wrong(Fault::Mixed);
        }
        self.program.entry = entry.0;
        self.fault.map_or(Ok(self.program), Err)
    }
}

impl Program {
    /// How many words of data it sees.
    pub fn data(&self) -> usize {
        self.data as usize
    }
}
