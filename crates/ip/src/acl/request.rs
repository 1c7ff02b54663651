//! Changes of access lists at run time, and what is shown of them.

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_acl::request::{ADD, Change, DEL, saved};
use weir_config::OneOrMany;
use weir_stage::{
    Collection, Entries, Entry as _, RequestError, Saved, Show, ShowRows, Verb, columns, entries, entry, whole,
};
use weir_wire::{Ipv4, Ipv6, View};

use super::control::Acls;
use super::rule::Rule;
use super::sets::Member;
use super::stage::Side;
use super::tables::Logged;

entry! {
    /// A set of prefixes, as requests name it.
    struct PrefixSet by (set: String) {
        /// The name of the set.
        set: String = required, live;
        /// Prefixes, such as 192.0.2.0/24.
        prefix: OneOrMany<IpNet> = required, live;
    }
}

/// Prefixes of sets. No file has them.
static SETS: Collection = Collection { is_list: false, ..Collection::of::<PrefixSet>("prefix-set", "prefix_sets") };

/// What a function has beside [`VERBS`](crate::VERBS) that takes access lists.
pub static ACL_VERBS: &[Verb] = &[
    ADD,
    DEL,
    SETS.verb(
        "add",
        PrefixSet::FIELDS,
        "Adds prefixes to a set: all rules that name it match them from then on, at once",
    ),
    SETS.verb("del", PrefixSet::FIELDS, "Removes prefixes from a set that were added at run time"),
];

/// What it shows beside [`SHOWS`](crate::SHOWS).
pub static ACL_SHOWS: &[Show] = &[
    Show {
        what: "acls",
        columns: &["acl", "at", "rule", "source", "packets", "bytes"],
        help: "Rules of access lists in their order, with what matched each; the last row of a list is its default. Filter: a list",
    },
    Show {
        what: "prefix-sets",
        columns: columns!(PrefixSet, "source"),
        help: "Prefixes of named sets that rules of access lists use. Filter: a set",
    },
    Show {
        what: "acl-log",
        columns: &["time", "acl", "interface", "side", "source", "destination", "rule"],
        help: "Packets of rules with `log` that came last, a sample: each worker keeps one in a millisecond. Filter: a list",
    },
];

/// How one change is taken back.
pub(crate) enum Undo {
    Remove(String, usize),
    Insert(String, usize, Box<Rule>),
    /// A change of a set: whether prefixes are added to it.
    Set(String, Vec<IpNet>, bool),
}

impl Entries for &Acls {
    type Undo = Undo;

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Undo, String> {
        if let Some(action) = verb.strip_prefix("prefix-set ") {
            let mut arguments = SETS.arguments(arguments);
            let said = PrefixSet::read_from(&mut arguments, None);
            let PrefixSet { set, prefix: OneOrMany(nets) } = arguments.finish(said)?;
            let is_added = action == "add";
            self.change_set(&set, &nets, is_added)?;
            return Ok(Undo::Set(set, nets, !is_added));
        }
        let (list, change) = Change::<Rule>::of(verb, arguments)?;
        match change {
            Change::Add(rule, at) => {
                let at = self.insert(&list, at, rule)?;
                Ok(Undo::Remove(list, at))
            }
            Change::Del(at) => Ok(Undo::Insert(list.clone(), at, Box::new(self.remove(&list, at)?))),
        }
    }

    fn take_back(&mut self, undo: Undo, _now: u64) {
        // What was there a moment ago has room, and what was added is there to be removed.
        match undo {
            Undo::Remove(list, at) => drop(self.remove(&list, at)),
            Undo::Insert(list, at, rule) => drop(self.insert(&list, at, *rule)),
            Undo::Set(set, nets, is_added) => drop(self.change_set(&set, &nets, is_added)),
        }
    }
}

/// Carries out a request for one or many rules: all of it or nothing.
pub(crate) fn carry_out(acls: &Acls, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    entries::carry_out(|| Box::new(acls), usize::MAX, (verb, arguments), now)
}

/// Rules that were added at run time, list by list, as requests that would add them again.
pub(crate) fn save(acls: &Acls) -> Box<dyn ShowRows<Saved>> {
    let book = acls.book();
    let added = book.lists.iter().flat_map(|(name, list)| {
        let added = list.rules.iter().filter(|stated| stated.is_added).zip(1..);
        added.map(move |(stated, at)| saved(name, at, stated.rule.text()))
    });
    let in_sets = book.sets.names().filter_map(|name| {
        let set = PrefixSet { set: name.to_owned(), prefix: OneOrMany(book.sets.added(name).collect()) };
        (!set.prefix.is_empty()).then(|| SETS.saved("add", set.to_json().into()))
    });
    whole(in_sets.chain(added).collect())
}

/// The rows of a table: of all lists or of one.
pub(crate) fn rows(acls: &Acls, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let book = acls.book();
    let (kind, names): (_, Vec<&str>) = match what {
        "prefix-sets" => ("set", book.sets.names().collect()),
        _ => ("list", book.lists.keys().map(String::as_str).collect()),
    };
    if let Some(name) = filter.filter(|name| !names.contains(name)) {
        let names: Vec<&str> = names.into_iter().take(16).collect();
        return Err(RequestError(format!(
            "\"{name}\" selects nothing; write the name of a {kind} ({})",
            names.join(", ")
        )));
    }
    let is_wanted = |name: &str| filter.is_none_or(|wanted| wanted == name);
    if what == "prefix-sets" {
        let members = book.sets.members().filter(|(name, _)| is_wanted(name));
        let row = |(name, member): (&str, Member)| json!({ "set": name, "prefix": member.net.to_string(), "source": source_of(member.is_added) });
        return Ok(whole(members.map(row).collect()));
    }
    if what == "acl-log" {
        let kept = acls.log.all();
        let name = |logged: &Logged| book.names.get(&logged.interface).cloned().unwrap_or_default();
        let rows = kept.iter().filter(|logged| is_wanted(&logged.list)).map(|logged| {
            let rules = book.lists.get(&*logged.list).map_or(&[][..], |list| list.rules.as_slice());
            let rule = rules.iter().find(|stated| stated.place == logged.place).map(|stated| stated.rule.to_string());
            let side = match logged.side {
                Side::In => "in",
                Side::Own => "own",
                Side::Out(_) => "out",
            };
            let (source, destination) = addresses(&logged.front);
            json!({
                "time": logged.at,
                "acl": &*logged.list,
                "interface": name(logged),
                "side": side,
                "source": source,
                "destination": destination,
                "rule": rule,
            })
        });
        return Ok(whole(rows.collect()));
    }
    let mut rows = Vec::new();
    for (name, list) in book.lists.iter().filter(|(name, _)| is_wanted(name)) {
        let since = |place: u32, before: (u64, u64)| {
            let (packets, bytes) = acls.counters.sum(place);
            (packets.wrapping_sub(before.0), bytes.wrapping_sub(before.1))
        };
        for (stated, at) in list.rules.iter().zip(1..) {
            let (packets, bytes) = since(stated.place, stated.before);
            let source = source_of(stated.is_added);
            let rule = stated.rule.to_string();
            rows.push(
                json!({ "acl": name, "at": at, "rule": rule, "source": source, "packets": packets, "bytes": bytes }),
            );
        }
        let (packets, bytes) = since(list.default_place, list.default_before);
        let rule = format!("{} (default)", list.default);
        rows.push(
            json!({ "acl": name, "at": null, "rule": rule, "source": "config", "packets": packets, "bytes": bytes }),
        );
    }
    Ok(whole(rows))
}

/// Who stated something.
fn source_of(is_added: bool) -> &'static str {
    if is_added { "cli" } else { "config" }
}

/// The addresses of a packet.
fn addresses(front: &[u8; 64]) -> (String, String) {
    match Ipv4::view(front).zip(Ipv6::view(front)) {
        Some((ip, _)) if ip.version() == 4 => (ip.source_addr().to_string(), ip.destination_addr().to_string()),
        Some((_, ip)) => (ip.source_addr().to_string(), ip.destination_addr().to_string()),
        None => (String::new(), String::new()),
    }
}
