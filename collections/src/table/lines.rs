//! The memory of buckets: cache lines of words, zero at first.

use core::marker::PhantomData;

#[cfg(not(loom))]
use super::bucket::LINE;
use super::bucket::{Bucket, Shape};
#[cfg(loom)]
use super::bucket::{Cells, Word};
#[cfg(not(loom))]
use crate::memory::{NoMemory, Zeroed};
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::AtomicU64;

#[cfg(not(loom))]
#[repr(C, align(64))]
struct Line([AtomicU64; LINE]);

/// Buckets, one after the other.
pub struct Lines<S: Shape> {
    #[cfg(not(loom))]
    lines: Zeroed<Line>,
    #[cfg(loom)]
    buckets: Box<[Cells<S::Word>]>,
    shape: PhantomData<S>,
}

#[cfg(not(loom))]
impl<S: Shape> Lines<S> {
    /// Allocates empty buckets.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new(buckets: usize) -> Result<Self, NoMemory> {
        const {
            assert!(size_of::<S::Word>() <= size_of::<AtomicU64>());
            assert!(align_of::<S::Word>() <= align_of::<AtomicU64>());
        }
        // SAFETY: zeros are a line.
        let lines = unsafe { Zeroed::new(buckets.saturating_mul(S::WORDS / LINE)) }?;
        Ok(Self { lines, shape: PhantomData })
    }

    /// Allows huge pages.
    pub fn allow_huge_pages(&self) {
        self.lines.allow_huge_pages();
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: a line consists of its words, without gaps.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }

    /// Returns a bucket.
    #[inline(always)]
    pub fn bucket(&self, index: usize) -> Bucket<'_, S> {
        let begin = index * S::WORDS;
        debug_assert!(begin + S::WORDS <= self.words().len());
        // SAFETY: callers ask for buckets that were allocated: the index is below the number of buckets of the table
        // or the chunk.
        Bucket::new(unsafe { self.words().get_unchecked(begin..begin + S::WORDS) })
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        size_of_val(self.words())
    }
}

#[cfg(loom)]
impl<S: Shape> Lines<S> {
    pub fn new(buckets: usize) -> Result<Self, NoMemory> {
        let slots = || (0..S::SLOTS * (S::KEY + S::VALUE)).map(|_| S::Word::zero()).collect();
        let bucket = |_| Cells { own: [AtomicU64::new(0), AtomicU64::new(0)], slots: slots() };
        Ok(Self { buckets: (0..buckets).map(bucket).collect(), shape: PhantomData })
    }

    pub fn allow_huge_pages(&self) {}

    pub fn bucket(&self, index: usize) -> Bucket<'_, S> {
        Bucket::new(&self.buckets[index])
    }

    pub fn size(&self) -> usize {
        8 * S::WORDS * self.buckets.len()
    }
}
