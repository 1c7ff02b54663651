//! The steps of the fast path as kinds of stages that a configuration wires by hand: `ipv4-check`, then `ipv4-route`, then
//! `ipv4-rewrite`. They are made of what [`Forward`](crate::fast::forward::Forward) is made of, and know no slow path: what that would get leaves
//! by ways of its own.

mod check;
mod rewrite;
mod route;

pub use check::{CheckConfig, Ipv4Check};
pub use rewrite::{Ipv4Rewrite, RewriteConfig};
pub use route::{Ipv4Route, RouteConfig};

/// What to do with a stage whose packets nobody has checked.
const CHECK_FIRST: &str = "let all packets pass a stage of kind \"ipv4-check\" before this one";
