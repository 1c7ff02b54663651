//! Joints: two ports that lead to each other inside the process. What one function sends to the one end enters another function
//! by the other, without a device or a copy: the engine hands batches over.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{ConfigError, ErrorKind};
use weir_engine::JointEnd;
use weir_packet::Pool;
use weir_stage::{Configured, DeviceStats, DeviceText, JOINT, Port, PortError, PortFacts, Queues, local_mac};

use super::Loaded;
use super::config::DeclaredPort;

/// The name of the joint that a device text is an end of.
pub(super) fn joint_of(device: &str) -> Option<&str> {
    let (word, rest) = device.split_once(':')?;
    let name = rest.split(',').next().unwrap_or_default().trim();
    (word == JOINT && !name.is_empty()).then_some(name)
}

/// One end of a joint, as a port. It has no queues.
#[derive(Debug)]
pub(crate) struct JointPort {
    device: String,
    mac: [u8; 6],
}

impl JointPort {
    /// The end of a joint that is the port `name`.
    ///
    /// # Errors
    ///
    /// `device` names no joint, or has an option that joints do not have.
    pub(crate) fn new(name: &str, device: &str) -> Result<JointPort, PortError> {
        let text = DeviceText::parse(device, 1, &["mac"])?;
        if text.argument(0).is_none() {
            return Err(text.wrong("", "names no joint", "write it as in joint:uplink, the same for both of its ends"));
        }
        Ok(JointPort { device: device.to_owned(), mac: text.mac()?.unwrap_or_else(|| local_mac(name)) })
    }
}

impl Port for JointPort {
    fn facts(&self) -> PortFacts {
        PortFacts {
            device: self.device.clone(),
            mac: self.mac,
            mtu: 1500,
            max_rx_queues: u16::MAX,
            max_tx_queues: u16::MAX,
            rss: true, // each worker has what it sends itself
            offloads: Vec::new(),
        }
    }

    fn open(&mut self, _rx_queues: u16, _tx_queues: u16, _pool: &dyn Pool) -> Result<Queues, PortError> {
        Ok((Vec::new(), Vec::new()))
    }

    fn stats(&self) -> DeviceStats {
        let none = Some(0);
        DeviceStats { missed: none, no_buffer: none, rx_errors: none, tx_errors: none, in_rings: none }
    }

    fn link_up(&mut self) -> bool {
        true
    }

    fn close(&mut self) {}
}

/// The two ends of each joint among ports, given as (name, index, device); an end whose other is missing is left out.
pub(super) fn pairs<'a>(ports: impl Iterator<Item = (&'a str, u16, &'a str)>) -> Vec<(JointEnd, JointEnd)> {
    let mut ends: BTreeMap<&str, Vec<JointEnd>> = BTreeMap::new();
    for (name, index, device) in ports {
        if let Some(joint) = joint_of(device) {
            ends.entry(joint).or_default().push(JointEnd { name: name.to_owned(), index });
        }
    }
    let pair = |ends: Vec<JointEnd>| <[JointEnd; 2]>::try_from(ends).ok().map(|[one, other]| (one, other));
    ends.into_values().filter_map(pair).collect()
}

/// What is wrong with the joints of a configuration: each has two ends, of one MTU, that functions have.
pub(super) fn check(loaded: &Loaded) -> Vec<ConfigError> {
    let mut joints: BTreeMap<&str, Vec<&DeclaredPort>> = BTreeMap::new();
    for port in &loaded.ports {
        if let Some(joint) = joint_of(&port.1.device) {
            joints.entry(joint).or_default().push(port);
        }
    }
    let used: BTreeSet<&str> = loaded.functions().iter().flat_map(Configured::ports).collect();
    let mut errors = Vec::new();
    for (joint, ends) in joints {
        let mut wrong = |at: usize, key: &str, problem: String, remedy: &str| {
            if let Some((_, _, element)) = ends.get(at) {
                let root = element.path();
                errors.push(element.error(ErrorKind::Conflict, &root.field(key), problem).remedy(remedy));
            }
        };
        match ends.as_slice() {
            [_] => {
                let problem = format!("joint \"{joint}\" has one end; it takes two ports");
                wrong(0, "device", problem, &format!("give a second port the device \"{JOINT}:{joint}\""));
            }
            [(one, first, _), (other, second, _)] => {
                if first.mtu != second.mtu {
                    let problem = format!("is not the MTU of port \"{one}\", the other end of joint \"{joint}\"");
                    wrong(1, "mtu", problem, "give both ends the same MTU");
                }
                for (at, name) in [(0, one), (1, other)] {
                    if !used.contains(name.as_str()) {
                        let problem =
                            format!("belongs to no function, and what comes over joint \"{joint}\" has nowhere to go");
                        wrong(at, "device", problem, "name it among the ports of a function");
                    }
                }
            }
            [(one, ..), (other, ..), ..] => {
                let problem = format!("joint \"{joint}\" has its two ends already: ports \"{one}\" and \"{other}\"");
                wrong(2, "device", problem, "give this port another joint");
            }
            [] => {}
        }
    }
    errors
}
