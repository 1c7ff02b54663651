//! The function `switch`: an OpenFlow 1.3 switch, as its manual says (`docs/functions/switch.md`). What controllers can change and what becomes of
//! packets is in `weir-flow-tables`; here it meets ports, workers and connections.
//!
//! | module | what |
//! |---|---|
//! | `config` | the keys |
//! | `load` | what a configuration wants, and what is wrong with it |
//! | `core` | the switch with its agent, behind the lock that worker and control side share |
//! | `learn` | who is behind which port, for packets that are switched as by a bridge |
//! | `forward` | the stage on the worker: packets through the tables |
//! | `told` | what the packets of a batch have for controllers |
//! | `control` | the stage on the control side: time, and packets of controllers |
//! | `channel` | what the services of its channels see |
//! | `function`, `show` | the instance, and its tables |
//! | `cases` | what `weir bench cpp` measures |

#![forbid(unsafe_code)]

mod cases;
mod channel;
mod config;
mod control;
mod core;
mod credentials;
mod forward;
mod function;
mod learn;
mod load;
mod show;
mod told;

pub use config::SwitchConfig;
pub use function::Switch;
