//! Random cases, until what is to be shown has been met.

use std::cell::RefCell;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// So many series at most. What is met seldom is missed by one series in twenty; who misses it four times meets it no more.
const SERIES: u32 = 4;

/// Tries a property on a series of random cases, which add up what they met, and on another one while that is not `enough` to have shown something.
/// `file` is the test's, beside which cases that failed are kept.
pub(crate) fn until<S: Strategy, Met: Default + Debug>(
    (file, cases): (&'static str, u32),
    strategy: S,
    property: impl Fn(S::Value, &mut Met) -> Result<(), TestCaseError>,
    enough: impl Fn(&Met) -> bool,
) {
    let met = RefCell::new(Met::default());
    for _ in 0..SERIES {
        let config = ProptestConfig { cases, source_file: Some(file), ..ProptestConfig::default() };
        TestRunner::new(config).run(&strategy, |case| property(case, &mut met.borrow_mut())).unwrap();
        if enough(&met.borrow()) {
            return;
        }
    }
    panic!("too little was met to show anything: {:?}", met.into_inner());
}
