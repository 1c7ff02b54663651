//! The models: what devices do to packets, one file each.

mod bng;
mod custom;
mod identity;
mod lwaftr;
mod nat;
mod router;
mod signature;

pub use bng::Bng;
pub use custom::{Custom, MatchConfig, match_kind};
pub use identity::Identity;
pub use lwaftr::Lwaftr;
pub use nat::Nat;
pub use router::Router;
pub use signature::Signature;

use std::path::PathBuf;

use crate::model::Model;
use crate::routes::Routes;
use crate::softwires::Softwires;
use crate::subscribers::Subscribers;

/// The model that is taken when nobody says which.
pub const DEFAULT: &str = "identity";

/// The model of the device whose captures [`crate::synthetic`] writes.
pub const OF_SYNTHETIC: &str = "router";

/// All models: what each is called, and what the device does, in a few words.
pub const MODELS: [(&str, &str); 7] = [
    ("identity", "changes nothing"),
    ("router", "changes link headers, TTL and checksum"),
    ("bng", "two VLAN tags on one side, a GRE key on the other, by a table of subscribers"),
    ("lwaftr", "IPv4 on one side, the same in tunnels to customers on the other, by a table of softwires"),
    ("nat", "changes addresses and ports: which become which is learned"),
    ("signature", "keeps what the generator put at the end of packets"),
    ("custom", "keeps what a script says"),
];

/// What models are made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Bytes of each packet that are looked at; `None`: all.
    pub bytes: Option<usize>,
    /// A table of routes, CSV.
    pub routes: Option<PathBuf>,
    /// The ports of the routes at which something was captured.
    pub captured: Vec<String>,
    /// A table of subscribers, CSV.
    pub subscribers: Option<PathBuf>,
    /// A table of softwires, CSV.
    pub softwires: Option<PathBuf>,
    /// What a script declares.
    pub keys: Option<MatchConfig>,
}

/// The model of a name.
///
/// # Errors
///
/// What is wrong, a sentence each: what it needs and has not got, what it has got and does not need, what is wrong in files.
pub fn make(name: &str, sources: &Sources) -> Result<Box<dyn Model>, Vec<String>> {
    let bytes = sources.bytes;
    let mut wrong = misfits(name, sources);
    let routes = match &sources.routes {
        Some(path) => Routes::read(path, &sources.captured).map_err(|told| wrong.extend(told)).ok(),
        None => None,
    };
    let subscribers = match &sources.subscribers {
        Some(path) => Subscribers::read(path).map_err(|told| wrong.extend(told)).ok(),
        None => None,
    };
    let softwires = match &sources.softwires {
        Some(path) => Softwires::read(path).map_err(|told| wrong.extend(told)).ok(),
        None => None,
    };
    let custom = match &sources.keys {
        Some(keys) => Custom::new(keys).map_err(|told| wrong.extend(told)).ok(),
        None => None,
    };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    if let Some(softwires) = softwires {
        return Ok(Box::new(Lwaftr { bytes, softwires }));
    }
    Ok(match (name, subscribers, custom) {
        ("identity", ..) => Box::new(Identity { bytes }),
        ("router", ..) => Box::new(Router { bytes, routes }),
        ("nat", ..) => Box::new(Nat { bytes }),
        ("signature", ..) => Box::new(Signature),
        ("bng", Some(subscribers), _) => Box::new(Bng { bytes, subscribers, routes }),
        ("custom", _, Some(custom)) => Box::new(custom),
        (other, ..) => return Err(vec![format!("there is no model \"{other}\"")]),
    })
}

/// What a model needs and is not given, or is given and does not look at.
fn misfits(name: &str, sources: &Sources) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut look = |option: &str, given: bool, models: &[&str], needed: bool| {
        if given && !models.contains(&name) {
            wrong.push(format!("{option} means nothing to --model {name}; it is for {}", models.join(" and ")));
        } else if !given && needed && models.contains(&name) {
            wrong.push(format!("--model {name} needs {option}"));
        }
    };
    look("--routes", sources.routes.is_some(), &["router", "bng"], false);
    look("--captured", !sources.captured.is_empty(), &["router", "bng"], sources.routes.is_some());
    look("--subscribers", sources.subscribers.is_some(), &["bng"], true);
    look("--softwires", sources.softwires.is_some(), &["lwaftr"], true);
    look("--keys", sources.keys.is_some(), &["custom"], true);
    look("--bytes", sources.bytes.is_some(), &["identity", "router", "bng", "lwaftr", "nat"], false);
    if !sources.captured.is_empty() && sources.routes.is_none() {
        wrong.push("--captured needs --routes, whose ports it names".to_owned());
    }
    wrong
}
