//! LuaJIT: configuration scripts, and stages written in Lua.
//!
//! A configuration is a Lua program. [`evaluate`] runs it once, in a child process that has no privileges, opens no
//! files and is bounded in time, memory and output; what it declares comes back as a
//! [`Document`](weir_config::Document) of plain data with the places of the declarations. The parent opens the files:
//! the script that it was told, and those that the script includes from below its own folder.
//!
//! The child is the same program: its `main` calls [`child_main`] when its first argument is [`CHILD_ARGUMENT`], before
//! it does anything else.
//!
//! [`LuaStage`] is a stage of a graph whose step is a Lua function: see [`stage`]. [`LuaFunction`] puts one between ports
//! of a configuration.

mod book;
mod cases;
mod child;
mod confine;
mod convert;
mod flows;
mod function;
mod kind;
mod limits;
mod machine;
mod message;
mod parent;
mod paths;
mod pattern;
mod protocol;
mod request;
mod running;
mod sandbox;
mod script;
pub mod stage;
mod strings;
mod table_config;
pub mod tables;
mod view;
mod waiting;
mod watchdog;
mod work;

pub use child::{CHILD_ARGUMENT, child_main};
pub use function::{ALLOW_FFI, ALLOW_STAGES, LuaConfig, LuaFunction};
pub use kind::{LuaStageConfig, LuaStageKind};
pub use limits::Limits;
pub use parent::{evaluate, overhear};
pub use stage::{Access, Failures, LuaStage};
pub use watchdog::compiled_code_sees_hooks;
