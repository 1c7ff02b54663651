//! Numbered places whose reuse is noticed, and delayed until no reader can hold the number.

use std::collections::VecDeque;

/// A place and how often it was given out before.
pub(crate) type Place = (u32, u32);

/// Up to `capacity` values, each at a number of its own.
///
/// What is removed first goes to a limbo: its number is not given out again before [`Slots::recycle`] says that all
/// readers have moved on. Each reuse of a number has another generation.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    limbo: VecDeque<u32>,
    /// How many were removed, and how many of those left the limbo, since the start.
    retired: u64,
    recycled: u64,
    capacity: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        Slots { slots: Vec::new(), free: VecDeque::new(), limbo: VecDeque::new(), retired: 0, recycled: 0, capacity }
    }

    /// Finds a place for `value`; `None` if all are taken or in limbo.
    pub(crate) fn insert(&mut self, value: T) -> Option<Place> {
        if let Some(index) = self.free.pop_front() {
            let slot = self.slots.get_mut(index as usize)?;
            slot.value = Some(value);
            return Some((index, slot.generation));
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|&index| index < self.capacity)?;
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Some((index, 0))
    }

    pub(crate) fn get(&self, (index, generation): Place) -> Option<&T> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.generation == generation)?;
        slot.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, (index, generation): Place) -> Option<&mut T> {
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.generation == generation)?;
        slot.value.as_mut()
    }

    /// Takes the value out and sends the place to the limbo.
    pub(crate) fn remove(&mut self, (index, generation): Place) -> Option<T> {
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.generation == generation)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.limbo.push_back(index);
        self.retired += 1;
        Some(value)
    }

    /// How many places were sent to the limbo so far.
    pub(crate) const fn retired(&self) -> u64 {
        self.retired
    }

    /// Lets the first `upto` of all places that were ever sent to the limbo be used again.
    pub(crate) fn recycle(&mut self, upto: u64) {
        while self.recycled < upto
            && let Some(index) = self.limbo.pop_front()
        {
            self.free.push_back(index);
            self.recycled += 1;
        }
    }

    /// Whether half of the places or more are taken or in limbo.
    pub(crate) fn is_half_taken(&self) -> bool {
        self.slots.len() - self.free.len() >= self.capacity as usize / 2
    }

    /// Values that are there now.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.limbo.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        let numbered = (0u32..).zip(&self.slots);
        numbered.filter_map(|(index, slot)| Some(((index, slot.generation), slot.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_removed_place_waits_for_its_recycling_and_comes_back_with_another_generation() {
        let mut slots = Slots::new(2);
        let a = slots.insert('a').unwrap();
        let b = slots.insert('b').unwrap();
        assert_eq!(slots.insert('c'), None);
        assert_eq!((slots.remove(a), slots.remove(a)), (Some('a'), None));
        let seen = slots.retired();
        assert_eq!(slots.insert('c'), None, "still in limbo");
        slots.remove(b);
        slots.recycle(seen);
        assert_eq!(slots.insert('c'), Some((a.0, 1)));
        assert_eq!(slots.insert('d'), None, "b was removed later");
        assert_eq!((slots.get(a), slots.get((a.0, 1)), slots.len()), (None, Some(&'c'), 1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(operations in proptest::collection::vec((0u8..4, 0usize..8), 1..200)) {
            let mut slots = Slots::new(5);
            let mut twin: BTreeMap<Place, usize> = BTreeMap::new();
            let mut limbo = 0;
            for (number, (operation, pick)) in operations.into_iter().enumerate() {
                match operation {
                    0 | 1 => match slots.insert(number) {
                        Some(place) => prop_assert!(twin.insert(place, number).is_none()),
                        None => prop_assert_eq!(twin.len() + limbo, 5),
                    },
                    2 => if let Some(&place) = twin.keys().nth(pick) {
                        prop_assert_eq!(slots.remove(place), twin.remove(&place));
                        limbo += 1;
                    },
                    _ => {
                        slots.recycle(slots.retired());
                        limbo = 0;
                    }
                }
                prop_assert_eq!(slots.len(), twin.len());
                prop_assert!(slots.iter().map(|(place, &value)| (place, value)).eq(twin.iter().map(|(&place, &value)| (place, value))));
                for (&place, value) in &twin {
                    prop_assert_eq!(slots.get(place), Some(value));
                }
            }
        }
    }
}
