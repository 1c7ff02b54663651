//! Who is a user, and by which number: the truth of the control side.

use std::collections::{BTreeMap, HashMap};

use crate::find::OTHERS;
use crate::key::UserKey;

/// A user as a configuration wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedUser {
    /// What it is known by; the first names it.
    pub(crate) keys: Vec<UserKey>,
    /// Its profile, by number.
    pub(crate) profile: u16,
    /// Its subport, by number.
    pub(crate) subport: u16,
}

/// What a user was given at run time, in place of what the configuration says; by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    pub(crate) profile: Option<u16>,
    pub(crate) subport: Option<u16>,
}

/// A user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) keys: Vec<UserKey>,
    /// Its profile and its subport in the configuration.
    configured: (u16, u16),
    given: Overrides,
}

impl User {
    /// The profile that counts.
    pub(crate) fn profile(&self) -> u16 {
        self.given.profile.unwrap_or(self.configured.0)
    }

    /// The subport that counts.
    pub(crate) fn subport(&self) -> u16 {
        self.given.subport.unwrap_or(self.configured.1)
    }

    /// What it was given at run time.
    pub(crate) fn given(&self) -> Overrides {
        self.given
    }

    /// Whether its profile or its subport is not the configuration's.
    pub(crate) fn is_given(&self) -> bool {
        self.given != Overrides::default()
    }
}

/// All users, by number. Number 0 is that of everybody else.
#[derive(Debug)]
pub(crate) struct Users {
    entries: Vec<Option<User>>,
    numbers: HashMap<UserKey, u32>,
    free: Vec<u32>,
}

/// What has changed for those who look users up, and for the scheduler.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Keys and the users they lead to now.
    pub(crate) keys: Vec<(UserKey, u32)>,
    /// Users that are gone.
    pub(crate) gone: Vec<u32>,
}

impl Users {
    pub(crate) fn new() -> Users {
        Users { entries: vec![None], numbers: HashMap::new(), free: Vec::new() }
    }

    /// How many there are, without everybody else.
    pub(crate) fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&User> {
        self.entries.get(number as usize).and_then(Option::as_ref)
    }

    /// The number of the user that has a key.
    pub(crate) fn number(&self, key: &UserKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &User)> {
        (0..).zip(&self.entries).filter_map(|(number, user)| Some((number, user.as_ref()?)))
    }

    /// Becomes what a configuration wants. Whoever was there before, by its first key, keeps its number and what it was given at run
    /// time, which `translate` makes numbers of the new configuration, as far as it is still there.
    pub(crate) fn reconcile(&mut self, wanted: Vec<WantedUser>, translate: impl Fn(Overrides) -> Overrides) -> Changes {
        let mut before: BTreeMap<UserKey, u32> = BTreeMap::new();
        before.extend(self.iter().filter_map(|(number, user)| Some((*user.keys.first()?, number))));
        let mut keys: HashMap<UserKey, u32> = std::mem::take(&mut self.numbers);
        keys.values_mut().for_each(|number| *number = OTHERS);
        let kept: Vec<Option<u32>> =
            wanted.iter().map(|user| user.keys.first().and_then(|key| before.remove(key))).collect();
        let gone: Vec<u32> = before.into_values().collect();
        for number in &gone {
            if let Some(entry) = self.entries.get_mut(*number as usize) {
                *entry = None;
            }
        }
        for (user, kept) in wanted.into_iter().zip(kept) {
            let number = kept.unwrap_or_else(|| self.fresh());
            let given = self.get(number).map_or_else(Overrides::default, |user| translate(user.given));
            for key in &user.keys {
                keys.insert(*key, number);
                self.numbers.insert(*key, number);
            }
            let entry = User { keys: user.keys, configured: (user.profile, user.subport), given };
            if let Some(place) = self.entries.get_mut(number as usize) {
                *place = Some(entry);
            }
        }
        // A number is used again only by the next change, when what waited under it has had time to go.
        self.free.extend(&gone);
        Changes { keys: keys.into_iter().collect(), gone }
    }

    fn fresh(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        })
    }

    /// Gives a user another profile, another subport, or takes back what it was given. Answers whether there is such a user.
    pub(crate) fn give(&mut self, number: u32, given: Overrides) -> bool {
        let user = self.entries.get_mut(number as usize).and_then(Option::as_mut);
        user.map(|user| user.given = given).is_some()
    }

    /// Takes over what users of another instance were given.
    pub(crate) fn adopt(&mut self, old: &Users, translate: impl Fn(Overrides) -> Overrides) {
        for (_, user) in old.iter().filter(|(_, user)| user.is_given()) {
            if let Some(number) = user.keys.first().and_then(|key| self.number(key)) {
                self.give(number, translate(user.given));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(tags: &[(u16, u16)], profile: u16) -> WantedUser {
        let keys = tags.iter().map(|(outer, inner)| UserKey::Tags(*outer, *inner)).collect();
        WantedUser { keys, profile, subport: 0 }
    }

    fn gold(profile: u16) -> Overrides {
        Overrides { profile: Some(profile), subport: Some(profile + 10) }
    }

    fn same(given: Overrides) -> Overrides {
        given
    }

    fn sorted(mut changes: Changes) -> Changes {
        changes.keys.sort_unstable();
        changes.gone.sort_unstable();
        changes
    }

    #[test]
    fn users_keep_their_numbers() {
        let mut users = Users::new();
        let key = |inner| UserKey::Tags(1, inner);
        let first = users.reconcile(vec![user(&[(1, 1)], 0), user(&[(1, 2), (1, 9)], 0)], same);
        let keys = vec![(key(1), 1), (key(2), 2), (key(9), 2)];
        assert_eq!(sorted(first), Changes { keys, gone: vec![] });
        users.give(2, gold(7));
        assert_eq!((users.len(), users.entries.len()), (2, 3));
        // The first one goes, the second one loses a key, and a third one comes.
        let second =
            users.reconcile(vec![user(&[(1, 3)], 1), user(&[(1, 2)], 1)], |old| gold(old.profile.unwrap() + 1));
        let keys = vec![(key(1), OTHERS), (key(2), 2), (key(3), 3), (key(9), OTHERS)];
        assert_eq!(sorted(second), Changes { keys, gone: vec![1] });
        assert_eq!((users.get(2).unwrap().profile(), users.get(3).unwrap().profile()), (8, 1));
        // A number that became free is used again; a profile that is gone is that of the configuration.
        users.reconcile(vec![user(&[(1, 3)], 1), user(&[(1, 2)], 1), user(&[(1, 4)], 2)], |_| Overrides::default());
        assert_eq!(users.get(2).unwrap().subport(), 0);
        assert_eq!((users.number(&key(4)), users.get(2).unwrap().profile(), users.entries.len()), (Some(1), 1, 4));
        assert!(!users.give(OTHERS, gold(1)) && !users.give(9, gold(1)));
    }

    #[test]
    fn a_key_may_move_to_another_user() {
        let mut users = Users::new();
        users.reconcile(vec![user(&[(1, 1), (1, 2)], 0), user(&[(1, 3)], 0)], same);
        let moved = users.reconcile(vec![user(&[(1, 1)], 0), user(&[(1, 3), (1, 2)], 0)], same);
        assert_eq!(moved.keys.iter().find(|(key, _)| *key == UserKey::Tags(1, 2)).unwrap().1, 2);
        assert_eq!(users.number(&UserKey::Tags(1, 2)), Some(2));
    }

    #[test]
    fn what_was_given_survives_a_rebuild() {
        let (mut old, mut new) = (Users::new(), Users::new());
        old.reconcile(vec![user(&[(1, 1)], 0), user(&[(1, 2)], 0)], same);
        old.give(1, gold(3));
        new.reconcile(vec![user(&[(1, 2)], 0), user(&[(1, 1)], 0)], same);
        new.adopt(&old, same);
        assert_eq!((new.get(1).unwrap().profile(), new.get(2).unwrap().profile()), (0, 3));
        assert!(new.get(2).unwrap().is_given() && new.get(2).unwrap().subport() == 13);
    }
}
