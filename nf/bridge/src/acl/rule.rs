//! A rule as people write it.

use std::fmt;

use weir_config::{MacAddress, Malformed, Quantity, Rate, Scalar, choice, scalar};
use weir_table::classifier::{Half, Match};
use weir_wire::{MacAddr, ethernet};

use crate::words::Vlans;

/// Words of a key: both addresses, destination first, then EtherType and VLAN.
pub(crate) const WORDS: usize = 4;

/// What of a frame rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) vlan: u16,
    pub(crate) ethertype: u16,
}

impl Facts {
    /// As a key that rules are compared with.
    pub(crate) fn key(self) -> [u32; WORDS] {
        let [a, b, c] = words(self.to, self.from);
        [a, b, c, u32::from(self.ethertype) << 16 | u32::from(self.vlan)]
    }
}

/// Two addresses, of 48 bits each, in three words.
fn words(destination: u64, source: u64) -> [u32; 3] {
    let both = u128::from(destination) << 48 | u128::from(source);
    [(both >> 64) as u32, (both >> 32) as u32, both as u32]
}

choice! {
    /// What becomes of a frame.
    pub enum Action {
        /// It goes on.
        Permit = "permit",
        /// It is dropped as `acl-denied`.
        Deny = "deny",
    }
}

/// Stations whose addresses have some bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stations {
    address: u64,
    /// The bits that count.
    mask: u64,
}

/// All bits of an address.
const ALL: u64 = (1 << 48) - 1;

/// The bit that is set in addresses of groups.
const GROUP: u64 = 1 << 40;

const ANYBODY: Stations = Stations { address: 0, mask: 0 };

/// A rule: an action, and what frames it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// As it is written, with one space between words.
    text: String,
    pub(crate) action: Action,
    from: Vec<Stations>,
    to: Vec<Stations>,
    vlans: Vlans,
    /// Bounds, both within.
    ethertypes: Vec<(u16, u16)>,
    /// Whether a sample of its frames is kept to be shown.
    pub(crate) is_logged: bool,
    /// What it permits at most, bit/s.
    pub(crate) police: Option<u64>,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Scalar for Rule {
    const WHAT: &'static str = "a rule of an access list of a bridge";
    const EXAMPLE: &'static str = "deny from 02:00:00:00:00:00/24 to group vlan 10,20-29 ethertype ipv4,0x88cc";

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
            if !matches!(word, "from" | "to" | "vlan" | "ethertype" | "police") {
                let remedy = "use from, to, vlan, ethertype, police or log";
                return Err(Malformed::because(format!("has the word {word}")).remedy(remedy));
            }
            let value = words.next().ok_or_else(|| Malformed::because(format!("has nothing behind {word}")))?;
            match word {
                "from" => rule.from = list(value, stations)?,
                "to" => rule.to = list(value, stations)?,
                "vlan" => rule.vlans = Vlans::parse(&value.replace(';', ",")).map_err(|_| vlans_wrong(value))?,
                "police" => rule.police = Some(rate(value)?),
                _ => rule.ethertypes = list(value, ethertype)?,
            }
        }
        if rule.count() > MOST_MATCHES {
            let problem = format!("comes to more than {MOST_MATCHES} combinations of what it lists");
            return Err(Malformed::because(problem).remedy("make several rules of it"));
        }
        if rule.action == Action::Deny && rule.police.is_some() {
            let problem = "denies, and says what becomes of frames that go on";
            return Err(Malformed::because(problem).remedy("leave police out"));
        }
        rule.text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        Ok(rule)
    }
}

scalar!(Rule);

/// Matches that a rule may come to: each pair of stations, with each range of VLANs and each EtherType.
const MOST_MATCHES: usize = 4096;

impl Rule {
    fn of(action: Action) -> Rule {
        let (text, from, to, ethertypes) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        Rule { text, action, from, to, vlans: Vlans::default(), ethertypes, is_logged: false, police: None }
    }

    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many matches it comes to.
    pub(crate) fn count(&self) -> usize {
        let parts = [self.from.len(), self.to.len(), self.vlans.ranges().len(), self.ethertypes.len()];
        parts.into_iter().fold(1, |count: usize, part| count.saturating_mul(part.max(1)))
    }

    /// What it matches: any of these.
    pub(crate) fn matches(&self) -> Vec<Match<WORDS>> {
        let mut all = Vec::with_capacity(self.count());
        for to in or_all(&self.to, ANYBODY) {
            for from in or_all(&self.from, ANYBODY) {
                for (first, last) in or_all(self.vlans.ranges(), (0, u16::MAX)) {
                    for (low, high) in or_all(&self.ethertypes, (0, u16::MAX)) {
                        let (values, masks) = (words(to.address, from.address), words(to.mask, from.mask));
                        let parts = (0..).zip(values.into_iter().zip(masks));
                        let whole =
                            parts.fold(Match::default(), |so_far, (n, (value, mask))| so_far.word(n, value, mask));
                        all.push(whole.range(Half::High, low, high).range(Half::Low, first, last));
                    }
                }
            }
        }
        all
    }
}

/// What is listed, or all there is where nothing is.
fn or_all<T: Copy>(listed: &[T], all: T) -> impl Iterator<Item = T> {
    listed.iter().copied().chain(listed.is_empty().then_some(all))
}

/// What stands between commas, or in a file between semicolons.
fn list<T>(text: &str, read: impl Fn(&str) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
    text.split([',', ';']).map(read).collect()
}

/// An address, alone, with a number of bits that count, or with a mask; or what many have in common.
fn stations(text: &str) -> Result<Stations, Malformed> {
    match text {
        "any" => return Ok(ANYBODY),
        "group" => return Ok(Stations { address: GROUP, mask: GROUP }),
        "broadcast" => return Ok(Stations { address: ALL, mask: ALL }),
        _ => {}
    }
    let wrong = || {
        let remedy = "write one as 02:00:00:00:00:01, 02:00:00:00:00:00/24 or 02:00:00:00:00:00/ff:00:00:00:00:00, or any, group or broadcast";
        Malformed::because(format!("has {text} for stations")).remedy(remedy)
    };
    let address = |text: &str| MacAddress::parse(text).map(|mac| MacAddr(mac.octets()).to_bits()).map_err(|_| wrong());
    let Some((first, bits)) = text.split_once('/') else { return Ok(Stations { address: address(text)?, mask: ALL }) };
    let mask = match bits.parse::<u32>() {
        Ok(bits @ 0..=48) => ALL & !ALL.checked_shr(bits).unwrap_or(0),
        Ok(_) => return Err(wrong()),
        Err(_) => address(bits)?,
    };
    let address = address(first)?;
    if address & !mask != 0 {
        let problem = format!("has {text} for stations, whose address has bits that do not count");
        let remedy = format!("write {}/{bits}", MacAddr::from_bits(address & mask));
        return Err(Malformed::because(problem).remedy(remedy));
    }
    Ok(Stations { address, mask })
}

/// An EtherType by its name or number; `llc` for frames that have a length in its place.
fn ethertype(text: &str) -> Result<(u16, u16), Malformed> {
    let number = match text {
        "llc" => return Ok((0, ethernet::FIRST_TYPE - 1)),
        "ipv4" => Some(ethernet::IPV4),
        "ipv6" => Some(ethernet::IPV6),
        "arp" => Some(ethernet::ARP),
        "lldp" => Some(ethernet::LLDP),
        "vlan" => Some(ethernet::CVLAN),
        "svlan" => Some(ethernet::SVLAN),
        "mpls" => Some(ethernet::MPLS),
        "pppoe-discovery" => Some(ethernet::PPPOE_DISCOVERY),
        "pppoe-session" => Some(ethernet::PPPOE_SESSION),
        _ => text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()),
    };
    let number = number.filter(|number| *number >= ethernet::FIRST_TYPE).ok_or_else(|| {
        let remedy = "write ipv4, ipv6, arp, lldp, vlan, svlan, mpls, pppoe-discovery, pppoe-session, llc, or a number such as 0x88cc";
        Malformed::because(format!("has {text} for an EtherType")).remedy(remedy)
    })?;
    Ok((number, number))
}

fn rate(text: &str) -> Result<u64, Malformed> {
    match Rate::UNITS.parse(text)? {
        0 => Err(Malformed::because(format!("has {text} for a rate")).remedy("deny what is to have none")),
        rate => Ok(rate),
    }
}

fn vlans_wrong(text: &str) -> Malformed {
    Malformed::because(format!("has {text} for VLANs"))
        .remedy("write numbers from 1 to 4094 and ranges, as in 10,20-29")
}
