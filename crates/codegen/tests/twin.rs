//! Machine code against the meaning of programs: random programs, windows and data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{KINDS, combine};
use proptest::prelude::*;
use weir_codegen::{Builder, Code, Fault, INPUTS, Label, MOST_DATA, Program, RESULTS, Test, Value, WINDOW};

/// A step of making a program; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Constant(u64),
    Input(usize),
    Data(usize),
    Bytes(usize, usize),
    Two(u8, usize, usize),
    Shift(bool, usize, u32),
    Swap(usize, usize),
    /// Bytes against a number that they are sometimes.
    Compare(usize, usize, u64, [usize; 2]),
    Branch(bool, [usize; 4]),
    Answer(Vec<(usize, usize, usize)>, u32),
    Give(Vec<(usize, usize)>, u32),
    Both(Vec<(usize, usize, usize)>, Vec<(usize, usize)>, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let count = || prop::sample::select(vec![1_usize, 2, 4]);
    let place = move || count().prop_flat_map(|count| (0..=WINDOW - count).prop_map(move |at| (at, count)));
    let change = move || (place(), any::<usize>()).prop_map(|((at, count), value)| (at, count, value));
    let changes = || proptest::collection::vec(change(), 0..4);
    let words = || proptest::collection::vec((0..RESULTS, any::<usize>()), 0..6);
    prop_oneof![
        1 => prop_oneof![any::<u64>(), 0_u64..4, Just(u64::MAX)].prop_map(Step::Constant),
        1 => (0..INPUTS).prop_map(Step::Input),
        1 => (0_usize..8).prop_map(Step::Data),
        3 => place().prop_map(|(at, count)| Step::Bytes(at, count)),
        3 => (0..KINDS, any::<usize>(), any::<usize>()).prop_map(|(kind, one, other)| Step::Two(kind, one, other)),
        1 => (any::<bool>(), any::<usize>(), 0_u32..64).prop_map(|(left, value, bits)| Step::Shift(left, value, bits)),
        1 => (any::<usize>(), prop::sample::select(vec![2_usize, 4])).prop_map(|(value, count)| Step::Swap(value, count)),
        2 => (place(), proptest::collection::vec(0_u64..4, 5), any::<[usize; 2]>()).prop_map(|((at, count), bytes, ways)| {
            // As many bytes as there are, mostly; or one more, so that they never are the number.
            let bytes = &bytes[..count + usize::from(bytes[4] == 3 && bytes[0] == 3)];
            Step::Compare(at, count, bytes.iter().fold(0, |number, byte| number << 8 | byte), ways)
        }),
        3 => (any::<bool>(), any::<[usize; 4]>()).prop_map(|(same, which)| Step::Branch(same, which)),
        2 => (changes(), any::<u32>()).prop_map(|(changes, answer)| Step::Answer(changes, answer)),
        1 => (words(), any::<u32>()).prop_map(|(words, answer)| Step::Give(words, answer)),
        1 => (changes(), words(), any::<u32>()).prop_map(|(changes, words, answer)| Step::Both(changes, words, answer)),
    ]
}

fn program(steps: &[Step]) -> Program {
    let mut builder = Builder::new();
    let mut values: Vec<Value> = vec![builder.constant(7), builder.bytes(0, 1)];
    let mut labels: Vec<Label> = vec![builder.answer(9)];
    for step in steps {
        let value = |which: usize| values[which % values.len()];
        let made = match step {
            Step::Constant(number) => builder.constant(*number),
            Step::Input(number) => builder.input(*number),
            Step::Data(number) => builder.data(*number),
            Step::Bytes(at, count) => builder.bytes(*at, *count),
            Step::Two(kind, one, other) => combine(&mut builder, *kind, value(*one), value(*other)),
            Step::Shift(true, one, bits) => builder.left(value(*one), *bits),
            Step::Shift(false, one, bits) => builder.right(value(*one), *bits),
            Step::Swap(one, count) => builder.swapped(value(*one), *count),
            Step::Compare(at, count, number, [yes, no]) => {
                let test = Test::Same(builder.bytes(*at, *count), builder.constant(*number));
                let label = |which: usize| labels[labels.len() - 1 - (which % labels.len()).min(which % 3)];
                labels.push(builder.branch(test, label(*yes), label(*no)));
                continue;
            }
            Step::Branch(same, [one, other, yes, no]) => {
                let (one, other) = (value(*one), value(*other));
                let test = if *same { Test::Same(one, other) } else { Test::AtLeast(one, other) };
                // Mostly what was made last, so that ways are long.
                let label = |which: usize| labels[labels.len() - 1 - (which % labels.len()).min(which % 3)];
                labels.push(builder.branch(test, label(*yes), label(*no)));
                continue;
            }
            Step::Answer(changes, answer) => {
                let changes: Vec<_> = changes.iter().map(|(at, count, which)| (*at, *count, value(*which))).collect();
                labels.push(builder.change_and_answer(&changes, *answer));
                continue;
            }
            Step::Give(words, answer) => {
                let words: Vec<_> = words.iter().map(|(word, which)| (*word, value(*which))).collect();
                labels.push(builder.give_and_answer(&words, *answer));
                continue;
            }
            Step::Both(changes, words, answer) => {
                let changes: Vec<_> = changes.iter().map(|(at, count, which)| (*at, *count, value(*which))).collect();
                let words: Vec<_> = words.iter().map(|(word, which)| (*word, value(*which))).collect();
                labels.push(builder.change_give_and_answer(&changes, &words, *answer));
                continue;
            }
        };
        values.push(made);
    }
    let entry = *labels.last().unwrap();
    builder.finish(entry).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, source_file: Some(file!()), ..ProptestConfig::default() })]

    #[test]
    fn code_does_what_its_program_means(
        steps in proptest::collection::vec(step(), 1..80),
        runs in proptest::collection::vec((any::<u64>(), any::<[u64; INPUTS]>(), any::<[u32; 8]>()), 4),
    ) {
        let program = program(&steps);
        let mut code = Code::compile(&program).unwrap();
        for (seed, inputs, data) in runs {
            // Few different bytes, so that comparisons hold sometimes.
            let window: [u8; WINDOW] = std::array::from_fn(|at| (seed >> (at % 61)) as u8 & 3);
            for inputs in [inputs, inputs.map(|input| input & 3)] {
                let (mut compiled, mut interpreted) = (window, window);
                let [mut given, mut wanted] = [[9; RESULTS]; 2];
                let words = code.data_mut();
                let count = words.len();
                words.copy_from_slice(&data[..count]);
                let answer = code.run(&mut compiled, inputs, &mut given);
                prop_assert_eq!(answer, program.interpret(&mut interpreted, inputs, &data, &mut wanted));
                prop_assert_eq!((compiled, given), (interpreted, wanted));
                let (mut shortened, mut results) = (window, [9; RESULTS]);
                prop_assert_eq!(program.shortened().interpret(&mut shortened, inputs, &data, &mut results), answer);
                prop_assert_eq!((shortened, results), (interpreted, wanted));
                // With the same data from elsewhere, of which there may be more, and not with fewer.
                let (mut again, mut results) = (window, [9; RESULTS]);
                code.data_mut().fill(0);
                prop_assert_eq!(code.run_with(&mut again, inputs, &data, &mut results), Some(answer));
                prop_assert_eq!((again, results), (interpreted, wanted));
                if let Some(fewer) = count.checked_sub(1) {
                    prop_assert_eq!(code.run_with(&mut again, inputs, &data[..fewer], &mut results), None);
                    prop_assert_eq!((again, results), (interpreted, wanted));
                }
            }
        }
    }
}

/// What a program of one block sees and changes, at every place.
#[test]
fn every_place_of_the_window_is_where_it_is() {
    for (at, count) in (0..WINDOW).flat_map(|at| [1, 2, 4].map(|count| (at, count))) {
        let mut builder = Builder::new();
        let (seen, wanted) = (builder.bytes(at, count), builder.data(1));
        let (yes, no) = (builder.change_and_answer(&[(at, count, wanted)], 1), builder.answer(0));
        let wanted = builder.data(0);
        let entry = builder.branch(Test::Same(seen, wanted), yes, no);
        let program = match builder.finish(entry) {
            Ok(program) => program,
            Err(fault) => {
                assert_eq!((fault, at + count > WINDOW), (Fault::Window { at, count }, true));
                continue;
            }
        };
        let mut code = Code::compile(&program).unwrap();
        let mut window: [u8; WINDOW] = std::array::from_fn(|at| at as u8);
        let number = window[at..at + count].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        code.data_mut().copy_from_slice(&[number, 0xdead_beef]);
        let mut after = window;
        after[at..at + count].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef][4 - count..]);
        assert_eq!(code.run(&mut window, [0, 0], &mut [0; RESULTS]), 1, "{count} at {at}");
        assert_eq!(window, after, "{count} at {at}");
    }
}

/// Bytes are compared with a number as they stand in memory: with those that they are, and with all that differ in one byte, or beyond them.
#[test]
fn bytes_are_the_number_that_they_are() {
    for (count, more) in [(2, 0), (4, 0), (2, 1 << 16), (4, 1 << 32)] {
        for changed in 0..=4 {
            let mut window: [u8; WINDOW] = std::array::from_fn(|at| at as u8 + 1);
            let number = window[7..7 + count].iter().fold(more, |number, byte| number << 8 | u64::from(*byte));
            let number = if more == 0 { number } else { number & 0xffff_ffff | more };
            let mut builder = Builder::new();
            let (seen, wanted) = (builder.bytes(7, count), builder.constant(number));
            let (yes, no) = (builder.answer(1), builder.answer(0));
            let entry = builder.branch(Test::Same(seen, wanted), yes, no);
            let code = Code::compile(&builder.finish(entry).unwrap()).unwrap();
            if changed < 4 {
                window[7 + changed] ^= 0x80;
            }
            let is_same = more == 0 && changed >= count;
            let answer = code.run(&mut window, [0, 0], &mut [0; RESULTS]);
            assert_eq!(answer, u32::from(is_same), "{count} bytes, {changed}");
        }
    }
}

/// What a program hands on at every place, and nothing else.
#[test]
fn every_word_beside_the_answer_is_where_it_is() {
    for word in 0..=RESULTS {
        let mut builder = Builder::new();
        let value = builder.constant(0x1234_5678_9abc_def0);
        let entry = builder.give_and_answer(&[(word, value)], 3);
        let program = match builder.finish(entry) {
            Ok(program) => program,
            Err(fault) => {
                assert_eq!((fault, word), (Fault::Result(RESULTS), RESULTS));
                continue;
            }
        };
        let (mut results, mut after) = ([7; RESULTS], [7; RESULTS]);
        after[word] = 0x9abc_def0;
        assert_eq!(Code::compile(&program).unwrap().run(&mut [0; WINDOW], [0, 0], &mut results), 3);
        assert_eq!(results, after, "{word}");
    }
}

/// What a program may not be is told, the first of it.
#[test]
fn what_is_no_program_is_refused() {
    let fault = |make: fn(&mut Builder) -> Label| {
        let mut builder = Builder::new();
        let label = make(&mut builder);
        builder.finish(label).unwrap_err()
    };
    assert_eq!(fault(|_| Builder::new().answer(0)), Fault::Stranger);
    assert_eq!(
        fault(|b| {
            let value = b.bytes(WINDOW - 3, 4);
            b.change_and_answer(&[(0, 4, value)], 0)
        }),
        Fault::Window { at: WINDOW - 3, count: 4 }
    );
    assert_eq!(
        fault(|b| {
            let value = b.constant(0);
            b.change_and_answer(&[(WINDOW, 1, value)], 0)
        }),
        Fault::Window { at: WINDOW, count: 1 }
    );
    assert_eq!(
        fault(|b| {
            b.bytes(usize::MAX, 2);
            b.answer(0)
        }),
        Fault::Window { at: usize::MAX, count: 2 }
    );
    assert_eq!(
        fault(|b| {
            b.bytes(0, 3);
            b.answer(0)
        }),
        Fault::Window { at: 0, count: 3 }
    );
    assert_eq!(
        fault(|b| {
            b.input(INPUTS);
            b.answer(0)
        }),
        Fault::Input(INPUTS)
    );
    assert_eq!(
        fault(|b| {
            b.data(MOST_DATA);
            b.answer(0)
        }),
        Fault::Data(MOST_DATA)
    );
    assert_eq!(
        fault(|b| {
            let value = b.constant(1);
            b.left(value, 64);
            b.answer(0)
        }),
        Fault::Shift(64)
    );
    assert_eq!(
        fault(|b| {
            let value = b.constant(1);
            b.swapped(value, 3);
            b.answer(0)
        }),
        Fault::Swapped(3)
    );
    // Of another one, which has more.
    let mut other = Builder::new();
    let (value, label) =
        ([0, 1, 2].map(|number| other.constant(number))[2], [0, 1, 2].map(|answer| other.answer(answer))[2]);
    let mut builder = Builder::new();
    let zero = builder.constant(0);
    builder.and(zero, value);
    assert_eq!(
        {
            let label = builder.answer(0);
            builder.finish(label)
        },
        Err(Fault::Stranger)
    );
    let mut builder = Builder::new();
    let (zero, end) = (builder.constant(0), builder.answer(0));
    let branch = builder.branch(Test::Same(zero, zero), end, label);
    assert_eq!(builder.finish(branch), Err(Fault::Stranger));
    let mut builder = Builder::new();
    let end = builder.answer(0);
    let branch = builder.branch(Test::AtLeast(value, value), end, end);
    assert_eq!(builder.finish(branch), Err(Fault::Stranger));
    let mut builder = Builder::new();
    let end = (0..20_000).map(|answer| builder.answer(answer)).last().unwrap();
    assert_eq!(builder.finish(end), Err(Fault::TooLarge));
    let mut builder = Builder::new();
    (0..70_000).for_each(|number| {
        builder.constant(number);
    });
    let end = builder.answer(0);
    assert_eq!(builder.finish(end), Err(Fault::TooLarge));
}

/// Code that is gone takes its memory along: two hundred of them leave no more than there was.
#[test]
fn code_is_freed_with_its_owner() {
    // Bytes of executable memory.
    let executable = || {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let bytes = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap_or(0));
            rest.starts_with("r-x").then_some(to - from)
        };
        Some(maps.lines().filter_map(bytes).sum::<u64>())
    };
    let Some(before) = executable() else { return println!("skipped: there is no /proc/self/maps") };
    let mut builder = Builder::new();
    let entry = builder.answer(5);
    let program = builder.finish(entry).unwrap();
    for _ in 0..200 {
        let code = Code::compile(&program).unwrap();
        // It may go to another thread, and be used there.
        let answer = std::thread::spawn(move || code.run(&mut [0; WINDOW], [0, 0], &mut [0; RESULTS])).join().unwrap();
        assert_eq!(answer, 5);
    }
    // Other tests make code meanwhile, a page at a time.
    let after = executable().unwrap();
    assert!(after < before + (100 << 12), "{before} bytes before, {after} after");
}
