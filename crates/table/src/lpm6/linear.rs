//! The slow twin: a list of prefixes, searched from the start.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Config, Error, Lookup6, Lpm6, MAX_VALUE, Memory, Prefix6, Refused, Walk};

/// What the compiled table must answer, said as plainly as possible. For tests; readers and the writer exclude each other.
#[derive(Debug)]
pub struct Linear {
    list: Arc<List>,
    max_routes: usize,
}

/// The list that readers search.
#[derive(Debug)]
pub struct List {
    routes: RwLock<Vec<(Prefix6, u32)>>,
    miss: u32,
}

impl Linear {
    /// An empty list. `max_lines` does not bound it.
    ///
    /// # Errors
    ///
    /// [`Error::MissTooLarge`].
    pub fn new(config: &Config) -> Result<Self, Error> {
        if config.miss > MAX_VALUE {
            return Err(Error::MissTooLarge(config.miss));
        }
        let list = List { routes: RwLock::new(Vec::new()), miss: config.miss };
        Ok(Self { list: Arc::new(list), max_routes: config.max_routes })
    }
}

impl List {
    fn read<R>(&self, work: impl FnOnce(&Vec<(Prefix6, u32)>) -> R) -> R {
        work(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, work: impl FnOnce(&mut Vec<(Prefix6, u32)>) -> R) -> R {
        work(&mut self.routes.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lookup6 for List {
    fn prefetch(&self, _: u128) {}

    fn lookup(&self, address: u128) -> u32 {
        self.read(|routes| {
            let covering = routes.iter().filter(|(prefix, _)| prefix.covers(address));
            covering.max_by_key(|(prefix, _)| prefix.length()).map_or(self.miss, |(_, value)| *value)
        })
    }

    fn approach(&self, _: &[u128], _: &mut Walk) {}

    fn advance(&self, _: &[u128], _: &mut Walk) {}

    fn finish(&self, addresses: &[u128], _: &mut Walk, values: &mut [u32]) {
        for (value, &address) in values.iter_mut().zip(addresses) {
            *value = self.lookup(address);
        }
    }
}

impl Lpm6 for Linear {
    type Reader = List;

    fn insert(&mut self, prefix: Prefix6, value: u32) -> Result<Option<u32>, Refused> {
        if value > MAX_VALUE {
            return Err(Refused::ValueTooLarge { value });
        }
        let max = self.max_routes;
        self.list.write(|routes| {
            if let Some((_, old)) = routes.iter_mut().find(|(other, _)| *other == prefix) {
                return Ok(Some(std::mem::replace(old, value)));
            }
            if routes.len() >= max {
                return Err(Refused::TooManyRoutes { max });
            }
            routes.push((prefix, value));
            Ok(None)
        })
    }

    fn remove(&mut self, prefix: Prefix6) -> Result<Option<u32>, Refused> {
        self.list.write(|routes| {
            let at = routes.iter().position(|(other, _)| *other == prefix);
            Ok(at.map(|at| routes.swap_remove(at).1))
        })
    }

    fn get(&self, prefix: Prefix6) -> Option<u32> {
        self.list.read(|routes| routes.iter().find(|(other, _)| *other == prefix).map(|(_, value)| *value))
    }

    fn len(&self) -> usize {
        self.list.read(Vec::len)
    }

    fn memory(&self) -> Memory {
        let bytes = self.list.read(|routes| routes.capacity() * size_of::<(Prefix6, u32)>());
        Memory { lookup: bytes, used: bytes, ..Memory::default() }
    }

    fn reader(&self) -> &Arc<List> {
        &self.list
    }
}
