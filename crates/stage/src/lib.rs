//! The contract between network functions and the engine.
//!
//! - [`Stage`]: one step on a batch of packets; [`Out`]: what it may answer; [`ways!`]: the named ways out.
//! - [`Graph`]: stages wired by their ways, with the check of what must hold.
//! - [`Port`], [`Rx`], [`Tx`]: where packets enter and leave.
//! - [`Function`], [`Description`], [`Instance`]: what a network function is to the program; [`AnyFunction`]: functions side by side.
//! - [`entry!`], [`Collection`], [`Ledger`], [`Entries`]: entries that a configuration, a file and requests speak of, declared once.
//! - [`Service`], [`MakeService`]: what the program does beside packets.
//! - [`HostSide`]: what a function has in common with a Linux network namespace that speaks for it.
//! - [`ChannelSide`]: what a function has in common with the controllers that drive it.
//! - [`FlowSource`]: what a function tells collectors of flows.
//! - [`FollowedNeighbor`]: a neighbour of one function that stages of another send to.
//! - [`StageKind`], [`MakeStage`]: what a stage is to a configuration that wires stages by hand.
//! - [`ownership`]: whose state is that packets write, and how packets get there.
//! - [`device`]: the texts that name devices.
//! - [`harness`]: packets in, packets per way out, for tests of single stages.
//! - [`rehearsal`]: functions built as the program does, for tests of them.

#![forbid(unsafe_code)]

/// What [`entry!`] is made of.
#[doc(hidden)]
pub use {serde_json, weir_config};

pub mod case;
pub mod channel;
pub mod collection;
pub mod device;
pub mod entries;
pub mod flows;
pub mod function;
pub mod graph;
pub mod harness;
pub mod host;
pub mod instance;
pub mod interface;
pub mod kind;
pub mod neighbor;
pub mod ownership;
pub mod paths;
pub mod port;
pub mod program;
pub mod random;
pub mod rehearsal;
pub mod request;
pub mod service;
pub mod share;
pub mod stage;
pub mod ways;

pub use case::{Case, Chosen, Knob};
pub use channel::{Channel, ChannelSide, Credentials, Endpoint};
pub use collection::{Arguments, Collection, Entry, Ledger, Record, Site, Source, Stands, Versions, Wrong};
pub use device::{DeviceText, local_mac};
pub use entries::Entries;
pub use flows::{Collector, Exported, FlowExport, FlowHop, FlowProtocol, FlowSource, Output, Sample};
pub use function::{
    Description, Env, Function, Given, Ground, Import, Layout, Placement, PortConfig, PortInfo, Redrawn, SpreadBy,
};
pub use graph::{Graph, GraphError, NodeId, Place, To};
pub use host::{Difference, Frames, HostHop, HostInterface, HostRoute, HostSide, RoutePlace};
pub use instance::{Instance, Notice, Stateless};
pub use interface::{InterfaceConfig, InterfaceInfo, TAG_LEN, TagInfo};
pub use kind::{DescribeStage, MakeStage, Plain, Prepared, Settings, StageKind, TakeBack};
pub use neighbor::{FollowedNeighbor, NamedInterface};
pub use paths::Paths;
pub use port::{DeviceStats, JOINT, LinkSpeed, MAX_WAIT, Medium, Port, PortError, PortFacts, Queues, Rx, Traffic, Tx};
pub use program::{AnyDescription, AnyFunction, Configured};
pub use random::Random;
pub use request::{Argument, InTurn, PIECE, RequestError, Saved, Show, ShowRows, Verb, Within, whole};
pub use service::{Load, MakeService, Need, Service, UsageConfig, Waits};
pub use share::{Beyond, InterfaceSet, Others, Switched};
pub use stage::{Declaration, EngineClock, Out, OutStore, SEND_LIMIT, Sent, Stage};
pub use ways::{Fate, MAX_PASSES, WayInfo, Ways};
