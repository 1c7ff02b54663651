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
        let Some(shaping) = &self.settings.shaping else { return };
        if let Some(profile) = subscriber.fields().profile.as_deref().or(shaping.usual.as_deref()) {
            shaping.schedulers.assign(subscriber.user(), profile);
        }
    }

    /// Packets of a subscriber's user that the schedulers dropped since they were made; `None` if nothing is shaped.
    pub(crate) fn shaped_off(&self, subscriber: &Subscriber) -> Option<u64> {
        self.settings.shaping.as_ref().map(|shaping| shaping.schedulers.dropped(subscriber.user()))
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
            ipv4: fields.ipv4.first().map_or(Sources4::NONE, |prefix| Sources4::of(*prefix)),
            ipv6: fields.ipv6.first().map_or(Sources6::NONE, |prefix| Sources6::of(*prefix)),
            mac: fields.mac,
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
