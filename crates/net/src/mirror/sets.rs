//! Where routes lead, each kept once: a table of many thousand prefixes leads to few places.

use std::collections::HashMap;

use super::{Leads, Teller};

/// What routes lead to, by number.
#[derive(Debug, Default)]
pub(super) struct Sets {
    numbers: HashMap<(Teller, Leads), u32>,
    /// By number: what it is, and how many routes have it.
    all: Vec<Option<((Teller, Leads), u32)>>,
    free: Vec<u32>,
}

impl Sets {
    /// The number of these, of which a route has one more from now on.
    pub(super) fn intern(&mut self, teller: Teller, leads: &Leads) -> u32 {
        if let Some(number) = self.find(teller, leads) {
            self.hold(number);
            return number;
        }
        let key = (teller, leads.clone());
        let entry = Some((key.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(place) = self.all.get_mut(number as usize) {
                    *place = entry;
                }
                number
            }
            None => {
                self.all.push(entry);
                (self.all.len() - 1) as u32
            }
        };
        self.numbers.insert(key, number);
        number
    }

    /// The number of these, if any route has them.
    pub(super) fn find(&self, teller: Teller, leads: &Leads) -> Option<u32> {
        self.numbers.get(&(teller, leads.clone())).copied()
    }

    /// One more route has them.
    pub(super) fn hold(&mut self, number: u32) {
        if let Some(Some((_, uses))) = self.all.get_mut(number as usize) {
            *uses += 1;
        }
    }

    /// A route does not have them any more.
    pub(super) fn release(&mut self, number: u32) {
        let Some(place) = self.all.get_mut(number as usize) else { return };
        let Some((key, uses)) = place else { return };
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(key);
            *place = None;
            self.free.push(number);
        }
    }

    /// What a number stands for.
    pub(super) fn leads(&self, number: u32) -> Option<&Leads> {
        self.all.get(number as usize)?.as_ref().map(|((_, leads), _)| leads)
    }

    /// The numbers of those of a teller that `is_wanted`.
    pub(super) fn which(&self, teller: Teller, is_wanted: impl Fn(&Leads) -> bool) -> impl Iterator<Item = u32> {
        let of_it = self.numbers.iter().filter(move |((whose, leads), _)| *whose == teller && is_wanted(leads));
        of_it.map(|(_, number)| *number).collect::<Vec<_>>().into_iter()
    }
}
