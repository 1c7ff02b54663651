//! Changes at run time: `user set`, `user reset`.

use std::sync::Mutex;

use serde_json::{Value, json};
use weir_config::Scalar;
use weir_stage::{Argument, Collection, Entries, RequestError, Saved, Verb, entries};

use crate::key::UserKey;
use crate::load::unknown;
use crate::state::{Control, lock};
use crate::users::User;

const USER: Argument = Argument {
    name: "user",
    keyword: None,
    required: true,
    many: false,
    help: "The user: VLANs such as 100.7, or an address or prefix that it is known by",
};

const PROFILE: Argument = Argument {
    name: "profile",
    keyword: Some("profile"),
    help: "The name of a profile; what waits stays, and goes by it",
    ..USER
};

/// The users, of whom requests give others a profile.
pub(crate) static USERS: Collection = Collection {
    noun: "user",
    key: "users",
    is_list: true,
    file_key: "users_csv",
    fields: &[
        USER,
        PROFILE,
        Argument {
            name: "subport",
            keyword: Some("subport"),
            required: false,
            help: "The name of its subport",
            ..USER
        },
    ],
    has_labels: false,
};

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: USERS.noun,
        action: "set",
        arguments: &[USER, PROFILE],
        help: "Gives a user another profile",
        batch: true,
    },
    Verb {
        noun: USERS.noun,
        action: "reset",
        arguments: &[USER],
        help: "Gives a user the profile of the configuration again",
        batch: true,
    },
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "user set 3.8 profile gold  # the user behind SVLAN 3, CVLAN 8",
    "user reset 3.8  # what the configuration says counts again",
    "user set --from gold.txt  # one in each line: 3.9 profile gold",
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
    /// A user, and the profile that it had been given.
    type Undo = (u32, Option<u16>);

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String> {
        let (number, profile) = understand(self, verb, arguments)?;
        let before = self.users.get(number).and_then(User::given);
        self.take_back((number, profile), now);
        Ok((number, before))
    }

    fn take_back(&mut self, (number, profile): Self::Undo, _now: u64) {
        self.users.give(number, profile);
        self.assign(number);
    }
}

/// The number of a user, and the profile that it is given.
fn understand(control: &Control, verb: &str, arguments: &Value) -> Result<(u32, Option<u16>), String> {
    let text = |name: &str| {
        let value = arguments.get(name).ok_or_else(|| format!("{name} is missing"))?;
        value.as_str().ok_or_else(|| format!("{value} is no text; {name} is one"))
    };
    let word = text("user")?;
    let key = UserKey::parse(word)
        .map_err(|wrong| format!("\"{word}\" {}; write it as in {}", wrong.problem, UserKey::EXAMPLE))?;
    let number =
        control.users.number(&key).ok_or_else(|| format!("there is no user {key}; `show users` lists them"))?;
    match verb {
        "user set" => {
            let name = text("profile")?;
            let profile = control.names.profile(name).ok_or_else(|| {
                let (problem, remedy) = unknown("profile", name, &control.names.profiles);
                format!("{problem}; {remedy}")
            })?;
            Ok((number, Some(profile)))
        }
        "user reset" => Ok((number, None)),
        _ => Err(format!("there is no request '{verb}'")),
    }
}

/// The profile that a user was given at run time, as the request that would give it again; `None` for a user without.
pub(crate) fn saved(control: &Control, number: u32) -> Option<Saved> {
    let user = control.users.get(number).filter(|user| user.is_given())?;
    let profile = control.names.profiles.get(usize::from(user.profile()))?;
    let first = user.keys.first()?;
    let arguments = json!({ "user": first.to_string(), "profile": profile });
    let kind = if matches!(first, UserKey::Tags(..)) { "tags" } else { "prefix" };
    let entry = json!({ kind: first.to_string(), "profile": profile });
    Some(Saved { entry: Some(entry), ..USERS.saved("set", arguments) })
}
