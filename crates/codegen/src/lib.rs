//! Machine code made at run time, from small programs that can touch only what they are given.
//!
//! A [`Program`] decides about a packet. It looks either at a [window](WINDOW) of bytes, compares them with data of its own, may change
//! bytes of the window and hand on [words](RESULTS); or it reads [slices](SLICES) of any length into registers, at places that it may compute. It has two
//! inputs, and answers a number. It has no loop and no address: what a place in the window, in the data or
//! among these words is, is a number in the program, which is checked when the program is made; what a place in a slice is, is checked by the code itself,
//! each time. So it ends, and cannot reach anything else, whatever the packet says.
//!
//! [`Program::interpret`] is what a program means; [`Code`] and [`SliceCode`] are the same as machine code of this processor, made by Cranelift. Whoever has a program
//! uses the first until there is the second, and where there is none.
//!
//! This crate is an unsafe island: see `SAFETY.md`.

mod code;
mod fault;
mod interpret;
mod lower;
mod program;
mod shorten;

pub use code::{Code, Failed, SliceCode};
pub use fault::Fault;
pub use program::{Builder, INPUTS, Label, MOST_DATA, Program, REGISTERS, RESULTS, SLICES, Test, Value, WINDOW};
