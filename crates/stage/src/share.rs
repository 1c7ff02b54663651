//! Functions that share a port: each has the packets of its own interfaces there.

use std::sync::Arc;

use weir_packet::Batch;

use crate::interface::{InterfaceInfo, TagInfo};

/// The interfaces of a function, as they are at this moment: for workers, which hand it packets, and for other functions on the same ports.
pub trait InterfaceSet: Send + Sync {
    /// The packets of a batch, among these, whose tags are those of an interface of the function on the port that they came in by.
    fn select(&self, batch: &Batch, among: u64) -> u64;

    /// Whether an interface of the function has these tags on the port of this index; without tags: whether it has the port's untagged packets.
    fn has(&self, port: u16, tags: &[TagInfo]) -> bool;
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
