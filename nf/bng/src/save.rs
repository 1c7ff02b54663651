//! What was added at run time, as requests that would add it again.

use std::sync::{Arc, Mutex};
use std::vec::IntoIter;

use weir_net::RouteSource;
use weir_stage::{PIECE, Saved, ShowRows};

use crate::registry::{Registry, Subscriber};
use crate::request::{SUBSCRIBERS, written};
use crate::show::LOOKED_THROUGH;
use crate::state::{Control, lock};
use crate::table::Tags;

/// The subscribers that were added, by tags, piece by piece. Who goes in the meantime is left out; who comes may be missing.
pub(crate) struct Added {
    shared: Arc<Mutex<Control>>,
    /// Those that are not told yet, once they were looked for.
    left: Option<IntoIter<Tags>>,
}

impl Added {
    pub(crate) fn new(shared: &Arc<Mutex<Control>>) -> Added {
        Added { shared: Arc::clone(shared), left: None }
    }

    /// The tags of all, in order. Numbers are looked through a part at a time: nobody waits for more.
    fn find(&self) -> IntoIter<Tags> {
        let (mut found, mut next) = (Vec::new(), 0);
        loop {
            let control = lock(&self.shared);
            let mut last = None;
            for subscriber in control.registry.subscribers_from(next).take(LOOKED_THROUGH) {
                last = Some(subscriber.number);
                found.extend(is_added(subscriber).then_some(subscriber.tags));
            }
            let Some(last) = last else { break };
            next = last + 1;
        }
        found.sort_unstable();
        // Who went and came again may have been met under either number.
        found.dedup();
        found.into_iter()
    }
}

impl ShowRows<Saved> for Added {
    fn piece(&mut self) -> Vec<Saved> {
        let mut left = self.left.take().unwrap_or_else(|| self.find());
        let mut piece = Vec::new();
        // Where all of a piece is gone, the next is looked at: an empty one would be the end.
        while piece.is_empty() && !left.as_slice().is_empty() {
            let control = lock(&self.shared);
            piece = left.by_ref().take(PIECE).filter_map(|tags| saved(&control.registry, tags)).collect();
        }
        self.left = Some(left);
        piece
    }
}

fn is_added(subscriber: &Subscriber) -> bool {
    subscriber.versions.iter().any(|(source, _)| *source == RouteSource::Cli)
}

/// What was added about one subscriber; `None` if nothing was.
pub(crate) fn saved(registry: &Registry, tags: Tags) -> Option<Saved> {
    let (_, fields) = registry.by_tags(tags)?.versions.iter().find(|(source, _)| *source == RouteSource::Cli)?;
    let entry = written(registry, tags, fields);
    Some(SUBSCRIBERS.saved("set", entry))
}
