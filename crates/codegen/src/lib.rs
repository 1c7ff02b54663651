//! Machine code made at run time, from small programs that can touch only what they are given.
//!
//! A [`Program`] decides about a packet: it looks at a [window](WINDOW) of bytes and at two inputs, compares them with data of its own, may change
//! bytes of the window, hands on [words](RESULTS), and answers a number. It has no loop and no address: what a place in the window, in the data or
//! among these words is, is a number in the program, which is checked when the program is made. So it ends, and cannot reach anything else, whatever the packet says.
//!
//! [`Program::interpret`] is what a program means; [`Code`] is the same as machine code of this processor, made by Cranelift. Whoever has a program
//! uses the first until there is the second, and where there is none.
//!
//! This crate is an unsafe island: see `SAFETY.md`.

mod code;
mod lower;
mod program;

pub use code::{Code, Failed};
pub use program::{Builder, Fault, INPUTS, Label, MOST_DATA, Program, RESULTS, Test, Value, WINDOW};
