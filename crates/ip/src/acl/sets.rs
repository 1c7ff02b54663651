//! Named sets of prefixes, which rules use: a change of a set is one of all rules that name it.

use std::collections::BTreeMap;

use ipnet::IpNet;

/// Prefixes of a set at most: as many matches may a rule come to.
pub(super) const MAX_PREFIXES: usize = super::rule::MOST_MATCHES;

/// A prefix in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) net: IpNet,
    /// Whether it was added at run time.
    pub(super) is_added: bool,
}

/// All sets, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets(BTreeMap<String, Vec<Member>>);

impl Sets {
    /// What a configuration has.
    pub(super) fn of<'c>(stated: impl Iterator<Item = (&'c String, &'c [IpNet])>) -> Sets {
        let set = |nets: &[IpNet]| nets.iter().map(|net| Member { net: *net, is_added: false }).collect();
        Sets(stated.map(|(name, nets)| (name.clone(), set(nets))).collect())
    }

    /// Becomes what a configuration has; what was added at run time to sets that stay is kept, unless it stands there now.
    pub(super) fn reconcile(&mut self, wanted: &Sets) {
        let before = std::mem::replace(self, wanted.clone());
        self.adopt(&before);
    }

    /// Takes over what was added at run time, as far as there are such sets and room in them.
    pub(super) fn adopt(&mut self, old: &Sets) {
        for (name, member) in old.members().filter(|(_, member)| member.is_added) {
            // Where it stands in the configuration by now, nothing is to be added.
            drop(self.add(name, member.net));
        }
    }

    /// All prefixes, set by set.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, Member)> {
        self.0.iter().flat_map(|(name, members)| members.iter().map(move |member| (name.as_str(), *member)))
    }

    /// What they are called.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The prefixes of a set; none if there is no such set.
    pub(super) fn prefixes(&self, name: &str) -> impl Iterator<Item = IpNet> {
        self.0.get(name).into_iter().flatten().map(|member| member.net)
    }

    /// Those of them that were added at run time.
    pub(super) fn added(&self, name: &str) -> impl Iterator<Item = IpNet> {
        self.0.get(name).into_iter().flatten().filter(|member| member.is_added).map(|member| member.net)
    }

    /// Whether there is such a set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn unknown(&self, name: &str) -> String {
        match self.names().take(16).collect::<Vec<_>>().as_slice() {
            [] => format!("there is no prefix set \"{name}\"; the configuration has none"),
            names => format!("there is no prefix set \"{name}\"; write one of {}", names.join(", ")),
        }
    }

    /// Adds a prefix to a set.
    ///
    /// # Errors
    ///
    /// There is no such set, or no room in it, or it has the prefix already.
    pub(super) fn add(&mut self, name: &str, net: IpNet) -> Result<(), String> {
        let unknown = self.unknown(name);
        let members = self.0.get_mut(name).ok_or(unknown)?;
        if members.iter().any(|member| member.net == net) {
            return Err(format!("{net} is in the set {name} already"));
        }
        if members.len() >= MAX_PREFIXES {
            return Err(format!("the set {name} has {MAX_PREFIXES} prefixes, as many as there is room for"));
        }
        members.push(Member { net, is_added: true });
        Ok(())
    }

    /// Removes a prefix from a set.
    ///
    /// # Errors
    ///
    /// There is no such set, or it does not have the prefix, or the configuration says that it has.
    pub(super) fn remove(&mut self, name: &str, net: IpNet) -> Result<(), String> {
        let unknown = self.unknown(name);
        let members = self.0.get_mut(name).ok_or(unknown)?;
        let Some(at) = members.iter().position(|member| member.net == net) else {
            return Err(format!("{net} is not in the set {name}; `show prefix-sets {name}` tells what is"));
        };
        if members.get(at).is_some_and(|member| !member.is_added) {
            return Err(format!("{net} stands in the configuration; delete it there and reload"));
        }
        members.remove(at);
        Ok(())
    }
}
