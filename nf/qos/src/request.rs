//! Changes at run time: `user set`, `user reset`, `subport set`, `subport reset`, `subport add`, `subport del`.

use std::sync::Mutex;

use serde_json::{Value, json};
use weir_stage::{
    Argument, Arguments, Collection, Entries, Entry as _, RequestError, Saved, Source as _, Verb, entries,
};

use weir_sched::config::SubportConfig;

use crate::config::{SubportEntry, UserEntry};
use crate::key::UserKey;
use crate::load::{number, unknown};
use crate::state::{Control, lock};
use crate::users::{Overrides, User};

/// The users, of whom requests give some another profile or subport.
pub(crate) static USERS: Collection = Collection::of::<UserEntry>("user", "users").in_file("users_csv");

/// The subports, of which requests give some other rates.
pub(crate) static SUBPORTS: Collection =
    Collection { is_list: false, ..Collection::of::<SubportEntry>("subport", "scheduler.subports") };

/// The user of a request: by one of what it is known by.
const USER: Argument = Argument { many: false, ..UserEntry::KEYS[0] };

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    USERS.verb(
        "set",
        const { &[USER, Argument { required: false, ..UserEntry::FIELDS[1] }, UserEntry::FIELDS[2]] },
        "Gives a user another profile, or another subport; what waits stays, and goes by it",
    ),
    USERS.verb("reset", const { &[USER] }, "Gives a user the profile and the subport of the configuration again"),
    SUBPORTS.verb(
        "set",
        SubportEntry::CHANGES,
        "Gives a subport, or classes of it, other rates, another size or another weight; what waits stays, and goes by them. The word `none` takes a rate away",
    ),
    SUBPORTS.verb("reset", SubportEntry::KEYS, "Has the configuration count for a subport again"),
    SUBPORTS.verb("add", SubportEntry::FIELDS, "Adds a subport, which users may be moved to then"),
    SUBPORTS.verb("del", SubportEntry::KEYS, "Takes away a subport that was added, and in which there are no users any more"),
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "user set 3.8 profile gold  # the user behind SVLAN 3, CVLAN 8",
    "user set 3.8 subport south  # and moves it to another subport, with what waits",
    "user reset 3.8  # what the configuration says counts again",
    "user set --from gold.txt  # one in each line: 3.9 profile gold",
    "subport set north ceil 800Mbit/s  # what its users may send together at most, from now on",
    "subport set north tb_rate 50Mbit/s weight 3  # what they are guaranteed, and their part of what is left",
    "subport set south weight 2 parent north  # and what is above it: what it sends counts against what that may send",
    "subport set north classes 0=100Mbit/s 2=none  # what they may send of class 0 together; what of class 2 is as much as of all",
    "subport reset north  # what the configuration says counts again",
    "subport add centre ceil 500Mbit/s parent north  # a subport that the configuration does not have",
    "subport del centre  # so that it can go again",
    "subport set --from busy.txt  # one in each line: south ceil 1Gbit/s",
];

/// Carries out a request for one or many users: all of it or nothing.
pub(crate) fn carry_out(
    shared: &Mutex<Control>,
    verb: &str,
    arguments: &Value,
    now: u64,
) -> Result<Value, RequestError> {
    entries::carry_out(|| lock(shared), usize::MAX, (verb, arguments), now)
}

impl Entries for Control {
    type Undo = Given;

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String> {
        let given = match verb {
            "subport set" | "subport reset" => subports::understand(self, verb, arguments)?,
            "subport add" => subports::understand_addition(self, arguments)?,
            "subport del" => subports::understand_removal(self, arguments)?,
            _ => understand(self, verb, arguments).map(|(number, given)| Given::User(number, given))?,
        };
        let before = match &given {
            Given::User(number, _) => {
                Given::User(*number, self.users.get(*number).map_or_else(Overrides::default, User::given))
            }
            Given::Subport(number, _) => Given::Subport(*number, self.subports.given(*number).cloned()),
            Given::Added(number, _) => {
                let name = self.names.subports.get(usize::from(*number)).filter(|name| !name.is_empty());
                Given::Added(*number, name.cloned().zip(self.subports.given(*number).cloned()))
            }
        };
        self.take_back(given, now);
        Ok(before)
    }

    fn take_back(&mut self, given: Self::Undo, _now: u64) {
        match given {
            Given::User(number, given) => {
                self.users.give(number, given);
                self.assign(number);
            }
            Given::Subport(number, given) => {
                self.subports.give(number, given);
                self.tell_subport(number);
            }
            Given::Added(number, added) => self.put_subport(number, added),
        }
    }
}

mod subports;

/// What somebody is given at run time, or was before, by its number.
pub(crate) enum Given {
    /// A user.
    User(u32, Overrides),
    /// A subport.
    Subport(u16, Option<SubportConfig>),
    /// A subport that comes, under a number that is to spare, or none.
    Added(u16, Option<(String, SubportConfig)>),
}

/// The number of a user, and what it is given from then on.
fn understand(control: &Control, verb: &str, arguments: &Value) -> Result<(u32, Overrides), String> {
    let mut source = USERS.arguments(arguments);
    let user = UserEntry::read_key(&mut source);
    let said = match verb {
        "user set" => names(&mut source),
        _ => Some((None, None)),
    };
    let ((user,), (profile, subport)) = source.finish(user.zip(said))?;
    let key = *user.first().ok_or("user is missing")?;
    let number =
        control.users.number(&key).ok_or_else(|| format!("there is no user {key}; `show users` lists them"))?;
    match (verb, &profile, &subport) {
        ("user reset", ..) => Ok((number, Overrides::default())),
        ("user set", None, None) => Err("profile is missing, and so is subport: give one of them or both".to_owned()),
        ("user set", ..) => {
            let before = control.users.get(number).map_or_else(Overrides::default, User::given);
            let profile = numbered("profile", profile, &control.names.profiles)?.or(before.profile);
            let subport = numbered("subport", subport, &control.names.subports)?.or(before.subport);
            Ok((number, Overrides { profile, subport }))
        }
        _ => Err(format!("there is no request '{verb}'")),
    }
}

/// The names of the profile and the subport that a request gives, if it does.
fn names(source: &mut Arguments<'_>) -> Option<(Option<String>, Option<String>)> {
    let key = |name| UserEntry::fields().key(name);
    // Whoever says nothing of the profile keeps the one there is.
    let profile = source.field(key("profile")?, Some(&String::new()));
    let subport = source.field::<Option<String>>(key("subport")?, None);
    Some((profile.map(|name| Some(name).filter(|name| !name.is_empty()))?, subport?))
}

/// The number of a name, if one is given.
pub(crate) fn numbered(what: &str, name: Option<String>, names: &[String]) -> Result<Option<u16>, String> {
    let Some(name) = name else { return Ok(None) };
    match number(names, &name) {
        Some(number) => Ok(Some(number)),
        None => {
            let (problem, remedy) = unknown(what, &name, names);
            Err(format!("{problem}; {remedy}"))
        }
    }
}

/// What a user was given at run time, as the request that would give it again; `None` for a user without.
pub(crate) fn saved(control: &Control, number: u32) -> Option<Saved> {
    let user = control.users.get(number).filter(|user| user.is_given())?;
    let name = |names: &[String], number: Option<u16>| names.get(usize::from(number?)).cloned();
    let (profiles, subports) = (&control.names.profiles, &control.names.subports);
    let first = user.keys.first()?;
    let given = user.given();
    let mut arguments = json!({ "user": first.to_string() });
    let kind = if matches!(first, UserKey::Tags(..)) { "tags" } else { "prefix" };
    // An entry of the configuration says all of it.
    let mut entry = json!({ kind: first.to_string(), "profile": name(profiles, Some(user.profile()))? });
    if let Some(profile) = name(profiles, given.profile) {
        arguments["profile"] = profile.into();
    }
    if let Some(subport) = name(subports, given.subport) {
        arguments["subport"] = subport.into();
    }
    if let Some(subport) = name(subports, Some(user.subport())) {
        entry["subport"] = subport.into();
    }
    Some(Saved { entry: Some(entry), ..USERS.saved("set", arguments) })
}
