//! The bridge's tests, in one program: each file is a module.

mod acl;
mod acl_changes;
mod common;
mod config;
mod hostile;
mod model;
mod querier;
mod routed;
mod snooping;
mod stations;
