//! Access lists of ports: ordered rules over addresses, VLAN and EtherType, of which the first that a frame matches says what becomes of it, as it
//! comes in by a port, or as it leaves by one.
//!
//! - [`Rule`]: a rule as people write it, and what it matches.
//! - `lists`: all lists as workers look them up, with what they count.
//! - `stage`: `NAME.acl-in`, before `NAME.forward`, and `NAME.acl-out-N`, before port N. They are in a graph only where ports have lists, so that nobody
//!   else pays for them.

mod lists;
mod rule;
mod stage;

pub(crate) use lists::{Lists, MAX_LISTS, MAX_MATCHES, MAX_RULES};
pub use rule::{Action, Rule};
pub(crate) use stage::{Acl, Side, declaration};
