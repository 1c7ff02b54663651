//! Changes at run time: `user set`, `user reset`.

use serde_json::{Value, json};
use weir_config::Scalar;
use weir_stage::{Argument, RequestError, Saved, Verb};

use crate::key::UserKey;
use crate::load::unknown;
use crate::state::Control;

const USER: Argument = Argument {
    name: "user",
    keyword: None,
    required: true,
    many: false,
    help: "The user: VLANs such as 100.7, or an address or prefix that it is known by",
};

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: "user",
        action: "set",
        arguments: &[
            USER,
            Argument {
                name: "profile",
                keyword: Some("profile"),
                required: true,
                many: false,
                help: "The name of a profile; what waits stays, and goes by it",
            },
        ],
        help: "Gives a user another profile",
        batch: true,
    },
    Verb {
        noun: "user",
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

/// Carries out a request, whose arguments are an object, or a list of such for many at once. Either all of them is done or
/// nothing.
pub(crate) fn carry_out(control: &mut Control, verb: &str, arguments: &Value) -> Result<Value, RequestError> {
    let one = std::slice::from_ref(arguments);
    let list = arguments.as_array().map_or(one, Vec::as_slice);
    let is_list = arguments.is_array();
    let mut changes = Vec::with_capacity(list.len());
    for (n, arguments) in list.iter().enumerate() {
        let change = understand(control, verb, arguments);
        let refused = |problem| if is_list { RequestError::of_entry(n + 1, problem) } else { RequestError(problem) };
        changes.push(change.map_err(refused)?);
    }
    for (number, profile) in changes {
        control.users.give(number, profile);
        control.assign(number);
    }
    Ok(json!({ "changed": list.len() }))
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
    Some(Saved { verb: "user set".to_owned(), arguments, key: "users".to_owned(), entry: Some(entry) })
}
