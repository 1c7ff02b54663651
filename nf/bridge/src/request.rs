//! Changes at run time: `mac add`, `mac del`, `mac flush`.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use serde_json::{Value, json};
use weir_config::MacAddress;
use weir_stage::{
    Argument, Collection, Entries, RequestError, Said, Saved, ShowRows, Source as _, Verb, entries, whole,
};
use weir_table::mac::{Entry, Station};
use weir_wire::MacAddr;

use crate::learn::Source;
use crate::load::{place, station};
use crate::plan::NOWHERE;
use crate::state::{Control, Shared};

const MAC: Argument =
    Argument { name: "mac", keyword: None, required: true, many: false, help: "The Ethernet address of a station" };

const VLAN: Argument = Argument {
    name: "vlan",
    keyword: Some("vlan"),
    required: false,
    help: "Its VLAN, if the bridge is aware of VLANs",
    ..MAC
};

const PORT: Argument = Argument {
    name: "port",
    keyword: Some("port"),
    required: false,
    help: "The port that it is behind; frames to it are dropped without",
    ..MAC
};

/// Stations that stay where they are said to be.
pub(crate) static MACS: Collection =
    Collection { noun: "mac", key: "macs", is_list: true, file_key: "", fields: &[MAC, VLAN, PORT], has_labels: true };

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: MACS.noun,
        action: "add",
        arguments: MACS.fields,
        help: "Says where a station is: it is not learned elsewhere, and does not age",
        batch: true,
    },
    Verb {
        noun: MACS.noun,
        action: "del",
        arguments: &[MAC, VLAN],
        help: "Forgets a station that was learned, or added; what the configuration says of it counts again",
        batch: true,
    },
    Verb {
        noun: MACS.noun,
        action: "flush",
        arguments: &[
            Argument { help: "Only those behind this port", ..PORT },
            Argument { help: "Only those in this VLAN", ..VLAN },
        ],
        help: "Forgets all stations that were learned, or those of a port or a VLAN",
        batch: false,
    },
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "mac add 02:00:00:00:00:09 vlan 10 port lan  # it is there, whoever says otherwise; without vlan where the bridge is not aware of VLANs",
    "mac add 02:00:00:00:00:66 vlan 10  # frames to it are dropped",
    "mac del 02:00:00:00:00:09 vlan 10  # takes it back",
    "mac flush port lan  # whoever was learned there is learned anew",
];

/// Who carries requests out.
struct Desk<'a> {
    shared: &'a Shared,
    control: MutexGuard<'a, Control>,
}

/// A desk by which somebody sits.
struct Seat<'a>(Desk<'a>);

impl<'a> Deref for Seat<'a> {
    type Target = Desk<'a>;
    fn deref(&self) -> &Desk<'a> {
        &self.0
    }
}

impl DerefMut for Seat<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Carries out a request; of a list all of it or nothing.
pub(crate) fn carry_out(shared: &Shared, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    if verb == "mac flush" {
        return flush(shared, arguments).map_err(RequestError);
    }
    entries::carry_out(|| Seat(Desk { shared, control: shared.control() }), 1024, (verb, arguments), now)
}

/// What was known of a station before.
pub(crate) struct Before {
    station: Station,
    /// What a request had said.
    requested: Option<u8>,
    /// Where it had been learned.
    learned: Option<Entry>,
}

impl Entries for Desk<'_> {
    type Undo = Before;

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Before, String> {
        let (mac, vlan, port) = read(arguments)?;
        let config = Arc::clone(&self.control.config);
        let labelled = |(key, problem): (&'static str, String)| format!("{key}: {problem}");
        let station = station(&config, MacAddr(mac.octets()), vlan).map_err(labelled)?;
        let learned = self.shared.table.find(self.shared.table.place(station)).filter(|entry| !entry.is_fixed());
        let before = Before { station, requested: self.control.fixed.requested(station), learned };
        match verb {
            "mac add" => {
                let port = port.map_or(Ok(NOWHERE), |port| place(&config, &port, vlan)).map_err(labelled)?;
                self.shared.fix(station, Some(port)).map_err(|crowded| crowded.to_string())?;
                self.control.fixed.request(station, Some(port));
            }
            "mac del" => self.forget(station, mac, learned)?,
            _ => return Err(format!("there is no request '{verb}'")),
        }
        Ok(before)
    }

    fn take_back(&mut self, before: Before, _now: u64) {
        self.control.fixed.request(before.station, before.requested);
        let port = self.control.fixed.get(before.station).map(|(port, _)| port);
        // There was room for it before.
        let _ = self.shared.fix(before.station, port);
        if let Some(entry) = before.learned.filter(|_| port.is_none()) {
            self.shared.enter(before.station, entry);
        }
    }
}

impl Desk<'_> {
    fn forget(&mut self, station: Station, mac: MacAddress, learned: Option<Entry>) -> Result<(), String> {
        match self.control.fixed.get(station) {
            Some((_, Source::Cli)) => {
                self.control.fixed.request(station, None);
                let port = self.control.fixed.get(station).map(|(port, _)| port);
                self.shared.fix(station, port).map_err(|crowded| crowded.to_string())
            }
            Some((_, Source::Config)) => {
                Err(format!("{mac} stands in the configuration; take it out of `macs` there, and reload"))
            }
            None if learned.is_some() => {
                if let Some(entry) = self.shared.table.remove(self.shared.table.place(station)) {
                    self.shared.counts.forget(station.vlan(), entry);
                }
                Ok(())
            }
            None => Err(format!("{mac} is not known; `show macs` lists who is")),
        }
    }
}

type Fields = (MacAddress, Option<u16>, Option<String>);

/// The fields of a request.
fn read(arguments: &Value) -> Result<Fields, String> {
    let mut fields = MACS.arguments(arguments);
    let (mac, vlan) = (fields.required::<MacAddress>("mac"), fields.one::<Vlan>("vlan"));
    let (mac, vlan) = fields.finish(mac.zip(vlan))?;
    Ok((mac, vlan_of(vlan), word(arguments, "port")?))
}

fn vlan_of(said: Said<Vlan>) -> Option<u16> {
    match said {
        Said::Some(Vlan(vlan)) => Some(vlan),
        Said::Nothing | Said::None => None,
    }
}

/// A field that is the name of something.
fn word(arguments: &Value, field: &str) -> Result<Option<String>, String> {
    match arguments.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(other) => Err(format!("{field}: {other} is no name")),
    }
}

/// A VLAN as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vlan(u16);

impl std::fmt::Display for Vlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl weir_config::Scalar for Vlan {
    const WHAT: &'static str = "a VLAN (1 to 4094)";
    const EXAMPLE: &'static str = "10";

    fn parse(text: &str) -> Result<Self, weir_config::Malformed> {
        let number = text.parse().ok().filter(|vlan| (1..=crate::words::LAST_VLAN).contains(vlan));
        number.map(Vlan).ok_or_else(weir_config::Malformed::not::<Vlan>)
    }
}

fn flush(shared: &Shared, arguments: &Value) -> Result<Value, String> {
    let mut fields = MACS.arguments(arguments);
    let vlan = fields.one::<Vlan>("vlan");
    let vlan = vlan_of(fields.finish(vlan)?);
    let port = word(arguments, "port")?;
    let config = Arc::clone(&shared.control().config);
    let port =
        port.map(|name| place(&config, &name, None)).transpose().map_err(|(_, problem)| format!("port: {problem}"))?;
    let flushed = shared.flush(|station, entry| {
        port.is_none_or(|port| port == entry.port()) && vlan.is_none_or(|vlan| vlan == station.vlan())
    });
    Ok(json!({ "changed": flushed }))
}

/// What was added by requests, as requests that would add it again.
pub(crate) fn saved(shared: &Shared) -> Box<dyn ShowRows<Saved>> {
    let control = shared.control();
    let is_aware = control.config.tagging != crate::config::Tagging::None;
    let save = |(station, port): (Station, u8)| {
        let mut fields = serde_json::Map::new();
        fields.insert("mac".to_owned(), json!(MacAddr::from_bits(station.address()).to_string()));
        if is_aware {
            fields.insert("vlan".to_owned(), json!(station.vlan()));
        }
        if port != NOWHERE {
            fields.insert("port".to_owned(), json!(control.name(port)));
        }
        MACS.saved("add", Value::Object(fields))
    };
    whole(control.fixed.of_requests().map(save).collect())
}
