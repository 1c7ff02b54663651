//! Functions that meet: on a port that they share, where each has the packets of its own interfaces, and at the two ends of a joint.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_packet::Batch;

use crate::interface::{InterfaceInfo, TagInfo};

/// The interfaces of a function, as they are at this moment: for workers, which hand it packets, and for other functions on the same ports.
pub trait InterfaceSet: Send + Sync {
    /// The packets of a batch, among these, whose tags are those of an interface of the function on the port that they came in by.
    fn select(&self, batch: &Batch, among: u64) -> u64;

    /// Whether an interface of the function has these tags on the port of this index; without tags: whether it has the port's untagged packets.
    fn has(&self, port: u16, tags: &[TagInfo]) -> bool;

    /// Whether an interface of the function on the port of this index has a VLAN in its tag, or in the outer one of two.
    fn has_vlan(&self, port: u16, vlan: u16) -> bool;
}

/// What a function switches, if interfaces may be declared on it as a whole, as in `on = "bridge:lan"`: read from a declaration of it that is not
/// checked yet, so that what is wrong there is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// The EtherType of the tags that tell its VLANs apart; none where it takes no notice of tags.
    pub tpid: Option<u16>,
    /// The VLANs of its ports.
    pub vlans: BTreeSet<u16>,
    /// The names of its ports.
    pub ports: BTreeSet<String>,
}

/// What lies beyond a port that is one end of a joint: the other end, and the functions that have interfaces there.
#[derive(Clone)]
pub struct Beyond {
    /// The index of the other end.
    pub port: u16,
    /// Its Ethernet address, which is that of the interfaces there.
    pub mac: [u8; 6],
    /// The interfaces.
    pub sets: Vec<Arc<dyn InterfaceSet>>,
}

impl Beyond {
    /// Whether there is an interface with this VLAN.
    pub fn has_vlan(&self, vlan: u16) -> bool {
        self.sets.iter().any(|set| set.has_vlan(self.port, vlan))
    }
}

impl std::fmt::Debug for Beyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beyond").field("port", &self.port).field("mac", &self.mac).finish_non_exhaustive()
    }
}

/// What a function is told of others on its ports.
#[derive(Clone, Default)]
pub struct Others {
    /// Their names and interfaces.
    pub sets: Vec<(String, Arc<dyn InterfaceSet>)>,
    /// The interfaces that the configuration gives to others: of those that were added at run time, none may have the same tags on the same port.
    pub declared: Vec<InterfaceInfo>,
}

impl Others {
    /// The name of the function that has an interface with these tags on the port of this index.
    pub fn owner(&self, port: u16, tags: &[TagInfo]) -> Option<&str> {
        self.sets.iter().find(|(_, set)| set.has(port, tags)).map(|(name, _)| name.as_str())
    }
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.sets.iter().map(|(name, _)| name)).finish()
    }
}
