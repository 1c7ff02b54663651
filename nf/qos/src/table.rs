//! The tables that users are found in, as the control side writes them.

use std::sync::Arc;

use ipnet::IpNet;
use weir_mem::Domain;
use weir_stage::Stage;
use weir_stage::ownership::Own;
use weir_stage::ownership::balance::MakeBalancer;
use weir_table::lpm4::{self, Lpm4, Packed, Prefix4};
use weir_table::lpm6::{self, Compiled, Lpm6, Prefix6};

use crate::balance::ByUser;
use crate::config::UserBy;
use crate::find::{Addressed, ByTags, OTHERS, One, Tagged};
use crate::identify::{Identify, Rules};
use crate::key::UserKey;

/// Users by what they are known by.
pub(crate) enum Table {
    /// All are one.
    One,
    Tags(Arc<ByTags>),
    Prefixes {
        v4: Box<Packed>,
        v6: Box<Compiled>,
        destination: bool,
    },
}

/// How large a [`Table`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Prefixes of each version.
    pub(crate) prefixes: u32,
    /// /24 networks with longer prefixes.
    pub(crate) networks: u32,
}

impl Table {
    pub(crate) fn new(by: UserBy, room: Room, domain: &Domain) -> Result<Table, String> {
        let destination = match by {
            UserBy::Nothing => return Ok(Table::One),
            UserBy::Tags => return Ok(Table::Tags(Arc::new(ByTags::new()))),
            UserBy::Source => false,
            UserBy::Destination => true,
        };
        let prefixes = room.prefixes as usize;
        let v4 = lpm4::Config { max_routes: prefixes, max_groups: room.networks, ..lpm4::Config::new(OTHERS) };
        let v6 = lpm6::Config::for_any(OTHERS, prefixes);
        let v4 = Packed::new(&v4, domain).map_err(|error| error.to_string())?;
        let v6 = Compiled::new(&v6, domain).map_err(|error| error.to_string())?;
        Ok(Table::Prefixes { v4: Box::new(v4), v6: Box::new(v6), destination })
    }

    /// A key leads to the user with this word from now on; to nobody with [`OTHERS`].
    pub(crate) fn set(&mut self, key: UserKey, user: u32) -> Result<(), String> {
        match (self, key) {
            (Table::Tags(table), UserKey::Tags(outer, inner)) => table.set(outer, inner, user),
            (Table::Prefixes { v4, .. }, UserKey::Prefix(IpNet::V4(prefix))) => {
                if let Some(prefix) = Prefix4::covering(prefix.addr().to_bits(), prefix.prefix_len()) {
                    let done = if user == OTHERS { v4.remove(prefix) } else { v4.insert(prefix, user) };
                    done.map_err(|refused| refused.to_string())?;
                }
            }
            (Table::Prefixes { v6, .. }, UserKey::Prefix(IpNet::V6(prefix))) => {
                if let Some(prefix) = Prefix6::covering(prefix.addr().to_bits(), prefix.prefix_len()) {
                    let done = if user == OTHERS { v6.remove(prefix) } else { v6.insert(prefix, user) };
                    done.map_err(|refused| refused.to_string())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The stage that looks users up. `mirrored` is for frames in the other direction.
    pub(crate) fn identify(&self, mirrored: bool, with: IdentifyWith) -> Box<dyn Stage> {
        match self {
            Table::One => Box::new(Identify::new(One, with)),
            Table::Tags(table) => Box::new(Identify::new(Tagged(Arc::clone(table)), with)),
            Table::Prefixes { v4, v6, destination } => {
                Box::new(Identify::new(addressed(v4, v6, *destination != mirrored), with))
            }
        }
    }

    /// The stage that brings packets to the owners of their users.
    pub(crate) fn balance(&self, mirrored: bool, make: MakeBalancer) -> Box<dyn Stage> {
        match self {
            Table::One => make.of(ByUser::new(One)),
            Table::Tags(table) => make.of(ByUser::new(Tagged(Arc::clone(table)))),
            Table::Prefixes { v4, v6, destination } => {
                make.of(ByUser::new(addressed(v4, v6, *destination != mirrored)))
            }
        }
    }
}

fn addressed(v4: &Packed, v6: &Compiled, destination: bool) -> Addressed<<Packed as Lpm4>::Reader, lpm6::Trie> {
    Addressed { v4: Arc::clone(v4.reader()), v6: Arc::clone(v6.reader()), destination }
}

/// What [`Table::identify`] hands on.
pub(crate) struct IdentifyWith {
    pub(crate) rules: Arc<weir_mem::Published<Rules>>,
    pub(crate) user: weir_packet::Key<u32>,
    /// Whose words of users the stage reads.
    pub(crate) own: Own,
}
