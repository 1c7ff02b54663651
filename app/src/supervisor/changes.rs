//! What a reload does to ports, found out before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_port_dpdk::{Device, Kind};
use weir_stage::PortConfig;

use super::ports::{OpenPort, Owners};

/// What becomes of the ports. A port that is in none of these stays as it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PortChanges {
    /// To be opened while everything else runs as before.
    pub(super) early: BTreeSet<String>,
    /// To be opened when those in `closes` are closed, because a device cannot be opened twice.
    pub(super) late: BTreeSet<String>,
    /// Open ports that are closed before those in `late` are opened.
    pub(super) closes: BTreeSet<String>,
    /// Open ports that are closed when all else is done.
    pub(super) gone: BTreeSet<String>,
    /// Queues of these go to other workers; they stay open.
    pub(super) moved: BTreeSet<String>,
}

impl PortChanges {
    /// What leads from the open ports to those that are wanted: configurations, and who owns the queues.
    pub(super) fn between(
        open: &BTreeMap<String, OpenPort>,
        wanted: &BTreeMap<String, Owners>,
        configs: &BTreeMap<&str, &PortConfig>,
    ) -> PortChanges {
        let mut changes = PortChanges::default();
        let (mut opens, mut leaves) = (BTreeSet::new(), BTreeSet::new());
        for (name, owners) in wanted {
            let (Some(config), now) = (configs.get(name.as_str()), open.get(name)) else { continue };
            match now {
                Some(port) if is_reopened(port, config, owners) => {
                    opens.insert(name);
                    leaves.insert(name);
                }
                Some(port) if port.owners != *owners => drop(changes.moved.insert(name.clone())),
                Some(_) => {}
                None => drop(opens.insert(name)),
            }
        }
        leaves.extend(open.keys().filter(|name| !wanted.contains_key(*name)));
        let mut in_use: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for name in &leaves {
            if let Some(port) = open.get(*name).filter(|port| port.closed.is_none()) {
                in_use.entry(resource(&port.config.device)).or_default().push(name);
            }
        }
        for name in opens {
            let device = configs.get(name.as_str()).map(|config| resource(&config.device)).unwrap_or_default();
            match in_use.get(&device) {
                Some(holders) => {
                    changes.closes.extend(holders.iter().map(|name| (*name).clone()));
                    changes.late.insert(name.clone());
                }
                None => drop(changes.early.insert(name.clone())),
            }
        }
        changes.gone = leaves.into_iter().filter(|name| !changes.closes.contains(*name)).cloned().collect();
        changes
    }

    /// Whether the port of a name is opened.
    pub(super) fn opens(&self, port: &str) -> bool {
        self.early.contains(port) || self.late.contains(port)
    }
}

/// What a dry run says of ports.
impl fmt::Display for PortChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for port in &self.early {
            match self.gone.contains(port) {
                true => writeln!(f, "port \"{port}\": the new device is opened, then the old one is closed")?,
                false => writeln!(f, "port \"{port}\": opened")?,
            }
        }
        for port in &self.closes {
            match self.late.contains(port) {
                true => writeln!(
                    f,
                    "port \"{port}\": closed, then opened anew; what comes and goes in between is lost (restart-port)"
                )?,
                false => writeln!(f, "port \"{port}\": closed, because another is to have its device")?,
            }
        }
        for port in self.late.difference(&self.closes) {
            writeln!(f, "port \"{port}\": opened when the port that has its device is closed")?;
        }
        for port in &self.moved {
            writeln!(f, "port \"{port}\": stays open; its queues go to other workers, and nothing is lost")?;
        }
        for port in self.gone.difference(&self.early) {
            writeln!(f, "port \"{port}\": closed")?;
        }
        Ok(())
    }
}

/// Whether a port takes being opened anew: another device, another frame size, more or fewer queues; or it is not open at all.
fn is_reopened(port: &OpenPort, config: &PortConfig, owners: &Owners) -> bool {
    let queues = |owners: &Owners| (owners.rx.len(), owners.tx.len());
    port.closed.is_some()
        || (&port.config.device, port.config.mtu) != (&config.device, config.mtu)
        || queues(&port.owners) != queues(owners)
}

/// What a device cannot share with another: a Linux interface, whichever way it is driven; else the device as it is written.
fn resource(device: &str) -> String {
    match Device::parse(device) {
        Ok(parsed) if matches!(parsed.kind(), Kind::AfXdp | Kind::AfPacket | Kind::Tap) => parsed.name().to_owned(),
        _ => device.to_owned(),
    }
}
