//! Access lists: ordered rules, of which the first that a packet matches says what becomes of it, before it is forwarded or as it leaves.
//!
//! - `sets`: named sets of prefixes that rules use.
//! - [`Rule`]: a rule as people write it, and what it matches.
//! - `key`: what of a packet rules look at; `tables`: all lists as workers look them up; `judge`: a batch of packets and the rules.
//! - `stage`: the stages `NAME.acl-in`, before all others, `NAME.acl-own`, for what is for the router itself, and `NAME.acl-out-N`, before port N. They are in a graph only where a configuration
//!   attaches lists, so that nobody else pays for them.
//! - `control`: the lists of a router, which alone writes what workers see; `load`: from the configuration; `request`: changes at run time.

mod control;
mod judge;
mod key;
mod load;
mod request;
mod rule;
mod sets;
mod stage;
mod tables;

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_config::{FilePath, OneOrMany, config};

pub(crate) use control::Acls;
pub(crate) use load::{WantedAcls, load};
pub use request::{ACL_SHOWS, ACL_VERBS};
pub(crate) use request::{carry_out, rows, save};
pub use rule::{Action, Rule};
pub(crate) use stage::{Side, declaration};

config! {
    /// An access list: rules in their order, of which the first that a packet matches says what becomes of it.
    pub struct AclConfig {
        /// Rules, such as `permit protocol tcp to 192.0.2.0/24 to-port 80`.
        pub rules: Vec<Rule> = empty, live;
        /// Further rules, behind those, from a file with the column `rule`.
        pub rules_csv: Option<FilePath> = optional, live;
        /// What becomes of a packet that no rule matches.
        pub default: Action = required, live;
    }
}

/// What a configuration says of access lists. Each field is the key of that name.
#[derive(Clone, Copy, Debug)]
pub struct AclSettings<'c> {
    /// Sets of prefixes that rules name.
    pub prefix_sets: &'c BTreeMap<String, OneOrMany<IpNet>>,
    /// The lists, by name.
    pub acls: &'c BTreeMap<String, AclConfig>,
    /// Lists for what comes in, by the name of the interface.
    pub acl_in: &'c BTreeMap<String, String>,
    /// Lists for what leaves, by the name of the interface.
    pub acl_out: &'c BTreeMap<String, String>,
    /// Lists for what comes in by interfaces of a VRF that have none of their own, by its name.
    pub acl_vrf: &'c BTreeMap<String, String>,
    /// Lists for what is for the router itself, by the name of the VRF.
    pub acl_own: &'c BTreeMap<String, String>,
}

/// Rules of all lists together at most: as many counters has each worker.
pub(crate) const MAX_RULES: usize = 1 << 16;

/// Lists at most.
pub(crate) const MAX_LISTS: usize = 4096;
