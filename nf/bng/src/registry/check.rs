//! Whether what is said about a subscriber may be, beside all others.

use std::collections::HashSet;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_stage::Wrong;
use weir_wire::martian;

use super::entry::{Named, PREFIX_LENGTH, SHORTEST4, SHORTEST6};
use super::{Registry, Settings};
use crate::config::SubscriberConfig;
use crate::table::{Address, BindingKey, Tags};

impl Registry {
    /// # Errors
    ///
    /// What is wrong, as a sentence without its beginning: `has the key 7, and so has ...`.
    pub(super) fn check(&self, tags: Tags, fields: &SubscriberConfig, number: Option<u32>) -> Result<(), String> {
        check_alone(&self.settings, tags, fields).map_err(|wrong| wrong.problem)?;
        self.check_limits(tags, fields, number)?;
        if let Some(other) = fields.key.and_then(|key| self.by_key(key)).filter(|other| Some(other.number) != number) {
            let key = fields.key.unwrap_or(0);
            return Err(format!("the key {key} is that of {}; keys are unique", self.named(other.tags)));
        }
        let scope = if self.settings.has_keys { fields.key.unwrap_or(0) } else { 0 };
        for address in fields.addresses() {
            let taken = self.hosts.get(&BindingKey::new(scope, address));
            if let Some(other) = taken.filter(|host| host.is_fixed && Some(host.subscriber) != number) {
                let tags = self.subscriber(other.subscriber).map(|other| self.named(other.tags).to_string());
                return Err(format!("the address {address} is that of {}", tags.unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn check_limits(&self, tags: Tags, fields: &SubscriberConfig, number: Option<u32>) -> Result<(), String> {
        let settings = &self.settings;
        let before = number.and_then(|number| self.subscriber(number));
        if before.is_none() && self.by_tags.len() >= settings.subscribers as usize {
            return Err(format!("there are {} subscribers; raise limits.subscribers for more", settings.subscribers));
        }
        let is_new = !self.svlans.contains_key(&(tags.port, tags.svlan));
        if is_new && self.svlans.len() >= settings.svlans as usize {
            return Err(format!("{} SVLANs have subscribers; raise limits.svlans for more", settings.svlans));
        }
        let had = before.map_or(0, |before| before.fields().addresses().count());
        if (self.hosts.len() - had.min(self.hosts.len())) + fields.addresses().count() > settings.bindings as usize {
            return Err(format!(
                "subscribers have {} addresses of at most {}; raise limits.bindings for more",
                self.hosts.len(),
                settings.bindings
            ));
        }
        Ok(())
    }

    pub(crate) fn named(&self, tags: Tags) -> Named<'_> {
        Named(&self.settings, tags)
    }
}

/// Whether it may be, whoever else there is.
///
/// # Errors
///
/// What is wrong, and why.
pub(crate) fn check_alone(settings: &Settings, tags: Tags, fields: &SubscriberConfig) -> Result<(), Wrong> {
    if usize::from(tags.port) >= settings.ports.len() {
        let problem = format!("the port is none of the access ports {}", settings.ports.join(", "));
        return Err(Wrong::field("port", problem));
    }
    if settings.has_keys && fields.key.is_none() {
        return Err(Wrong::field("key", "the key is missing; with gre+mpls each subscriber has one"));
    }
    if let Some(mac) = fields.only_mac().filter(|mac| !mac.is_unicast()) {
        return Err(Wrong::field("mac", format!("{mac} is not the address of one station")));
    }
    check_shaping(settings, fields)?;
    for prefix in fields.ipv4.iter() {
        check4(settings, prefix.0).map_err(|problem| Wrong::field("ipv4", problem))?;
    }
    for prefix in fields.ipv6.iter() {
        check6(prefix.0).map_err(|problem| Wrong::field("ipv6", problem))?;
    }
    check_twice(fields)
}

fn check_shaping(settings: &Settings, fields: &SubscriberConfig) -> Result<(), Wrong> {
    let Some(shaping) = &settings.shaping else { return Ok(()) };
    if let Some(user) = fields.user.filter(|user| *user >= shaping.users) {
        let problem = format!("there is no user {user}: the schedulers have 0 to {}", shaping.users.saturating_sub(1));
        return Err(Wrong::field("user", problem));
    }
    let is_known = |name: &str| shaping.profiles.iter().any(|known| known == name);
    if let Some(name) = fields.profile().filter(|name| !is_known(name)) {
        let problem = format!("no profile is called \"{name}\"; there are {}", shaping.profiles.join(", "));
        return Err(Wrong::field("profile", problem));
    }
    Ok(())
}

fn check4(settings: &Settings, prefix: Ipv4Net) -> Result<(), String> {
    if prefix.prefix_len() < SHORTEST4 {
        return Err(format!("the prefix {prefix} is too short; a subscriber has /{SHORTEST4} to /32"));
    }
    if martian::is_martian_source(prefix.addr().to_bits()) {
        return Err(format!("{prefix} is no address of a host"));
    }
    if let Some(own) = settings.gateways.iter().find(|own| prefix.contains(&own.addr())) {
        return Err(format!("{prefix} has the gateway's own address {}", own.addr()));
    }
    Ok(())
}

fn check6(prefix: Ipv6Net) -> Result<(), String> {
    if !(SHORTEST6..=PREFIX_LENGTH).contains(&prefix.prefix_len()) {
        return Err(format!("the prefix {prefix} is not /{SHORTEST6} to /{PREFIX_LENGTH}"));
    }
    // RFC 4291 section 2.4: unicast, and not of one link only.
    let [first, ..] = prefix.network().octets();
    if matches!(first, 0 | 0xfe | 0xff) {
        return Err(format!("{prefix} is no network of hosts"));
    }
    Ok(())
}

fn check_twice(fields: &SubscriberConfig) -> Result<(), Wrong> {
    // Nearly all have one, of which there is nothing to compare.
    if fields.ipv4.len() <= 1 && fields.ipv6.len() <= 1 {
        return Ok(());
    }
    let mut seen: HashSet<Address> = HashSet::new();
    match fields.addresses().find(|address| !seen.insert(*address)) {
        Some(twice) => Err(Wrong::field(column_of(twice), format!("{twice} stands here twice"))),
        None => Ok(()),
    }
}

/// The field in which a subscriber has an address.
pub(crate) const fn column_of(address: Address) -> &'static str {
    if matches!(address, Address::V4(_)) { "ipv4" } else { "ipv6" }
}
