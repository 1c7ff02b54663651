//! What can be wrong with a program.

use std::fmt;

use crate::program::{INPUTS, MOST_BLOCKS, MOST_DATA, MOST_VALUES, REGISTERS, RESULTS, SLICES, WINDOW};

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
    /// No such slice.
    Slice(usize),
    /// Another number of bytes of a slice than 1, 2 or 4.
    Count(usize),
    /// Another number of bytes than 2 or 4, the other way round.
    Swapped(usize),
    /// No such register.
    Register(usize),
    /// It looks at a window, its data or the words beside the answer, and at slices.
    Mixed,
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
            Fault::Slice(number) => write!(f, "slice {number}: there are {SLICES}, from 0 on"),
            Fault::Swapped(count) => write!(f, "{count} bytes the other way round: it goes with 2 or 4"),
            Fault::Count(count) => write!(f, "{count} bytes of a slice: 1, 2 or 4 are read at a time"),
            Fault::Register(number) => write!(f, "register {number}: there are {REGISTERS}, from 0 on"),
            Fault::Mixed => f.write_str("a program looks at a window or at slices, and not at both"),
            Fault::TooLarge => write!(f, "more than {MOST_VALUES} values or {MOST_BLOCKS} blocks"),
        }
    }
}

impl std::error::Error for Fault {}
