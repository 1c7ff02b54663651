//! From programs to what Cranelift compiles.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;

use crate::program::{Block, End, Label, Op, Program, Test, Value};

/// What compiled code is given: where the window, the data and the words beside the answer are, and the inputs.
struct Given {
    window: ir::Value,
    data: ir::Value,
    results: ir::Value,
    inputs: [ir::Value; 2],
}

/// Writes a program into a function that takes the window, the inputs, the data and the words beside the answer, and returns the answer.
pub(crate) fn lower(program: &Program, builder: &mut FunctionBuilder<'_>) {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    let &[window, first, second, data, results] = builder.block_params(entry) else { return };
    let given = Given { window, data, results, inputs: [first, second] };
    let mut blocks = BTreeMap::from([(program.entry, entry)]);
    // Blocks lead to lower ones only, so that by the time of a block all are known that lead to it.
    for number in (0..=program.entry).rev() {
        // What nothing leads to is left out.
        let known = blocks.get(&number).copied().zip(program.blocks.get(number as usize));
        let Some((place, block)) = known else { continue };
        builder.switch_to_block(place);
        let mut made = Made { program, given: &given, values: BTreeMap::new() };
        made.block(block, builder, &mut blocks);
    }
    builder.seal_all_blocks();
}

/// The values of a block.
struct Made<'a> {
    program: &'a Program,
    given: &'a Given,
    values: BTreeMap<u32, ir::Value>,
}

impl Made<'_> {
    fn block(&mut self, block: &Block, builder: &mut FunctionBuilder<'_>, blocks: &mut BTreeMap<u32, ir::Block>) {
        let handed = block.results.iter().map(|result| result.value);
        let used = block.stores.iter().map(|store| store.value).chain(handed);
        let tested = if let End::Branch(test, ..) = block.end { test.values().to_vec() } else { Vec::new() };
        self.make(used.chain(tested), builder);
        for store in &block.stores {
            let value = self.get(store.value, builder);
            let (value, at) = (narrow(builder, value, store.count), i32::from(store.at));
            builder.ins().store(flags(), value, self.given.window, at);
        }
        for result in &block.results {
            let value = self.get(result.value, builder);
            builder.ins().istore32(flags(), value, self.given.results, 4 * i32::from(result.word));
        }
        match block.end {
            End::Answer(answer) => {
                let answer = builder.ins().iconst(types::I32, i64::from(answer));
                builder.ins().return_(&[answer]);
            }
            End::Branch(test, yes, no) => {
                let [one, other] = test.values().map(|value| self.get(value, builder));
                let holds = match test {
                    Test::Same(..) => IntCC::Equal,
                    Test::AtLeast(..) => IntCC::UnsignedGreaterThanOrEqual,
                };
                let holds = builder.ins().icmp(holds, one, other);
                let [yes, no] =
                    [yes, no].map(|Label(label)| *blocks.entry(label).or_insert_with(|| builder.create_block()));
                builder.ins().brif(holds, yes, &[], no, &[]);
            }
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

    fn value(&self, op: Op, builder: &mut FunctionBuilder<'_>) -> ir::Value {
        match op {
            Op::Constant(number) => builder.ins().iconst(types::I64, number.cast_signed()),
            Op::Input(number) => self.given.inputs[usize::from(number) % self.given.inputs.len()],
            Op::Data(number) => {
                // Nobody changes data while code runs.
                let at = 4 * number.cast_signed();
                builder.ins().uload32(flags().with_readonly(), self.given.data, at)
            }
            Op::Bytes(at, count) => {
                let (window, at) = (self.given.window, i32::from(at));
                match count {
                    1 => builder.ins().uload8(types::I64, flags(), window, at),
                    2 => {
                        let raw = builder.ins().load(types::I16, flags(), window, at);
                        let value = builder.ins().bswap(raw);
                        builder.ins().uextend(types::I64, value)
                    }
                    _ => {
                        let raw = builder.ins().load(types::I32, flags(), window, at);
                        let value = builder.ins().bswap(raw);
                        builder.ins().uextend(types::I64, value)
                    }
                }
            }
            Op::And(a, b) => {
                let [a, b] = [a, b].map(|value| self.get(value, builder));
                builder.ins().band(a, b)
            }
            Op::Or(a, b) => {
                let [a, b] = [a, b].map(|value| self.get(value, builder));
                builder.ins().bor(a, b)
            }
            Op::Xor(a, b) => {
                let [a, b] = [a, b].map(|value| self.get(value, builder));
                builder.ins().bxor(a, b)
            }
            Op::Add(a, b) => {
                let [a, b] = [a, b].map(|value| self.get(value, builder));
                builder.ins().iadd(a, b)
            }
            Op::Left(a, bits) => {
                let a = self.get(a, builder);
                builder.ins().ishl_imm_u(a, i64::from(bits))
            }
            Op::Right(a, bits) => {
                let a = self.get(a, builder);
                builder.ins().ushr_imm_u(a, i64::from(bits))
            }
        }
    }
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

/// Window and data are there: nothing traps.
fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}
