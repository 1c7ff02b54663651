//! Values at small numbers; a number is used again as soon as its value is gone.

/// Refers to nothing.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores `value` and answers its number, which is never [`NONE`]: the RIB's limits are far below 2^32 values.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop()
            && let Some(item) = self.items.get_mut(index as usize)
        {
            *item = Some(value);
            return index;
        }
        self.items.push(Some(value));
        (self.items.len() - 1) as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.items.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    /// Values that are there.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Numbers that are in use or were.
    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        0..self.items.len() as u32
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }
}
