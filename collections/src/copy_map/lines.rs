//! The memory of buckets: cache lines of words, zero at first.

use super::bucket::Bucket;
use super::shape::{LINE, Shape};
#[cfg(not(loom))]
use crate::memory::{NoMemory, Zeroed};
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::AtomicU64;

#[cfg(not(loom))]
#[repr(C, align(64))]
struct Line([AtomicU64; LINE]);

/// Buckets, one after the other.
#[cfg(not(loom))]
pub struct Lines(Zeroed<Line>);

#[cfg(loom)]
pub struct Lines(Box<[AtomicU64]>);

impl Lines {
    /// Allocates empty buckets.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new<S: Shape>(buckets: usize) -> Result<Self, NoMemory> {
        let lines = buckets.saturating_mul(S::WORDS / LINE);
        // SAFETY: zeros are a line.
        #[cfg(not(loom))]
        return unsafe { Zeroed::new(lines) }.map(|lines| {
            lines.allow_huge_pages();
            Self(lines)
        });
        #[cfg(loom)]
        return Ok(Self((0..lines * LINE).map(|_| AtomicU64::new(0)).collect()));
    }

    fn words(&self) -> &[AtomicU64] {
        #[cfg(not(loom))]
        // SAFETY: a line consists of its words, without gaps.
        return unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) };
        #[cfg(loom)]
        return &self.0;
    }

    /// Returns a bucket, of a shape that is always the same.
    #[inline(always)]
    pub fn bucket<S: Shape>(&self, index: usize) -> Bucket<'_, S> {
        let begin = index * S::WORDS;
        debug_assert!(begin + S::WORDS <= self.words().len());
        // SAFETY: callers ask for buckets that were allocated: the index is below the number of buckets of the table or
        // the chunk.
        Bucket::new(unsafe { self.words().get_unchecked(begin..begin + S::WORDS) })
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        size_of_val(self.words())
    }
}
