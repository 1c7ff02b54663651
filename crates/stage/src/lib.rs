//! The contract between network functions and the engine.
//!
//! - [`Stage`]: one step on a batch of packets; [`Out`]: what it may answer; [`ways!`]: the named ways out.
//! - [`Graph`]: stages wired by their ways, with the check of what must hold.
//! - [`Port`], [`Rx`], [`Tx`]: where packets enter and leave.
//! - [`Function`], [`Instance`]: what a network function is to the program.
//! - [`Service`], [`MakeService`]: what the program does beside packets.
//! - [`StageKind`], [`MakeStage`]: what a stage is to a configuration that wires stages by hand.
//! - [`device`]: the texts that name devices.
//! - [`harness`]: packets in, packets per way out, for tests of single stages.

#![forbid(unsafe_code)]

pub mod device;
pub mod function;
pub mod graph;
pub mod harness;
pub mod interface;
pub mod kind;
pub mod port;
pub mod random;
pub mod service;
pub mod stage;
pub mod ways;

pub use device::{DeviceText, local_mac};
pub use function::{
    Argument, Case, Chosen, Env, Function, Instance, Knob, Layout, Notice, PIECE, Placement, PortConfig, PortInfo,
    RequestError, Saved, Show, ShowRows, Verb, whole,
};
pub use graph::{Graph, GraphError, NodeId, Place, To};
pub use interface::{InterfaceConfig, InterfaceInfo, TAG_LEN, TagInfo};
pub use kind::{MakeStage, Plain, Prepared, Settings, StageKind};
pub use port::{DeviceStats, Port, PortError, PortFacts, Queues, Rx, Traffic, Tx};
pub use random::Random;
pub use service::{Load, MakeService, Need, Service, UsageConfig, Waits};
pub use stage::{Declaration, EngineClock, Out, OutStore, SEND_LIMIT, Sent, Stage};
pub use ways::{Fate, MAX_PASSES, WayInfo, Ways};
