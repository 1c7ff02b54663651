//! A slice indexed by `u32` in which a wrong index does no harm.

use std::alloc::Layout;
use std::hint::cold_path;

use weir_mem::HugeSlice;

/// An index that no element has.
pub const NONE: u32 = u32::MAX;

/// A fixed number of elements. An index that is too large, such as [`NONE`], reaches a spare element, so that lists need no
/// case for their ends and nothing can panic. Many of them lie in huge pages where there are any: what is reached at random would
/// else miss the TLB as well as the cache.
#[derive(Debug)]
pub struct Indexed<T> {
    items: HugeSlice<T>,
    spare: T,
}

impl<T: Clone> Indexed<T> {
    /// `count` copies of `item`, and the spare one.
    pub fn new(count: usize, item: T) -> Indexed<T> {
        Indexed { items: made(count, |_| item.clone()), spare: item }
    }
}

impl<T: Clone> Clone for Indexed<T> {
    fn clone(&self) -> Indexed<T> {
        let mut items = self.items.iter();
        Indexed {
            items: made(self.items.len(), |_| items.next().unwrap_or(&self.spare).clone()),
            spare: self.spare.clone(),
        }
    }
}

/// # Aborts
///
/// Where there is no memory, as a vector would.
fn made<T>(count: usize, make: impl FnMut(usize) -> T) -> HugeSlice<T> {
    HugeSlice::from_fn(count, make)
        .unwrap_or_else(|_| std::alloc::handle_alloc_error(Layout::array::<T>(count).unwrap_or(Layout::new::<T>())))
}

impl<T> Indexed<T> {
    /// From elements that cannot be cloned, made by their index, and the spare one.
    pub fn from_fn(count: usize, mut make: impl FnMut(u32) -> T, spare: T) -> Indexed<T> {
        Indexed { items: made(count, |n| make(n as u32)), spare }
    }

    /// The element at an index.
    #[inline(always)]
    pub fn at(&self, index: u32) -> &T {
        match self.items.get(index as usize) {
            Some(item) => item,
            None => {
                cold_path();
                &self.spare
            }
        }
    }

    /// The element at an index, to change.
    #[inline(always)]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        match self.items.get_mut(index as usize) {
            Some(item) => item,
            None => {
                cold_path();
                &mut self.spare
            }
        }
    }

    /// All elements but the spare one.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// All elements but the spare one, to change.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Hints that the line where an element starts will be written soon; an index that is too large is harmless.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        weir_mem::prefetch::prefetch_slice_write(&self.items, index as usize);
    }

    /// The same for so many lines of an element that begins with one.
    #[inline(always)]
    pub fn prefetch_lines(&self, index: u32, lines: usize) {
        weir_mem::prefetch::prefetch_lines_write(&self.items, index as usize, lines);
    }
}
