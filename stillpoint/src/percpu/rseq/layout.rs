//! Objects as sections find them, and results of sections. The meaning of each word is in [`super`].

use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::alloc::alloc_zeroed;

/// The bytes between the words of an object on two successive CPUs: no two CPUs write to one page, if pages are not
/// larger. Sections scale the CPU number by a shift of 14.
pub const STRIDE: usize = 1 << 14;

/// An object of per-CPU memory, as sections find it. See [`super::super::words`].
///
/// What a section needs before it is armed is in one word, as processors load few words in a cycle: with the limit in
/// a word of its own, an add took 1.25 times as long. Both halves change by read-modify-writes, so the Release that
/// published the object is acquired with each later value.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    /// The lowest [`LIMIT_BITS`]: the limit. Sections fail on CPUs from this number on. 0 before there is an object.
    /// Above them, signed: the offset of the thread's rseq area from the thread pointer; 0 if sections are not to be
    /// used.
    seen: AtomicU64,
    /// The first word of CPU 0.
    pub word: AtomicPtr<u64>,
}

/// The most CPUs for which there are areas. Linux has at most 8192.
pub const MOST_CPUS: usize = 1 << 14;

/// x86-64 compares 16 bits, and its addresses have 47. Elsewhere they may have 48, and an area in the memory of a
/// library that was opened late may be as far from the thread pointer as that.
const LIMIT_BITS: u32 = if cfg!(target_arch = "x86_64") { 16 } else { 15 };
const LIMIT: u64 = (1 << LIMIT_BITS) - 1;

/// Sections know the places of the fields.
const _: () = assert!(offset_of!(Place, seen) == 0 && offset_of!(Place, word) == 8);
const _: () = assert!(MOST_CPUS as u64 <= LIMIT);

impl Place {
    /// Returns a place without an object.
    pub const fn new() -> Self {
        Self { seen: AtomicU64::new(0), word: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Publishes the object at `word`, once.
    pub fn publish(&self, offset: isize, limit: usize, word: *mut u64) {
        // Relaxed: published by the store below.
        self.word.store(word, Relaxed);
        // Release: publishes the object; pairs with the Acquires in `first` and in sections.
        self.seen.store((offset as u64) << LIMIT_BITS | limit as u64, Release);
    }

    /// Returns the object, once there is one.
    pub fn first(&self) -> *mut u64 {
        // Acquire: sees the object; pairs with the Release in `publish`. Relaxed: ordered by that.
        if self.seen.load(Acquire) == 0 { ptr::null_mut() } else { self.word.load(Relaxed) }
    }

    /// Returns the same place for the thread whose rseq area is at `offset`.
    pub fn at(&self, offset: isize) -> Self {
        let place = Self::new();
        place.publish(offset, self.limit(), self.word.load(Relaxed));
        place
    }

    pub fn limit(&self) -> usize {
        // Relaxed: a thread that an add happens before finds at least the limit that its section found.
        (self.seen.load(Relaxed) & LIMIT) as usize
    }

    /// Raises the limit to `limit`, if it is lower.
    pub fn raise_limit(&self, limit: usize) {
        let raised = |seen| (seen & LIMIT < limit as u64).then_some(seen & !LIMIT | limit as u64);
        // Relaxed, both: as above.
        let _ = self.seen.fetch_update(Relaxed, Relaxed, raised);
    }

    pub fn offset(&self) -> isize {
        self.seen.load(Relaxed) as isize >> LIMIT_BITS
    }

    /// Sets the offset, where it is 0.
    pub fn set_offset(&self, offset: isize) {
        // Relaxed: the object has been published.
        self.seen.fetch_or((offset as u64) << LIMIT_BITS, Relaxed);
    }

    pub fn clear_offset(&self) {
        self.seen.fetch_and(LIMIT, Relaxed);
    }
}

/// Returns `len` values, or `None` if there is no memory.
pub fn boxed<T>(len: usize, make: impl FnMut(usize) -> T) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).ok()?;
    values.extend((0..len).map(make));
    Some(values.into_boxed_slice())
}

/// Returns `len` words of zero, or `None` if there is no memory. If they are many, the kernel provides memory only
/// for pages that are written to.
pub fn zeroed(len: usize) -> Option<Box<[AtomicU64]>> {
    let layout = Layout::array::<AtomicU64>(len).ok()?;
    if len == 0 {
        return Some(Box::default());
    }
    // SAFETY: the size is not zero.
    let words = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>())?;
    // SAFETY: allocated with this layout; zero is a value of each word.
    Some(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(words.as_ptr(), len)) })
}

/// Result of a section that failed: it was interrupted, the thread is not registered, the CPU is
/// beyond the limit, or the stack is stopped.
pub const FAILED: u64 = u64::MAX;

/// Result of `pop` if the stack is empty.
pub const NOTHING: u64 = 0;

/// Result of `push`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The value is stored.
    Done,
    /// There is no room.
    Full,
    /// As [`FAILED`].
    Failed,
}
