//! The steps of the fast path as kinds of stages that a configuration wires by hand: `ipv4-check`, then `ipv4-route`, then
//! `ipv4-rewrite`; the same of IPv6. They are made of what [`Forward`](crate::fast::forward::Forward) is made of, and know no slow path: what
//! that would get leaves by ways of its own.

mod check;
mod rewrite;
mod route;

pub use check::{Check6Config, CheckConfig, Ipv4Check, Ipv6Check};
pub use rewrite::{Ipv4Rewrite, Ipv6Rewrite, Recipient, Rewrite6Config, RewriteConfig};
pub use route::{Ipv4Route, Ipv6Route, Route6Config, RouteConfig};

use weir_packet::LaneId;

use crate::fast::classify::Family;

/// What says that packets have passed the check of their family. There is one for each, so that nobody sends both through the same steps.
const fn checked(family: Family) -> LaneId {
    match family {
        Family::Four => LaneId::Ipv4,
        Family::Six => LaneId::Ipv6,
    }
}

/// What to do with a stage that packets reach of which nobody has checked that they are of its family.
const fn check_first(family: Family) -> &'static str {
    match family {
        Family::Four => "let all packets pass a stage of kind \"ipv4-check\" before this one",
        Family::Six => "let all packets pass a stage of kind \"ipv6-check\" before this one",
    }
}
