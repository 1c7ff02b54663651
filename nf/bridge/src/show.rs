//! The tables that are shown: stations, VLANs, ports, groups, multicast routers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use weir_config::{MacAddress, PortName, Scalar};
use weir_stage::request::PIECE;
use weir_stage::{Entry as _, Record, RequestError, Show, ShowRows, columns, whole};
use weir_table::mac::{BUCKET, Entry, Station};
use weir_wire::MacAddr;

use crate::acl;
use crate::config::{StaticMac, Tagging};
use crate::load::key_of;
use crate::plan::{Ports, VLANS, bit, ports_in};
use crate::state::{AGEING_PERIODS, Control, Shared};
use crate::words::Vlans;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "macs",
        columns: columns!(StaticMac, "source", "age_s"),
        help: "Stations, where they are, and who says so. Filter: a MAC address, a port, or a VLAN",
    },
    Show {
        what: "vlans",
        columns: &["vlan", "untagged", "tagged", "macs"],
        help: "VLANs, the ports where their frames have no tag and where they have one, and stations learned in them. Filter: a VLAN",
    },
    Show {
        what: "bridge-ports",
        columns: &["port", "link", "vlan", "tagged", "isolated", "macs", "max_macs", "moves"],
        help: "Ports of bridges, and how many stations were learned behind each or moved there. Filter: a port",
    },
    Show {
        what: "acls",
        columns: &["acl", "at", "rule", "source", "packets", "bytes"],
        help: "Rules of access lists in their order, with what matched each; the last row of a list is its default. Filter: a list",
    },
    Show {
        what: "acl-log",
        columns: &["time", "acl", "port", "side", "source", "destination", "vlan", "ethertype", "rule"],
        help: "Frames of rules with `log` that came last, a sample: each worker keeps one in a millisecond. Filter: a list",
    },
    Show {
        what: "groups",
        columns: &["vlan", "group", "port", "version", "ends_in_s"],
        help: "Multicast groups, and the ports where somebody listens to them. Filter: a group, a port, or a VLAN",
    },
    Show {
        what: "queriers",
        columns: &["vlan", "family", "querier", "is_self", "next_s"],
        help: "Who asks for listeners in each VLAN: the bridge, or another querier that it heard; when the bridge asks again. Filter: a VLAN",
    },
    Show {
        what: "multicast-routers",
        columns: &["vlan", "port", "source", "ends_in_s"],
        help: "Ports behind which there are multicast routers. Filter: a port or a VLAN",
    },
];

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Shared>,
    what: &str,
    filter: Option<&str>,
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    if matches!(what, "acls" | "acl-log") {
        return acl::request::rows(shared, what, filter);
    }
    let control = shared.control();
    let word = filter.map(|word| Word::of(&control, what, word)).transpose()?;
    match what {
        "macs" => Ok(Box::new(Macs { shared: Arc::clone(shared), word, next: 0 })),
        "vlans" => Ok(whole(vlans(shared, &control, word))),
        "bridge-ports" => Ok(whole(ports(shared, &control, word))),
        "groups" => Ok(whole(groups(&control, word, now))),
        "queriers" => Ok(whole(queriers(&control, word, now))),
        "multicast-routers" => Ok(whole(routers(&control, word, now))),
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// What a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Mac(u64),
    Port(u8),
    Vlan(u16),
    Group(std::net::IpAddr),
}

impl Word {
    fn of(control: &Control, what: &str, word: &str) -> Result<Word, RequestError> {
        let mac = || MacAddress::parse(word).ok().map(|mac| Word::Mac(MacAddr(mac.octets()).to_bits()));
        let port = || control.number(word).map(Word::Port);
        let vlan = || word.parse().ok().filter(|vlan| usize::from(*vlan) < VLANS).map(Word::Vlan);
        let group = || word.parse().ok().map(Word::Group);
        let (found, known) = match what {
            "macs" => (mac().or_else(port).or_else(vlan), "a MAC address, a port of the bridge, or a VLAN"),
            "vlans" | "queriers" => (vlan(), "a VLAN"),
            "bridge-ports" => (port(), "a port of the bridge"),
            "groups" => (port().or_else(vlan).or_else(group), "a group, a port of the bridge, or a VLAN"),
            _ => (port().or_else(vlan), "a port of the bridge or a VLAN"),
        };
        found.ok_or_else(|| RequestError(format!("\"{word}\" selects nothing in the table '{what}'; write {known}")))
    }
}

/// A VLAN as it is shown; none where the bridge takes no notice of tags.
pub(crate) fn shown(control: &Control, vlan: u16) -> Value {
    if control.config.tagging == Tagging::None { Value::Null } else { json!(vlan) }
}

fn names(control: &Control, ports: Ports) -> String {
    ports_in(ports).map(|port| control.name(port)).collect::<Vec<_>>().join(" ")
}

fn seconds(nanos: u64) -> u64 {
    nanos / 1_000_000_000
}

/// Stations, by pieces of the table.
struct Macs {
    shared: Arc<Shared>,
    word: Option<Word>,
    next: usize,
}

impl ShowRows for Macs {
    fn piece(&mut self) -> Vec<Value> {
        let buckets = self.shared.table.buckets();
        while self.next < buckets {
            let piece = self.next..(self.next + PIECE / BUCKET).min(buckets);
            self.next = piece.end;
            let rows = self.rows(piece);
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    }
}

impl Macs {
    fn rows(&self, buckets: Range<usize>) -> Vec<Value> {
        let mut found = Vec::new();
        self.shared.table.retain(buckets, |station, entry| {
            found.push((station, entry));
            true
        });
        let is_meant = |(station, entry): &(Station, Entry)| match self.word {
            None => true,
            Some(Word::Mac(mac)) => station.address() == mac,
            Some(Word::Port(port)) => entry.port() == port,
            Some(Word::Vlan(vlan)) => station.vlan() == vlan,
            Some(Word::Group(_)) => false,
        };
        found.retain(is_meant);
        if found.is_empty() {
            return Vec::new();
        }
        let control = self.shared.control();
        found.into_iter().map(|(station, entry)| self.row(&control, station, entry)).collect()
    }

    fn row(&self, control: &Control, station: Station, entry: Entry) -> Value {
        let (mac, vlan) = key_of(&control.config, station);
        let said = control.fixed.get(&(mac, vlan)).filter(|_| entry.is_fixed());
        let by_itself = if entry.is_fixed() { "interface" } else { "learned" };
        let period = control.config.ageing.nanos() / u64::from(AGEING_PERIODS);
        let age = seconds(u64::from(entry.age(self.shared.period())) * period);
        let place = StaticMac { mac, vlan, port: Some(PortName::new(control.name(entry.port()))) };
        place.row(json!({
            "source": said.map_or(by_itself, Record::source),
            "age_s": if entry.is_fixed() { Value::Null } else { json!(age) },
        }))
    }
}

fn vlans(shared: &Shared, control: &Control, word: Option<Word>) -> Vec<Value> {
    let plan = control.plan();
    let row = |vlan: u16| {
        let known = plan.vlan(vlan);
        let is_meant = word.is_none_or(|word| word == Word::Vlan(vlan));
        (known.members != 0 && is_meant).then(|| {
            json!({
                "vlan": shown(control, vlan),
                "untagged": names(control, known.untagged),
                "tagged": names(control, known.members & !known.untagged),
                "macs": shared.counts.of_vlan(vlan).load(Ordering::Relaxed),
            })
        })
    };
    (0..VLANS as u16).filter_map(row).collect()
}

fn ports(shared: &Shared, control: &Control, word: Option<Word>) -> Vec<Value> {
    let plan = control.plan();
    // Those of interfaces beyond it are among them.
    let tagged = |number: u8| {
        let has_tag = |vlan: &u16| plan.vlan(*vlan).members & !plan.vlan(*vlan).untagged & bit(number) != 0;
        let vlans: Vec<u16> = (1..VLANS as u16).filter(has_tag).collect();
        (!vlans.is_empty()).then(|| Vlans::of(vlans.into_iter()).to_string())
    };
    let row = |(number, (name, port)): (u8, (&weir_config::PortName, &crate::config::PortOfBridge))| {
        json!({
            "port": name.as_str(),
            "link": if control.up & bit(number) != 0 { "up" } else { "down" },
            "vlan": port.vlan,
            "tagged": tagged(number),
            "isolated": port.isolated,
            "macs": shared.counts.of_port(number).load(Ordering::Relaxed),
            "max_macs": port.max_macs,
            "moves": shared.counts.moves.get(usize::from(number)).map(|moves| moves.load(Ordering::Relaxed)),
        })
    };
    let all = (0_u8..).zip(&control.config.ports);
    all.filter(|(number, _)| word.is_none_or(|word| word == Word::Port(*number))).map(row).collect()
}

fn groups(control: &Control, word: Option<Word>, now: u64) -> Vec<Value> {
    let all = control.listeners.groups().filter(|((vlan, group), port, _)| match word {
        None => true,
        Some(Word::Port(meant)) => *port == meant,
        Some(Word::Vlan(meant)) => *vlan == meant,
        Some(Word::Group(meant)) => *group == meant,
        Some(Word::Mac(_)) => false,
    });
    let row = |((vlan, group), port, member): ((u16, std::net::IpAddr), u8, crate::snoop::Member)| {
        json!({
            "vlan": shown(control, vlan),
            "group": group.to_string(),
            "port": control.name(port),
            "version": member.version,
            "ends_in_s": seconds(member.until.saturating_sub(now)),
        })
    };
    all.map(row).collect()
}

fn queriers(control: &Control, word: Option<Word>, now: u64) -> Vec<Value> {
    let Some(times) = control.asks() else { return Vec::new() };
    let links = control.queriers.links().filter(|((vlan, _), ..)| word.is_none_or(|word| word == Word::Vlan(*vlan)));
    let row = |((vlan, is_six), other, at): ((u16, bool), Option<std::net::IpAddr>, u64)| {
        let [four, six] = times.own;
        let own = if is_six { six } else { four };
        json!({
            "vlan": shown(control, vlan),
            "family": if is_six { "ipv6" } else { "ipv4" },
            "querier": other.unwrap_or(own).to_string(),
            "is_self": other.is_none(),
            "next_s": seconds(at.saturating_sub(now)),
        })
    };
    links.map(row).collect()
}

fn routers(control: &Control, word: Option<Word>, now: u64) -> Vec<Value> {
    let is_meant = |vlan: Option<u16>, port: u8| match word {
        None => true,
        Some(Word::Port(meant)) => port == meant,
        Some(Word::Vlan(meant)) => vlan == Some(meant),
        Some(_) => false,
    };
    let plan = control.plan();
    let always = ports_in(plan.snooping.map_or(0, |snooping| snooping.always)).filter(|port| is_meant(None, *port));
    let configured =
        always.map(|port| json!({ "vlan": null, "port": control.name(port), "source": "config", "ends_in_s": null }));
    let heard = control.listeners.routers().filter(|(vlan, port, _)| is_meant(Some(*vlan), *port));
    let heard = heard.map(|(vlan, port, until)| {
        json!({
            "vlan": shown(control, vlan),
            "port": control.name(port),
            "source": "heard",
            "ends_in_s": seconds(until.saturating_sub(now)),
        })
    });
    configured.chain(heard).collect()
}

/// Where the station is that a frame goes to, in a few words.
pub(crate) fn explain(shared: &Shared, packet: &[u8]) -> Option<String> {
    let control = shared.control();
    let to = MacAddr(*packet.first_chunk::<6>()?);
    if to.is_group() {
        return Some(format!("{to} is a group"));
    }
    let plan = control.plan();
    let vlans = if plan.tag == 0 { 0..1 } else { 1..VLANS as u16 };
    let mut found = vlans.filter_map(|vlan| {
        let known = shared.table.find(shared.table.place(Station::new(to.to_bits(), vlan)))?;
        let vlan = if plan.tag == 0 { String::new() } else { format!(" in VLAN {vlan}") };
        Some(format!("{to} is behind {}{vlan}", control.name(known.port())))
    });
    let all: Vec<String> = found.by_ref().take(3).collect();
    Some(if all.is_empty() { format!("{to} is not known, and flooded") } else { all.join("; ") })
}
