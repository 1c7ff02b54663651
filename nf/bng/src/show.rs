//! The tables of subscribers that a running gateway shows.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use weir_net::RouteSource;
use weir_stage::{Entry as _, PIECE, RequestError, Show, ShowRows, columns, whole};

use crate::config::SubscriberConfig;
use crate::history;
use crate::qos::Direction;
use crate::registry::{Host, Registry, Subscriber, half};
use crate::state::{Control, lock};
use crate::table::{Address, BindingKey, Tags};

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "subscribers",
        columns: columns!(
            SubscriberConfig,
            "source",
            "learned",
            "moves",
            "up_packets",
            "up_bytes",
            "down_packets",
            "down_bytes",
            "drops",
            "shaped_off",
            "shaped_off_by",
            "marked",
            "marks",
            "up_held_by",
            "up_held_for",
            "down_held_by",
            "down_held_for"
        ),
        help: "Subscribers, what was counted of each, why packets of it were dropped, how many of its user's the schedulers \
               dropped and why, and marked (ECN) in which classes, what holds its user back now in each direction, and for how many seconds it has. Filter: SVLAN.CVLAN, an address, \
               key=KEY, user=USER, svlan=SVLAN, profile=NAME, a port, or a source",
    },
    Show {
        what: "history",
        columns: history::COLUMNS,
        help: "What became of one subscriber's packets at its schedulers in each of the last ten seconds and minutes, in each direction: how many were sent, at how many bit/s, why some were dropped, how many were marked (ECN), \
               and how long half of them, and 99 of 100, waited at most. Counted from when somebody asks about the subscriber first. Filter: a subscriber, which must be given: SVLAN.CVLAN, an address, key=KEY or user=USER",
    },
    Show {
        what: "hosts",
        columns: &["address", "mac", "state", "kind", "age", "port", "svlan", "cvlan"],
        help: "Addresses of subscribers and where each is; age in seconds since it was heard of. Filter: as of subscribers",
    },
];

/// Which subscribers are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    All,
    Tags(u16, u16),
    Address(Address),
    Key(u32),
    User(u32),
    Svlan(u16),
    Profile(String),
    Port(u8),
    RouteSource(RouteSource),
}

impl Filter {
    /// What a word means. It may select nobody at present, but must name what there is, and be a number that may be.
    fn parse(word: Option<&str>, shared: &Mutex<Control>) -> Result<Filter, RequestError> {
        let filter = Filter::read(word, &lock(shared).registry)?;
        match &filter {
            Filter::Profile(name) => check_profile(shared, name).map(|()| filter),
            _ => Ok(filter),
        }
    }

    fn read(word: Option<&str>, registry: &Registry) -> Result<Filter, RequestError> {
        let Some(word) = word else { return Ok(Filter::All) };
        let ports = &registry.settings().ports;
        let refused = || {
            RequestError(format!(
                "\"{word}\" selects no subscribers; write SVLAN.CVLAN, an address, key=KEY, user=USER, svlan=SVLAN, \
                 profile=NAME, one of the ports {}, or a source: cli, config",
                ports.join(", ")
            ))
        };
        if let Some((name, value)) = word.split_once('=') {
            return Filter::named(name, value).ok_or_else(refused);
        }
        if let Some(port) = ports.iter().position(|port| port == word) {
            return Ok(Filter::Port(port as u8));
        }
        if let Some((svlan, cvlan)) = word.split_once('.')
            && let (Some(svlan), Some(cvlan)) = (vlan(svlan), vlan(cvlan))
        {
            return Ok(Filter::Tags(svlan, cvlan));
        }
        if let Ok(address) = word.parse::<Ipv4Addr>() {
            return Ok(Filter::Address(Address::V4(address)));
        }
        if let Ok(address) = word.parse::<Ipv6Addr>() {
            return Ok(Filter::Address(Address::V6(half(address))));
        }
        RouteSource::from_str(word).map(Filter::RouteSource).map_err(|_| refused())
    }

    fn named(name: &str, value: &str) -> Option<Filter> {
        Some(match name {
            "key" => Filter::Key(value.parse().ok()?),
            "user" => Filter::User(value.parse().ok()?),
            "svlan" => Filter::Svlan(vlan(value)?),
            "profile" => Filter::Profile(value.to_owned()),
            _ => return None,
        })
    }

    /// Whether it selects one subscriber, or those that share a user.
    fn is_of_one(&self) -> bool {
        matches!(self, Filter::Tags(..) | Filter::Address(_) | Filter::Key(_) | Filter::User(_))
    }

    fn selects(&self, registry: &Registry, subscriber: &Subscriber) -> bool {
        let Tags { port, svlan, cvlan } = subscriber.tags;
        match self {
            Filter::All => true,
            Filter::Tags(outer, inner) => (svlan, cvlan) == (*outer, *inner),
            Filter::Address(address) => {
                let key = BindingKey::new(subscriber.scope(registry.settings()), *address);
                registry.host(key).is_some_and(|host| host.subscriber == subscriber.number)
            }
            Filter::Key(key) => subscriber.fields().key == Some(*key),
            Filter::User(user) => subscriber.user() == *user,
            Filter::Svlan(vlan) => svlan == *vlan,
            Filter::Profile(name) => subscriber.fields().profile() == Some(name),
            Filter::Port(position) => port == *position,
            Filter::RouteSource(source) => subscriber.source() == *source,
        }
    }
}

/// The number of a VLAN (IEEE 802.1Q: 12 bits).
fn vlan(text: &str) -> Option<u16> {
    text.parse().ok().filter(|vlan| *vlan < 4096)
}

/// Whether there is a profile of this name: among those of the schedulers or, where nothing is shaped, with any subscriber.
fn check_profile(shared: &Mutex<Control>, name: &str) -> Result<(), RequestError> {
    let known = lock(shared).registry.settings().shaping.as_ref().map(|shaping| shaping.profiles.clone());
    let refused = |there: String| Err(RequestError(format!("\"{name}\" is the name of no profile; {there}")));
    match known {
        Some(profiles) if profiles.iter().any(|profile| profile == name) => Ok(()),
        Some(profiles) => {
            let near = weir_config::nearest(name, profiles.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            refused(format!("{hint}there are {}", profiles.join(", ")))
        }
        None if has_profile(shared, name) => Ok(()),
        None => refused("no subscriber has it; write one that subscribers name".to_owned()),
    }
}

/// Whether any subscriber names a profile.
fn has_profile(shared: &Mutex<Control>, name: &str) -> bool {
    let has = |subscriber: &Subscriber| subscriber.fields().profile() == Some(name);
    find(shared, |_, subscriber| has(subscriber).then_some(())).is_some()
}

/// What is told of the first subscriber of whom something is; looked for piece by piece, as packets wait meanwhile.
fn find<T>(shared: &Mutex<Control>, tell: impl Fn(&Registry, &Subscriber) -> Option<T>) -> Option<T> {
    let mut next = 0;
    loop {
        let control = lock(shared);
        let registry = &control.registry;
        let mut last = None;
        for subscriber in registry.subscribers_from(next).take(LOOKED_THROUGH) {
            if let Some(told) = tell(registry, subscriber) {
                return Some(told);
            }
            last = Some(subscriber.number);
        }
        next = last? + 1;
    }
}

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Mutex<Control>>,
    what: &str,
    filter: Option<&str>,
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    if what == "history" {
        return Ok(whole(of_one(shared, filter, |registry, one| history::rows(registry, one, now))??));
    }
    let filter = Filter::parse(filter, shared)?;
    // Whoever asks about one subscriber is likely to ask for its history next.
    if what == "subscribers" && filter.is_of_one() {
        one_of(shared, &filter, |registry, one| history::watch(registry, one, now));
    }
    let shared = Arc::clone(shared);
    match what {
        "subscribers" => {
            let rows = move |registry: &Registry, one: &Subscriber| vec![row(registry, one, now)];
            Ok(Box::new(Pieces { shared, filter, next: 0, rows }))
        }
        "hosts" => {
            let rows = move |registry: &Registry, one: &Subscriber| hosts(registry, one, now);
            Ok(Box::new(Pieces { shared, filter, next: 0, rows }))
        }
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// What is told of the first of the subscribers that a word selects, which must select one.
fn of_one<T>(
    shared: &Mutex<Control>,
    word: Option<&str>,
    tell: impl Fn(&Registry, &Subscriber) -> T,
) -> Result<T, RequestError> {
    const HOW: &str = "write SVLAN.CVLAN, an address, key=KEY or user=USER; `show subscribers` lists them";
    let filter = Filter::parse(word, shared)?;
    match word {
        Some(word) if filter.is_of_one() => one_of(shared, &filter, tell)
            .ok_or_else(|| RequestError(format!("there is no subscriber \"{word}\"; {HOW}"))),
        _ => Err(RequestError(format!("the table 'history' is of one subscriber: {HOW}"))),
    }
}

/// What is told of the first of the subscribers that a filter selects.
fn one_of<T>(shared: &Mutex<Control>, filter: &Filter, tell: impl Fn(&Registry, &Subscriber) -> T) -> Option<T> {
    find(shared, |registry, subscriber| filter.selects(registry, subscriber).then(|| tell(registry, subscriber)))
}

/// Subscribers that are looked through at once.
pub(crate) const LOOKED_THROUGH: usize = 1 << 13;

/// Makes rows of subscribers, piece by piece, by number. Who comes while they are told may be missing.
struct Pieces<F> {
    shared: Arc<Mutex<Control>>,
    filter: Filter,
    /// The number to go on with.
    next: u32,
    rows: F,
}

impl<F: Fn(&Registry, &Subscriber) -> Vec<Value> + Send> ShowRows for Pieces<F> {
    fn piece(&mut self) -> Vec<Value> {
        loop {
            let control = lock(&self.shared);
            let registry = &control.registry;
            let mut rows = Vec::new();
            let mut looked = 0;
            for subscriber in registry.subscribers_from(self.next) {
                let fresh = if self.filter.selects(registry, subscriber) {
                    (self.rows)(registry, subscriber)
                } else {
                    Vec::new()
                };
                // All of a subscriber's rows are in one piece, of which one subscriber may have more than fit.
                if !rows.is_empty() && rows.len() + fresh.len() > PIECE {
                    return rows;
                }
                self.next = subscriber.number + 1;
                rows.extend(fresh);
                looked += 1;
                if looked >= LOOKED_THROUGH || rows.len() >= PIECE {
                    break;
                }
            }
            if !rows.is_empty() || looked == 0 {
                return rows;
            }
        }
    }
}

fn row(registry: &Registry, subscriber: &Subscriber, now: u64) -> Value {
    let sums = registry.counters().since(subscriber.number, &subscriber.zero);
    let drops: serde_json::Map<String, Value> =
        sums.drops.iter().map(|(reason, count)| ((*reason).to_owned(), json!(count))).collect();
    let counted = registry.schedulers().map(|schedulers| schedulers.count(subscriber.user()));
    let hold =
        |direction| registry.schedulers().and_then(|schedulers| schedulers.hold(direction, subscriber.user(), now));
    let (up, down) = (hold(Direction::Up), hold(Direction::Down));
    subscriber.fields().row(json!({
        "port": registry.port_of(subscriber.tags),
        "user": subscriber.user(),
        "source": subscriber.source().name(),
        "learned": subscriber.learned.len(),
        "moves": subscriber.moves,
        "up_packets": sums.up_packets,
        "up_bytes": sums.up_bytes,
        "down_packets": sums.down_packets,
        "down_bytes": sums.down_bytes,
        "drops": drops,
        "shaped_off": counted.map(|count| count.dropped()),
        "shaped_off_by": counted.map(|count| count.by_reason()),
        "marked": counted.map(|count| count.marked()),
        "marks": counted.map(|count| count.marks()),
        "up_held_by": up.as_ref().map(|(level, _)| level),
        "up_held_for": up.as_ref().map(|(_, seconds)| seconds),
        "down_held_by": down.as_ref().map(|(level, _)| level),
        "down_held_for": down.as_ref().map(|(_, seconds)| seconds),
    }))
}

fn hosts(registry: &Registry, subscriber: &Subscriber, now: u64) -> Vec<Value> {
    let fixed = subscriber.fixed_keys(registry.settings());
    let keys = fixed.iter().chain(&subscriber.learned);
    keys.filter_map(|key| registry.host(*key).map(|host| host_row(registry, subscriber, *key, host, now))).collect()
}

fn host_row(registry: &Registry, subscriber: &Subscriber, key: BindingKey, host: &Host, now: u64) -> Value {
    let is_heard = host.heard > 0;
    json!({
        "address": key.address().to_string(),
        "mac": host.mac.map(|mac| mac.to_string()),
        "state": host.state.name(),
        "kind": if host.is_fixed { "fixed" } else { "learned" },
        "age": is_heard.then(|| now.saturating_sub(host.heard) / 1_000_000_000),
        "port": registry.port_of(subscriber.tags),
        "svlan": subscriber.tags.svlan,
        "cvlan": subscriber.tags.cvlan,
    })
}

/// Facts for metrics.
pub(crate) fn gauges(control: &Control) -> Vec<(&'static str, &'static str, f64)> {
    let registry = &control.registry;
    vec![
        ("subscribers", "Subscribers of all sources", registry.len() as f64),
        ("hosts", "Addresses of subscribers, fixed and learned", registry.host_count() as f64),
        ("bindings", "Addresses of subscribers that workers look up", f64::from(registry.tables().bindings())),
        ("records_waiting", "Records that wait for workers to pass", registry.tables().waiting() as f64),
        ("unsettled", "Subscribers and addresses that workers are not told of yet", registry.unsettled() as f64),
        ("lookup_bytes", "Bytes that lookups of subscribers and addresses touch at most", {
            registry.tables().shared().bytes() as f64
        }),
    ]
}
