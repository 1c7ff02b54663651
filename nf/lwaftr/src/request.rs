//! Changes at run time: `softwire add`, `softwire set`, `softwire del`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;

use serde_json::{Map, Value, json};
use weir_stage::{Argument, Collection, Entries, RequestError, Source, Verb, entries};

use crate::registry::{Fields, Registry, Said};
use crate::state::lock;
use crate::table::Key;
use crate::words::{Bits, Psid};

const IPV4: Argument =
    Argument { name: "ipv4", keyword: None, required: true, many: false, help: "The shared IPv4 address" };

const B4: Argument =
    Argument { name: "b4", keyword: Some("b4"), required: true, many: false, help: "The customer's end of the tunnel" };

const OTHER_B4: Argument = Argument { required: false, ..B4 };

const PSID: Argument = Argument {
    name: "psid",
    keyword: Some("psid"),
    required: false,
    many: false,
    help: "Which of the address's port sets is the customer's; 0 if it is not said",
};

const AFTR: Argument = Argument {
    name: "aftr",
    keyword: Some("aftr"),
    help: "The relay's end of the tunnel; the first one that the configuration names if it is not said",
    ..PSID
};

const LENGTH: Argument =
    Argument { name: "psid_length", keyword: Some("psid_length"), help: "Bits of a PSID of this address", ..PSID };

const OFFSET: Argument =
    Argument { name: "psid_offset", keyword: Some("psid_offset"), help: "Bits of ports in front of the PSID", ..PSID };

/// The softwires.
pub(crate) static SOFTWIRES: Collection = Collection {
    noun: "softwire",
    key: "softwires",
    is_list: true,
    file_key: "softwires",
    fields: &[IPV4, B4, PSID, AFTR, LENGTH, OFFSET],
    has_labels: true,
};

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: SOFTWIRES.noun,
        action: "add",
        arguments: SOFTWIRES.fields,
        help: "Adds a softwire, where there is none yet for the address and PSID",
        batch: true,
    },
    Verb {
        noun: SOFTWIRES.noun,
        action: "set",
        arguments: &[IPV4, PSID, OTHER_B4, AFTR, LENGTH, OFFSET],
        help: "Changes what is named of a softwire, and adds it if there is none; the word `none` takes a value away",
        batch: true,
    },
    Verb {
        noun: SOFTWIRES.noun,
        action: "del",
        arguments: &[IPV4, PSID],
        help: "Takes back what was added or changed at run time; what the configuration says counts again",
        batch: true,
    },
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "softwire add 203.0.113.1 b4 2001:db8::7 psid 3  # the fourth part of the address",
    "softwire set 203.0.113.1 psid 3 b4 2001:db8::8  # another customer's end",
    "softwire del 203.0.113.1 psid 3  # takes it all back",
    "softwire add --from more.txt  # one in each line: 203.0.113.1 b4 2001:db8::9 psid 4",
];

/// Softwires that are changed at once before others have their turn.
const PIECE: usize = 4096;

/// Carries out a request for one or many softwires: all of it or nothing.
pub(crate) fn carry_out(
    shared: &Mutex<Registry>,
    verb: &str,
    arguments: &Value,
    now: u64,
) -> Result<Value, RequestError> {
    entries::carry_out(|| lock(shared), PIECE, (verb, arguments), now)
}

impl Entries for Registry {
    type Undo = (Key, Said);

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Self::Undo, String> {
        let key = key_of(arguments)?;
        let before = self.said(key);
        let said = wanted(verb, key, before, arguments)?;
        self.say(key, said).map_err(|problem| format!("{}: {problem}", named(key)))?;
        Ok((key, before))
    }

    fn take_back(&mut self, (key, said): Self::Undo, _now: u64) {
        // Each step back meets what it met on the way.
        _ = self.say(key, said);
    }
}

/// A softwire as people speak of it.
pub(crate) fn named(key: Key) -> String {
    format!("{} psid {}", key.ipv4, key.psid)
}

/// What is said of a softwire after a request.
fn wanted(verb: &str, key: Key, [config, cli]: Said, arguments: &Value) -> Result<Said, String> {
    let name = named(key);
    match verb {
        "softwire add" if config.or(cli).is_some() => {
            Err(format!("{name} has a softwire already; change it by 'softwire set'"))
        }
        "softwire add" | "softwire set" => Ok([config, Some(change(cli.or(config), arguments)?)]),
        "softwire del" if cli.is_some() => Ok([config, None]),
        "softwire del" if config.is_some() => {
            Err(format!("{name} stands in the configuration; delete it there and reload"))
        }
        "softwire del" => Err(format!("{name} has no softwire; `show softwires` lists them")),
        _ => Err(format!("there is no request '{verb}'")),
    }
}

fn key_of(request: &Value) -> Result<Key, String> {
    let mut arguments = SOFTWIRES.arguments(request);
    let ipv4 = arguments.required::<Ipv4Addr>("ipv4");
    let psid = arguments.one::<Psid>("psid");
    let key = ipv4.zip(psid).map(|(ipv4, psid)| Key { ipv4, psid: psid.over(Some(0), |psid| psid.0).unwrap_or(0) });
    arguments.finish(key)
}

/// What a softwire has after what is named was changed.
fn change(before: Option<Fields>, request: &Value) -> Result<Fields, String> {
    let mut arguments = SOFTWIRES.arguments(request);
    let fields = described(&mut arguments, before);
    arguments.finish(fields)?.ok_or_else(|| "b4 is missing".to_owned())
}

/// What a file or a request says of a softwire, over what was: `None` where something is wrong, or where nobody says whose it is.
#[allow(clippy::option_option, reason = "wrong, or nothing said")]
pub(crate) fn described(source: &mut impl Source, before: Option<Fields>) -> Option<Option<Fields>> {
    let b4 = source.one::<Ipv6Addr>("b4");
    let aftr = source.one::<Ipv6Addr>("aftr");
    let length = source.one::<Bits>("psid_length");
    let offset = source.one::<Bits>("psid_offset");
    let b4 = b4?.over(before.map(|before| before.b4), |b4| b4);
    let aftr = aftr?.over(before.and_then(|before| before.aftr), |aftr| aftr);
    let psid_length = length?.over(before.and_then(|before| before.psid_length), |bits| bits.0);
    let psid_offset = offset?.over(before.and_then(|before| before.psid_offset), |bits| bits.0);
    Some(b4.map(|b4| Fields { b4, aftr, psid_length, psid_offset }))
}

/// A softwire as commands and the configuration write it.
pub(crate) fn written(key: Key, fields: &Fields) -> Value {
    let mut entry = Map::new();
    entry.insert("ipv4".to_owned(), json!(key.ipv4.to_string()));
    entry.insert("psid".to_owned(), json!(key.psid));
    entry.insert("b4".to_owned(), json!(fields.b4.to_string()));
    let mut add = |name: &str, value: Option<Value>| value.map(|value| entry.insert(name.to_owned(), value));
    add("aftr", fields.aftr.map(|aftr| json!(aftr.to_string())));
    add("psid_length", fields.psid_length.map(Value::from));
    add("psid_offset", fields.psid_offset.map(Value::from));
    Value::Object(entry)
}
