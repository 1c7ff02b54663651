//! The routed side: interfaces of a function that routes, at the other end of a joint. They are stations that the bridge knows without learning
//! them.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{Key, Scalar, Table, Value};
use weir_stage::{Beyond, Switched};
use weir_table::mac::Station;
use weir_wire::{MacAddr, ethernet};

use crate::config::{BridgeConfig, Tagging};
use crate::plan::VLANS;
use crate::words::{Vlans, vlan_of};

/// What a port that is a routed side leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedSide {
    /// The Ethernet address of the interfaces.
    mac: u64,
    /// Their VLANs; 0 alone where the bridge takes no notice of tags.
    vlans: BTreeSet<u16>,
}

/// The routed sides, by the number of the port.
pub(crate) type RoutedSides = BTreeMap<u8, RoutedSide>;

impl RoutedSide {
    /// What there is beyond a port.
    pub(crate) fn of(config: &BridgeConfig, beyond: &Beyond) -> RoutedSide {
        let vlans = match config.tagging {
            Tagging::None => BTreeSet::from([0]),
            _ => (1..VLANS as u16).filter(|vlan| beyond.has_vlan(*vlan)).collect(),
        };
        RoutedSide { mac: MacAddr(beyond.mac).to_bits(), vlans }
    }

    /// The VLANs of the interfaces.
    pub(crate) fn vlans(&self) -> impl Iterator<Item = u16> {
        self.vlans.iter().copied()
    }

    /// The stations that the interfaces are.
    pub(crate) fn stations(&self) -> impl Iterator<Item = Station> {
        self.vlans.iter().map(|vlan| Station::new(self.mac, *vlan))
    }

    /// Whether a station is one of them.
    pub(crate) fn has(&self, station: Station) -> bool {
        station.address() == self.mac && self.vlans.contains(&station.vlan())
    }
}

/// What a declaration that is not checked yet says of VLANs and ports.
pub(crate) fn switched(keys: &Table) -> Switched {
    let ports = keys.get("ports").and_then(Value::as_table);
    let ports = || ports.into_iter().flat_map(|ports| &ports.0);
    Switched {
        tpid: match keys.get("tagging").and_then(Value::as_text) {
            Some("802.1q") => Some(ethernet::CVLAN),
            Some("802.1ad") => Some(ethernet::SVLAN),
            _ => None,
        },
        vlans: ports().filter_map(|(_, port)| port.as_table()).flat_map(vlans_of).collect(),
        ports: ports().map(|(name, _)| name).filter_map(name_of).collect(),
    }
}

fn name_of(key: &Key) -> Option<String> {
    if let Key::Name(name) = key { Some(name.clone()) } else { None }
}

fn vlans_of(port: &Table) -> Vec<u16> {
    let untagged = match port.get("vlan") {
        Some(Value::Text(text)) => vlan_of(text),
        other => other.and_then(Value::as_integer).and_then(|vlan| u16::try_from(vlan).ok()),
    };
    let tagged = match port.get("tagged") {
        Some(Value::Integer(vlan)) => Vlans::parse(&vlan.to_string()).ok(),
        other => other.and_then(Value::as_text).and_then(|text| Vlans::parse(text).ok()),
    };
    untagged.into_iter().chain(tagged.iter().flat_map(Vlans::iter)).collect()
}

/// Writes a routed side into a declaration that is not checked yet.
pub(crate) fn add_port(keys: &mut Table, port: &str, vlans: &BTreeSet<u16>) {
    let mut side = Table::default();
    side.set("routed", true.into());
    let is_aware = switched(keys).tpid.is_some();
    if is_aware && !vlans.is_empty() {
        side.set("tagged", Value::text(Vlans::of(vlans.iter().copied())));
    }
    let ports = keys.0.entry(Key::from("ports")).or_insert_with(|| Value::Table(Table::default()));
    // A table without keys is a list without elements.
    if matches!(ports, Value::List(list) if list.is_empty()) {
        *ports = Value::Table(Table::default());
    }
    if let Value::Table(ports) = ports {
        ports.set(port, Value::Table(side));
    }
}
