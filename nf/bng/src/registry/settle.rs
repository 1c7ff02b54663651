//! The workers' tables follow.

use super::Registry;
use super::entry::Subscriber;
use crate::table::{Address, BindingFields, BindingKey, Refused, Sources4, Sources6, Stations, SubscriberFields, Tags};

impl Registry {
    /// Brings the workers' tables up to what is known. What they have no room for stays marked.
    pub(crate) fn settle(&mut self) {
        // Who goes makes room for who comes, so they go first.
        let tags = std::mem::take(&mut self.unsettled_tags);
        let (there, gone): (Vec<Tags>, Vec<Tags>) = tags.into_iter().partition(|tags| self.by_tags.contains_key(tags));
        gone.into_iter().for_each(|tags| self.tables.remove_subscriber(tags));
        self.dismiss_users();
        let keys = std::mem::take(&mut self.unsettled_hosts);
        let (known, forgotten): (Vec<BindingKey>, Vec<BindingKey>) =
            keys.into_iter().partition(|key| self.hosts.contains_key(key));
        forgotten.into_iter().for_each(|key| self.tables.remove_binding(key));
        // Balancers know first: what comes before the owner knows the subscriber is nobody's yet.
        for key in std::mem::take(&mut self.unsettled_keys) {
            self.tables.set_key_owner(key, self.by_key(key).map_or(0, |subscriber| self.owner_of(subscriber)));
        }
        for tags in there {
            if self.settle_tags(tags).is_err() {
                self.unsettled_tags.insert(tags);
            }
        }
        for key in known {
            if self.settle_host(key).is_err() {
                self.unsettled_hosts.insert(key);
            }
        }
    }

    fn settle_tags(&mut self, tags: Tags) -> Result<(), Refused> {
        let Some(subscriber) = self.by_tags(tags) else { return Ok(()) };
        let fields = self.fields_of(subscriber);
        self.shape(subscriber);
        self.tables.set_subscriber(&fields)
    }

    /// Tells the schedulers of a subscriber.
    fn shape(&self, subscriber: &Subscriber) {
        let Some((shaping, schedulers)) = self.settings.shaping.as_ref().zip(self.schedulers.as_ref()) else { return };
        let user = subscriber.user();
        match subscriber.fields().profile().or(shaping.usual.as_deref()) {
            Some(profile) => schedulers.assign(user, profile),
            // What another subscriber had, or it itself before, is not its own.
            None if self.users.get(&user) == Some(&1) => schedulers.dismiss(user),
            None => {}
        }
    }

    /// A subscriber is this user of the schedulers.
    pub(super) fn join_user(&mut self, user: u32) {
        if self.settings.shaping.is_some() {
            *self.users.entry(user).or_default() += 1;
        }
    }

    /// A subscriber is not this user any more.
    pub(super) fn leave_user(&mut self, user: u32) {
        let Some(subscribers) = self.users.get_mut(&user) else { return };
        *subscribers -= 1;
        if *subscribers == 0 {
            self.users.remove(&user);
            self.unsettled_users.insert(user);
        }
    }

    /// Tells the schedulers of users that no subscriber is any more, so that nobody's rate is divided for them.
    fn dismiss_users(&mut self) {
        let left = std::mem::take(&mut self.unsettled_users);
        let Some(schedulers) = &self.schedulers else { return };
        left.iter().filter(|user| !self.users.contains_key(user)).for_each(|user| schedulers.dismiss(*user));
    }

    /// The schedulers, if anything is shaped.
    pub(crate) fn schedulers(&self) -> Option<&crate::qos::Schedulers> {
        self.schedulers.as_deref()
    }

    /// Tells the schedulers of all subscribers.
    pub(crate) fn shape_all(&self) {
        self.subscribers_from(0).for_each(|subscriber| self.shape(subscriber));
    }

    /// The worker that has a subscriber.
    pub(crate) fn owner_of(&self, subscriber: &Subscriber) -> u8 {
        self.settings.owners.of(subscriber.user())
    }

    fn fields_of(&self, subscriber: &Subscriber) -> SubscriberFields {
        let fields = subscriber.fields();
        SubscriberFields {
            number: subscriber.number,
            tags: subscriber.tags,
            key: fields.key.unwrap_or(0),
            scope: subscriber.scope(&self.settings),
            user: self.settings.owners.word(subscriber.user()),
            ipv4: fields.ipv4.first().map_or(Sources4::NONE, |source| Sources4::of(source.0)),
            ipv6: fields.ipv6.first().map_or(Sources6::NONE, |source| Sources6::of(source.0)),
            mac: fields.only_mac(),
        }
    }

    fn settle_host(&mut self, key: BindingKey) -> Result<(), Refused> {
        let Some(host) = self.hosts.get(&key) else { return Ok(()) };
        let Some(subscriber) = self.subscriber(host.subscriber) else { return Ok(()) };
        let stations = match key.address() {
            Address::V6(half) if subscriber.has_link6(half) => {
                if host.is_shared {
                    Stations::Several
                } else {
                    Stations::One
                }
            }
            _ => Stations::Routed,
        };
        let fields = BindingFields {
            key,
            mac: host.mac,
            tags: subscriber.tags,
            tpid: self.settings.tpid,
            subscriber: subscriber.number,
            stations,
            owner: self.owner_of(subscriber),
        };
        self.tables.set_binding(&fields)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_config::{Rate, Size};
    use weir_mem::Domain;
    use weir_net::RouteSource;
    use weir_sched::classify::ClassifyConfig;
    use weir_sched::config::{ProfileConfig, SchedulerConfig};
    use weir_stage::ownership::Owners;

    use super::*;
    use crate::config::{PoliceConfig, QosConfig, RemarkingConfig, SubscriberConfig};
    use crate::qos::Schedulers;
    use crate::registry::{Entry, Settings, ShapingSettings, testing};
    use crate::words::Profile;

    fn scheduler() -> SchedulerConfig {
        let profile = |rate| ProfileConfig {
            tb_rate: Rate::new(rate),
            tb_size: Size::new(2_000),
            ceil: None,
            weight: 1,
            classes: Vec::new(),
            weights: Vec::new(),
        };
        let profiles = [("gold", 2_000_000), ("silver", 1_000_000)];
        SchedulerConfig {
            rate: Rate::new(1_000_000_000),
            burst: Size::new(65_536),
            overhead: 24,
            classes: 4,
            users: 8,
            buffers: 16,
            minimum: Some(1),
            subports: Default::default(),
            spare_subports: 0,
            profiles: profiles.into_iter().map(|(name, rate)| (name.to_owned(), profile(rate))).collect(),
            assign: Vec::new(),
        }
    }

    /// A registry whose subscribers are shaped both ways, by schedulers of two owners.
    fn shaped() -> (Domain, Registry) {
        let (domain, mut registry) = testing::registry(false);
        let both = Some(scheduler());
        let classify =
            ClassifyConfig { rules: Vec::new(), dscp: Default::default(), priority: Default::default(), usual: None };
        let (police, remark) = (
            PoliceConfig { up: BTreeMap::new(), down: BTreeMap::new() },
            RemarkingConfig { up: Vec::new(), down: Vec::new() },
        );
        let config =
            QosConfig { classify, usual: None, limit: None, police, remark, up: both.clone(), down: both, both: None };
        let owners = Owners::divided(2);
        let schedulers = Schedulers::new(&config, 2, 8, owners, &domain).unwrap().unwrap();
        let profiles = vec!["gold".to_owned(), "silver".to_owned()];
        let shaping = Some(ShapingSettings { profiles, usual: None, users: 8 });
        registry.shape_by(Some(schedulers));
        registry.configure(Settings { shaping, owners, ..testing::settings(false) });
        (domain, registry)
    }

    fn tags(cvlan: u16) -> Tags {
        Tags { port: 0, svlan: 1, cvlan }
    }

    fn put(registry: &mut Registry, cvlan: u16, user: Option<u32>, profile: Option<&str>) {
        let profile = profile.map(|name| Profile(name.into()));
        let fields = SubscriberConfig { user, profile, ..SubscriberConfig::behind(1, cvlan) };
        registry.put(RouteSource::Cli, Entry { tags: tags(cvlan), fields }).unwrap();
    }

    fn remove(registry: &mut Registry, cvlan: u16) {
        registry.take_back(RouteSource::Cli, tags(cvlan)).unwrap();
    }

    /// The profiles of users, by their numbers, as all schedulers have them.
    fn profiles(registry: &mut Registry) -> Vec<Option<String>> {
        registry.settle();
        let schedulers = registry.schedulers.as_ref().unwrap();
        (0..8).map(|user| schedulers.profile(user)).collect()
    }

    #[test]
    fn who_is_gone_is_no_user_of_the_schedulers() {
        let (_domain, mut registry) = shaped();
        put(&mut registry, 1, None, Some("gold"));
        let before = profiles(&mut registry);
        assert_eq!(before[0].as_deref(), Some("gold"));
        put(&mut registry, 2, None, Some("silver"));
        put(&mut registry, 3, Some(7), Some("silver"));
        let with = profiles(&mut registry);
        assert_eq!([with[1].as_deref(), with[7].as_deref()], [Some("silver"); 2]);
        remove(&mut registry, 2);
        remove(&mut registry, 3);
        assert_eq!(profiles(&mut registry), before);
    }

    #[test]
    fn a_user_stays_as_long_as_a_subscriber_is_it() {
        let (_domain, mut registry) = shaped();
        put(&mut registry, 1, Some(5), Some("gold"));
        put(&mut registry, 2, Some(5), Some("gold"));
        let both = profiles(&mut registry);
        remove(&mut registry, 1);
        assert_eq!(profiles(&mut registry), both);
        remove(&mut registry, 2);
        assert_eq!(profiles(&mut registry), vec![None; 8]);
    }

    #[test]
    fn who_has_another_number_or_no_profile_is_not_the_user_it_was() {
        let (_domain, mut registry) = shaped();
        put(&mut registry, 1, Some(5), Some("gold"));
        profiles(&mut registry);
        put(&mut registry, 1, Some(6), Some("gold"));
        let moved = profiles(&mut registry);
        assert_eq!([moved[5].as_deref(), moved[6].as_deref()], [None, Some("gold")]);
        put(&mut registry, 1, Some(6), None);
        assert_eq!(profiles(&mut registry), vec![None; 8]);
        // Whoever takes the place of one who goes in the same moment.
        put(&mut registry, 1, Some(6), Some("gold"));
        profiles(&mut registry);
        remove(&mut registry, 1);
        put(&mut registry, 2, Some(6), Some("silver"));
        assert_eq!(profiles(&mut registry)[6].as_deref(), Some("silver"));
        remove(&mut registry, 2);
        put(&mut registry, 3, Some(6), None);
        assert_eq!(profiles(&mut registry), vec![None; 8]);
    }
}
