//! The twin of access lists: rules and frames at random, and what a rule matches by its words and the bytes of a frame.
#![allow(dead_code, reason = "each test uses a part")]

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_wire::ipv4::write_checksum;

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Sources and destinations in few networks, so that rules overlap.
pub(crate) fn four(dice: &mut Dice, side: u8) -> Ipv4Addr {
    let [a, b, c] = [dice.below(3) as u8, dice.below(4) as u8, dice.below(4) as u8];
    if side == 0 { Ipv4Addr::new(172, 16 + a, b, c) } else { Ipv4Addr::new(198, 18 + a % 2, b, c) }
}

pub(crate) fn six(dice: &mut Dice, side: u8) -> Ipv6Addr {
    let [a, b, c] = [dice.below(3) as u16, dice.below(4) as u16, dice.below(4) as u16];
    Ipv6Addr::new(0x2001, 0xdb8, 0x100 * (1 + u16::from(side)) + a, 0, 0, b, 0, 0x10 + c)
}

pub(crate) fn prefix(dice: &mut Dice, is_six: bool, side: u8) -> String {
    if is_six {
        let length = dice.one_of(&[32_u32, 48, 64, 96, 127, 128]);
        let bits = six(dice, side).to_bits() & u128::MAX << (128 - length);
        return format!("{}/{length}", Ipv6Addr::from_bits(bits));
    }
    let length = dice.one_of(&[8_u32, 16, 22, 24, 31, 32]);
    let bits = four(dice, side).to_bits() & u32::MAX << (32 - length);
    format!("{}/{length}", Ipv4Addr::from_bits(bits))
}

fn ports(dice: &mut Dice) -> String {
    let port = |dice: &mut Dice| dice.one_of(&[22_u64, 53, 80, 443, 1023, 1024, 65_535]);
    let (one, other) = (port(dice), port(dice));
    match dice.below(3) {
        0 => format!("{}-{}", one.min(other), one.max(other)),
        1 => format!("{one};{other}"),
        _ => one.to_string(),
    }
}

/// A rule at random.
pub(crate) fn random_rule(dice: &mut Dice) -> String {
    let mut rule = dice.one_of(&["permit", "deny"]).to_owned();
    let is_six = dice.below(2) == 0;
    let protocol = dice.one_of(&["", "tcp", "tcp", "udp", "icmp", "gre"]);
    let protocol = if protocol == "icmp" && is_six { "icmpv6" } else { protocol };
    if !protocol.is_empty() {
        rule += &format!(" protocol {protocol}");
    }
    for (side, word) in [(0, "from"), (1, "to")] {
        match dice.below(4) {
            0 => {}
            1 => rule += &format!(" {word} {};{}", prefix(dice, is_six, side), prefix(dice, is_six, side)),
            _ => rule += &format!(" {word} {}", prefix(dice, is_six, side)),
        }
    }
    let mut looks_behind = false;
    match protocol {
        "tcp" | "udp" => {
            for word in ["from-port", "to-port"].iter().filter(|_| dice.below(2) == 0).collect::<Vec<_>>() {
                rule += &format!(" {word} {}", ports(dice));
                looks_behind = true;
            }
            if protocol == "tcp" && dice.below(3) == 0 {
                rule += dice.one_of(&[" flags syn;!ack", " flags ack", " flags !rst;fin"]);
                looks_behind = true;
            }
        }
        "icmp" | "icmpv6" if dice.below(2) == 0 => {
            rule += dice.one_of(&[" icmp 8", " icmp 3/1", " icmp 128/0"]);
            looks_behind = true;
        }
        _ => {}
    }
    if dice.below(6) == 0 {
        let kinds = if looks_behind { &["none", "first", "any"][..] } else { &["none", "first", "any", "later"] };
        rule += &format!(" fragment {}", dice.one_of(kinds));
    }
    if dice.below(6) == 0 {
        rule += &format!(" dscp {}", dice.one_of(&["0", "ef", "af11", "cs7"]));
    }
    rule
}

/// A rule at random, which may redirect what it permits to this VRF.
pub(crate) fn random_redirect(dice: &mut Dice, vrf: &str) -> String {
    let rule = random_rule(dice);
    if rule.starts_with("permit") && dice.below(2) == 0 { format!("{rule} redirect vrf {vrf}") } else { rule }
}

/// The VRF in which packets of a rule are looked up that came in by an interface of the default one; none if it denies them.
pub(crate) fn vrf_of(rule: &str) -> Option<&str> {
    let vrf = rule.split_once(" redirect vrf ").map_or("default", |(_, vrf)| vrf);
    rule.starts_with("permit").then_some(vrf)
}

/// A frame at random to a station.
pub(crate) fn random_frame(dice: &mut Dice, station: [u8; 6]) -> Vec<u8> {
    let protocol = dice.one_of(&[6_u8, 6, 17, 17, 1, 58, 47]);
    let dscp = dice.one_of(&[0_u8, 0, 46, 10, 56]);
    let port = |dice: &mut Dice| dice.one_of(&[22_u16, 53, 80, 443, 1023, 1024, 5000, 65_535]).to_be_bytes();
    let mut payload = [port(dice), port(dice)].concat();
    if matches!(protocol, 1 | 58) {
        payload = vec![dice.one_of(&[8, 3, 128]), dice.below(2) as u8, 0, 0];
    }
    payload.resize(28, 0);
    payload[13] = dice.one_of(&[2, 0x12, 0x10, 1, 4, 0x11, 0]);
    // Now and then it ends before what rules look at.
    if dice.below(12) == 0 {
        payload.truncate(dice.one_of(&[2, 8, 13]));
    }
    let mut frame = [&station[..], &[2, 0, 0, 0, 9, 0]].concat();
    let fragment = dice.below(5);
    if dice.below(2) == 0 {
        frame.extend([8, 0, 0x45, dscp << 2, 0, (20 + payload.len()) as u8, 0, 1]);
        frame.extend(match fragment {
            0 => [0x20, 0],
            1 => [0x20, 5],
            2 => [0, 9],
            _ => [0, 0],
        });
        frame.extend([64, protocol, 0, 0]);
        frame.extend(four(dice, 0).octets());
        frame.extend(four(dice, 1).octets());
        write_checksum(&mut frame[14..]);
        frame.extend(&payload);
    } else {
        // Destination options, twice, and a fragment header between them.
        let mut chain = vec![60_u8; dice.below(3) as usize];
        if fragment < 3 {
            chain.insert(chain.len().min(1), 44);
        }
        let mut rest = Vec::new();
        for (n, kind) in chain.iter().enumerate() {
            let next = chain.get(n + 1).copied().unwrap_or(protocol);
            let offset = if fragment == 0 { [0, 1] } else { [0, 0x51] };
            rest.extend(if *kind == 44 {
                [next, 0, offset[0], offset[1], 0, 0, 0, 7]
            } else {
                [next, 0, 1, 4, 0, 0, 0, 0]
            });
        }
        rest.extend(&payload);
        let first = chain.first().copied().unwrap_or(protocol);
        frame.extend([0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6, 0, 0, 0, rest.len() as u8, first, 64]);
        frame.extend(six(dice, 0).octets());
        frame.extend(six(dice, 1).octets());
        frame.extend(&rest);
    }
    // What fills up the frame is none of the packet.
    frame.resize(frame.len().max(60), 0xff);
    frame
}

/// A frame as a rule sees it.
struct Seen {
    is_six: bool,
    source: u128,
    destination: u128,
    dscp: u8,
    protocol: u8,
    is_fragment: bool,
    is_later: bool,
    /// What is behind the headers of the network; nothing of a later fragment.
    rest: Vec<u8>,
}

fn see(frame: &[u8]) -> Seen {
    let ip = &frame[14..];
    if frame[12..14] == [8, 0] {
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let offset = u16::from_be_bytes([ip[6], ip[7]]);
        let is_later = offset & 0x1fff != 0;
        let number = |at: usize| u32::from_be_bytes(ip[at..at + 4].try_into().unwrap()).into();
        let rest = if is_later { Vec::new() } else { ip[20..total].to_vec() };
        let is_fragment = is_later || offset & 0x2000 != 0;
        return Seen {
            is_six: false,
            source: number(12),
            destination: number(16),
            dscp: ip[1] >> 2,
            protocol: ip[9],
            is_fragment,
            is_later,
            rest,
        };
    }
    let end = 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let (mut protocol, mut at, mut is_fragment, mut is_later) = (ip[6], 40, false, false);
    while matches!(protocol, 44 | 60) && !is_later {
        if protocol == 44 {
            is_fragment = true;
            is_later = u16::from_be_bytes([ip[at + 2], ip[at + 3]]) & 0xfff8 != 0;
        }
        protocol = ip[at];
        at += 8;
    }
    let number = |at: usize| u128::from_be_bytes(ip[at..at + 16].try_into().unwrap());
    let rest = if is_later { Vec::new() } else { ip[at..end].to_vec() };
    let dscp = (ip[0] & 15) << 2 | ip[1] >> 6;
    Seen { is_six: true, source: number(8), destination: number(24), dscp, protocol, is_fragment, is_later, rest }
}

/// The first of some rules that matches a frame.
pub(crate) fn first_match(rules: &[String], frame: &[u8]) -> Option<usize> {
    let seen = see(frame);
    rules.iter().position(|rule| matches(rule, &seen))
}

fn matches(rule: &str, seen: &Seen) -> bool {
    // What it does beside stands last.
    let asked = rule.split(" redirect ").next().unwrap();
    let words: Vec<&str> = asked.split(' ').skip(1).collect();
    words.chunks(2).all(|pair| {
        let (word, value) = (pair[0], pair[1]);
        let any = |is: &dyn Fn(&str) -> bool| value.split(';').any(is);
        match word {
            "protocol" => {
                let (number, family) = match value {
                    "icmp" => (1, Some(false)),
                    "tcp" => (6, None),
                    "udp" => (17, None),
                    "gre" => (47, None),
                    _ => (58, Some(true)),
                };
                number == seen.protocol && family.is_none_or(|is_six| is_six == seen.is_six)
            }
            "from" => any(&|net| is_in(net, seen.source, seen.is_six)),
            "to" => any(&|net| is_in(net, seen.destination, seen.is_six)),
            "from-port" => seen.rest.len() >= 4 && any(&|range| is_between(range, &seen.rest[0..2])),
            "to-port" => seen.rest.len() >= 4 && any(&|range| is_between(range, &seen.rest[2..4])),
            "flags" => {
                let bit = |name: &str| match name {
                    "fin" => 1,
                    "syn" => 2,
                    "rst" => 4,
                    _ => 16,
                };
                let is = |flag: &str| match flag.strip_prefix('!') {
                    Some(flag) => seen.rest[13] & bit(flag) == 0,
                    None => seen.rest[13] & bit(flag) != 0,
                };
                seen.rest.len() > 13 && value.split(';').all(is)
            }
            "icmp" => {
                let (kind, code) = value.split_once('/').map_or((value, None), |(kind, code)| (kind, Some(code)));
                let is = |text: &str, byte: u8| text.parse() == Ok(byte);
                seen.rest.len() >= 4 && is(kind, seen.rest[0]) && code.is_none_or(|code| is(code, seen.rest[1]))
            }
            "fragment" => match value {
                "none" => !seen.is_fragment,
                "first" => seen.is_fragment && !seen.is_later,
                "later" => seen.is_later,
                _ => seen.is_fragment,
            },
            "dscp" => {
                seen.dscp
                    == [("0", 0), ("ef", 46), ("af11", 10), ("cs7", 56)].iter().find(|it| it.0 == value).unwrap().1
            }
            _ => panic!("{word}"),
        }
    })
}

pub(crate) fn is_in(net: &str, address: u128, is_six: bool) -> bool {
    let (base, length) = net.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    let (base, bits) = match base.parse().unwrap() {
        std::net::IpAddr::V4(base) => (u128::from(base.to_bits()), 32),
        std::net::IpAddr::V6(base) => (base.to_bits(), 128),
    };
    (bits == 128) == is_six && (address ^ base).checked_shr(bits - length).unwrap_or(0) == 0
}

fn is_between(range: &str, port: &[u8]) -> bool {
    let port = u16::from_be_bytes([port[0], port[1]]);
    let (least, most) = range.split_once('-').unwrap_or((range, range));
    (least.parse().unwrap()..=most.parse().unwrap()).contains(&port)
}
