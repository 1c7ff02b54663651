//! Which traffic class and queue a frame belongs to: by rules on addresses, protocol and ports, by DSCP (RFC 2474), and by the
//! priority of its outer tag (802.1p). Tagged once, twice or not at all; IPv4 and IPv6.

mod frame;
mod words;

use std::array;
use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_config::config;

pub use frame::{Flow, Frame, MAX_TAGS};
pub use words::{ClassWord, Dscp, PortRange, Protocol};

use crate::class::ClassQueue;

/// Rules at most: each packet that none of them fits has been held against all.
pub const MAX_RULES: usize = 64;

config! {
    /// A rule: packets that all of its keys fit belong to a class.
    pub struct RuleConfig {
        /// The class, and the queue in it.
        pub class: ClassWord = required, live;
        /// The IP protocol.
        pub protocol: Option<Protocol> = optional, live;
        /// A prefix with the source address.
        pub source: Option<IpNet> = optional, live;
        /// A prefix with the destination address.
        pub destination: Option<IpNet> = optional, live;
        /// The source port, or a range with it.
        pub source_port: Option<PortRange> = optional, live;
        /// The destination port, or a range with it.
        pub destination_port: Option<PortRange> = optional, live;
    }
}

config! {
    /// Which traffic class and queue a packet belongs to: that of the first rule that fits; else that of its DSCP; else that of the priority
    /// of its outer tag; else the usual one.
    pub struct ClassifyConfig {
        /// Rules on addresses, protocol and ports, in order.
        pub rules: Vec<RuleConfig> = empty, live, length(0..=MAX_RULES);
        /// Classes by DSCP: `{ ef = "0", af41 = "1" }`.
        pub dscp: BTreeMap<Dscp, ClassWord> = empty, live;
        /// Classes by the priority code point of the outer tag (802.1p): `{ [5] = "0" }`.
        pub priority: BTreeMap<u8, ClassWord> = empty, live;
        /// The class of all other packets; the lowest when absent.
        pub usual: Option<ClassWord> = optional, live;
    }
}

impl ClassifyConfig {
    /// What is wrong with it where there are so many classes, and each has so many queues: the key and a sentence.
    pub fn faults(&self, classes: u8, queues: impl Fn(u8) -> u8) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut look = |key: String, word: &ClassWord| {
            let most = queues(word.class);
            if word.class >= classes {
                faults.push((key, format!("there is no class {}; the classes are 0 to {}", word.class, classes - 1)));
            } else if word.queue >= most {
                faults.push((
                    key,
                    format!(
                        "class {} has no queue {}; its queues are 0 to {}: name one of these, or give the class more `weights` in a profile",
                        word.class,
                        word.queue,
                        most.saturating_sub(1)
                    ),
                ));
            }
        };
        self.rules.iter().zip(1..).for_each(|(rule, n)| look(format!("rules[{n}].class"), &rule.class));
        self.dscp.iter().for_each(|(dscp, word)| look(format!("dscp.{dscp}"), word));
        self.priority.iter().for_each(|(priority, word)| look(format!("priority[{priority}]"), word));
        self.usual.iter().for_each(|word| look("usual".to_owned(), word));
        for priority in self.priority.keys().filter(|priority| **priority > 7) {
            faults.push((format!("priority[{priority}]"), "a priority code point is 0 to 7".to_owned()));
        }
        faults.extend(self.rules.iter().zip(1..).filter_map(|(rule, n)| {
            let mixed = matches!((rule.source, rule.destination), (Some(s), Some(d)) if s.addr().is_ipv4() != d.addr().is_ipv4());
            mixed.then(|| (format!("rules[{n}]"), "source and destination are of different IP versions; no packet fits".to_owned()))
        }));
        faults
    }
}

/// A classification, ready to be asked.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
    /// What no rule fits, as the lane has it: by priority code point and DSCP.
    others: [[u8; WITHOUT_DSCP + 1]; WITHOUT_TAG + 1],
}

/// Places of frames without a DSCP or a tag: behind those of all values.
const WITHOUT_DSCP: usize = 64;
const WITHOUT_TAG: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Rule {
    code: ClassQueue,
    protocol: Option<u8>,
    source: Range,
    destination: Range,
    ports: Option<(PortRange, PortRange)>,
}

/// Which addresses a rule fits.
#[derive(Clone, Copy, Debug)]
enum Range {
    All,
    V4(Ipv4Net),
    V6(Ipv6Net),
}

impl Range {
    fn of(prefix: Option<IpNet>) -> Range {
        match prefix {
            None => Range::All,
            Some(IpNet::V4(prefix)) => Range::V4(prefix),
            Some(IpNet::V6(prefix)) => Range::V6(prefix),
        }
    }

    fn holds(&self, address: &IpAddr) -> bool {
        match (self, address) {
            (Range::All, _) => true,
            (Range::V4(prefix), IpAddr::V4(address)) => prefix.contains(address),
            (Range::V6(prefix), IpAddr::V6(address)) => prefix.contains(address),
            _ => false,
        }
    }
}

impl Rule {
    fn of(config: &RuleConfig) -> Rule {
        let ports = match (config.source_port, config.destination_port) {
            (None, None) => None,
            (source, destination) => Some((source.unwrap_or(PortRange::ALL), destination.unwrap_or(PortRange::ALL))),
        };
        Rule {
            code: config.class.code(),
            protocol: config.protocol.map(|protocol| protocol.0),
            source: Range::of(config.source),
            destination: Range::of(config.destination),
            ports,
        }
    }

    fn fits(&self, flow: &Flow) -> bool {
        let ports = || match (self.ports, flow.ports) {
            (None, _) => true,
            (Some((source, destination)), Some((from, to))) => source.holds(from) && destination.holds(to),
            (Some(_), None) => false,
        };
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.source.holds(&flow.source)
            && self.destination.holds(&flow.destination)
            && ports()
    }
}

impl Classifier {
    /// From a configuration without [faults](ClassifyConfig::faults), where there are so many classes.
    pub fn new(config: &ClassifyConfig, classes: u8) -> Classifier {
        let usual = config.usual.map_or(ClassQueue::new(classes.saturating_sub(1), 0), ClassWord::code);
        let by_priority = |priority: usize| config.priority.get(&(priority as u8)).map_or(usual, |word| word.code());
        let by_dscp = |dscp: usize| config.dscp.get(&Dscp(dscp as u8)).map(|word| word.code());
        let others = array::from_fn(|priority| {
            array::from_fn(|dscp| by_dscp(dscp).unwrap_or_else(|| by_priority(priority)).to_lane())
        });
        Classifier { rules: config.rules.iter().take(MAX_RULES).map(Rule::of).collect(), others }
    }

    /// The class and queue of a frame.
    #[inline]
    pub fn classify(&self, bytes: &[u8], frame: &Frame) -> ClassQueue {
        if !self.rules.is_empty()
            && let Some(code) = self.by_rule(bytes, frame)
        {
            return code;
        }
        let priority = if frame.tags > 0 { usize::from(frame.priority & 7) } else { WITHOUT_TAG };
        let dscp = frame.dscp(bytes).map_or(WITHOUT_DSCP, |dscp| usize::from(dscp & 63));
        ClassQueue::from_lane(self.others[priority][dscp])
    }

    #[inline(never)]
    fn by_rule(&self, bytes: &[u8], frame: &Frame) -> Option<ClassQueue> {
        let flow = frame.flow(bytes)?;
        self.rules.iter().find(|rule| rule.fits(&flow)).map(|rule| rule.code)
    }
}
