//! From programs to what Cranelift compiles.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, Variable};

use crate::program::{Block, End, Label, Op, Program, Read, Test, Value};

/// What compiled code is given: numbers and addresses. It is given a window with its data and the words beside the answer, or slices.
struct Given {
    window: Option<Window>,
    slices: Option<[Slice; 2]>,
    inputs: [ir::Value; 2],
}

/// Where the window, the data and the words beside the answer are.
#[derive(Clone, Copy)]
struct Window {
    window: ir::Value,
    data: ir::Value,
    results: ir::Value,
}

/// Where bytes begin, and how many there are.
#[derive(Clone, Copy)]
struct Slice {
    start: ir::Value,
    length: ir::Value,
}

/// Writes a program into a function that takes the window, the inputs, the data and the words beside the answer, and returns the answer.
pub(crate) fn lower(program: &Program, builder: &mut FunctionBuilder<'_>) {
    let entry = enter(builder);
    let &[window, first, second, data, results] = builder.block_params(entry) else { return };
    let window = Some(Window { window, data, results });
    write(program, &Given { window, slices: None, inputs: [first, second] }, entry, builder);
}

/// Writes a program into a function that takes two slices, each by where it begins and how long it is, and the inputs, and returns the answer.
pub(crate) fn lower_slices(program: &Program, builder: &mut FunctionBuilder<'_>) {
    let entry = enter(builder);
    let &[one, one_length, other, other_length, first, second] = builder.block_params(entry) else { return };
    let slices = [(one, one_length), (other, other_length)].map(|(start, length)| Slice { start, length });
    write(program, &Given { window: None, slices: Some(slices), inputs: [first, second] }, entry, builder);
}

/// The block that a function begins with.
fn enter(builder: &mut FunctionBuilder<'_>) -> ir::Block {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    entry
}

fn write(program: &Program, given: &Given, entry: ir::Block, builder: &mut FunctionBuilder<'_>) {
    builder.switch_to_block(entry);
    let registers = registers(program, builder);
    let mut first = entry;
    if !registers.is_empty() {
        first = builder.create_block();
        builder.ins().jump(first, &[]);
    }
    let mut blocks = BTreeMap::from([(program.entry, first)]);
    // Blocks lead to lower ones only, so that by the time of a block all are known that lead to it.
    for number in (0..=program.entry).rev() {
        // What nothing leads to is left out.
        let known = blocks.get(&number).copied().zip(program.blocks.get(number as usize));
        let Some((place, block)) = known else { continue };
        builder.switch_to_block(place);
        let mut made = Made { program, given, registers: &registers, values: BTreeMap::new() };
        made.block(block, builder, &mut blocks);
    }
    builder.seal_all_blocks();
}

/// The registers of a program, which are zeroes at first.
fn registers(program: &Program, builder: &mut FunctionBuilder<'_>) -> BTreeMap<u16, Variable> {
    let read = program.blocks.iter().filter_map(|block| match block.end {
        End::Read(_, register, ..) => Some(register),
        _ => None,
    });
    let numbers: BTreeSet<u16> = read.collect();
    let mut declare = |number| {
        let variable = builder.declare_var(types::I64);
        let zero = builder.ins().iconst(types::I64, 0);
        builder.def_var(variable, zero);
        (number, variable)
    };
    numbers.into_iter().map(&mut declare).collect()
}

/// The values of a block.
struct Made<'a> {
    program: &'a Program,
    given: &'a Given,
    registers: &'a BTreeMap<u16, Variable>,
    values: BTreeMap<u32, ir::Value>,
}

impl Made<'_> {
    fn block(&mut self, block: &Block, builder: &mut FunctionBuilder<'_>, blocks: &mut BTreeMap<u32, ir::Block>) {
        self.make(block.values(), builder);
        if let Some(window) = self.given.window {
            self.change(block, window, builder);
        }
        let [yes, no] = match block.end {
            End::Answer(answer) => {
                let answer = builder.ins().iconst(types::I32, i64::from(answer));
                builder.ins().return_(&[answer]);
                return;
            }
            End::Branch(_, yes, no) | End::Read(_, _, yes, no) => {
                [yes, no].map(|Label(label)| *blocks.entry(label).or_insert_with(|| builder.create_block()))
            }
        };
        match block.end {
            End::Branch(test, ..) => {
                let [one, other] = self.compared(test, builder);
                let holds = match test {
                    Test::Same(..) => IntCC::Equal,
                    Test::AtLeast(..) => IntCC::UnsignedGreaterThanOrEqual,
                };
                let holds = builder.ins().icmp(holds, one, other);
                builder.ins().brif(holds, yes, &[], no, &[]);
            }
            End::Read(read, register, ..) => self.read(read, register, [yes, no], builder),
            End::Answer(_) => {}
        }
    }

    /// What a test is of. Bytes that may be one number are not turned round for that: the number is.
    fn compared(&self, test: Test, builder: &mut FunctionBuilder<'_>) -> [ir::Value; 2] {
        if let Test::Same(bytes, number) = test
            && let (Some(Op::Bytes(_, count @ (2 | 4))), Some(number)) = (self.op(bytes), self.constant(number))
            && number >> (8 * count) == 0
        {
            let number = number.swap_bytes() >> (u64::BITS - 8 * u32::from(*count));
            let raw = self.swapped(bytes, *count, builder);
            return [raw, builder.ins().iconst(types::I64, number.cast_signed())];
        }
        test.values().map(|value| self.get(value, builder))
    }

    /// Changes the window, and hands words on.
    fn change(&mut self, block: &Block, given: Window, builder: &mut FunctionBuilder<'_>) {
        for store in &block.stores {
            let value = self.get(store.value, builder);
            let (value, at) = (narrow(builder, value, store.count), i32::from(store.at));
            builder.ins().store(flags(), value, given.window, at);
        }
        for result in &block.results {
            let value = self.get(result.value, builder);
            // Of a type of its own, so that a constant is part of the instruction.
            let value = builder.ins().ireduce(types::I32, value);
            builder.ins().store(flags(), value, given.results, 4 * i32::from(result.word));
        }
    }

    /// Reads what a slice has, and nothing else: the one place where an address is computed.
    fn read(&self, read: Read, register: u16, [there, beyond]: [ir::Block; 2], builder: &mut FunctionBuilder<'_>) {
        let slice = self.given.slices.and_then(|slices| slices.get(usize::from(read.slice)).copied());
        let (Some(slice), Some(register)) = (slice, self.registers.get(&register)) else {
            builder.ins().jump(beyond, &[]);
            return;
        };
        let at = self.get(read.at, builder);
        // `at + count <= length`, without a sum that could be too large: `at < length - (count - 1)`, where the difference is 0 if it were less.
        let more = builder.ins().iconst(types::I64, i64::from(read.count) - 1);
        let most = builder.ins().umax(slice.length, more);
        let places = builder.ins().isub(most, more);
        let fits = match self.constant(read.at).and_then(|at| at.checked_add(read.count.into())) {
            // The same where it is known that the sum is not too large.
            Some(end) => {
                let end = builder.ins().iconst(types::I64, end.cast_signed());
                builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, slice.length, end)
            }
            None => builder.ins().icmp(IntCC::UnsignedLessThan, at, places),
        };
        let load = builder.create_block();
        builder.ins().brif(fits, load, &[], beyond, &[]);
        builder.switch_to_block(load);
        let place = builder.ins().iadd(slice.start, at);
        let number = wide(builder, place, 0, read.count);
        builder.def_var(*register, number);
        builder.ins().jump(there, &[]);
    }

    fn op(&self, Value(number): Value) -> Option<&Op> {
        self.program.ops.get(number as usize)
    }

    /// What a value is, if that is known.
    fn constant(&self, value: Value) -> Option<u64> {
        match self.op(value) {
            Some(Op::Constant(constant)) => Some(*constant),
            _ => None,
        }
    }

    /// Makes values, and all that they need, in their order.
    fn make(&mut self, wanted: impl Iterator<Item = Value>, builder: &mut FunctionBuilder<'_>) {
        let mut needed: BTreeMap<u32, Op> = BTreeMap::new();
        let mut open: Vec<Value> = wanted.collect();
        while let Some(Value(number)) = open.pop() {
            let Some(op) = self.program.ops.get(number as usize) else { continue };
            if needed.insert(number, *op).is_none() {
                open.extend(op.needs());
            }
        }
        for (number, op) in needed {
            let value = self.value(op, builder);
            self.values.insert(number, value);
        }
    }

    /// A value that was made. There are all: a value that is used is one of the program, and what it refers to was there before it.
    fn get(&self, Value(number): Value, builder: &mut FunctionBuilder<'_>) -> ir::Value {
        let made = self.values.get(&number).copied();
        made.unwrap_or_else(|| builder.ins().iconst(types::I64, 0))
    }

    /// The last bytes of a value, 2 or 4, the other way round: those of the window as they stand there.
    fn swapped(&self, value: Value, count: u8, builder: &mut FunctionBuilder<'_>) -> ir::Value {
        match (self.op(value), self.given.window) {
            (Some(Op::Bytes(at, 2)), Some(given)) if count == 2 => {
                builder.ins().uload16(types::I64, flags(), given.window, i32::from(*at))
            }
            (Some(Op::Bytes(at, 4)), Some(given)) if count == 4 => {
                builder.ins().uload32(flags(), given.window, i32::from(*at))
            }
            _ => {
                let value = self.get(value, builder);
                let narrow = narrow(builder, value, count);
                builder.ins().uextend(types::I64, narrow)
            }
        }
    }

    fn value(&self, op: Op, builder: &mut FunctionBuilder<'_>) -> ir::Value {
        let nothing = |builder: &mut FunctionBuilder<'_>| builder.ins().iconst(types::I64, 0);
        match op {
            Op::Constant(number) => builder.ins().iconst(types::I64, number.cast_signed()),
            Op::Input(number) => self.given.inputs[usize::from(number) % self.given.inputs.len()],
            Op::Data(number) => {
                let Some(given) = self.given.window else { return nothing(builder) };
                // Nobody changes data while code runs.
                let at = 4 * number.cast_signed();
                builder.ins().uload32(flags().with_readonly(), given.data, at)
            }
            Op::Bytes(at, count) => match self.given.window {
                Some(given) => wide(builder, given.window, at.into(), count),
                None => nothing(builder),
            },
            Op::Register(number) => match self.registers.get(&number) {
                Some(register) => builder.use_var(*register),
                None => nothing(builder),
            },
            Op::Left(a, bits) => {
                let a = self.get(a, builder);
                builder.ins().ishl_imm_u(a, i64::from(bits))
            }
            Op::Right(a, bits) => {
                let a = self.get(a, builder);
                builder.ins().ushr_imm_u(a, i64::from(bits))
            }
            Op::Swapped(a, count) => self.swapped(a, count, builder),
            Op::And(a, b)
            | Op::Or(a, b)
            | Op::Xor(a, b)
            | Op::Add(a, b)
            | Op::Subtract(a, b)
            | Op::Multiply(a, b)
            | Op::Divide(a, b)
            | Op::Remainder(a, b)
            | Op::LeftBy(a, b)
            | Op::RightBy(a, b) => {
                let [a, b] = [a, b].map(|value| self.get(value, builder));
                combine(op, a, b, builder)
            }
        }
    }
}

/// What becomes of two values.
fn combine(op: Op, a: ir::Value, b: ir::Value, builder: &mut FunctionBuilder<'_>) -> ir::Value {
    match op {
        Op::And(..) => builder.ins().band(a, b),
        Op::Or(..) => builder.ins().bor(a, b),
        Op::Xor(..) => builder.ins().bxor(a, b),
        Op::Subtract(..) => builder.ins().isub(a, b),
        Op::Multiply(..) => builder.ins().imul(a, b),
        // Division by 0 would trap: 1 divides in its place, and 0 is answered.
        Op::Divide(..) | Op::Remainder(..) => {
            let [zero, one] = [0, 1].map(|number| builder.ins().iconst(types::I64, number));
            let is_zero = builder.ins().icmp(IntCC::Equal, b, zero);
            let by = builder.ins().select(is_zero, one, b);
            let number = match op {
                Op::Divide(..) => builder.ins().udiv(a, by),
                _ => builder.ins().urem(a, by),
            };
            builder.ins().select(is_zero, zero, number)
        }
        // Processors shift by the last six bits.
        Op::LeftBy(..) | Op::RightBy(..) => {
            let [zero, most] = [0, 64].map(|number| builder.ins().iconst(types::I64, number));
            let is_small = builder.ins().icmp(IntCC::UnsignedLessThan, b, most);
            let number = match op {
                Op::LeftBy(..) => builder.ins().ishl(a, b),
                _ => builder.ins().ushr(a, b),
            };
            builder.ins().select(is_small, number, zero)
        }
        _ => builder.ins().iadd(a, b),
    }
}

/// The number that 1, 2 or 4 bytes at a place are, the most significant first.
fn wide(builder: &mut FunctionBuilder<'_>, start: ir::Value, at: i32, count: u8) -> ir::Value {
    let kind = match count {
        1 => return builder.ins().uload8(types::I64, flags(), start, at),
        2 => types::I16,
        _ => types::I32,
    };
    let raw = builder.ins().load(kind, flags(), start, at);
    let value = builder.ins().bswap(raw);
    builder.ins().uextend(types::I64, value)
}

/// The last bytes of a value, as they stand in memory.
fn narrow(builder: &mut FunctionBuilder<'_>, value: ir::Value, count: u8) -> ir::Value {
    let narrow = match count {
        1 => return builder.ins().ireduce(types::I8, value),
        2 => builder.ins().ireduce(types::I16, value),
        _ => builder.ins().ireduce(types::I32, value),
    };
    builder.ins().bswap(narrow)
}

/// Window and data are there, and of slices only what was seen to be there is read: nothing traps.
fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}
