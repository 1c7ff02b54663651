//! The function `bridge`: switches frames among its ports by Ethernet address and VLAN (IEEE 802.1Q), as its manual says
//! (`docs/functions/bridge.md`).
//!
//! | module | what |
//! |---|---|
//! | `config`, `words` | the keys, and what is written in them |
//! | `load` | what a configuration wants, and what is wrong with it |
//! | `plan` | what the workers read of that: VLANs, who reaches whom, limits |
//! | `frame` | the tag of a frame: read, put in, taken off |
//! | `routed` | interfaces at the other end of a joint: stations of their own |
//! | `acl` | access lists of ports |
//! | `learn`, `storm` | what workers write: stations, and how much of a kind has come |
//! | `forward` | the stage that learns, looks up, floods |
//! | `snoop` | IGMP and MLD: parsed, and who listens to what |
//! | `control` | the stage on the control side: ageing and snooping |
//! | `state`, `function`, `request`, `show` | the instance, its requests and tables |
//! | `cases` | what `weir bench cpp` measures |

#![forbid(unsafe_code)]

mod acl;
mod cases;
mod config;
mod control;
mod forward;
mod frame;
mod function;
mod learn;
mod load;
mod plan;
mod request;
mod routed;
mod show;
mod snoop;
mod state;
mod storm;
mod words;

pub use acl::{Action, Rule};
pub use config::{AclConfig, BridgeConfig};
pub use function::Bridge;
