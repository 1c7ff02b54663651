//! What subports are called, what they have, and what is above them.

use super::{Book, Shaping};
use crate::config::SubportConfig;
use crate::hold::{Hold, Level};
use std::sync::Arc;

impl Shaping {
    /// Gives a subport, by its number, other rates, another weight and another parent than the configuration does, or takes that back. The rates of its classes stay those of the configuration. What waits goes by
    /// them from then on; that there is nothing wrong with them has been looked for. Nothing happens where there is no such subport.
    pub fn set_subport(&self, number: u16, given: Option<&SubportConfig>) {
        let mut book = self.book();
        let number = usize::from(number);
        let limits = given.map(|given| given.limits(|name| book.subports.iter().position(|other| other == name)));
        let Some(place) = book.given.get_mut(number) else { return };
        *place = limits;
        book.limit(number);
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
        let Level::Above(number) = hold.level else { return hold.to_string() };
        format!("subport {}", self.book().subports.get(usize::from(number)).map_or("", String::as_str))
    }

    /// Whether subports are below others; where they are not, none can come to be so.
    pub fn is_tree(&self) -> bool {
        self.is_tree
    }
}

impl Book {
    /// Has one subport go by what counts for it.
    fn limit(&mut self, number: usize) {
        let Book { profiles, configured, given, limits, .. } = self;
        let (Some(configured), Some(given)) = (configured.subports.get(number), given.get(number)) else { return };
        let counts = configured.given(*given);
        limits.subports.iter_mut().skip(number).take(1).for_each(|limits| *limits = counts);
        *profiles = Arc::new(profiles.with_subport(number, counts.whole()));
        self.divide();
    }
}
