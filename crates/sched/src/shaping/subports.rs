//! What subports are called, what they have, and what is above them.

use super::{Book, Shaping};
use crate::config::SubportConfig;
use crate::hold::{Hold, Level};
use crate::share::SubportLimits;
use std::sync::Arc;

impl Shaping {
    /// Gives a subport, by its number, something in place of all that the configuration does, or takes that back. What waits goes by
    /// it from then on; that there is nothing wrong with it has been looked for. Nothing happens where there is no such subport.
    pub fn set_subport(&self, number: u16, given: Option<&SubportConfig>) {
        let mut book = self.book();
        let number = usize::from(number);
        let place = |name: &str| book.subports.iter().position(|other| other == name);
        let limits = given.map(|given| given.limits(self.classes, place));
        let Some(place) = book.given.get_mut(number) else { return };
        *place = limits;
        if book.limit(number) {
            // Who stands aside for a class of one that was above is to do so no longer, and who has packets of a class that comes to be guaranteed something is to claim that.
            book.sweeps += 1;
        }
        drop(book);
        self.call();
    }

    /// Gives a subport another name: one that is to spare, which users may be given then, or none at all to one that is no longer wanted.
    pub fn name_subport(&self, number: u16, name: &str) {
        let mut book = self.book();
        if let Some(place) = book.subports.get_mut(usize::from(number)) {
            name.clone_into(place);
        }
    }

    /// What holds somebody back, as it is told: a subport above its own by its name.
    pub fn held_by(&self, hold: &Hold) -> String {
        let book = self.book();
        let name = |number: u16| book.subports.get(usize::from(number)).map_or("", String::as_str);
        match hold.level {
            Level::Above(number) => format!("subport {}", name(number)),
            Level::AboveClass(class, number) => format!("class {class} of subport {}", name(number)),
            _ => hold.to_string(),
        }
    }

    /// Whether subports are below others; where they are not, none can come to be so.
    pub fn is_tree(&self) -> bool {
        self.is_tree
    }
}

impl Book {
    /// Has one subport go by what counts for it. Whether it comes to be below another one than before, or to guarantee other classes something.
    fn limit(&mut self, number: usize) -> bool {
        let Book { profiles, configured, given, limits, .. } = self;
        let (Some(configured), Some(given)) = (configured.subports.get(number), given.get(number)) else {
            return false;
        };
        let Some(place) = limits.subports.get_mut(number) else { return false };
        let before = std::mem::replace(place, given.unwrap_or(*configured));
        let promised = |limits: &SubportLimits| limits.promises.map(|promise| promise.is_some());
        let is_moved = before.parent != place.parent || promised(&before) != promised(place);
        let counts = place.whole();
        *profiles = Arc::new(profiles.with_subport(number, counts));
        self.divide();
        is_moved
    }
}
