//! Changes at run time: `subscriber add`, `subscriber set`, `subscriber del`.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use weir_config::MacAddress;
use weir_net::RouteSource;
use weir_stage::{Argument, Collection, Entries, RequestError, Source, Verb, entries};
use weir_wire::MacAddr;

use crate::registry::{Entry, Fields, Registry};
use crate::state::{Control, lock};
use crate::table::Tags;
use crate::words::{Number, Profile, Source4, Source6, Vlan};

const SVLAN: Argument =
    Argument { name: "svlan", keyword: None, required: true, many: false, help: "VLAN identifier of the outer tag" };

const CVLAN: Argument = Argument { name: "cvlan", help: "VLAN identifier of the inner tag", ..SVLAN };

const PORT: Argument = Argument {
    name: "port",
    keyword: Some("port"),
    required: false,
    many: false,
    help: "The access port; not needed if there is one only",
};

const KEY: Argument = Argument { name: "key", keyword: Some("key"), help: "GRE key towards the core", ..PORT };

const USER: Argument = Argument {
    name: "user",
    keyword: Some("user"),
    help: "Number of the user in schedulers; a number of its own otherwise",
    ..PORT
};

const IPV4: Argument = Argument {
    name: "ipv4",
    keyword: Some("ipv4"),
    many: true,
    help: "IPv4 addresses and prefixes that it may use",
    ..PORT
};

const IPV6: Argument =
    Argument { name: "ipv6", keyword: Some("ipv6"), many: true, help: "IPv6 prefixes that it may use", ..PORT };

const MAC: Argument =
    Argument { name: "mac", keyword: Some("mac"), help: "The only Ethernet address that it may use", ..PORT };

const PROFILE: Argument =
    Argument { name: "profile", keyword: Some("profile"), help: "Name of its profile for schedulers", ..PORT };

/// The subscribers.
pub(crate) static SUBSCRIBERS: Collection = Collection {
    noun: "subscriber",
    key: "subscribers",
    is_list: true,
    file_key: "subscribers",
    fields: &[SVLAN, CVLAN, PORT, KEY, USER, IPV4, IPV6, MAC, PROFILE],
    has_labels: true,
};

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: SUBSCRIBERS.noun,
        action: "add",
        arguments: SUBSCRIBERS.fields,
        help: "Adds the subscriber behind a pair of tags, where there is none yet",
        batch: true,
    },
    Verb {
        noun: SUBSCRIBERS.noun,
        action: "set",
        arguments: SUBSCRIBERS.fields,
        help: "Changes what is named of a subscriber, and adds it if there is none; the word `none` takes a value away",
        batch: true,
    },
    Verb {
        noun: SUBSCRIBERS.noun,
        action: "del",
        arguments: &[SVLAN, CVLAN, PORT],
        help: "Takes back what was added or changed at run time; what the configuration says counts again",
        batch: true,
    },
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "subscriber add 100 7 key 7 ipv4 10.0.0.12  # behind SVLAN 100, CVLAN 7",
    "subscriber set 100 7 ipv4 10.0.0.13  # another address",
    "subscriber set 100 7 ipv4 none  # none at all",
    "subscriber del 100 7  # takes it all back",
    "subscriber add --from more.txt  # one in each line: 100 8 key 8",
];

/// Carries out a request for one or many subscribers: all of it or nothing.
pub(crate) fn carry_out(
    shared: &Mutex<Control>,
    verb: &str,
    arguments: &Value,
    now: u64,
) -> Result<Value, RequestError> {
    entries::carry_out(|| lock(shared), usize::MAX, (verb, arguments), now)
}

impl Entries for Control {
    type Undo = <Registry as Entries>::Undo;

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String> {
        self.registry.change(verb, arguments, now)
    }

    fn take_back(&mut self, undo: Self::Undo, now: u64) {
        Entries::take_back(&mut self.registry, undo, now);
    }

    fn settle(&mut self) {
        self.registry.settle();
    }
}

impl Entries for Registry {
    /// Tags, and what each source said about the subscriber behind them.
    type Undo = (Tags, Vec<(RouteSource, Fields)>);

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Self::Undo, String> {
        let tags = tags_of(self, arguments)?;
        let before = self.versions(tags);
        apply(self, verb, tags, arguments).map(|()| (tags, before))
    }

    fn take_back(&mut self, (tags, versions): Self::Undo, _now: u64) {
        // Each step back meets what it met on the way.
        _ = self.become_versions(tags, versions);
    }

    fn settle(&mut self) {
        Registry::settle(self);
    }
}

fn apply(registry: &mut Registry, verb: &str, tags: Tags, arguments: &Value) -> Result<(), String> {
    let name = registry.named(tags).to_string();
    let there = registry.by_tags(tags);
    match verb {
        "subscriber add" => {
            if let Some(there) = there {
                let source = there.source();
                return Err(format!("{name} has a subscriber ({source}) already; change it by 'subscriber set'"));
            }
            put(registry, tags, change(Fields::default(), arguments)?, &name)
        }
        "subscriber set" => {
            let before = there.map_or_else(Fields::default, |there| there.fields().clone());
            put(registry, tags, change(before, arguments)?, &name)
        }
        "subscriber del" => {
            let versions = registry.versions(tags);
            if versions.iter().any(|(source, _)| *source == RouteSource::Cli) {
                return registry.take_back(RouteSource::Cli, tags).map_err(|problem| format!("{name}: {problem}"));
            }
            Err(match versions.first() {
                Some((RouteSource::Config, _)) => {
                    format!("{name} stands in the configuration; delete it there and reload")
                }
                Some((source, _)) => format!("{name} is {source}; only what was added at run time can be deleted"),
                None => format!("{name} has no subscriber; `show subscribers` lists them"),
            })
        }
        _ => Err(format!("there is no request '{verb}'")),
    }
}

fn put(registry: &mut Registry, tags: Tags, fields: Fields, name: &str) -> Result<(), String> {
    registry.put(RouteSource::Cli, Entry { tags, fields }).map_err(|problem| format!("{name}: {problem}"))
}

fn tags_of(registry: &Registry, request: &Value) -> Result<Tags, String> {
    let mut arguments = SUBSCRIBERS.arguments(request);
    let tags = arguments.required::<Vlan>("svlan").zip(arguments.required::<Vlan>("cvlan"));
    let (svlan, cvlan) = arguments.finish(tags)?;
    let ports = &registry.settings().ports;
    let position = match request.get("port").and_then(Value::as_str) {
        Some(port) => ports.iter().position(|name| name == port).ok_or_else(|| format!("\"{port}\" is no access port")),
        None if ports.len() == 1 => Ok(0),
        None => Err("port is missing".to_owned()),
    };
    let position = position.map_err(|problem| format!("{problem}; name one of {}", ports.join(", ")))?;
    Ok(Tags { port: position as u8, svlan: svlan.0, cvlan: cvlan.0 })
}

/// What a subscriber has after what is named was changed.
fn change(before: Fields, request: &Value) -> Result<Fields, String> {
    let mut arguments = SUBSCRIBERS.arguments(request);
    let fields = described(&mut arguments, before);
    arguments.finish(fields)
}

/// What a file or a request says of a subscriber, over what was; `None` where something is wrong.
pub(crate) fn described(source: &mut impl Source, before: Fields) -> Option<Fields> {
    let key = source.one::<Number>("key");
    let user = source.one::<Number>("user");
    let ipv4 = source.many::<Source4>("ipv4");
    let ipv6 = source.many::<Source6>("ipv6");
    let mac = source.one::<MacAddress>("mac");
    let profile = source.one::<Profile>("profile");
    // Only when all of them were looked at.
    let prefixes4 = |all: Vec<Source4>| all.iter().map(|source| source.0).collect();
    let prefixes6 = |all: Vec<Source6>| all.iter().map(|source| source.0).collect();
    Some(Fields {
        key: key?.over(before.key, |key| key.0),
        user: user?.over(before.user, |user| user.0),
        ipv4: ipv4?.over(Some(before.ipv4), prefixes4).unwrap_or_default(),
        ipv6: ipv6?.over(Some(before.ipv6), prefixes6).unwrap_or_default(),
        mac: mac?.over(before.mac, |mac| MacAddr(mac.octets())),
        profile: profile?.over(before.profile, |name| Arc::from(name.0.as_str())),
    })
}

/// A subscriber as commands and the configuration write it.
pub(crate) fn written(registry: &Registry, tags: Tags, fields: &Fields) -> Value {
    let mut entry = Map::new();
    let port = registry.settings().ports.get(usize::from(tags.port));
    entry.insert("port".to_owned(), json!(port));
    entry.insert("svlan".to_owned(), json!(tags.svlan));
    entry.insert("cvlan".to_owned(), json!(tags.cvlan));
    let mut add = |name: &str, value: Option<Value>| value.map(|value| entry.insert(name.to_owned(), value));
    add("key", fields.key.map(Value::from));
    add("user", fields.user.map(Value::from));
    let ipv4: Vec<String> = fields.ipv4.iter().map(|prefix| Source4(*prefix).to_string()).collect();
    add("ipv4", (!ipv4.is_empty()).then(|| json!(ipv4)));
    let ipv6: Vec<String> = fields.ipv6.iter().map(ToString::to_string).collect();
    add("ipv6", (!ipv6.is_empty()).then(|| json!(ipv6)));
    add("mac", fields.mac.map(|mac| json!(mac.to_string())));
    add("profile", fields.profile.as_ref().map(|name| json!(**name)));
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::testing::registry;
    use crate::save::saved;
    use weir_stage::Saved;

    fn save(registry: &Registry) -> Vec<Saved> {
        registry.subscribers_from(0).filter_map(|one| saved(registry, one.tags)).collect()
    }

    fn ask(registry: &mut Registry, verb: &str, arguments: Value) -> Result<u64, String> {
        let registry = std::cell::RefCell::new(registry);
        let answer = entries::carry_out(|| registry.borrow_mut(), usize::MAX, (verb, &arguments), 0);
        let answer = answer.map_err(|error| error.0)?;
        Ok(answer["changed"].as_u64().unwrap())
    }

    fn is(registry: &Registry, entries: &[Value]) {
        let found: Vec<Value> =
            registry.subscribers_from(0).map(|one| written(registry, one.tags, one.fields())).collect();
        assert_eq!(found, entries);
    }

    #[test]
    fn subscribers_come_change_and_go() {
        let (_domain, mut registry) = registry(true);
        let full = json!({
            "port": "west", "svlan": "1", "cvlan": "2", "key": "7", "user": 9, "ipv4": ["192.0.2.9", "198.51.100.0/30"],
            "ipv6": "2001:db8:0:7::/64", "mac": "02:00:00:00:00:09", "profile": "gold",
        });
        assert_eq!(ask(&mut registry, "subscriber add", full), Ok(1));
        is(
            &registry,
            &[json!({
                "port": "west", "svlan": 1, "cvlan": 2, "key": 7, "user": 9, "ipv4": ["192.0.2.9", "198.51.100.0/30"],
                "ipv6": ["2001:db8:0:7::/64"], "mac": "02:00:00:00:00:09", "profile": "gold",
            })],
        );
        let line = |more: Value| {
            let mut all = json!({ "port": "west", "svlan": 1, "cvlan": 2 });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let fewer = json!({ "mac": "none", "ipv4": "none", "user": "none", "ipv6": ["none"], "profile": "none" });
        assert_eq!(ask(&mut registry, "subscriber set", line(fewer)), Ok(1));
        is(&registry, &[line(json!({ "key": 7 }))]);
        assert_eq!(ask(&mut registry, "subscriber set", line(json!({ "profile": "tin" }))), Ok(1));
        is(&registry, &[line(json!({ "key": 7, "profile": "tin" }))]);
        let saved = save(&registry);
        assert_eq!(saved.len(), 1);
        assert_eq!((saved[0].key.as_str(), saved[0].entry.as_ref()), ("subscribers", Some(&saved[0].arguments)));
        assert_eq!(ask(&mut registry, "subscriber del", line(json!({}))), Ok(1));
        is(&registry, &[]);
        assert_eq!(ask(&mut registry, &saved[0].verb, saved[0].arguments.clone()), Ok(1));
        is(&registry, &[saved[0].arguments.clone()]);
    }

    #[test]
    fn what_is_wrong_is_told_and_changes_nothing() {
        let (_domain, mut registry) = registry(true);
        ask(&mut registry, "subscriber add", json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": 1 })).unwrap();
        let before: Vec<Value> =
            registry.subscribers_from(0).map(|one| written(&registry, one.tags, one.fields())).collect();
        let cases = [
            ("subscriber add", json!({ "svlan": 1, "cvlan": 2, "key": 2 }), "port is missing; name one of east, west"),
            (
                "subscriber add",
                json!({ "port": "south", "svlan": 1, "cvlan": 2 }),
                "\"south\" is no access port; name one of east, west",
            ),
            ("subscriber add", json!({ "port": "east", "cvlan": 2 }), "svlan is missing"),
            (
                "subscriber add",
                json!({ "port": "east", "svlan": 4095, "cvlan": 2 }),
                "svlan: \"4095\" is not a VLAN identifier from 1 to 4094; write it as in 100",
            ),
            (
                "subscriber add",
                json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": 3 }),
                "east 1.1 has a subscriber (cli) already; change it by 'subscriber set'",
            ),
            (
                "subscriber set",
                json!({ "port": "east", "svlan": 1, "cvlan": 2, "key": 1 }),
                "east 1.2: the key 1 is that of east 1.1; keys are unique",
            ),
            (
                "subscriber set",
                json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": [1] }),
                "key: [1] is not a number from 0 to 4294967295",
            ),
            (
                "subscriber set",
                json!({ "port": "east", "svlan": 1, "cvlan": 1, "ipv4": ["10.0.0.9", "192.0.2.1/24"] }),
                "ipv4: \"192.0.2.1/24\" has host bits set; write \"192.0.2.0/24\"",
            ),
            (
                "subscriber del",
                json!({ "port": "east", "svlan": 1, "cvlan": 2 }),
                "east 1.2 has no subscriber; `show subscribers` lists them",
            ),
            (
                "subscriber move",
                json!({ "port": "east", "svlan": 1, "cvlan": 1 }),
                "there is no request 'subscriber move'",
            ),
            (
                "subscriber set",
                json!([
                    { "port": "east", "svlan": 1, "cvlan": 1, "key": 5 },
                    { "port": "east", "svlan": 1, "cvlan": 2, "key": 1 },
                    { "port": "east", "svlan": 1, "cvlan": 3, "key": 5 },
                ]),
                "entry 3: east 1.3: the key 5 is that of east 1.1; keys are unique",
            ),
        ];
        for (verb, arguments, problem) in cases {
            assert_eq!(ask(&mut registry, verb, arguments), Err(problem.to_owned()));
            is(&registry, &before);
        }
    }

    #[test]
    fn a_command_covers_the_configuration_until_it_is_taken_back() {
        let (_domain, mut registry) = registry(true);
        let tags = Tags { port: 0, svlan: 1, cvlan: 1 };
        let fields = Fields { key: Some(1), user: Some(4), ..Fields::default() };
        registry.put(RouteSource::Config, Entry { tags, fields }).unwrap();
        let line = json!({ "port": "east", "svlan": 1, "cvlan": 1 });
        let problem = "east 1.1 stands in the configuration; delete it there and reload";
        assert_eq!(ask(&mut registry, "subscriber del", line.clone()), Err(problem.to_owned()));
        ask(&mut registry, "subscriber set", json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": 2 })).unwrap();
        is(&registry, &[json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": 2, "user": 4 })]);
        ask(&mut registry, "subscriber del", line).unwrap();
        is(&registry, &[json!({ "port": "east", "svlan": 1, "cvlan": 1, "key": 1, "user": 4 })]);
        assert_eq!(save(&registry), []);
    }
}
