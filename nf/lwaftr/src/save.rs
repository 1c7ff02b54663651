//! What was added at run time, as requests that would add it again.

use std::sync::{Arc, Mutex};

use weir_stage::{PIECE, Saved, ShowRows};

use crate::registry::Registry;
use crate::request::{SOFTWIRES, written};
use crate::state::lock;
use crate::table::Key;

/// The softwires that were added, in order, piece by piece.
pub(crate) struct Added {
    shared: Arc<Mutex<Registry>>,
    next: Option<Key>,
}

impl Added {
    pub(crate) fn new(shared: &Arc<Mutex<Registry>>) -> Added {
        Added { shared: Arc::clone(shared), next: Some(Key::LEAST) }
    }
}

impl ShowRows<Saved> for Added {
    fn piece(&mut self) -> Vec<Saved> {
        let mut piece = Vec::new();
        // Where nothing of a piece was added, the next is looked at: an empty one would be the end.
        while let Some(next) = self.next.filter(|_| piece.is_empty()) {
            let registry = lock(&self.shared);
            let mut last = None;
            for (key, entry) in registry.from(next).take(PIECE) {
                last = Some(key);
                piece.extend(entry.added().map(|fields| SOFTWIRES.saved("set", written(key, &fields))));
            }
            self.next = last.and_then(Key::next);
        }
        piece
    }
}
