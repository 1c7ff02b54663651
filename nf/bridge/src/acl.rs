//! Access lists of ports: ordered rules over addresses, VLAN and EtherType, of which the first that a frame matches says what becomes of it, as it
//! comes in by a port, or as it leaves by one.
//!
//! - [`Rule`]: a rule as people write it, and what it matches.
//! - `lists`: all lists as workers look them up.
//! - `stage`: `NAME.acl-in`, before `NAME.forward`, and `NAME.acl-out-N`, before port N. They are in a graph only where ports have lists, so that nobody
//!   else pays for them.
//! - `book`: the lists of a bridge, which alone makes what workers see; `load`: from the configuration; `request`: changes at run time.

mod book;
mod lists;
mod load;
pub(crate) mod request;
mod rule;
mod stage;

pub(crate) use book::{Book, WantedAcls};
pub(crate) use lists::{Lists, Logged};
pub(crate) use load::load;
pub use rule::{Action, Rule};
pub(crate) use stage::{Acl, Side, declaration};

/// Lists of a bridge at most.
pub(crate) const MAX_LISTS: usize = 128;

/// Rules of all its lists together at most: as many counters has each worker.
pub(crate) const MAX_RULES: usize = 16_384;

/// Matches that the rules of one list come to at most.
pub(crate) const MAX_MATCHES: usize = weir_table::classifier::MAX_RULES;
