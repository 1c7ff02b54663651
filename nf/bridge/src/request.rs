//! Changes at run time: `mac add`, `mac del`, `mac flush`; those of access lists are in `acl::request`.

use std::sync::{Arc, MutexGuard};

use serde_json::{Value, json};
use weir_acl::request::{ADD, DEL};
use weir_config::PortName;
use weir_stage::{
    Argument, Collection, Entries, Entry as _, InTurn, PIECE, RequestError, Saved, ShowRows, Source as _, Verb,
    Versions, entries,
};
use weir_table::mac::{Entry, Station};

use crate::acl;
use crate::config::StaticMac;
use crate::load::{self, Key, place};
use crate::state::{Control, Shared};

/// Stations that stay where they are said to be.
pub(crate) static MACS: Collection = Collection::of::<StaticMac>("mac", "macs");

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    MACS.verb("add", StaticMac::FIELDS, "Says where a station is: it is not learned elsewhere, and does not age"),
    MACS.verb(
        "del",
        StaticMac::KEYS,
        "Forgets a station that was learned, or added; what the configuration says of it counts again",
    ),
    Verb {
        noun: MACS.noun,
        action: "flush",
        arguments: &[
            Argument { help: "Only those in this VLAN", ..StaticMac::FIELDS[1] },
            Argument { help: "Only those behind this port", ..StaticMac::FIELDS[2] },
        ],
        help: "Forgets all stations that were learned, or those of a port or a VLAN",
        batch: false,
    },
    ADD,
    DEL,
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "mac add 02:00:00:00:00:09 vlan 10 port lan  # it is there, whoever says otherwise; without vlan where the bridge is not aware of VLANs",
    "mac add 02:00:00:00:00:66 vlan 10  # frames to it are dropped",
    "mac del 02:00:00:00:00:09 vlan 10  # takes it back",
    "mac flush port lan  # whoever was learned there is learned anew",
    "acl add guests at 2 rule deny from 02:00:00:00:00:fe log  # in front of the second rule; without `at`, of all",
];

/// A bridge whose control side is locked while requests are carried out.
struct Locked<'a> {
    shared: &'a Shared,
    control: MutexGuard<'a, Control>,
}

/// Carries out a request; of a list all of it or nothing.
pub(crate) fn carry_out(shared: &Shared, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    if verb == "mac flush" {
        return flush(shared, arguments).map_err(RequestError);
    }
    if verb.starts_with("acl ") {
        return acl::request::carry_out(shared, verb, arguments, now);
    }
    entries::carry_out(|| Box::new(Locked { shared, control: shared.control() }), 1024, (verb, arguments), now)
}

/// What was said of a station before, and where it had been learned.
pub(crate) struct Before {
    key: Key,
    said: Versions<StaticMac>,
    learned: Option<(Station, Entry)>,
}

impl Entries for Locked<'_> {
    type Undo = Before;

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Before, String> {
        let fixed = &self.control.fixed;
        let mut source = MACS.arguments(arguments);
        let key = StaticMac::read_key(&mut source);
        let key = source.finish(key)?;
        let station = load::station(&self.control.config, key.0, key.1).map_err(|wrong| wrong.to_string())?;
        let learned = self.shared.table.find(self.shared.table.place(station)).filter(|entry| !entry.is_fixed());
        let (_, said) = match verb {
            "mac add" => fixed.put(&MACS, arguments)?,
            "mac del" if learned.is_some() && fixed.get(&key).is_none() => (key, fixed.versions(&key)),
            "mac del" => fixed.take_back(&MACS, arguments)?,
            _ => return Err(format!("there is no request '{verb}'")),
        };
        let wrong = said.added.as_ref().map_or_else(Vec::new, |entry| load::wrong(&self.control.config, entry));
        if let Some(wrong) = wrong.first() {
            return Err(wrong.to_string());
        }
        let before = Before { key, said: fixed.versions(&key), learned: learned.map(|entry| (station, entry)) };
        match self.say(key, said) {
            Ok(()) if verb == "mac del" => self.unlearn(station),
            Ok(()) => {}
            Err(()) => {
                self.take_back(before, 0);
                return Err(format!("there is no room for {}", StaticMac::name_of(&key)));
            }
        }
        Ok(before)
    }

    fn take_back(&mut self, before: Before, _now: u64) {
        // There was room for it before.
        _ = self.say(before.key, before.said);
        if let Some((station, entry)) = before.learned {
            self.shared.enter(station, entry);
        }
    }
}

impl Locked<'_> {
    /// Makes the table follow what is said of a station from now on, unless there is no room for it.
    fn say(&mut self, key: Key, said: Versions<StaticMac>) -> Result<(), ()> {
        self.control.fixed.say(key, said);
        let done = self.shared.follow(&self.control, &key);
        self.control.fixed.forget(&key);
        done.map_err(drop)
    }

    /// Forgets where a station was learned.
    fn unlearn(&self, station: Station) {
        let place = self.shared.table.place(station);
        if self.shared.table.find(place).is_some_and(|entry| !entry.is_fixed())
            && let Some(entry) = self.shared.table.remove(place)
        {
            self.shared.counts.forget(station.vlan(), entry);
        }
    }
}

fn flush(shared: &Shared, arguments: &Value) -> Result<Value, String> {
    let mut source = MACS.arguments(arguments);
    let key = |name| StaticMac::fields().key(name);
    let vlan = key("vlan").and_then(|key| source.field::<Option<u16>>(key, None));
    let port = key("port").and_then(|key| source.field::<Option<PortName>>(key, None));
    let (vlan, port) = source.finish(vlan.zip(port))?;
    let config = Arc::clone(&shared.control().config);
    let port = port.map(|name| place(&config, name.as_str(), None)).transpose().map_err(|wrong| wrong.to_string())?;
    let flushed = shared.flush(|station, entry| {
        port.is_none_or(|port| port == entry.port()) && vlan.is_none_or(|vlan| vlan == station.vlan())
    });
    Ok(json!({ "changed": flushed }))
}

/// What was added by requests, as requests that would add it again.
pub(crate) fn saved(shared: &Arc<Shared>) -> Box<dyn ShowRows<Saved>> {
    let of_macs = Arc::clone(shared);
    let macs = entries::in_order(move |last| of_macs.control().fixed.saved(&MACS, "add", last, PIECE));
    Box::new(InTurn::new([macs, acl::request::save(shared)]))
}
