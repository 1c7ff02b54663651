//! Leaving out of a program what is decided already.
//!
//! On each way through a program some of its questions were asked before: what a value is, or that it is not this or that, and what a register holds. So
//! ways lead past parts whose outcome is known. What a program answers and changes stays the same.

use std::collections::BTreeMap;

use crate::program::{End, Label, Op, Program, Read, Test, Value};

/// So many values are known at most on a way, and of each so many that it is not. What is not known is asked again.
const MOST_VALUES: usize = 64;
const MOST_NOT: usize = 32;

impl Program {
    /// The same program, without questions whose answer is known where they are asked.
    #[must_use]
    pub fn shortened(&self) -> Program {
        let mut program = self.clone();
        let needs = registers(self);
        // What is known where a block begins, on all ways that lead there.
        let mut known: BTreeMap<u32, Known> = BTreeMap::from([(self.entry, Known::default())]);
        // Blocks lead to lower ones only: by the time of a block all ways to it are known.
        while let Some((number, here)) = known.pop_last() {
            let Some(block) = program.blocks.get_mut(number as usize) else { continue };
            let mut go = |label: Label, then: Known| {
                let label = self.follow(label, &then);
                match known.get_mut(&label.0) {
                    Some(known) => known.keep(&then),
                    None => {
                        known.insert(label.0, then);
                    }
                }
                label
            };
            block.end = match block.end {
                End::Answer(answer) => End::Answer(answer),
                End::Branch(test, yes, no) => {
                    let [holds, fails] = [true, false].map(|holds| here.with(self, test, holds));
                    End::Branch(test, go(yes, holds), go(no, fails))
                }
                End::Read(read, register, there, beyond) => {
                    let after = here.after(&needs, read, register);
                    End::Read(read, register, go(there, after), go(beyond, here))
                }
            };
        }
        program
    }

    /// How many questions are asked and places read on the longest way.
    pub fn longest(&self) -> usize {
        let mut longest: Vec<usize> = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let ways = block.end.ways().map(|label| 1 + longest.get(label.0 as usize).copied().unwrap_or(0));
            longest.push(ways.max().unwrap_or(0));
        }
        longest.get(self.entry as usize).copied().unwrap_or(0)
    }

    /// Where a way leads in the end, if this is known.
    fn follow(&self, mut label: Label, known: &Known) -> Label {
        loop {
            let Some(block) = self.blocks.get(label.0 as usize) else { return label };
            let next = match block.end {
                End::Branch(test, yes, no) => known.decides(self, test).map(|holds| if holds { yes } else { no }),
                End::Read(read, register, there, _) => known.holds(read, register).then_some(there),
                End::Answer(_) => None,
            };
            let Some(next) = next else { return label };
            label = next;
        }
    }

    fn constant(&self, value: Value) -> Option<u64> {
        match self.ops.get(value.0 as usize) {
            Some(Op::Constant(number)) => Some(*number),
            _ => None,
        }
    }
}

/// Registers, a bit each.
type Registers = [u64; 4];

/// Whether a register is among these.
fn has(registers: Registers, register: u16) -> bool {
    registers.get(usize::from(register / 64)).is_some_and(|word| word >> (register % 64) & 1 != 0)
}

/// Of each value, the registers that it depends on.
fn registers(program: &Program) -> Vec<Registers> {
    let mut all: Vec<Registers> = Vec::with_capacity(program.ops.len());
    for op in &program.ops {
        let mut mine = Registers::default();
        if let Op::Register(number) = op
            && let Some(word) = mine.get_mut(usize::from(number / 64))
        {
            *word |= 1 << (number % 64);
        }
        for Value(needed) in op.needs() {
            let its = all.get(needed as usize).copied().unwrap_or_default();
            mine.iter_mut().zip(its).for_each(|(word, its)| *word |= its);
        }
        all.push(mine);
    }
    all
}

/// What is known of a value: from where to where it lies, and what it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
    not: Vec<u64>,
}

impl Range {
    const ALL: Range = Range { low: 0, high: u64::MAX, not: Vec::new() };

    fn may_be(&self, number: u64) -> bool {
        (self.low..=self.high).contains(&number) && !self.not.contains(&number)
    }

    /// What is known of a value that lies in one or the other.
    fn or(&self, other: &Range) -> Range {
        let mut not: Vec<u64> =
            self.not.iter().chain(&other.not).copied().filter(|n| !self.may_be(*n) && !other.may_be(*n)).collect();
        not.sort_unstable();
        not.dedup();
        Range { low: self.low.min(other.low), high: self.high.max(other.high), not }
    }
}

/// What is known on a way.
#[derive(Clone, Debug, Default)]
struct Known {
    values: BTreeMap<Value, Range>,
    /// What registers hold.
    read: BTreeMap<u16, Read>,
}

impl Known {
    fn of(&self, program: &Program, value: Value) -> Range {
        match program.constant(value) {
            Some(number) => Range { low: number, high: number, not: Vec::new() },
            None => self.values.get(&value).cloned().unwrap_or(Range::ALL),
        }
    }

    /// The answer of a test, if it is known.
    fn decides(&self, program: &Program, test: Test) -> Option<bool> {
        let [one, other] = test.values().map(|value| self.of(program, value));
        match test {
            Test::Same(a, b) if a == b => Some(true),
            Test::Same(..) if one.low == one.high && !other.may_be(one.low) => Some(false),
            Test::Same(..) if other.low == other.high && !one.may_be(other.low) => Some(false),
            Test::Same(..) => (one.low == one.high && other.low == other.high).then_some(one.low == other.low),
            Test::AtLeast(..) if one.low >= other.high => Some(true),
            Test::AtLeast(..) => (one.high < other.low).then_some(false),
        }
    }

    /// What is known once a test holds, or fails.
    fn with(&self, program: &Program, test: Test, holds: bool) -> Known {
        let mut known = self.clone();
        let [one, other] = test.values();
        let (value, number, is_first) = match (program.constant(one), program.constant(other)) {
            (None, Some(number)) => (one, number, true),
            (Some(number), None) => (other, number, false),
            _ => return known,
        };
        let mut range = known.of(program, value);
        match (test, holds, is_first) {
            (Test::Same(..), true, _) => (range.low, range.high) = (number, number),
            (Test::Same(..), false, _) if range.not.len() < MOST_NOT => range.not.push(number),
            (Test::Same(..), false, _) => {}
            (Test::AtLeast(..), true, true) => range.low = range.low.max(number),
            (Test::AtLeast(..), false, true) => range.high = range.high.min(number.saturating_sub(1)),
            (Test::AtLeast(..), true, false) => range.high = range.high.min(number),
            (Test::AtLeast(..), false, false) => range.low = range.low.max(number.saturating_add(1)),
        }
        if known.values.len() < MOST_VALUES || known.values.contains_key(&value) {
            known.values.insert(value, range);
        }
        known
    }

    fn holds(&self, read: Read, register: u16) -> bool {
        self.read.get(&register) == Some(&read)
    }

    /// What is known once this was read into a register: nothing more of values that depend on what it held.
    fn after(&self, needs: &[Registers], read: Read, register: u16) -> Known {
        let depends = |value: Value| needs.get(value.0 as usize).is_none_or(|registers| has(*registers, register));
        let mut known = self.clone();
        known.values.retain(|value, _| !depends(*value));
        known.read.retain(|_, read| !depends(read.at));
        known.read.remove(&register);
        if !depends(read.at) {
            known.read.insert(register, read);
        }
        known
    }

    /// Keeps what is known on another way, too.
    fn keep(&mut self, other: &Known) {
        self.read.retain(|register, read| other.holds(*read, *register));
        self.values.retain(|value, range| {
            let Some(known) = other.values.get(value) else { return false };
            *range = range.or(known);
            *range != Range::ALL
        });
    }
}
