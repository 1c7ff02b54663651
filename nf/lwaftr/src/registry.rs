//! The softwires as the control side knows them: who entered what, and what of it counts.

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_net::RouteSource;

use crate::table::{Counters, Ends, Key, Sums, Writer};
use crate::words::Addresses4;
use weir_wire::port_sets::PortSets;

/// What somebody said of a softwire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) b4: Ipv6Addr,
    /// The first AFTR address if it is not said.
    pub(crate) aftr: Option<Ipv6Addr>,
    /// What is said of the address if they are not.
    pub(crate) psid_length: Option<u8>,
    pub(crate) psid_offset: Option<u8>,
}

/// What holds for all softwires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The relay's addresses, the usual one first.
    pub(crate) aftr: Vec<Ipv6Addr>,
    known: HashSet<Ipv6Addr>,
    /// How ports of addresses are divided, the narrowest first.
    port_sets: Vec<(Addresses4, PortSets)>,
}

impl Settings {
    pub(crate) fn new(aftr: Vec<Ipv6Addr>, mut port_sets: Vec<(Addresses4, PortSets)>) -> Settings {
        port_sets.sort_by_key(|(addresses, _)| addresses.width());
        Settings { known: aftr.iter().copied().collect(), aftr, port_sets }
    }

    /// What a softwire comes to.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and what is wrong with it.
    pub(crate) fn resolve(&self, key: Key, fields: &Fields) -> Result<(PortSets, Ends), (&'static str, String)> {
        let usual = self.port_sets.iter().find(|(addresses, _)| addresses.contains(key.ipv4)).map(|(_, sets)| *sets);
        let usual = usual.unwrap_or(PortSets::WHOLE);
        let length = fields.psid_length.unwrap_or(usual.length());
        let offset = fields.psid_offset.unwrap_or(usual.offset());
        let sets = PortSets::new(length, offset).ok_or_else(|| {
            let problem = format!("{length} bits of PSID behind {offset} others are more than the 16 of a port");
            ("psid_length", problem)
        })?;
        if key.psid > sets.highest() {
            let problem = format!("{} is no PSID of {length} bits; the highest is {}", key.psid, sets.highest());
            return Err(("psid", problem));
        }
        let aftr = fields.aftr.or(self.aftr.first().copied()).unwrap_or(Ipv6Addr::UNSPECIFIED);
        if !self.known.contains(&aftr) {
            return Err((
                "aftr",
                format!("{aftr} is none of the relay's addresses; add it to the key aftr of the function"),
            ));
        }
        let is_one = |address: Ipv6Addr| !(address.is_unspecified() || address.is_multicast() || address.is_loopback());
        if !is_one(fields.b4) {
            return Err(("b4", format!("{} is not the address of one station", fields.b4)));
        }
        Ok((sets, Ends { b4: fields.b4, aftr }))
    }
}

/// A softwire, and who entered it. There may be millions: what few have is elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    config: Option<Fields>,
    cli: Option<Box<Fields>>,
    /// How the ports of its address are divided, if it is in the table.
    sets: Option<PortSets>,
    /// Where its record is, and what was counted there before it was its.
    place: u32,
    base: Option<Box<Sums>>,
}

impl Entry {
    /// What counts: commands cover the configuration.
    pub(crate) fn fields(&self) -> Option<Fields> {
        self.cli.as_deref().copied().or(self.config)
    }

    /// What commands said.
    pub(crate) fn added(&self) -> Option<Fields> {
        self.cli.as_deref().copied()
    }

    /// Whose word counts.
    pub(crate) fn source(&self) -> RouteSource {
        if self.cli.is_some() { RouteSource::Cli } else { RouteSource::Config }
    }
}

/// What the configuration and commands say of a softwire.
pub(crate) type Said = [Option<Fields>; 2];

/// See the module.
pub(crate) struct Registry {
    settings: Settings,
    writer: Writer,
    counters: Arc<Counters>,
    entries: BTreeMap<Key, Entry>,
}

impl Registry {
    pub(crate) fn new(settings: Settings, writer: Writer, counters: Arc<Counters>) -> Registry {
        Registry { settings, writer, counters, entries: BTreeMap::new() }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The softwires from a key on, in order.
    pub(crate) fn from(&self, key: Key) -> impl Iterator<Item = (Key, &Entry)> {
        self.entries.range(key..).map(|(key, entry)| (*key, entry))
    }

    /// What a softwire comes to: how the ports of its address are divided, and its ends.
    pub(crate) fn resolved(&self, key: Key, entry: &Entry) -> Option<(PortSets, Ends)> {
        entry.fields().and_then(|fields| self.settings.resolve(key, &fields).ok())
    }

    /// What was counted of a softwire.
    pub(crate) fn sums(&self, entry: &Entry) -> Sums {
        let base = entry.base.as_deref().copied().unwrap_or_default();
        if entry.sets.is_some() { self.counters.at(entry.place).minus(base) } else { Sums::default().minus(base) }
    }

    /// What was said of a softwire.
    pub(crate) fn said(&self, key: Key) -> Said {
        let entry = self.entries.get(&key);
        [entry.and_then(|entry| entry.config), entry.and_then(Entry::added)]
    }

    /// Makes a softwire what is said of it; none if nothing is.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    pub(crate) fn say(&mut self, key: Key, said: Said) -> Result<(), String> {
        let before = self.said(key);
        self.note(key, said);
        let done = self.agree(key);
        if done.is_err() {
            self.note(key, before);
            // It is as it was in the table, too: what was refused took nothing out.
            self.forget_if_unsaid(key);
        }
        done
    }

    fn note(&mut self, key: Key, [config, cli]: Said) {
        let entry = self.entries.entry(key).or_default();
        (entry.config, entry.cli) = (config, cli.map(Box::new));
    }

    fn forget_if_unsaid(&mut self, key: Key) {
        if self.entries.get(&key).is_some_and(|entry| entry.fields().is_none()) {
            self.entries.remove(&key);
        }
    }

    /// Makes the table agree with what is said of a softwire.
    fn agree(&mut self, key: Key) -> Result<(), String> {
        let Some(entry) = self.entries.get(&key) else { return Ok(()) };
        let Some(fields) = entry.fields() else {
            self.writer.remove(key);
            self.entries.remove(&key);
            return Ok(());
        };
        let told = |(field, problem): (&str, String)| format!("{field}: {problem}");
        let (sets, ends) = self.settings.resolve(key, &fields).map_err(told)?;
        if entry.sets == Some(sets) && self.writer.softwires().find(key, sets).is_some_and(|found| found.ends == ends) {
            return Ok(());
        }
        let counted = self.sums(entry);
        // One that has its address alone may divide its ports otherwise.
        if entry.sets.is_some_and(|before| before != sets) && self.writer.sharing(key.ipv4) == 1 {
            self.take_out(key);
        }
        let (place, _) = self.writer.put(key, sets, ends).map_err(|refused| refused.to_string())?;
        // What was counted so far goes on.
        let base = self.counters.at(place).minus(counted);
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.sets, entry.place) = (Some(sets), place);
            entry.base = (base != Sums::default()).then(|| Box::new(base));
        }
        Ok(())
    }

    /// Takes a softwire out of the table; what was counted of it is kept.
    fn take_out(&mut self, key: Key) {
        self.writer.remove(key);
        let Some(entry) = self.entries.get(&key) else { return };
        let kept = Sums::default().minus(self.sums(entry));
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.sets, entry.base) = (None, (kept != Sums::default()).then(|| Box::new(kept)));
        }
    }

    /// Makes softwires those that a configuration has, beside what commands said. Answers what is refused.
    pub(crate) fn become_config(&mut self, settings: Settings, wanted: BTreeMap<Key, Fields>) -> Vec<(Key, String)> {
        self.settings = settings;
        for (key, entry) in &mut self.entries {
            entry.config = wanted.get(key).copied();
        }
        for (key, fields) in wanted {
            self.entries.entry(key).or_default().config = Some(fields);
        }
        // First whatever makes way: addresses may be divided otherwise from now on.
        let makes_way = |(key, entry): &(&Key, &Entry)| {
            let now = self.resolved(**key, entry).map(|(sets, _)| sets);
            entry.sets.is_some() && entry.sets != now
        };
        let gone: Vec<Key> = self.entries.iter().filter(makes_way).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| self.take_out(key));
        self.entries.retain(|_, entry| entry.fields().is_some());
        let all: Vec<Key> = self.entries.keys().copied().collect();
        all.into_iter().filter_map(|key| self.agree(key).err().map(|problem| (key, problem))).collect()
    }
}
