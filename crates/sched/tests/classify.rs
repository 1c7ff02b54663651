//! Classification against a twin that knows what the frame was made from, and does not parse.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;
use weir_sched::classify::{ClassWord, Classifier, ClassifyConfig, Dscp, Frame, PortRange, Protocol, RuleConfig};

const CLASSES: u8 = 4;
const QUEUES: u8 = 4;

/// A frame before it is bytes.
#[derive(Clone, Debug)]
struct Made {
    tags: Vec<(u16, u8, u16)>,
    ip: Option<Ip>,
}

#[derive(Clone, Debug)]
struct Ip {
    addresses: (IpAddr, IpAddr),
    dscp: u8,
    protocol: u8,
    ports: (u16, u16),
    later_fragment: bool,
    /// Words of IPv4 options, or 8-byte units of an IPv6 extension header.
    extra: u8,
}

impl Ip {
    fn has_ports(&self) -> bool {
        matches!(self.protocol, 6 | 17) && !self.later_fragment
    }

    fn bytes(&self) -> (u16, Vec<u8>) {
        let [a, b] = self.ports.0.to_be_bytes();
        let [c, d] = self.ports.1.to_be_bytes();
        let payload = [a, b, c, d, 0, 8, 0, 0];
        match self.addresses {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = 20 + usize::from(self.extra) * 4;
                let mut ip = vec![0; length];
                (ip[0], ip[1], ip[9]) = (0x40 | (length / 4) as u8, self.dscp << 2 | 1, self.protocol);
                ip[6..8].copy_from_slice(&u16::from(self.later_fragment).to_be_bytes());
                ip[12..16].copy_from_slice(&source.octets());
                ip[16..20].copy_from_slice(&destination.octets());
                ip.extend(payload);
                (0x0800, ip)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut ip = vec![0; 40];
                (ip[0], ip[1]) = (0x60 | self.dscp >> 2, self.dscp << 6 | 0x15);
                ip[8..24].copy_from_slice(&source.octets());
                ip[24..40].copy_from_slice(&destination.octets());
                let mut next = 6;
                for _ in 0..self.extra {
                    ip[next] = 60;
                    next = ip.len();
                    ip.extend([0; 8]);
                }
                if self.later_fragment {
                    ip[next] = 44;
                    next = ip.len();
                    ip.extend([0, 0, 0, 8, 0, 0, 0, 1]);
                }
                ip[next] = self.protocol;
                ip.extend(payload);
                (0x86dd, ip)
            }
            _ => unreachable!(),
        }
    }
}

impl Made {
    fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for (tpid, priority, vlan) in &self.tags {
            frame.extend(tpid.to_be_bytes());
            frame.extend((u16::from(*priority) << 13 | vlan).to_be_bytes());
        }
        let (ethertype, rest) = self.ip.as_ref().map_or((0x0806, vec![0; 28]), Ip::bytes);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(rest);
        frame
    }
}

/// Whether the first bits of both are alike.
fn within(prefix: &IpNet, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (one, other) = (bits(prefix.addr()), bits(address));
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1;
    one.len() == other.len() && (0..usize::from(prefix.prefix_len())).all(|n| bit(&one, n) == bit(&other, n))
}

fn twin(config: &ClassifyConfig, made: &Made) -> ClassWord {
    if let Some(ip) = &made.ip {
        for rule in &config.rules {
            let fits = rule.protocol.is_none_or(|protocol| protocol.0 == ip.protocol)
                && rule.source.is_none_or(|prefix| within(&prefix, ip.addresses.0))
                && rule.destination.is_none_or(|prefix| within(&prefix, ip.addresses.1))
                && rule
                    .source_port
                    .is_none_or(|range| ip.has_ports() && (range.first..=range.last).contains(&ip.ports.0))
                && rule
                    .destination_port
                    .is_none_or(|range| ip.has_ports() && (range.first..=range.last).contains(&ip.ports.1));
            if fits {
                return rule.class;
            }
        }
        if let Some(class) = config.dscp.get(&Dscp(ip.dscp)) {
            return *class;
        }
    }
    let by_priority = made.tags.first().and_then(|(_, priority, _)| config.priority.get(priority)).copied();
    by_priority.or(config.usual).unwrap_or(ClassWord { class: CLASSES - 1, queue: 0 })
}

fn some_address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = prop::sample::select(vec!["10.0.0.1", "10.0.0.2", "10.1.0.1", "192.0.2.1"]);
    let v6 = prop::sample::select(vec!["2001:db8::1", "2001:db8::2", "2001:db8:1::1", "fe80::1"]);
    let address = |text: &str| text.parse().unwrap();
    prop_oneof![
        (v4.clone(), v4).prop_map(move |(a, b)| (address(a), address(b))),
        (v6.clone(), v6).prop_map(move |(a, b)| (address(a), address(b))),
    ]
}

fn some_protocol() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1, 6, 17, 47])
}

fn some_port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0, 53, 80, 5060, 65_535])
}

fn some_frame() -> impl Strategy<Value = Made> {
    let tag = (prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]), 0u8..8, 0u16..4096);
    let ip = (some_address(), 0u8..64, some_protocol(), (some_port(), some_port()), any::<bool>(), 0u8..4);
    let ip = ip.prop_map(|(addresses, dscp, protocol, ports, later_fragment, extra)| Ip {
        addresses,
        dscp,
        protocol,
        ports,
        later_fragment,
        extra,
    });
    (prop::collection::vec(tag, 0..=2), prop::option::weighted(0.9, ip)).prop_map(|(tags, ip)| Made { tags, ip })
}

fn some_class() -> impl Strategy<Value = ClassWord> {
    (0..CLASSES, 0..QUEUES)
        .prop_map(|(class, queue)| ClassWord { class, queue: if class + 1 == CLASSES { queue } else { 0 } })
}

fn some_prefix() -> impl Strategy<Value = IpNet> {
    (some_address(), any::<prop::sample::Index>()).prop_map(|((address, _), length)| {
        let most = if address.is_ipv4() { 33 } else { 129 };
        IpNet::new(address, length.index(most) as u8).unwrap().trunc()
    })
}

fn some_range() -> impl Strategy<Value = PortRange> {
    (some_port(), some_port()).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) })
}

fn some_rule() -> impl Strategy<Value = RuleConfig> {
    (
        some_class(),
        prop::option::weighted(0.5, some_protocol()),
        prop::option::weighted(0.4, some_prefix()),
        prop::option::weighted(0.4, some_prefix()),
        prop::option::weighted(0.3, some_range()),
        prop::option::weighted(0.3, some_range()),
    )
        .prop_map(|(class, protocol, source, destination, source_port, destination_port)| RuleConfig {
            class,
            protocol: protocol.map(Protocol),
            source,
            destination,
            source_port,
            destination_port,
        })
}

fn some_config() -> impl Strategy<Value = ClassifyConfig> {
    let dscp = prop::collection::btree_map((0u8..64).prop_map(Dscp), some_class(), 0..20);
    let priority = prop::collection::btree_map(0u8..8, some_class(), 0..8);
    (prop::collection::vec(some_rule(), 0..6), dscp, priority, prop::option::of(some_class()))
        .prop_map(|(rules, dscp, priority, usual)| ClassifyConfig { rules, dscp, priority, usual })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_its_twin(config in some_config(), frames in prop::collection::vec(some_frame(), 1..60)) {
        let classifier = Classifier::new(&config, CLASSES);
        for made in frames {
            let bytes = made.bytes();
            let frame = Frame::of(&bytes);
            prop_assert_eq!(usize::from(frame.tags), made.tags.len());
            for (n, (_, _, vlan)) in made.tags.iter().enumerate() {
                prop_assert_eq!(frame.vlans[n], *vlan);
            }
            prop_assert_eq!(classifier.classify(&bytes, &frame), twin(&config, &made).code(), "{:?}", made);
            // What ends too early has some class, too.
            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                prop_assert!(classifier.classify(cut, &Frame::of(cut)).class() < CLASSES);
            }
        }
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..120), config in some_config()) {
        let classifier = Classifier::new(&config, CLASSES);
        classifier.classify(&bytes, &Frame::of(&bytes));
    }
}

#[test]
fn classes_that_do_not_exist_are_told() {
    let word = |class, queue| ClassWord { class, queue };
    let v4: IpNet = IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let v6: IpNet = IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let rule = |class, source, destination| RuleConfig {
        class,
        protocol: None,
        source,
        destination,
        source_port: None,
        destination_port: None,
    };
    let config = ClassifyConfig {
        rules: vec![rule(word(0, 0), None, None), rule(word(4, 0), None, None), rule(word(0, 0), Some(v4), Some(v6))],
        dscp: BTreeMap::from([(Dscp(46), word(0, 1)), (Dscp(0), word(3, 3))]),
        priority: BTreeMap::from([(8, word(1, 0))]),
        usual: Some(word(3, 4)),
    };
    let keys: Vec<String> = config
        .faults(CLASSES, |class| if class == CLASSES - 1 { QUEUES } else { 1 })
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["rules[2].class", "dscp.ef", "usual", "priority[8]", "rules[3]"]);
    assert_eq!(ClassifyConfig::schema().defects(), Vec::<String>::new());
}
