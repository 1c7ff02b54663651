//! Ports of a function that are none of its network layer's: samples are taken there all the same, and each counts as an interface.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_stage::PortInfo;
use weir_stage::flows::{InterfaceCounters, InterfaceKind};

use crate::{InterfaceId, MAX_INTERFACES, NO_INTERFACE};

/// See the module. Their interfaces have numbers from [`MAX_INTERFACES`] on, in their order, so that none changes with those of the layer.
#[derive(Debug, Default)]
pub struct Outside(Vec<One>);

/// A port.
#[derive(Debug)]
struct One {
    name: String,
    index: u16,
    up: AtomicBool,
}

impl Outside {
    /// These ports.
    pub fn new<'p>(ports: impl Iterator<Item = &'p PortInfo>) -> Outside {
        let one = |port: &PortInfo| One { name: port.name.clone(), index: port.index, up: port.link_up.into() };
        Outside(ports.map(one).collect())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The names of their interfaces, which are those of the ports.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.name.as_str())
    }

    fn numbered(&self) -> impl Iterator<Item = (InterfaceId, &One)> {
        (MAX_INTERFACES..NO_INTERFACE).zip(&self.0)
    }

    /// The number of the interface of a port; that of none if it is not one of these.
    pub(super) fn interface_of(&self, index: u16) -> InterfaceId {
        self.numbered().find(|(_, one)| one.index == index).map_or(NO_INTERFACE, |(interface, _)| interface)
    }

    /// A port's link is up, or down.
    pub(super) fn set_link(&self, index: u16, up: bool) {
        self.0.iter().filter(|one| one.index == index).for_each(|one| one.up.store(up, Ordering::Relaxed));
    }

    /// Their interfaces, from a number on. Nobody counts what comes and goes there by port.
    pub(super) fn interfaces(&self, from: InterfaceId) -> impl Iterator<Item = InterfaceCounters> {
        self.numbered().filter(move |(id, _)| *id >= from).map(|(id, one)| InterfaceCounters {
            id,
            name: one.name.clone(),
            kind: InterfaceKind::Ethernet,
            enabled: true,
            up: one.up.load(Ordering::Relaxed),
            received: None,
            sent: None,
        })
    }
}
