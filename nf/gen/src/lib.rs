//! The function `gen`: a traffic generator, and the receiver that measures what comes back.
//!
//! | module | what it holds |
//! |---|---|
//! | `config`, `values`, `size`, `load` | what a configuration writes, and the sequences that it stands for |
//! | `layers`, `template`, `replay` | the packets: from named layers, or from a capture file |
//! | `table`, `ports` | rows of a table, and port sets |
//! | `stream` | what is due, and what was sent |
//! | `send`, `receive`, `resolve` | the stages |
//! | `shared`, `report` | their numbers |
//! | `build`, `function`, `cases` | the function itself |

#![forbid(unsafe_code)]

mod build;
mod cases;
mod config;
mod function;
mod layers;
mod load;
mod ports;
mod random;
mod receive;
mod replay;
mod report;
mod resolve;
mod send;
mod sequence;
mod shared;
mod size;
mod stream;
mod table;
mod template;
mod values;

pub use build::{Capture, ReadCapture};
pub use function::Gen;
pub use report::{Report, StreamResult};
pub use shared::Stalls;
pub use stream::SentReport;
