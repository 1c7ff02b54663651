//! A rule as people write it.

use std::fmt;

use ipnet::IpNet;
use weir_config::{Malformed, NAME, Quantity, Rate, Scalar, choice, scalar};
use weir_table::classifier::{Half, Match};
use weir_wire::{ipv4, ipv6, tcp};

use super::key;
use super::sets::Sets;

choice! {
    /// What becomes of a packet.
    pub enum Action {
        /// It goes on.
        Permit = "permit",
        /// It is dropped.
        Deny = "deny",
    }
}

/// Which of fragmented packets a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragments {
    /// Whole packets.
    None,
    /// First fragments.
    First,
    /// Fragments that are not the first.
    Later,
    /// Any fragment.
    Any,
}

/// Whom packets are from, or for: any of some prefixes and of those of some sets; anybody where neither is named.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ends {
    nets: Vec<IpNet>,
    sets: Vec<String>,
}

impl Ends {
    fn is_anybody(&self) -> bool {
        self.nets.is_empty() && self.sets.is_empty()
    }

    /// Their prefixes, with those of their sets.
    fn prefixes(&self, sets: &Sets) -> Vec<IpNet> {
        let named = self.sets.iter().flat_map(|name| sets.prefixes(name));
        self.nets.iter().copied().chain(named).collect()
    }
}

/// A rule: an action, and what packets it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// As it is written, in the one form that equal rules share.
    text: String,
    pub(crate) action: Action,
    protocol: Option<u8>,
    from: Ends,
    to: Ends,
    from_port: Vec<(u16, u16)>,
    to_port: Vec<(u16, u16)>,
    /// Flags that are set, and those that are looked at.
    flags: Option<(u8, u8)>,
    fragments: Option<Fragments>,
    dscp: Option<u8>,
    icmp: Option<(u8, Option<u8>)>,
    /// Whether a sample of its packets is kept to be shown.
    pub(crate) is_logged: bool,
    /// What it permits at most, bit/s.
    pub(crate) police: Option<u64>,
    /// The DSCP that its packets get.
    pub(crate) set_dscp: Option<u8>,
    /// The VRF in which it is looked up where they go.
    pub(crate) redirect: Option<String>,
}

/// Matches that a rule may come to: each pair of its prefixes with each pair of its ports.
pub(super) const MOST_MATCHES: usize = 4096;

/// The words of a rule that something follows.
const WORDS: &[&str] = &[
    "protocol",
    "from",
    "to",
    "from-port",
    "to-port",
    "flags",
    "fragment",
    "dscp",
    "icmp",
    "police",
    "set-dscp",
    REDIRECT,
];

/// The word that two follow: `vrf`, and a name.
const REDIRECT: &str = "redirect";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Scalar for Rule {
    const WHAT: &'static str = "a rule of an access list";
    const EXAMPLE: &'static str = "permit protocol tcp to 192.0.2.0/24 to-port 80";

    fn parse(text: &str) -> Result<Rule, Malformed> {
        let mut words = text.split_ascii_whitespace();
        let action = match words.next() {
            Some("permit") => Action::Permit,
            Some("deny") => Action::Deny,
            _ => return Err(Malformed::because("does not begin with permit or deny").remedy("write one of them first")),
        };
        let mut rule = Rule::of(action);
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            if seen.contains(&word) {
                return Err(Malformed::because(format!("has {word} twice")).remedy("write several values as 1,2"));
            }
            seen.push(word);
            if word == "log" {
                rule.is_logged = true;
                continue;
            }
            if !WORDS.contains(&word) {
                let known = WORDS.join(", ");
                return Err(Malformed::because(format!("has the word {word}")).remedy(format!("use {known} or log")));
            }
            let value = words.next().ok_or_else(|| Malformed::because(format!("has nothing behind {word}")))?;
            match word {
                REDIRECT => rule.redirect = Some(vrf(value, words.next())?),
                _ => rule.read(word, value)?,
            }
        }
        rule.check()?;
        rule.text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        Ok(rule)
    }
}

scalar!(Rule);

impl Rule {
    /// As it is written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn of(action: Action) -> Rule {
        Rule {
            text: String::new(),
            action,
            protocol: None,
            from: Ends::default(),
            to: Ends::default(),
            from_port: Vec::new(),
            to_port: Vec::new(),
            flags: None,
            fragments: None,
            dscp: None,
            icmp: None,
            is_logged: false,
            police: None,
            set_dscp: None,
            redirect: None,
        }
    }

    /// Reads what stands behind a word.
    fn read(&mut self, word: &str, value: &str) -> Result<(), Malformed> {
        match word {
            "protocol" => self.protocol = Some(protocol(value)?),
            "from" => self.from = ends(value)?,
            "to" => self.to = ends(value)?,
            "from-port" => self.from_port = list(value, ports)?,
            "to-port" => self.to_port = list(value, ports)?,
            "flags" => self.flags = Some(flags(value)?),
            "fragment" => self.fragments = Some(fragments(value)?),
            "dscp" => self.dscp = Some(dscp(value)?),
            "set-dscp" => self.set_dscp = Some(dscp(value)?),
            "icmp" => self.icmp = Some(icmp(value)?),
            _ => self.police = Some(rate(value)?),
        }
        Ok(())
    }

    /// Whether its parts go together.
    fn check(&self) -> Result<(), Malformed> {
        let wrong = |problem: &str, remedy: &str| Err(Malformed::because(problem).remedy(remedy));
        let has_ports = !self.from_port.is_empty() || !self.to_port.is_empty();
        if has_ports && !self.protocol.is_some_and(key::has_ports) {
            return wrong("has ports, and no protocol that has them", "add protocol tcp, or another with ports");
        }
        if self.flags.is_some() && self.protocol != Some(ipv4::TCP) {
            return wrong("has flags, which only TCP has", "add protocol tcp");
        }
        if self.icmp.is_some() && !matches!(self.protocol, Some(ipv4::ICMP | ipv6::ICMPV6)) {
            return wrong("has an ICMP type, and is not for ICMP", "add protocol icmp or icmpv6");
        }
        let looks_behind = has_ports || self.flags.is_some() || self.icmp.is_some();
        if looks_behind && self.fragments == Some(Fragments::Later) {
            let problem = "is for fragments that are not the first, which have no ports, flags or ICMP types";
            return wrong(problem, "leave one of both out");
        }
        let says_more = self.police.is_some() || self.set_dscp.is_some() || self.redirect.is_some();
        if self.action == Action::Deny && says_more {
            let problem = "denies, and says what becomes of packets that go on";
            return wrong(problem, "leave police, set-dscp and redirect out");
        }
        self.check_with(&Sets::default())
    }

    /// The sets that it names.
    pub(super) fn sets(&self) -> impl Iterator<Item = &str> {
        self.from.sets.iter().chain(&self.to.sets).map(String::as_str)
    }

    /// Whether it comes to no more matches than there may be, with what is in its sets.
    pub(super) fn check_with(&self, sets: &Sets) -> Result<(), Malformed> {
        if self.count(sets) > MOST_MATCHES {
            let problem = "comes to more than 4096 pairs of prefixes and ports";
            return Err(Malformed::because(problem).remedy("make several rules of it"));
        }
        Ok(())
    }

    /// How many matches it comes to at most.
    fn count(&self, sets: &Sets) -> usize {
        let ends =
            |ends: &Ends| ends.nets.len() + ends.sets.iter().map(|name| sets.prefixes(name).count()).sum::<usize>();
        [ends(&self.from), ends(&self.to), self.from_port.len(), self.to_port.len()]
            .iter()
            .map(|len| (*len).max(1))
            .product()
    }

    /// What it matches of IPv4.
    pub(crate) fn four(&self, sets: &Sets) -> Vec<Match<{ key::FOUR }>> {
        if self.protocol == Some(ipv6::ICMPV6) {
            return Vec::new();
        }
        self.matches(sets, |rule, side, net| match net {
            IpNet::V4(net) => Some(rule.word(side, net.addr().to_bits(), net.netmask().to_bits())),
            IpNet::V6(_) => None,
        })
    }

    /// What it matches of IPv6.
    pub(crate) fn six(&self, sets: &Sets) -> Vec<Match<{ key::SIX }>> {
        if self.protocol == Some(ipv4::ICMP) {
            return Vec::new();
        }
        self.matches(sets, |rule, side, net| match net {
            IpNet::V4(_) => None,
            IpNet::V6(net) => {
                let (address, mask) = (words(net.addr().to_bits()), words(net.netmask().to_bits()));
                let each = address.into_iter().zip(mask).enumerate();
                Some(each.fold(rule, |rule, (n, (address, mask))| rule.word(side * 4 + n, address, mask)))
            }
        })
    }

    /// Each pair of prefixes of a family with each pair of ports; `narrow` narrows a match to a prefix of the source (0) or of the destination
    /// (1), if it is of the family.
    fn matches<const W: usize>(
        &self,
        sets: &Sets,
        narrow: impl Fn(Match<W>, usize, &IpNet) -> Option<Match<W>>,
    ) -> Vec<Match<W>> {
        let (mut all, any, narrow) = (vec![self.rest()], [(0, u16::MAX)], &narrow);
        for (side, ends) in [&self.from, &self.to].into_iter().enumerate().filter(|(_, ends)| !ends.is_anybody()) {
            let nets = ends.prefixes(sets);
            let each = |rule: Match<W>| nets.iter().filter_map(move |net| narrow(rule, side, net));
            all = all.into_iter().flat_map(each).collect();
        }
        if let Some((kind, code)) = self.icmp {
            let (least, most) = code.map_or((0, u8::MAX), |code| (code, code));
            let both = |code: u8| u16::from_be_bytes([kind, code]);
            let of = |rule: Match<W>| rule.range(Half::High, both(least), both(most));
            return all.into_iter().map(of).collect();
        }
        for (half, ports) in [(Half::High, &self.from_port), (Half::Low, &self.to_port)] {
            let ports = if ports.is_empty() { any.as_slice() } else { ports.as_slice() };
            let each = |rule: Match<W>| ports.iter().map(move |(least, most)| rule.range(half, *least, *most));
            all = all.into_iter().flat_map(each).collect();
        }
        all
    }

    /// What is neither an address nor a port.
    fn rest<const W: usize>(&self) -> Match<W> {
        let facts = W - 2;
        let mut rule = Match::default();
        if let Some(protocol) = self.protocol {
            rule = rule.word(facts, protocol.into(), key::PROTOCOL);
        }
        if let Some((set, looked_at)) = self.flags {
            let bits = |flags: u8| u32::from(flags) << key::FLAGS_AT;
            rule = rule.word(facts, bits(set), bits(looked_at) | key::NO_FLAGS);
        }
        if let Some(dscp) = self.dscp {
            rule = rule.word(facts, u32::from(dscp) << key::DSCP_AT, 0x3f << key::DSCP_AT);
        }
        if !self.from_port.is_empty() || !self.to_port.is_empty() || self.icmp.is_some() {
            rule = rule.word(facts, 0, key::NO_PORTS);
        }
        match self.fragments {
            None => rule,
            Some(Fragments::None) => rule.word(facts, 0, key::FRAGMENT),
            Some(Fragments::Any) => rule.word(facts, key::FRAGMENT, key::FRAGMENT),
            Some(Fragments::First) => rule.word(facts, key::FRAGMENT, key::FRAGMENT | key::LATER),
            Some(Fragments::Later) => rule.word(facts, key::LATER, key::LATER),
        }
    }
}

/// The words of a number, highest first.
pub(crate) fn words(bits: u128) -> [u32; 4] {
    [(bits >> 96) as u32, (bits >> 64) as u32, (bits >> 32) as u32, bits as u32]
}

/// Values that are parted by commas, or, as in files, by `;`.
fn list<T>(text: &str, read: impl Fn(&str) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
    let named =
        |part: &str, wrong: Malformed| Malformed { problem: format!("has {part}, which {}", wrong.problem), ..wrong };
    text.split([',', ';']).map(|part| read(part).map_err(|wrong| named(part, wrong))).collect()
}

/// Prefixes, and sets of them by their names: `10.0.0.0/8,@customers`.
fn ends(text: &str) -> Result<Ends, Malformed> {
    let mut ends = Ends::default();
    for part in text.split([',', ';']) {
        match part.strip_prefix('@') {
            Some(name) if (NAME.matches)(name) => ends.sets.push(name.to_owned()),
            Some(_) => return malformed("prefix set", part, format!("write @ and a name such as {}", NAME.example)),
            None => ends.nets.extend(list(part, IpNet::parse)?),
        }
    }
    Ok(ends)
}

fn malformed<T>(what: &str, text: &str, remedy: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed::because(format!("has the {what} {text}")).remedy(remedy))
}

/// The VRF that packets are redirected to: the words behind `redirect`.
fn vrf(kind: &str, name: Option<&str>) -> Result<String, Malformed> {
    match (kind, name) {
        ("vrf", Some(name)) if (NAME.matches)(name) => Ok(name.to_owned()),
        _ => {
            let remedy =
                "write redirect vrf and the name of one; its routes lead to next hops, interfaces and functions";
            Err(Malformed::because("redirects to no VRF").remedy(remedy))
        }
    }
}

fn protocol(text: &str) -> Result<u8, Malformed> {
    if text == "icmpv6" {
        return Ok(ipv6::ICMPV6);
    }
    let named = (0..=u8::MAX).find(|number| ipv4::protocol_name(*number) == Some(text));
    match named.or_else(|| text.parse().ok()) {
        Some(number) => Ok(number),
        None => {
            malformed("protocol", text, "write a number below 256, or a name such as tcp, udp, icmp, icmpv6, gre, esp")
        }
    }
}

fn ports(text: &str) -> Result<(u16, u16), Malformed> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if least <= most => Ok((least, most)),
        _ => Err(Malformed::because("is no port and no range of ports").remedy("write 80 or 1024-65535")),
    }
}

fn flags(text: &str) -> Result<(u8, u8), Malformed> {
    const NAMES: [(&str, u8); 8] = [
        ("fin", tcp::FIN),
        ("syn", tcp::SYN),
        ("rst", tcp::RST),
        ("psh", tcp::PSH),
        ("ack", tcp::ACK),
        ("urg", tcp::URG),
        ("ece", 0x40),
        ("cwr", 0x80),
    ];
    let (mut set, mut looked_at) = (0, 0);
    for part in text.split([',', ';']) {
        let (name, is_set) = part.strip_prefix('!').map_or((part, true), |name| (name, false));
        let Some((_, bit)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return malformed(
                "TCP flag",
                part,
                "write fin, syn, rst, psh, ack, urg, ece or cwr, and ! before one that is not set",
            );
        };
        looked_at |= bit;
        set |= if is_set { *bit } else { 0 };
    }
    Ok((set, looked_at))
}

fn fragments(text: &str) -> Result<Fragments, Malformed> {
    Ok(match text {
        "none" => Fragments::None,
        "first" => Fragments::First,
        "later" => Fragments::Later,
        "any" => Fragments::Any,
        _ => return malformed("fragment", text, "write none, first, later or any"),
    })
}

/// A DSCP by its number or its name (RFC 2474, RFC 2597, RFC 3246).
fn dscp(text: &str) -> Result<u8, Malformed> {
    let digits = |text: &str| text.parse::<u8>().ok();
    let named = match text.split_at_checked(2) {
        Some(("ef", "")) => Some(46),
        Some(("cs", class)) => digits(class).filter(|class| *class < 8).map(|class| class * 8),
        Some(("af", rest)) => digits(rest).map(|rest| (rest / 10, rest % 10)).and_then(|(class, drop)| {
            ((1..=4).contains(&class) && (1..=3).contains(&drop)).then_some(class * 8 + drop * 2)
        }),
        _ => None,
    };
    match named.or_else(|| digits(text).filter(|number| *number < 64)) {
        Some(number) => Ok(number),
        None => malformed("DSCP", text, "write a number below 64, or ef, cs0 to cs7, af11 to af43"),
    }
}

fn icmp(text: &str) -> Result<(u8, Option<u8>), Malformed> {
    let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
    match (kind.parse(), code.map(str::parse).transpose()) {
        (Ok(kind), Ok(code)) => Ok((kind, code)),
        _ => malformed("ICMP type", text, "write a type or a type and a code: 8 or 3/4"),
    }
}

fn rate(text: &str) -> Result<u64, Malformed> {
    let rate = Rate::UNITS.parse(text)?;
    if rate == 0 { malformed("rate", text, "deny what is to have none") } else { Ok(rate) }
}
