//! What a reload does to ports, found out before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_config::Nanos;
use weir_port_dpdk::{Device, Kind};
use weir_stage::PortConfig;

use super::joint::joint_of;
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
    /// What leads from the open ports to those that are wanted: configurations, who owns the queues, and whether a port's packets have
    /// more or less in front of IP than before.
    pub(super) fn between(
        open: &BTreeMap<String, OpenPort>,
        wanted: &BTreeMap<String, Owners>,
        configs: &BTreeMap<&str, &PortConfig>,
        refronted: &dyn Fn(&str) -> bool,
    ) -> PortChanges {
        let mut changes = PortChanges::default();
        let (mut opens, mut leaves) = (BTreeSet::new(), BTreeSet::new());
        for (name, owners) in wanted {
            let (Some(config), now) = (configs.get(name.as_str()), open.get(name)) else { continue };
            match now {
                Some(port) if is_reopened(port, config, owners) || is_linux(&config.device) && refronted(name) => {
                    opens.insert(name);
                    leaves.insert(name);
                }
                Some(port) if joint_of(&config.device).is_none() && port.owners != *owners => {
                    changes.moved.insert(name.clone());
                }
                Some(_) => {}
                None => drop(opens.insert(name)),
            }
        }
        leaves.extend(open.keys().filter(|name| !wanted.contains_key(*name)));
        let mut in_use: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for name in &leaves {
            // A joint is no device that only one may have.
            let held = |port: &&OpenPort| port.closed.is_none() && joint_of(&port.config.device).is_none();
            if let Some(port) = open.get(*name).filter(held) {
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
        || how_opened(&port.config) != how_opened(config)
        || joint_of(&config.device).is_none() && queues(&port.owners) != queues(owners)
}

/// What a port is opened with.
fn how_opened(config: &PortConfig) -> (&str, Option<u16>, Option<u16>, Option<u16>, Option<Nanos>) {
    (&config.device, config.mtu, config.descriptors, config.burst, config.flush)
}

/// What a device cannot share with another: a Linux interface, whichever way it is driven; else the device as it is written.
fn resource(device: &str) -> String {
    linux_interface(device).unwrap_or_else(|| device.to_owned())
}

/// Whether a device is a Linux interface. The MTU of such a one has room for what is in front of IP, and is set when it is opened.
fn is_linux(device: &str) -> bool {
    linux_interface(device).is_some()
}

fn linux_interface(device: &str) -> Option<String> {
    let device = Device::parse(device).ok()?;
    matches!(device.kind(), Kind::AfXdp | Kind::AfPacket | Kind::Tap).then(|| device.name().to_owned())
}

#[cfg(test)]
mod tests {
    use weir_packet::HeapPool;
    use weir_port_mem::MemPort;
    use weir_stage::PortInfo;

    use super::*;
    use crate::supervisor::ports::{self, OpenPort};

    /// A port as (name, device, mtu, owner of its queue).
    type Spec<'a> = (&'a str, &'a str, Option<u16>, usize);

    fn config(device: &str, mtu: Option<u16>) -> PortConfig {
        let (address, of, vrf) = (Default::default(), None, None);
        PortConfig { device: device.to_owned(), address, of, vrf, mtu, descriptors: None, burst: None, flush: None }
    }

    fn open(specs: &[Spec<'_>]) -> BTreeMap<String, OpenPort> {
        let pool = HeapPool::new(1024, 256);
        let open = |&(name, device, mtu, owner): &Spec<'_>| {
            let mut port = MemPort::null(name);
            let (config, owners) = (config(device, mtu), Owners { rx: vec![owner], tx: vec![owner] });
            let info: PortInfo = ports::info(name, 0, &config, &mut port);
            (name.to_owned(), ports::open(Box::new(port), info, config, owners, &pool).unwrap())
        };
        specs.iter().map(open).collect()
    }

    /// What becomes of the ports, in one line: early, late, closes, gone, moved.
    fn changes(from: &[Spec<'_>], to: &[Spec<'_>]) -> String {
        changes_with(from, to, &|_| false)
    }

    /// The same, where some ports get more in front of IP.
    fn changes_with(from: &[Spec<'_>], to: &[Spec<'_>], refronted: &dyn Fn(&str) -> bool) -> String {
        let owners = |owner: usize| Owners { rx: vec![owner], tx: vec![owner] };
        let wanted = to.iter().map(|&(name, _, _, owner)| (name.to_owned(), owners(owner))).collect();
        let configs: Vec<PortConfig> = to.iter().map(|&(_, device, mtu, _)| config(device, mtu)).collect();
        let configs = to.iter().map(|&(name, ..)| name).zip(&configs).collect();
        let PortChanges { early, late, closes, gone, moved } =
            PortChanges::between(&open(from), &wanted, &configs, refronted);
        let names = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(" ");
        [early, late, closes, gone, moved].map(names).join("|")
    }

    #[test]
    fn what_does_not_change_stays() {
        let ports: [Spec<'_>; 2] = [("a", "af_xdp:x", None, 0), ("b", "mem:null", Some(1400), 1)];
        assert_eq!(changes(&ports, &ports), "||||");
    }

    #[test]
    fn another_owner_moves_queues() {
        assert_eq!(changes(&[("a", "af_xdp:x", None, 0)], &[("a", "af_xdp:x", None, 1)]), "||||a");
    }

    #[test]
    fn another_device_is_opened_before_the_old_one_is_closed() {
        assert_eq!(changes(&[("a", "af_xdp:x", None, 0)], &[("a", "af_xdp:y", None, 0)]), "a|||a|");
    }

    #[test]
    fn the_same_device_is_closed_first() {
        let from: [Spec<'_>; 1] = [("a", "af_xdp:x", None, 0)];
        assert_eq!(changes(&from, &[("a", "af_xdp:x", Some(1400), 0)]), "|a|a||");
        // Driven otherwise it is the same interface.
        assert_eq!(changes(&from, &[("a", "af_packet:x", None, 0)]), "|a|a||");
        assert_eq!(changes(&from, &[("a", "af_xdp:x,force_copy=1", None, 0)]), "|a|a||");
        // So under another name.
        assert_eq!(changes(&from, &[("b", "af_xdp:x", None, 0)]), "|b|a||");
    }

    #[test]
    fn an_interface_whose_packets_get_tags_is_opened_anew() {
        let ports: [Spec<'_>; 3] =
            [("a", "af_xdp:x", None, 0), ("b", "af_packet:y", None, 0), ("c", "mem:null", None, 0)];
        assert_eq!(changes_with(&ports, &ports, &|name| name != "b"), "|a|a||");
        assert_eq!(changes_with(&ports, &ports, &|name| name == "b"), "|b|b||");
    }

    #[test]
    fn devices_may_change_places() {
        let from: [Spec<'_>; 2] = [("a", "af_xdp:x", None, 0), ("b", "af_xdp:y", None, 0)];
        let to: [Spec<'_>; 2] = [("a", "af_xdp:y", None, 0), ("b", "af_xdp:x", None, 0)];
        assert_eq!(changes(&from, &to), "|a b|a b||");
        // One of them leads to a third.
        let to: [Spec<'_>; 2] = [("a", "af_xdp:y", None, 0), ("b", "af_xdp:z", None, 0)];
        assert_eq!(changes(&from, &to), "b|a|b|a|");
    }

    #[test]
    fn memory_that_stays_is_nobodys_obstacle() {
        let from: [Spec<'_>; 1] = [("a", "mem:null", None, 0)];
        assert_eq!(changes(&from, &[("a", "mem:null", None, 0), ("b", "mem:null", None, 0)]), "b||||");
        assert_eq!(changes(&from, &[]), "|||a|");
    }
}
