//! Machine code of programs that look at slices, against what they mean; and shortened programs against whole ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{KINDS, combine};
use proptest::prelude::*;
use weir_codegen::{Builder, Code, Fault, INPUTS, Label, Program, REGISTERS, SLICES, SliceCode, Test, Value};

/// A step of making a program; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Constant(u64),
    Input(usize),
    Register(usize),
    Two(u8, usize, usize),
    Shift(bool, usize, u32),
    Branch(bool, [usize; 4]),
    Read((usize, usize, usize), usize, [usize; 2]),
    Answer(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let count = prop::sample::select(vec![1_usize, 2, 4]);
    let number = prop_oneof![any::<u64>(), 0_u64..24, Just(u64::MAX), (u64::MAX - 4)..u64::MAX];
    prop_oneof![
        2 => number.prop_map(Step::Constant),
        1 => (0..INPUTS).prop_map(Step::Input),
        2 => (0_usize..4).prop_map(Step::Register),
        3 => (0..KINDS, any::<usize>(), any::<usize>()).prop_map(|(kind, one, other)| Step::Two(kind, one, other)),
        1 => (any::<bool>(), any::<usize>(), 0_u32..64).prop_map(|(left, value, bits)| Step::Shift(left, value, bits)),
        3 => (any::<bool>(), any::<[usize; 4]>()).prop_map(|(same, which)| Step::Branch(same, which)),
        4 => ((0..SLICES, any::<usize>(), count), 0_usize..4, any::<[usize; 2]>())
            .prop_map(|(read, register, ways)| Step::Read(read, register, ways)),
        1 => any::<u32>().prop_map(Step::Answer),
    ]
}

fn program(steps: &[Step]) -> Program {
    let mut builder = Builder::new();
    let mut values: Vec<Value> = vec![builder.constant(3), builder.register(0)];
    let mut labels: Vec<Label> = vec![builder.answer(9)];
    for step in steps {
        let value = |which: usize| values[which % values.len()];
        // Mostly what was made last, so that ways are long.
        let label = |which: usize| labels[labels.len() - 1 - (which % labels.len()).min(which % 3)];
        let made = match step {
            Step::Constant(number) => builder.constant(*number),
            Step::Input(number) => builder.input(*number),
            Step::Register(number) => builder.register(*number),
            Step::Two(kind, one, other) => combine(&mut builder, *kind, value(*one), value(*other)),
            Step::Shift(true, one, bits) => builder.left(value(*one), *bits),
            Step::Shift(false, one, bits) => builder.right(value(*one), *bits),
            Step::Branch(same, [one, other, yes, no]) => {
                let (one, other) = (value(*one), value(*other));
                let test = if *same { Test::Same(one, other) } else { Test::AtLeast(one, other) };
                labels.push(builder.branch(test, label(*yes), label(*no)));
                continue;
            }
            Step::Read((slice, at, count), register, [there, beyond]) => {
                labels.push(builder.read((*slice, value(*at), *count), *register, label(*there), label(*beyond)));
                continue;
            }
            Step::Answer(answer) => {
                labels.push(builder.answer(*answer));
                continue;
            }
        };
        values.push(made);
    }
    builder.finish(*labels.last().unwrap()).unwrap()
}

/// A program in layers of three blocks, each of which leads to blocks of the layer below: ways part and meet all the time, ask about two registers
/// again and again, and read them anew, also from places that they name.
fn layered(blocks: &[[u8; 6]]) -> Program {
    let mut builder = Builder::new();
    let numbers = [0, 1, 2, 3, 4].map(|number| builder.constant(number));
    let registers = [0, 1].map(|number| builder.register(number));
    let pick = |from: &[Value], which: u8| from[usize::from(which) % from.len()];
    let mut below: Vec<Label> = (0..3).map(|answer| builder.answer(answer)).collect();
    for layer in blocks.chunks(3) {
        let lead = |which: u8| below[usize::from(which) % below.len()];
        let made = layer.iter().map(|[kind, one, other, third, yes, no]| {
            let (register, number) = (pick(&registers, *one), pick(&numbers, *other));
            let test = match kind % 5 {
                0 => Test::Same(register, number),
                1 => Test::AtLeast(register, number),
                2 => Test::AtLeast(number, register),
                kind => {
                    let place = if kind == 3 { number } else { register };
                    return builder.read((0, place, 1), usize::from(third % 2), lead(*yes), lead(*no));
                }
            };
            builder.branch(test, lead(*yes), lead(*no))
        });
        below = made.collect();
    }
    builder.finish(below[0]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, source_file: Some(file!()), ..ProptestConfig::default() })]

    /// Of all slices of four bytes below 5, and of shorter ones.
    #[test]
    fn what_is_left_out_was_decided(blocks in proptest::collection::vec(any::<[u8; 6]>(), 3..40)) {
        let (program, shortened) = (layered(&blocks), layered(&blocks).shortened());
        for number in 0..625_usize {
            let bytes = [1, 5, 25, 125].map(|power| (number / power % 5) as u8);
            let slices: [&[u8]; SLICES] = [&bytes[..4 - number % 7 / 6], &[]];
            let wanted = program.interpret_slices(slices, [0, 0]);
            prop_assert_eq!(shortened.interpret_slices(slices, [0, 0]), wanted, "{:?}", bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, source_file: Some(file!()), ..ProptestConfig::default() })]

    #[test]
    fn code_does_what_its_program_means(
        steps in proptest::collection::vec(step(), 1..80),
        bytes in proptest::collection::vec(0_u8..6, 40),
        inputs in any::<[u64; INPUTS]>(),
    ) {
        let program = program(&steps);
        let shortened = program.shortened();
        let [whole, short] = [&program, &shortened].map(|program| SliceCode::compile(program).unwrap());
        for length in 0..20 {
            // Slices of their own, so that whoever looks beyond them looks elsewhere.
            let [one, other] = [&bytes[..length], &bytes[20..40 - length]].map(<[u8]>::to_vec);
            for inputs in [inputs, inputs.map(|input| input & 3)] {
                let slices: [&[u8]; SLICES] = [&one, &other];
                let wanted = program.interpret_slices(slices, inputs);
                prop_assert_eq!(shortened.interpret_slices(slices, inputs), wanted, "shortened, {} bytes", length);
                prop_assert_eq!(whole.run(slices, inputs), wanted, "{} bytes", length);
                prop_assert_eq!(short.run(slices, inputs), wanted, "shortened code, {} bytes", length);
            }
        }
    }
}

/// What is read at every place, known or computed, of slices of every length: what stands there, or nothing.
#[test]
fn every_place_of_a_slice_is_where_it_is() {
    let bytes: Vec<u8> = (1..=12).collect();
    let places = || (0..14_u64).chain([1 << 32, u64::MAX - 4, u64::MAX - 3, u64::MAX - 1, u64::MAX, 1 << 63]);
    for (slice, count) in (0..SLICES).flat_map(|slice| [1, 2, 4].map(|count| (slice, count))) {
        // Says whether what is read is what the second input says; the place is known, or the first input.
        let make = |place: Option<u64>| {
            let mut builder = Builder::new();
            let [beyond, yes, no] = [2, 1, 0].map(|answer| builder.answer(answer));
            let (found, wanted) = (builder.register(5), builder.input(1));
            let there = builder.branch(Test::Same(found, wanted), yes, no);
            let at = match place {
                Some(place) => builder.constant(place),
                None => builder.input(0),
            };
            let entry = builder.read((slice, at, count), 5, there, beyond);
            SliceCode::compile(&builder.finish(entry).unwrap()).unwrap()
        };
        let computed = make(None);
        for at in places() {
            let known = make(Some(at));
            for length in 0..=bytes.len() {
                let there =
                    usize::try_from(at).ok().filter(|at| at.checked_add(count).is_some_and(|end| end <= length));
                let number =
                    there.map(|at| bytes[at..at + count].iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
                let mine = bytes[..length].to_vec();
                let mut slices: [&[u8]; SLICES] = [&[0xff; 40]; SLICES];
                slices[slice] = &mine;
                let wanted = if number.is_some() { 1 } else { 2 };
                for code in [&known, &computed] {
                    assert_eq!(code.run(slices, [at, number.unwrap_or(0)]), wanted, "{count} at {at} of {length}");
                }
                assert_ne!(computed.run(slices, [at, number.unwrap_or(0) + 1]), 1, "{count} at {at} of {length}");
            }
        }
    }
}

/// What was asked is not asked again: of a chain of questions about one number only the first of each is left on a way.
#[test]
fn what_is_known_is_not_asked_again() {
    let mut builder = Builder::new();
    let [no, yes] = [0, 1].map(|answer| builder.answer(answer));
    let zero = builder.constant(0);
    let number = builder.register(0);
    let mut next = no;
    // Is it 5, or 6, or 5 again, or 7 and at least 6?
    let [five, six, seven] = [5, 6, 7].map(|number| builder.constant(number));
    let inner = builder.branch(Test::AtLeast(number, six), yes, no);
    for (wanted, then) in [(seven, inner), (five, yes), (six, yes), (five, yes)] {
        let asked = builder.branch(Test::Same(number, wanted), then, next);
        next = builder.read((0, zero, 1), 0, asked, no);
    }
    let program = builder.finish(next).unwrap();
    let shortened = program.shortened();
    // Reads and questions on the longest way, of nine and of five.
    assert_eq!((program.longest(), shortened.longest()), (9, 4));
    for byte in 0..=8 {
        let wanted = u32::from((5..=7).contains(&byte));
        assert_eq!(program.interpret_slices([&[byte], &[]], [0, 0]), wanted);
        assert_eq!(shortened.interpret_slices([&[byte], &[]], [0, 0]), wanted);
    }
}

/// What a register held before is nothing that is known of what it holds now.
#[test]
fn what_a_register_held_is_forgotten() {
    let mut builder = Builder::new();
    let [no, yes] = [0, 1].map(|answer| builder.answer(answer));
    let [zero, one, number] = [builder.constant(0), builder.constant(1), builder.register(0)];
    // The first byte is 1, the second is not, and the one at the place that the second names is 1.
    let third = builder.branch(Test::Same(number, one), yes, no);
    let third = builder.read((0, number, 1), 0, third, no);
    let second = builder.branch(Test::Same(number, one), no, third);
    let second = builder.read((0, one, 1), 0, second, no);
    let first = builder.branch(Test::Same(number, one), second, no);
    let entry = builder.read((0, zero, 1), 0, first, no);
    let program = builder.finish(entry).unwrap();
    for program in [&program, &program.shortened()] {
        let code = SliceCode::compile(program).unwrap();
        for (bytes, wanted) in [([1, 2, 1], 1), ([1, 2, 2], 0), ([1, 1, 1], 0), ([0, 2, 1], 0), ([1, 0, 0], 1)] {
            assert_eq!(program.interpret_slices([&bytes, &[]], [0, 0]), wanted, "{bytes:?}");
            assert_eq!(code.run([&bytes, &[]], [0, 0]), wanted, "{bytes:?}");
        }
    }
}

#[test]
fn what_is_no_program_of_slices_is_refused() {
    let fault = |make: fn(&mut Builder) -> Label| {
        let mut builder = Builder::new();
        let label = make(&mut builder);
        builder.finish(label).unwrap_err()
    };
    assert_eq!(
        fault(|b| {
            b.register(REGISTERS);
            b.answer(0)
        }),
        Fault::Register(REGISTERS)
    );
    let read = |b: &mut Builder, slice, count, register| {
        let (at, end) = (b.constant(0), b.answer(0));
        b.read((slice, at, count), register, end, end)
    };
    let faults =
        [(SLICES, 1, 0), (0, 3, 0), (0, 0, 0), (0, 8, 0), (1, 4, REGISTERS)].map(|(slice, count, register)| {
            let mut builder = Builder::new();
            let entry = read(&mut builder, slice, count, register);
            builder.finish(entry).unwrap_err()
        });
    let wanted = [Fault::Slice(SLICES), Fault::Count(3), Fault::Count(0), Fault::Count(8), Fault::Register(REGISTERS)];
    assert_eq!(faults, wanted);
    // Of another one, which has more.
    let mut other = Builder::new();
    let value = [0, 1, 2].map(|number| other.constant(number))[2];
    let mut builder = Builder::new();
    let end = builder.answer(0);
    let entry = builder.read((0, value, 1), 0, end, end);
    assert_eq!(builder.finish(entry), Err(Fault::Stranger));
    // Slices with a window, with data, with changes, and with words beside the answer.
    let mixed: [fn(&mut Builder) -> Label; 4] = [
        |b| {
            b.bytes(0, 1);
            b.answer(0)
        },
        |b| {
            b.data(0);
            b.answer(0)
        },
        |b| {
            let value = b.constant(1);
            b.change_and_answer(&[(0, 1, value)], 0)
        },
        |b| {
            let value = b.constant(1);
            b.give_and_answer(&[(0, value)], 0)
        },
    ];
    for make in mixed {
        let mut builder = Builder::new();
        builder.register(0);
        let end = make(&mut builder);
        assert_eq!(builder.finish(end), Err(Fault::Mixed));
        // Without slices it is a program, and none of slices.
        let mut builder = Builder::new();
        let end = make(&mut builder);
        let program = builder.finish(end).unwrap();
        assert!(SliceCode::compile(&program).is_err() && Code::compile(&program).is_ok());
    }
    let mut builder = Builder::new();
    let entry = read(&mut builder, 0, 1, 0);
    let program = builder.finish(entry).unwrap();
    assert!(SliceCode::compile(&program).is_ok() && Code::compile(&program).is_err());
}
