//! Changes at run time: `subscriber add`, `subscriber set`, `subscriber del`.

use std::sync::Mutex;

use serde_json::Value;
use weir_config::PortName;
use weir_net::RouteSource;
use weir_stage::{Collection, Entries, Entry as _, RequestError, Verb, entries};

use crate::config::SubscriberConfig;
use crate::registry::{Entry, Registry, Subscriber};
use crate::state::{Control, lock};
use crate::table::Tags;

/// The subscribers.
pub(crate) static SUBSCRIBERS: Collection =
    Collection::of::<SubscriberConfig>("subscriber", "subscribers").in_file("subscribers");

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    SUBSCRIBERS.verb(
        "add",
        SubscriberConfig::FIELDS,
        "Adds the subscriber behind a pair of tags, where there is none yet",
    ),
    SUBSCRIBERS.verb(
        "set",
        SubscriberConfig::CHANGES,
        "Changes what is named of a subscriber, and adds it if there is none; the word `none` takes a value away",
    ),
    SUBSCRIBERS.verb(
        "del",
        SubscriberConfig::KEYS,
        "Takes back what was added or changed at run time; what the configuration says counts again",
    ),
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
        let tags = tags_of(&self.registry, arguments)?;
        if let Some(interface) = self.interface_with(tags) {
            let name = self.registry.named(tags);
            return Err(format!("{name}: these are the tags of the interface {interface}"));
        }
        self.registry.change(verb, arguments, now)
    }

    fn take_back(&mut self, undo: Self::Undo, now: u64) {
        Entries::take_back(&mut self.registry, undo, now);
    }

    fn settle(&mut self) {
        self.registry.settle();
    }
}

impl Control {
    /// The interface that has the tags of a line.
    fn interface_with(&self, tags: Tags) -> Option<String> {
        let port = self.ports.list().get(usize::from(tags.port))?;
        self.layer.interface_with(port.index, self.registry.settings().link_tags(tags))
    }

    /// Why interfaces can not be added that a request asks for: one would have the tags of a subscriber.
    pub(crate) fn object_to(&self, arguments: &Value) -> Result<(), RequestError> {
        let all = arguments.as_array().map_or(std::slice::from_ref(arguments), Vec::as_slice);
        for one in all {
            let Some((on, link)) = weir_ip::requested_tags(one) else { continue };
            let Ok(port) = self.registry.settings().position(Some(on.as_str())) else { continue };
            let there = self.registry.settings().line_with(port, link).and_then(|tags| self.registry.by_tags(tags));
            if let Some(there) = there {
                let (name, line) = (one.get("name").and_then(Value::as_str), self.registry.named(there.tags));
                let name = name.unwrap_or("the interface");
                return Err(RequestError(format!("{name}: these are the tags of the subscriber {line}")));
            }
        }
        Ok(())
    }
}

impl Entries for Registry {
    /// Tags, and what each source said about the subscriber behind them.
    type Undo = (Tags, Vec<(RouteSource, SubscriberConfig)>);

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
            put(registry, tags, change(None, arguments)?, &name)
        }
        "subscriber set" => {
            let said = change(there.map(Subscriber::fields), arguments)?;
            put(registry, tags, said, &name)
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

fn put(registry: &mut Registry, tags: Tags, said: SubscriberConfig, name: &str) -> Result<(), String> {
    registry.put(RouteSource::Cli, Entry::new(tags, said)).map_err(|problem| format!("{name}: {problem}"))
}

fn tags_of(registry: &Registry, request: &Value) -> Result<Tags, String> {
    let mut arguments = SUBSCRIBERS.arguments(request);
    let key = SubscriberConfig::read_key(&mut arguments);
    let (port, svlan, cvlan) = arguments.finish(key)?;
    let port = registry.settings().position(port.as_ref().map(PortName::as_str));
    Ok(Tags { port: port.map_err(|wrong| wrong.to_string())?, svlan, cvlan })
}

/// What a subscriber has after what is named was changed.
fn change(before: Option<&SubscriberConfig>, request: &Value) -> Result<SubscriberConfig, String> {
    let mut arguments = SUBSCRIBERS.arguments(request);
    let said = SubscriberConfig::read_from(&mut arguments, before);
    arguments.finish(said)
}

/// A subscriber as commands and the configuration write it.
pub(crate) fn written(registry: &Registry, tags: Tags, fields: &SubscriberConfig) -> Value {
    let port = registry.port_of(tags).map(PortName::new);
    SubscriberConfig { port, ..fields.clone() }.to_json().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            ("subscriber add", json!({ "svlan": 1, "cvlan": 2, "key": 2 }), "port: is missing; name one of east, west"),
            (
                "subscriber add",
                json!({ "port": "south", "svlan": 1, "cvlan": 2 }),
                "port: \"south\" is no access port; name one of east, west",
            ),
            ("subscriber add", json!({ "port": "east", "cvlan": 2 }), "svlan is missing"),
            (
                "subscriber add",
                json!({ "port": "east", "svlan": 4095, "cvlan": 2 }),
                "svlan: \"4095\" is not an integer from 1 to 4094",
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
                "key: [1] is not an integer from 0 to 4294967295",
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
        let fields = SubscriberConfig { key: Some(1), user: Some(4), ..SubscriberConfig::behind(1, 1) };
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
