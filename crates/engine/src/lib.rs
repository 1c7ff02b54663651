//! The engine: workers that run graphs of stages, links between them, and the account of every packet and every cycle.
//!
//! - [`Engine`]: starts workers, gives them a [`Blueprint`], asks for [`snapshot`]s, stops them.
//! - [`Blueprint`]: graphs, the workers they are placed on and the queues of the ports; laid out into a plan per worker, in
//!   which wires that cross workers are links.
//! - [`observe`]: who watches packets (traces, captures).
//!
//! A worker alone changes its counters, its stages and its packets; whoever wants to know or change something leaves a command
//! that the worker does between two loops.

#![forbid(unsafe_code)]

mod asked;
mod bell;
mod carried;
mod codes;
mod cores;
mod counters;
mod demultiplex;
mod engine;
mod fabric;
mod guard;
mod hop;
mod install;
mod joints;
mod layout;
mod link;
mod moving;
mod node;
pub mod observe;
mod plan;
mod reason;
mod report;
mod retired;
mod rings;
pub mod snapshot;
mod sweep;
mod thread;
mod transmit;
mod worker;
mod worker_thread;

pub use cores::{last_core, pin, usable_cores};
pub use demultiplex::Demultiplexer;
pub use engine::{Engine, EngineError, SAMPLE_EVERY, Settings, ThreadHook};
pub use joints::JointEnd;
pub use layout::{Blueprint, Distributor, GraphPart, PortPart};
pub use observe::{Event, Observer, What};
pub use reason::Reason;
pub use snapshot::{Account, WorkerSnapshot};
pub use thread::{is_control_thread, thread_name};
pub use worker_thread::Idle;
