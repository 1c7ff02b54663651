//! What flows are called behind a device that gives them other names: learned from packets that cannot be mistaken.

use std::collections::{HashMap, HashSet};

use crate::hash::Key;

/// Which flow of the sent side a flow of the received side is.
///
/// A packet of whose kind only one was sent shows which flows belong together. A flow that shows to have several names,
/// on either side, is left open: its packets are known by what they keep alone, and may be ambiguous.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    /// From the name behind the device to that before it.
    before: HashMap<u32, u32>,
    /// From the name before the device to that behind it.
    behind: HashMap<u32, u32>,
    /// Names before and behind the device of flows that are left open.
    open_before: HashSet<u32>,
    open_behind: HashSet<u32>,
}

impl Bindings {
    /// A packet of the flow `sent` came out in the flow `received`.
    pub(crate) fn learn(&mut self, sent: u32, received: u32) {
        let one = *self.before.entry(received).or_insert(sent);
        let other = *self.behind.entry(sent).or_insert(received);
        if one != sent || other != received {
            self.open_before.extend([one, sent]);
            self.open_behind.extend([other, received]);
        }
    }

    /// Flows that are bound.
    pub(crate) fn count(&self) -> u64 {
        let bound = |(received, sent): &(&u32, &u32)| self.is_bound(**sent, **received);
        self.before.iter().filter(bound).count() as u64
    }

    /// Flows that had several names.
    pub(crate) fn conflicts(&self) -> u64 {
        self.open_before.len() as u64
    }

    fn is_bound(&self, sent: u32, received: u32) -> bool {
        !self.open_before.contains(&sent) && !self.open_behind.contains(&received)
    }

    /// The key of a packet that was sent in a flow: of its own if the flow is bound.
    #[inline]
    pub(crate) fn sent(&self, key: Key, flow: u32) -> Key {
        if self.before.is_empty() {
            return key;
        }
        match self.behind.get(&flow) {
            Some(&received) if self.is_bound(flow, received) => key.with(flow.into()),
            _ => key,
        }
    }

    /// The key of a packet that was received in a flow: that of the flow it was sent in, if that is known.
    #[inline]
    pub(crate) fn received(&self, key: Key, flow: u32) -> Key {
        if self.before.is_empty() {
            return key;
        }
        match self.before.get(&flow) {
            Some(&sent) if self.is_bound(sent, flow) => key.with(sent.into()),
            _ => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hasher;

    #[test]
    fn flows_that_have_one_name_on_each_side_are_bound() {
        let key = Hasher::random().key(&[b"x"]);
        let mut bindings = Bindings::default();
        assert_eq!((bindings.sent(key, 1), bindings.received(key, 11)), (key, key));
        for (sent, received) in [(1, 11), (2, 12), (1, 11), (3, 13), (3, 14), (4, 15), (5, 15)] {
            bindings.learn(sent, received);
        }
        for (sent, received) in [(1, 11), (2, 12)] {
            assert_eq!(bindings.sent(key, sent), bindings.received(key, received));
            assert_ne!(bindings.sent(key, sent), key);
        }
        for (sent, received) in [(3, 13), (3, 14), (4, 15), (5, 15), (6, 16)] {
            assert_eq!((bindings.sent(key, sent), bindings.received(key, received)), (key, key), "{sent} {received}");
        }
        assert_eq!((bindings.count(), bindings.conflicts()), (2, 3));
    }
}
