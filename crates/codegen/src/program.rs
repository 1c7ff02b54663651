//! Programs: what they are made of, and what they mean.

use std::collections::HashMap;
use std::fmt;

/// How many bytes of a packet a program sees, from its start. They are there whatever the packet's length, which is for the program to compare with.
pub const WINDOW: usize = 128;

/// How many numbers a program is given beside.
pub const INPUTS: usize = 2;

/// How many words a program may hand on beside its answer.
pub const RESULTS: usize = 32;

/// The most words of data.
pub const MOST_DATA: usize = 1 << 12;

/// The most values and blocks: what has more is no small program, and takes long to compile.
const MOST_VALUES: usize = 1 << 14;
const MOST_BLOCKS: usize = 1 << 12;

/// A number of 64 bits in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    And(Value, Value),
    Or(Value, Value),
    Xor(Value, Value),
    Add(Value, Value),
    /// Shifted to the left and to the right by less than 64.
    Left(Value, u8),
    Right(Value, u8),
}

impl Op {
    /// What it refers to.
    pub(crate) fn needs(self) -> impl Iterator<Item = Value> {
        let needs = match self {
            Op::Constant(_) | Op::Input(_) | Op::Data(_) | Op::Bytes(..) => [None, None],
            Op::And(a, b) | Op::Or(a, b) | Op::Xor(a, b) | Op::Add(a, b) => [Some(a), Some(b)],
            Op::Left(a, _) | Op::Right(a, _) => [Some(a), None],
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

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Answer(u32),
    /// Goes on with the first if the test holds, with the second if not: blocks that were there before.
    Branch(Test, Label, Label),
}

/// All values are found first, then bytes are changed and words handed on, then it ends; tests are of the values before the change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) stores: Vec<Store>,
    pub(crate) results: Vec<Given>,
    pub(crate) end: End,
}

/// Why something is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bytes outside the window, or another number of them than 1, 2 or 4.
    Window {
        /// Where they begin.
        at: usize,
        /// How many.
        count: usize,
    },
    /// No such input.
    Input(usize),
    /// No such word beside the answer.
    Result(usize),
    /// More data than [`MOST_DATA`] words.
    Data(usize),
    /// A shift by 64 or more.
    Shift(u32),
    /// A value or a label of another program.
    Stranger,
    /// More values or blocks than a program may have.
    TooLarge,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Window { at, count } => {
                write!(f, "{count} bytes at {at}: a program sees 1, 2 or 4 bytes at a time within the first {WINDOW}")
            }
            Fault::Input(number) => write!(f, "input {number}: there are {INPUTS}, from 0 on"),
            Fault::Result(number) => write!(f, "word {number} beside the answer: there are {RESULTS}, from 0 on"),
            Fault::Data(number) => write!(f, "word {number} of the data: there are {MOST_DATA} at most, from 0 on"),
            Fault::Shift(bits) => write!(f, "a shift by {bits}: 63 is the most"),
            Fault::Stranger => f.write_str("a value or a label of another program"),
            Fault::TooLarge => write!(f, "more than {MOST_VALUES} values or {MOST_BLOCKS} blocks"),
        }
    }
}

impl std::error::Error for Fault {}

/// Makes a program, from its ends to its beginning: a block leads only to blocks that there are already, so that every way through it ends.
///
/// What is wrong is told at the [end](Builder::finish).
#[derive(Clone, Debug, Default)]
pub struct Builder {
    program: Program,
    /// Values that there are: what is asked for again is the same.
    known: HashMap<Op, Value>,
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
        self.program.data = self.program.data.max(words as u32);
    }

    /// A word of the data.
    pub fn data(&mut self, number: usize) -> Value {
        if number >= MOST_DATA {
            self.wrong(Fault::Data(number));
            return self.constant(0);
        }
        let number = number as u32;
        self.program.data = self.program.data.max(number + 1);
        self.value(Op::Data(number))
    }

    /// 1, 2 or 4 bytes of the window, the most significant first.
    pub fn bytes(&mut self, at: usize, count: usize) -> Value {
        let (at, count) = self.window(at, count);
        self.value(Op::Bytes(at, count))
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
        let number = self.program.blocks.len();
        let values = self.program.ops.len();
        let handed = results.iter().map(|result| result.value);
        let mut used: Vec<Value> = stores.iter().map(|store| store.value).chain(handed).collect();
        if let End::Branch(test, yes, no) = end {
            used.extend(test.values());
            if [yes, no].iter().any(|label| label.0 as usize >= number) {
                self.wrong(Fault::Stranger);
                return Label(0);
            }
        }
        if used.iter().any(|value| value.0 as usize >= values) {
            self.wrong(Fault::Stranger);
            return Label(0);
        }
        if number >= MOST_BLOCKS {
            self.wrong(Fault::TooLarge);
            return Label(0);
        }
        self.program.blocks.push(Block { stores, results, end });
        Label(number as u32)
    }

    /// An end: the answer.
    pub fn answer(&mut self, answer: u32) -> Label {
        self.block(Vec::new(), Vec::new(), End::Answer(answer))
    }

    /// An end that changes bytes of the window before: at a place, so many, 1, 2 or 4, to what the value ends with. All values are of the window
    /// as it was.
    pub fn change_and_answer(&mut self, changes: &[(usize, usize, Value)], answer: u32) -> Label {
        let mut stores = Vec::new();
        for (at, count, value) in changes {
            let (at, count) = self.window(*at, *count);
            stores.push(Store { at, count, value: *value });
        }
        self.block(stores, Vec::new(), End::Answer(answer))
    }

    /// An end that hands on words beside the answer: which, and the value whose last 32 bits it becomes. Others stay as they are.
    pub fn give_and_answer(&mut self, words: &[(usize, Value)], answer: u32) -> Label {
        let mut results = Vec::new();
        for (word, value) in words {
            if *word >= RESULTS {
                self.wrong(Fault::Result(*word));
                continue;
            }
            results.push(Given { word: *word as u8, value: *value });
        }
        self.block(Vec::new(), results, End::Answer(answer))
    }

    /// A part that goes on with `yes` if the test holds, and else with `no`.
    pub fn branch(&mut self, test: Test, yes: Label, no: Label) -> Label {
        self.block(Vec::new(), Vec::new(), End::Branch(test, yes, no))
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
        self.program.entry = entry.0;
        self.fault.map_or(Ok(self.program), Err)
    }
}

impl Program {
    /// How many words of data it sees.
    pub fn data(&self) -> usize {
        self.data as usize
    }

    /// What it answers, what it changes, and what it hands on: its meaning, word by word. Words of data that are not there are zeroes.
    pub fn interpret(
        &self,
        window: &mut [u8; WINDOW],
        inputs: [u64; INPUTS],
        data: &[u32],
        results: &mut [u32; RESULTS],
    ) -> u32 {
        let mut at = self.entry;
        loop {
            let Some(block) = self.blocks.get(at as usize) else { return 0 };
            let values = self.values(window, inputs, data);
            let value = |value: Value| values.get(value.0 as usize).copied().unwrap_or(0);
            for store in &block.stores {
                let bytes = value(store.value).to_be_bytes();
                let count = usize::from(store.count);
                let places = window.iter_mut().skip(store.at.into()).take(count);
                places.zip(bytes.iter().skip(bytes.len() - count)).for_each(|(place, byte)| *place = *byte);
            }
            for result in &block.results {
                if let Some(place) = results.get_mut(usize::from(result.word)) {
                    *place = value(result.value) as u32;
                }
            }
            let (test, yes, no) = match block.end {
                End::Answer(answer) => return answer,
                End::Branch(test, yes, no) => (test, yes, no),
            };
            let holds = match test {
                Test::Same(one, other) => value(one) == value(other),
                Test::AtLeast(one, other) => value(one) >= value(other),
            };
            at = if holds { yes.0 } else { no.0 };
        }
    }

    /// All values.
    fn values(&self, window: &[u8; WINDOW], inputs: [u64; INPUTS], data: &[u32]) -> Vec<u64> {
        let mut values: Vec<u64> = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            let value = |value: Value| values.get(value.0 as usize).copied().unwrap_or(0);
            values.push(match *op {
                Op::Constant(number) => number,
                Op::Input(number) => inputs.get(usize::from(number)).copied().unwrap_or(0),
                Op::Data(number) => data.get(number as usize).copied().unwrap_or(0).into(),
                Op::Bytes(at, count) => {
                    let bytes = window.iter().skip(at.into()).take(count.into());
                    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
                }
                Op::And(a, b) => value(a) & value(b),
                Op::Or(a, b) => value(a) | value(b),
                Op::Xor(a, b) => value(a) ^ value(b),
                Op::Add(a, b) => value(a).wrapping_add(value(b)),
                Op::Left(a, bits) => value(a) << bits,
                Op::Right(a, bits) => value(a) >> bits,
            });
        }
        values
    }
}
