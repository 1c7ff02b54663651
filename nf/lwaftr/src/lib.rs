//! The function `lwaftr`: the border relay of Lightweight 4over6 (RFC 7596). What users should know stands in its
//! [manual](../../../docs/functions/lwaftr.md).

#![forbid(unsafe_code)]

mod border;
mod cases;
mod config;
mod dppd;
mod exit;
mod flows;
mod function;
mod gateways;
mod keys;
mod load;
mod owned;
mod registry;
mod relay;
mod request;
mod rules;
mod running;
mod show;
mod snabb;
mod spread;
mod state;
mod table;
mod tally;
mod words;

pub use config::LwaftrConfig;
pub use function::{Described, Lwaftr};
pub use running::Running;
pub use snabb::{Imported, import as import_snabb};
