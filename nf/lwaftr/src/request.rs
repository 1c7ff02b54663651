//! Changes at run time: `softwire add`, `softwire set`, `softwire del`.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use weir_stage::{Collection, Entries, Entry as _, PIECE, RequestError, Saved, ShowRows, Verb, Versions, entries};

use crate::config::SoftwireConfig;
use crate::registry::{Key, Registry};
use crate::state::lock;

/// The softwires.
pub(crate) static SOFTWIRES: Collection =
    Collection::of::<SoftwireConfig>("softwire", "softwires").in_file("softwires");

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    SOFTWIRES.verb("add", SoftwireConfig::FIELDS, "Adds a softwire, where there is none yet for the address and PSID"),
    SOFTWIRES.verb(
        "set",
        SoftwireConfig::CHANGES,
        "Changes what is named of a softwire, and adds it if there is none; the word `none` takes a value away",
    ),
    SOFTWIRES.verb(
        "del",
        SoftwireConfig::KEYS,
        "Takes back what was added or changed at run time; what the configuration says counts again",
    ),
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "softwire add 203.0.113.1 b4 2001:db8::7 psid 3  # the fourth part of the address",
    "softwire set 203.0.113.1 psid 3 b4 2001:db8::8  # another customer's end",
    "softwire del 203.0.113.1 psid 3  # takes it all back",
    "softwire add --from more.txt  # one in each line: 203.0.113.1 b4 2001:db8::9 psid 4",
];

/// Softwires that are changed at once before others have their turn.
const AT_ONCE: usize = 4096;

/// Carries out a request for one or many softwires: all of it or nothing.
pub(crate) fn carry_out(
    shared: &Mutex<Registry>,
    verb: &str,
    arguments: &Value,
    now: u64,
) -> Result<Value, RequestError> {
    entries::carry_out(|| lock(shared), AT_ONCE, (verb, arguments), now)
}

impl Entries for Registry {
    type Undo = (Key, Versions<SoftwireConfig>);

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Self::Undo, String> {
        let (key, said) = match verb {
            "softwire add" => self.ledger().add(&SOFTWIRES, arguments)?,
            "softwire set" => self.ledger().set(&SOFTWIRES, arguments)?,
            "softwire del" => self.ledger().take_back(&SOFTWIRES, arguments)?,
            _ => return Err(format!("there is no request '{verb}'")),
        };
        let before = self.ledger().versions(&key);
        self.say(key, said).map_err(|problem| format!("{}: {problem}", SoftwireConfig::name_of(&key)))?;
        Ok((key, before))
    }

    fn take_back(&mut self, (key, said): Self::Undo, _now: u64) {
        // Each step back meets what it met on the way.
        _ = self.say(key, said);
    }
}

/// What was added at run time, as requests that would add it again, in order.
pub(crate) fn saved(shared: &Arc<Mutex<Registry>>) -> Box<dyn ShowRows<Saved>> {
    let shared = Arc::clone(shared);
    entries::in_order(move |last| lock(&shared).ledger().saved(&SOFTWIRES, "set", last, PIECE))
}
