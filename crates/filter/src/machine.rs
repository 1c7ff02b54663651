//! Tests as machine code.
//!
//! A test becomes a program that reads numbers of a frame into registers and decides, and the program becomes code. It does what [`Test::holds`] does, which serves where there is none.

use std::collections::HashMap;

use weir_codegen::{Builder, Fault, Label, Program, SliceCode, Test as Question, Value as Made};

use crate::ast::{Join, Operator, Relation, Width};
use crate::test::{ADDRESSES, Frame, Place, Test, Value};

/// What code answers.
const NO: u32 = 0;
const YES: u32 = 1;
/// That it does not know.
const ASK: u32 = 2;

/// The slices that code looks at: a frame, and the same from behind the tags that are passed over, so that what stands at a place behind the
/// addresses stands there whether there are tags or not.
const FRONT: usize = 0;
const BEHIND: usize = 1;

/// The inputs: the length of the frame, and the bytes of the tags.
const LENGTH: usize = 0;
const TAGS: usize = 1;

/// Code that puts a test to frames.
#[derive(Debug)]
pub(crate) struct Machine(SliceCode);

impl Machine {
    /// Makes the code; none where the test is too long, or where no code can be made.
    pub(crate) fn of(test: &Test) -> Option<Machine> {
        let program = program(test).ok()?.shortened();
        SliceCode::compile(&program).ok().map(Machine)
    }

    /// Whether a frame passes; nothing if that has to be found out the slow way.
    #[inline]
    pub(crate) fn passes(&self, frame: Frame<'_>) -> Option<bool> {
        let Frame { bytes, length, tags } = frame;
        // Code computes places of 33 bits, where tests have 32.
        if u32::try_from(bytes.len()).is_err() {
            return None;
        }
        let behind = bytes.get(tags as usize..).unwrap_or_default();
        match self.0.run([bytes, behind], [length.into(), tags.into()]) {
            NO => Some(false),
            YES => Some(true),
            _ => None,
        }
    }
}

/// The program of a test.
fn program(test: &Test) -> Result<Program, Fault> {
    let mut builder = Builder::new();
    let [no, yes, ask] = [NO, YES, ASK].map(|answer| builder.answer(answer));
    let mut writer = Writer { builder, no, ask, registers: HashMap::new() };
    let entry = writer.test(test, yes, no);
    writer.builder.finish(entry)
}

/// What has to be done, in this order, before a value is there.
type Steps = Vec<Step>;

enum Step {
    /// Reads bytes into a register: of which slice, where, and how many. A frame that lacks them is rejected.
    Read(usize, Made, u32, usize),
    /// Rejects a frame for which this is 0.
    IsNot0(Made),
    /// Leaves it to the slow way if this place is not behind the addresses and tags are passed over.
    IsBehind(Made),
}

struct Writer {
    builder: Builder,
    no: Label,
    ask: Label,
    /// Which register holds what.
    registers: HashMap<(usize, Made, u32), usize>,
}

impl Writer {
    /// Where a test goes on with `yes` if it holds, and with `no` if not.
    fn test(&mut self, test: &Test, yes: Label, no: Label) -> Label {
        match test {
            Test::Field { place, width, mask, relation, value } => {
                let mut steps = Steps::new();
                let found = self.load(*place, &Value::Number(0), *width, &mut steps);
                let found = if *mask == u32::MAX { found } else { self.masked(found, *mask) };
                let value = self.builder.constant((*value).into());
                let test = self.relation(found, *relation, value, yes, no);
                self.behind(steps, test)
            }
            Test::Relation { left, relation, right } => {
                let mut steps = Steps::new();
                let left = self.value(left, &mut steps);
                let right = self.value(right, &mut steps);
                let test = self.relation(left, *relation, right, yes, no);
                self.behind(steps, test)
            }
            Test::Not(inner) => self.test(inner, no, yes),
            Test::Chain { first, rest } => {
                let (mut yes, mut no) = (yes, no);
                for (join, test) in rest.iter().rev() {
                    match join {
                        Join::And => yes = self.test(test, yes, no),
                        Join::Or => no = self.test(test, yes, no),
                    }
                }
                self.test(first, yes, no)
            }
        }
    }

    /// Steps, and then what they are for.
    fn behind(&mut self, steps: Steps, then: Label) -> Label {
        steps.into_iter().rev().fold(then, |then, step| match step {
            Step::Read(slice, at, bytes, register) => {
                self.builder.read((slice, at, bytes as usize), register, then, self.no)
            }
            Step::IsNot0(value) => {
                let zero = self.builder.constant(0);
                self.builder.branch(Question::Same(value, zero), self.no, then)
            }
            Step::IsBehind(place) => {
                let (tags, zero) = (self.builder.input(TAGS), self.builder.constant(0));
                let untagged = self.builder.branch(Question::Same(tags, zero), then, self.ask);
                let addresses = self.builder.constant(ADDRESSES.into());
                self.builder.branch(Question::AtLeast(place, addresses), then, untagged)
            }
        })
    }

    fn relation(&mut self, left: Made, relation: Relation, right: Made, yes: Label, no: Label) -> Label {
        let (question, yes, no) = match relation {
            Relation::Equal => (Question::Same(left, right), yes, no),
            Relation::NotEqual => (Question::Same(left, right), no, yes),
            Relation::Less => (Question::AtLeast(left, right), no, yes),
            Relation::LessOrEqual => (Question::AtLeast(right, left), yes, no),
            Relation::Greater => (Question::AtLeast(right, left), no, yes),
            Relation::GreaterOrEqual => (Question::AtLeast(left, right), yes, no),
        };
        self.builder.branch(question, yes, no)
    }

    fn masked(&mut self, value: Made, mask: u32) -> Made {
        let mask = self.builder.constant(mask.into());
        self.builder.and(value, mask)
    }

    /// The value of a number, less than 2^32.
    fn value(&mut self, value: &Value, steps: &mut Steps) -> Made {
        match value {
            Value::Number(number) => self.builder.constant((*number).into()),
            Value::Length => self.builder.input(LENGTH),
            Value::Load { place, index, width } => self.load(*place, index, *width, steps),
            Value::Negate(inner) => {
                let inner = self.value(inner, steps);
                let zero = self.builder.constant(0);
                let negated = self.builder.subtract(zero, inner);
                self.masked(negated, u32::MAX)
            }
            Value::Binary { operator, left, right } => {
                let left = self.value(left, steps);
                let right = self.value(right, steps);
                self.combine(*operator, left, right, steps)
            }
        }
    }

    fn combine(&mut self, operator: Operator, left: Made, right: Made, steps: &mut Steps) -> Made {
        let builder = &mut self.builder;
        let whole = match operator {
            Operator::And => return builder.and(left, right),
            Operator::Or => return builder.or(left, right),
            Operator::Xor => return builder.xor(left, right),
            Operator::ShiftRight => return builder.right_by(left, right),
            Operator::Divide | Operator::Remainder => {
                steps.push(Step::IsNot0(right));
                return match operator {
                    Operator::Divide => builder.divide(left, right),
                    _ => builder.remainder(left, right),
                };
            }
            Operator::Add => builder.add(left, right),
            Operator::Subtract => builder.subtract(left, right),
            Operator::Multiply => builder.multiply(left, right),
            Operator::ShiftLeft => builder.left_by(left, right),
        };
        self.masked(whole, u32::MAX)
    }

    /// The number at a place, moved by an index.
    fn load(&mut self, place: Place, index: &Value, width: Width, steps: &mut Steps) -> Made {
        let index = match index {
            Value::Number(number) => Ok(*number),
            index => Err(self.value(index, steps)),
        };
        let at = match (place, index) {
            (Place::Frame(offset), Ok(index)) => {
                return self.at_offset(u64::from(offset) + u64::from(index), width.bytes(), steps);
            }
            (Place::Frame(offset), Err(index)) => self.moved(offset, index),
            (Place::BehindIpv4 { header, offset }, index) => {
                let first = self.at_offset(header.into(), 1, steps);
                let words = self.masked(first, 0xf);
                let length = self.builder.left(words, 2);
                let index = match index {
                    Ok(0) => length,
                    Ok(index) => {
                        let index = self.builder.constant(index.into());
                        self.wrapping_sum(length, index)
                    }
                    Err(index) => self.wrapping_sum(length, index),
                };
                self.moved(offset, index)
            }
        };
        // What is that far behind the start is behind the addresses.
        if !matches!((place, index), (Place::BehindIpv4 { offset: ADDRESSES.., .. }, Ok(0))) {
            steps.push(Step::IsBehind(at));
        }
        self.read(BEHIND, at, width.bytes(), steps)
    }

    /// A sum of 33 bits: no frame that code looks at reaches what has more than 32.
    fn moved(&mut self, offset: u32, index: Made) -> Made {
        let offset = self.builder.constant(offset.into());
        self.builder.add(offset, index)
    }

    fn wrapping_sum(&mut self, one: Made, other: Made) -> Made {
        let sum = self.builder.add(one, other);
        self.masked(sum, u32::MAX)
    }

    /// The number of so many bytes at a place that is known.
    fn at_offset(&mut self, offset: u64, bytes: u32, steps: &mut Steps) -> Made {
        let addresses = u64::from(ADDRESSES);
        let slice = if offset < addresses { FRONT } else { BEHIND };
        if offset >= addresses || offset + u64::from(bytes) <= addresses {
            let at = self.builder.constant(offset);
            return self.read(slice, at, bytes, steps);
        }
        // Part of it stands before tags, and part behind.
        let mut number = self.builder.constant(0);
        for offset in (offset..).take(bytes as usize) {
            let byte = self.at_offset(offset, 1, steps);
            let before = self.builder.left(number, 8);
            number = self.builder.or(before, byte);
        }
        number
    }

    fn read(&mut self, slice: usize, at: Made, bytes: u32, steps: &mut Steps) -> Made {
        let next = self.registers.len();
        let register = *self.registers.entry((slice, at, bytes)).or_insert(next);
        steps.push(Step::Read(slice, at, bytes, register));
        self.builder.register(register)
    }
}
