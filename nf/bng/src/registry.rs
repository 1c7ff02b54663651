//! Who the subscribers are: the control side's truth, of which the tables that workers read are a copy.
//!
//! A subscriber is behind one pair of tags of one access port. What it has may be said by several [sources](RouteSource) (the
//! configuration, a command); the most preferred of them counts, and what it covered comes back when it is taken back. Sessions
//! of DHCP or PPPoE are to be no more than further sources.
//!
//! A change is checked against all others first, then made here, and marked; [`Registry::settle`] brings the workers' tables up to
//! it. What they have no room for yet, as readers must pass earlier changes, is tried again in the next tick.
//!
//! | file | what |
//! |---|---|
//! | `registry/entry.rs` | what is said about a subscriber |
//! | `registry/check.rs` | whether that may be |
//! | `registry/hosts.rs` | addresses: fixed, learned, moved, aged |
//! | `registry/six.rs` | stations in IPv6 networks |
//! | `registry/settle.rs` | the workers' tables |

mod check;
mod entry;
mod hosts;
mod settle;
mod six;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use weir_config::ErrorKind;
use weir_net::RouteSource;
use weir_stage::Wrong;
use weir_stage::ownership::Owners;
use weir_wire::ethernet;

pub(crate) use check::{check_alone, column_of};
pub(crate) use entry::{Entry, PREFIX_LENGTH, Subscriber, half};
pub(crate) use hosts::{Heard, Host, HostEvent, Timing, Wanted};

use crate::config::SubscriberConfig;
use crate::qos::Schedulers;
use crate::table::counters::Counters;
use crate::table::{BindingKey, Tables, Tags};

/// What the configuration says about all subscribers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Names of the access ports, by position.
    pub(crate) ports: Vec<String>,
    /// EtherType of the outer tag.
    pub(crate) tpid: u16,
    /// Whether subscribers are told apart by GRE keys towards the core, which part their addresses too.
    pub(crate) has_keys: bool,
    /// Subscribers at most.
    pub(crate) subscribers: u32,
    /// Addresses of all subscribers at most.
    pub(crate) bindings: u32,
    /// Pairs of port and SVLAN at most.
    pub(crate) svlans: u32,
    /// Learned IPv4 addresses of one subscriber at most.
    pub(crate) addresses: u32,
    /// Known IPv6 hosts of one subscriber at most.
    pub(crate) hosts6: u32,
    /// Networks in which addresses are learned.
    pub(crate) learn: Vec<Ipv4Net>,
    /// The gateway's own addresses towards customers, with their networks.
    pub(crate) gateways: Vec<Ipv4Net>,
    pub(crate) timing: Timing,
    /// How subscribers are shaped, if they are.
    pub(crate) shaping: Option<ShapingSettings>,
    /// The workers that share the subscribers.
    pub(crate) owners: Owners,
}

impl Settings {
    /// The tags of a line as the network layer has those of interfaces.
    pub(crate) fn link_tags(&self, tags: Tags) -> weir_ip::Tags {
        let (outer, inner) = ((self.tpid, tags.svlan), (ethernet::CVLAN, tags.cvlan));
        weir_ip::Tags::of([outer, inner].map(|(tpid, vlan)| weir_ip::Tag { tpid, vlan }))
    }

    /// The line on the access port at a position that would have these tags of an interface; none where they are others than lines have.
    pub(crate) fn line_with(&self, port: u8, link: weir_ip::Tags) -> Option<Tags> {
        let tags = Tags { port, svlan: link.outer().vlan, cvlan: link.inner().vlan };
        (self.link_tags(tags) == link).then_some(tags)
    }

    /// The position of an access port, which need not be named if there is one only.
    ///
    /// # Errors
    ///
    /// That there is no such port.
    pub(crate) fn position(&self, named: Option<&str>) -> Result<u8, Wrong> {
        let found = match (named, self.ports.len()) {
            (None, 1) => Some(0),
            (None, _) => None,
            (Some(name), _) => self.ports.iter().position(|port| port == name),
        };
        found.and_then(|position| u8::try_from(position).ok()).ok_or_else(|| {
            let problem = named.map_or_else(|| "is missing".to_owned(), |name| format!("\"{name}\" is no access port"));
            let wrong = Wrong { kind: ErrorKind::Dangling, ..Wrong::field("port", problem) };
            wrong.remedy(format!("name one of {}", self.ports.join(", ")))
        })
    }
}

/// What a subscriber's profile and user are subject to.
#[derive(Clone, Debug)]
pub(crate) struct ShapingSettings {
    /// Names of profiles.
    pub(crate) profiles: Vec<String>,
    /// The profile of those who name none.
    pub(crate) usual: Option<String>,
    /// Users, numbered from 0.
    pub(crate) users: u32,
}

/// All subscribers and their addresses.
pub(crate) struct Registry {
    settings: Settings,
    /// What shapes subscribers, if anything does.
    schedulers: Option<Arc<Schedulers>>,
    /// By number.
    subscribers: Vec<Option<Subscriber>>,
    /// Numbers that are free again, the one that has been so longest first.
    free: VecDeque<u32>,
    by_tags: HashMap<Tags, u32>,
    by_key: HashMap<u32, u32>,
    /// Subscribers in each pair of port and SVLAN.
    svlans: HashMap<(u8, u16), u32>,
    /// Subscribers that are one user of schedulers and policers, where there are any.
    users: HashMap<u32, u32>,
    hosts: HashMap<BindingKey, Host>,
    /// When something is due about an address.
    due: BTreeSet<(u64, BindingKey)>,
    tables: Tables,
    /// What the workers' tables may not say yet.
    unsettled_tags: BTreeSet<Tags>,
    unsettled_hosts: BTreeSet<BindingKey>,
    /// GRE keys whose owner balancers may not know yet.
    unsettled_keys: BTreeSet<u32>,
    /// Users that subscribers were, and of whom the schedulers may not know yet that there are none left.
    unsettled_users: BTreeSet<u32>,
    counters: Arc<Counters>,
    events: Vec<HostEvent>,
    /// What subscribers have got or given up since somebody asked, where addresses alone say whose they are.
    moved: Vec<(IpNet, bool)>,
}

impl Registry {
    /// Without subscribers.
    pub(crate) fn new(settings: Settings, tables: Tables, counters: Arc<Counters>) -> Registry {
        Registry {
            settings,
            schedulers: None,
            subscribers: Vec::new(),
            free: VecDeque::new(),
            by_tags: HashMap::new(),
            by_key: HashMap::new(),
            svlans: HashMap::new(),
            users: HashMap::new(),
            hosts: HashMap::new(),
            due: BTreeSet::new(),
            tables,
            unsettled_tags: BTreeSet::new(),
            unsettled_hosts: BTreeSet::new(),
            unsettled_keys: BTreeSet::new(),
            unsettled_users: BTreeSet::new(),
            counters,
            events: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// From now on these shape the subscribers, as the settings say.
    pub(crate) fn shape_by(&mut self, schedulers: Option<Arc<Schedulers>>) {
        self.schedulers = schedulers;
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes what may change while it runs: limits per subscriber, networks to learn in, times.
    pub(crate) fn configure(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many subscribers there are.
    pub(crate) fn len(&self) -> usize {
        self.by_tags.len()
    }

    /// How many addresses they have.
    pub(crate) fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// What workers are not told yet.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled_tags.len() + self.unsettled_hosts.len()
    }

    /// Who is behind these tags.
    pub(crate) fn by_tags(&self, tags: Tags) -> Option<&Subscriber> {
        self.by_tags.get(&tags).and_then(|number| self.subscriber(*number))
    }

    /// The name of a subscriber's access port.
    pub(crate) fn port_of(&self, tags: Tags) -> Option<&str> {
        self.settings.ports.get(usize::from(tags.port)).map(String::as_str)
    }

    /// Whose key it is.
    pub(crate) fn by_key(&self, key: u32) -> Option<&Subscriber> {
        self.by_key.get(&key).and_then(|number| self.subscriber(*number))
    }

    /// The subscriber of a number.
    pub(crate) fn subscriber(&self, number: u32) -> Option<&Subscriber> {
        self.subscribers.get(number as usize)?.as_ref()
    }

    fn subscriber_mut(&mut self, number: u32) -> Option<&mut Subscriber> {
        self.subscribers.get_mut(number as usize)?.as_mut()
    }

    /// All subscribers from a number on, in order.
    pub(crate) fn subscribers_from(&self, number: u32) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.get(number as usize..).unwrap_or_default().iter().flatten()
    }

    /// What is known about an address.
    pub(crate) fn host(&self, key: BindingKey) -> Option<&Host> {
        self.hosts.get(&key)
    }

    /// What has happened to addresses, for the slow path.
    pub(crate) fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// Prefixes that subscribers have got (`true`) or given up, in their order, since the last call; none where keys part them.
    pub(crate) fn take_moved(&mut self) -> Vec<(IpNet, bool)> {
        std::mem::take(&mut self.moved)
    }

    /// Enters what a source says about a subscriber, in place of what it said before.
    ///
    /// # Errors
    ///
    /// Why that can not be, as a sentence; nothing has changed then.
    pub(crate) fn put(&mut self, source: RouteSource, entry: Entry) -> Result<(), String> {
        let Entry { tags, fields } = entry;
        let mut versions = self.versions(tags);
        versions.retain(|(other, _)| *other != source);
        let at = versions.partition_point(|(other, _)| *other < source);
        versions.insert(at, (source, fields));
        self.become_versions(tags, versions)
    }

    /// Takes back what a source said about a subscriber.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put): what is left, by other sources, may not be possible any more.
    pub(crate) fn take_back(&mut self, source: RouteSource, tags: Tags) -> Result<(), String> {
        let mut versions = self.versions(tags);
        versions.retain(|(other, _)| *other != source);
        self.become_versions(tags, versions)
    }

    /// What each source says about a subscriber, the most preferred first; none if it is not there.
    pub(crate) fn versions(&self, tags: Tags) -> Vec<(RouteSource, SubscriberConfig)> {
        self.by_tags(tags).map_or(Vec::new(), |subscriber| subscriber.versions.clone())
    }

    /// Makes this what the sources say about a subscriber; without any it goes. The way to undo a change, too.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn become_versions(
        &mut self,
        tags: Tags,
        versions: Vec<(RouteSource, SubscriberConfig)>,
    ) -> Result<(), String> {
        let number = self.by_tags.get(&tags).copied();
        let active = versions.first().map(|(_, fields)| fields);
        let is_same = self.by_tags(tags).map(Subscriber::fields) == active;
        if let Some(fields) = active.filter(|_| !is_same) {
            self.check(tags, fields, number)?;
        }
        match (number, versions.is_empty()) {
            (Some(number), true) => self.remove(number),
            (Some(number), false) if is_same => self.set_versions(number, versions),
            (Some(number), false) => {
                let before = self.take_apart(number);
                self.set_versions(number, versions);
                self.put_together(number, &before);
            }
            (None, true) => {}
            (None, false) => self.create(tags, versions),
        }
        Ok(())
    }

    /// Makes this all that the configuration says. Others' entries stay as they are, and nothing that stays the same is touched.
    /// Answers what could not be: nothing, if it was checked beside all others just before.
    pub(crate) fn become_config(&mut self, entries: Vec<Entry>) -> Vec<(Tags, String)> {
        let wanted: HashSet<Tags> = entries.iter().map(|entry| entry.tags).collect();
        let is_configured = |one: &&Subscriber| one.versions.iter().any(|(source, _)| *source == RouteSource::Config);
        let there: Vec<Tags> = self.subscribers_from(0).filter(is_configured).map(|one| one.tags).collect();
        let gone = there.into_iter().filter(|tags| !wanted.contains(tags));
        let mut refused: Vec<(Tags, String)> = Vec::new();
        for tags in gone.collect::<Vec<_>>() {
            refused.extend(self.take_back(RouteSource::Config, tags).err().map(|problem| (tags, problem)));
        }
        let left = self.put_as_many(entries);
        // What is left waits for each other: two that change places must both go first.
        for entry in &left {
            refused.extend(self.take_back(RouteSource::Config, entry.tags).err().map(|problem| (entry.tags, problem)));
        }
        for entry in left {
            let tags = entry.tags;
            refused.extend(self.put(RouteSource::Config, entry).err().map(|problem| (tags, problem)));
        }
        self.settle();
        refused
    }

    /// Puts entries until no more of them can be; answers what is left.
    fn put_as_many(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        loop {
            let before = entries.len();
            entries.retain(|entry| self.put(RouteSource::Config, entry.clone()).is_err());
            if entries.is_empty() || entries.len() == before {
                return entries;
            }
        }
    }

    fn set_versions(&mut self, number: u32, versions: Vec<(RouteSource, SubscriberConfig)>) {
        if let Some(subscriber) = self.subscriber_mut(number) {
            subscriber.versions = versions;
        }
    }

    fn create(&mut self, tags: Tags, versions: Vec<(RouteSource, SubscriberConfig)>) {
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.subscribers.push(None);
            (self.subscribers.len() - 1) as u32
        });
        let zero = self.counters.sum(number);
        if let Some(place) = self.subscribers.get_mut(number as usize) {
            *place = Some(Subscriber::new(number, tags, versions, zero));
        }
        self.by_tags.insert(tags, number);
        *self.svlans.entry((tags.port, tags.svlan)).or_default() += 1;
        self.put_together(number, &HashMap::new());
    }

    fn remove(&mut self, number: u32) {
        drop(self.take_apart(number));
        self.forget_learned(number);
        let Some(gone) = self.subscribers.get_mut(number as usize).and_then(Option::take) else { return };
        let tags = gone.tags;
        self.by_tags.remove(&tags);
        self.unsettled_tags.insert(tags);
        let pair = (tags.port, tags.svlan);
        let left = self.svlans.get_mut(&pair).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.svlans.remove(&pair);
        }
        self.free.push_back(number);
    }

    /// Gives up what the active version of a subscriber holds that nobody else may have: key and fixed addresses. Answers what was
    /// known of these.
    fn take_apart(&mut self, number: u32) -> HashMap<BindingKey, Host> {
        let Some(subscriber) = self.subscriber(number) else { return HashMap::new() };
        let (tags, key, fixed) = (subscriber.tags, subscriber.fields().key, subscriber.fixed_keys(&self.settings));
        let user = subscriber.user();
        if key.is_some_and(|key| self.by_key.get(&key) == Some(&number)) {
            key.map(|key| self.by_key.remove(&key));
        }
        self.note_moved(number, false);
        self.leave_user(user);
        self.unsettled_tags.insert(tags);
        self.unsettled_keys.extend(key);
        fixed.into_iter().filter_map(|key| Some((key, self.remove_host(key)?))).collect()
    }

    /// Takes what the active version of a subscriber says. What was known of an address that it keeps is still known.
    fn put_together(&mut self, number: u32, before: &HashMap<BindingKey, Host>) {
        let Some(subscriber) = self.subscriber(number) else { return };
        let (tags, fields) = (subscriber.tags, subscriber.fields());
        let (key, mac) = (fields.key, fields.only_mac());
        let (user, fixed) = (subscriber.user(), subscriber.fixed_keys(&self.settings));
        self.note_moved(number, true);
        self.join_user(user);
        if let Some(key) = key {
            self.by_key.insert(key, number);
            self.unsettled_keys.insert(key);
        }
        self.revise_learned(number);
        for key in fixed {
            self.add_fixed(number, key, mac, before.get(&key));
        }
        self.unsettled_tags.insert(tags);
    }

    /// A subscriber has got what the active version of it says, or gives that up.
    fn note_moved(&mut self, number: u32, is_got: bool) {
        if self.settings.has_keys {
            return;
        }
        let Some(Some(subscriber)) = self.subscribers.get(number as usize) else { return };
        self.moved.extend(subscriber.fields().prefixes().map(|net| (net, is_got)));
    }
}
