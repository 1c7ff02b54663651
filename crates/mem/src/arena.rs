//! Large zeroed slices, in huge pages when there are any.
//!
//! Lookup tables are hit at random; in 4 KiB pages nearly every access misses the TLB as well as the cache.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering,
};

use crate::CacheAligned;

/// Types of which all-zero bytes are a valid value and that need no drop.
///
/// # Safety
///
/// A value whose bytes are all zero must be valid, and the type must not implement `Drop` nor hold what does.
pub unsafe trait Zeroable {}

macro_rules! zeroable {
    ($($type:ty),*) => { $(
        // SAFETY: an integer, or an atomic one with the same representation: any bytes are a value; nothing to drop.
        unsafe impl Zeroable for $type {}
    )* };
}
zeroable!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
zeroable!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, AtomicI8, AtomicI16, AtomicI32, AtomicI64);
// SAFETY: zero is `false`.
unsafe impl Zeroable for bool {}
// SAFETY: the same representation as `bool`.
unsafe impl Zeroable for AtomicBool {}
// SAFETY: an array of zeroes is zeroes; it drops nothing but its elements.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}
// SAFETY: the inner value and padding.
unsafe impl<T: Zeroable> Zeroable for CacheAligned<T> {}

/// What kind of pages hold a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB pages from the reserved pool.
    Huge,
    /// Base pages that the kernel was asked to merge to huge ones; whether it did is its choice.
    Transparent,
    /// Base pages: too small to gain, or the kernel has no transparent huge pages.
    Base,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Base => "base pages",
        })
    }
}

/// Why there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The slice would be larger than an address can say.
    TooLarge {
        /// How many elements were asked for.
        elements: usize,
    },
    /// The kernel refused.
    Refused {
        /// How many bytes were asked for.
        bytes: usize,
        /// The kernel's error number.
        errno: i32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { elements } => write!(f, "a slice of {elements} elements is larger than the address space"),
            Self::Refused { bytes, errno } => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                write!(f, "no memory for {} MiB: {reason}", bytes.div_ceil(1 << 20))
            }
        }
    }
}

impl std::error::Error for Error {}

/// Size of a huge page.
const HUGE: usize = 2 << 20;
/// What makes a slice large enough for one. A quarter of it already takes 128 base pages, more than the first level of a TLB has entries.
const WORTH_ONE: usize = HUGE / 4;
const BASE: usize = 4 << 10;

/// A fixed number of `T`, zero at first, in memory mapped for them alone.
pub struct HugeSlice<T> {
    start: NonNull<T>,
    elements: usize,
    /// Bytes mapped: a multiple of the page size.
    bytes: usize,
    pages: Pages,
}

// SAFETY: the slice owns its elements, like `Box<[T]>`.
unsafe impl<T: Send> Send for HugeSlice<T> {}
// SAFETY: shared access only hands out `&[T]`, like `Box<[T]>`.
unsafe impl<T: Sync> Sync for HugeSlice<T> {}

/// Whether this process keeps to base pages.
static BASE_ONLY: AtomicBool = AtomicBool::new(false);

/// From here on, slices of this process are made of base pages, so that what huge pages are worth can be measured.
pub fn use_base_pages() {
    BASE_ONLY.store(true, Ordering::Relaxed);
}

impl<T: Zeroable> HugeSlice<T> {
    /// Maps memory for `elements` zeroes: from the huge page pool, else aligned for transparent huge pages, else as
    /// it comes.
    ///
    /// # Errors
    ///
    /// [`Error`] when the kernel has no address space or no memory left; nothing is mapped then.
    pub fn new(elements: usize) -> Result<Self, Error> {
        Self::mapped(elements, |size| huge(size).or_else(|_| transparent(size)))
    }

    /// The same for what may never be used, or in a few places only: memory for it is taken when it is touched first, and none of
    /// the huge page pool, which would be charged for all of it.
    ///
    /// # Errors
    ///
    /// As for [`HugeSlice::new`].
    pub fn sparse(elements: usize) -> Result<Self, Error> {
        Self::mapped(elements, transparent)
    }
}

impl<T> HugeSlice<T> {
    /// Elements that are more than zeroes, made one by one: the first by `make(0)`.
    ///
    /// # Errors
    ///
    /// As for [`HugeSlice::new`].
    pub fn from_fn(elements: usize, mut make: impl FnMut(usize) -> T) -> Result<Self, Error> {
        let mut slice = Self::mapped(elements, |size| huge(size).or_else(|_| transparent(size)))?;
        // Should `make` panic, nothing is dropped but the mapping: what was made by then leaks.
        slice.elements = 0;
        for n in 0..elements {
            // SAFETY: `elements` values fit the mapping, and `n` is below that; of a type without size, any address is as good.
            let place = unsafe { slice.start.add(n) };
            // SAFETY: aligned (pages are) and ours; nothing is there that would have to be dropped.
            unsafe { place.write(make(n)) };
        }
        slice.elements = elements;
        Ok(slice)
    }

    /// Memory for so many values, of which none may be read before it is written unless zeroes are one.
    fn mapped(elements: usize, large: impl Fn(usize) -> Result<Mapped, Error>) -> Result<Self, Error> {
        const { assert!(align_of::<T>() <= BASE, "pages are aligned to 4 KiB") };
        let too_large = Error::TooLarge { elements };
        let size = elements.checked_mul(size_of::<T>()).ok_or(too_large)?;
        if size > isize::MAX as usize - 2 * HUGE {
            return Err(too_large);
        }
        if size == 0 {
            return Ok(Self { start: NonNull::dangling(), elements, bytes: 0, pages: Pages::Base });
        }
        let (start, bytes, pages) =
            if size < WORTH_ONE || BASE_ONLY.load(Ordering::Relaxed) { base(size)? } else { large(size)? };
        Ok(Self { start: start.cast(), elements, bytes, pages })
    }

    /// Bytes mapped, a multiple of the page size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The kind of pages it lies in.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

impl<T> Deref for HugeSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned (to a page, or dangling when nothing is held) and maps `elements` initialised
        // values (zeroes of a `T: Zeroable`, or what `from_fn` wrote) until drop; `&self` keeps writers without interior mutability out.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.elements) }
    }
}

impl<T> DerefMut for HugeSlice<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.elements) }
    }
}

impl<T> fmt::Debug for HugeSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elements, bytes, pages, .. } = self;
        write!(f, "HugeSlice({elements} elements, {bytes} bytes, {pages})")
    }
}

impl<T> Drop for HugeSlice<T> {
    fn drop(&mut self) {
        let elements: *mut [T] = &mut **self;
        // SAFETY: they are initialised, as for `deref`, and nobody sees them after this; of a `T: Zeroable` there is nothing to drop.
        unsafe { std::ptr::drop_in_place(elements) };
        if self.bytes > 0 {
            unmap(self.start.cast(), self.bytes);
        }
    }
}

type Mapped = (NonNull<u8>, usize, Pages);

fn huge(size: usize) -> Result<Mapped, Error> {
    let bytes = size.next_multiple_of(HUGE);
    // The pool is charged when mapping, so that a first touch can not fail later (it would be a SIGBUS).
    let start = map(bytes, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)?;
    Ok((start, bytes, Pages::Huge))
}

/// Maps one huge page more than needed and gives back what lies outside the aligned part.
fn transparent(size: usize) -> Result<Mapped, Error> {
    let bytes = size.next_multiple_of(HUGE);
    let all = map(bytes + HUGE, 0)?;
    let before = all.addr().get().next_multiple_of(HUGE) - all.addr().get();
    // SAFETY: `before` is at most `HUGE` minus a page, so the result lies within the `bytes + HUGE` mapped.
    let start = unsafe { all.add(before) };
    // SAFETY: as above: `before + bytes` is less than what was mapped.
    let end = unsafe { start.add(bytes) };
    if before > 0 {
        unmap(all, before);
    }
    unmap(end, HUGE - before);
    // SAFETY: the range is mapped and ours; the advice changes no content.
    let advised = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    let pages = if advised == 0 { Pages::Transparent } else { Pages::Base };
    Ok((start, bytes, pages))
}

fn base(size: usize) -> Result<Mapped, Error> {
    let bytes = size.next_multiple_of(BASE);
    Ok((map(bytes, 0)?, bytes, Pages::Base))
}

/// Maps private, zeroed, readable and writable memory.
fn map(bytes: usize, flags: i32) -> Result<NonNull<u8>, Error> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: an anonymous mapping at an address that the kernel chooses touches no memory in use.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    if start == libc::MAP_FAILED {
        return Err(Error::Refused { bytes, errno: errno() });
    }
    NonNull::new(start.cast()).ok_or(Error::Refused { bytes, errno: libc::EFAULT })
}

fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the callers pass whole pages of a mapping of their own that nothing refers to any more. It can only
    // fail on ranges that are not pages; then the memory stays mapped, which is harmless.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn zeroed_and_writable_at_every_size() {
        let from = WORTH_ONE / 8;
        for elements in [1, 511, 512, 513, from - 1, from, HUGE / 8 - 1, HUGE / 8, HUGE / 8 + 1, 3 * HUGE / 8] {
            let sparse = HugeSlice::<u64>::sparse(elements).unwrap();
            assert_ne!(sparse.pages(), Pages::Huge);
            for mut slice in [HugeSlice::<u64>::new(elements).unwrap(), sparse] {
                assert_eq!(slice.len(), elements);
                assert!(slice.iter().all(|&value| value == 0));
                slice.fill(u64::MAX);
                assert!(slice.iter().all(|&value| value == u64::MAX));
                assert!(slice.bytes() >= elements * 8 && slice.bytes().is_multiple_of(BASE));
                if elements >= from {
                    assert_eq!(slice.as_ptr().addr() % HUGE, 0);
                    assert_eq!(slice.bytes() % HUGE, 0);
                } else {
                    assert_eq!(slice.pages(), Pages::Base);
                }
            }
        }
    }

    #[test]
    fn what_was_made_is_there_and_is_dropped_once() {
        for elements in [0, 1, 1000, HUGE / 16] {
            let counted = std::rc::Rc::new(());
            let slice = HugeSlice::from_fn(elements, |n| (n, std::rc::Rc::clone(&counted))).unwrap();
            assert!(slice.iter().enumerate().all(|(n, (made, _))| n == *made) && slice.len() == elements);
            assert_eq!(std::rc::Rc::strong_count(&counted), elements + 1);
            drop(slice);
            assert_eq!(std::rc::Rc::strong_count(&counted), 1);
        }
        let units = HugeSlice::from_fn(3, |_| ()).unwrap();
        assert_eq!((units.len(), units.bytes()), (3, 0));
    }

    #[test]
    fn holds_nothing() {
        let slice = HugeSlice::<u32>::new(0).unwrap();
        assert!(slice.is_empty());
        assert_eq!(slice.bytes(), 0);
    }

    #[test]
    fn refuses_what_cannot_be() {
        assert!(matches!(HugeSlice::<u64>::new(usize::MAX), Err(Error::TooLarge { .. })));
        assert!(matches!(HugeSlice::<u64>::new(usize::MAX / 16), Err(Error::TooLarge { .. })));
        let error = HugeSlice::<u64>::new(1 << 57).unwrap_err();
        assert!(matches!(error, Error::Refused { errno: libc::ENOMEM, .. }), "{error}");
        assert!(error.to_string().contains("no memory for"));
    }

    #[test]
    fn is_shared_between_threads() {
        let slice = HugeSlice::<AtomicU32>::new(1 << 20).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| slice.iter().for_each(|word| _ = word.fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert!(slice.iter().all(|word| word.load(Ordering::Relaxed) == 2));
    }

    #[test]
    fn memory_comes_back() {
        // 64 GiB in all: would not fit if drops leaked what was touched.
        for _ in 0..1024 {
            let mut slice = HugeSlice::<u8>::new(64 << 20).unwrap();
            slice[0] = 1;
        }
    }
}
