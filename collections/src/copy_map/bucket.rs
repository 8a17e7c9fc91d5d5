//! A bucket: some cache lines of words, with what orders the accesses to each.
//!
//! | word | contents |
//! |---|---|
//! | head | a tag of one byte for each slot, 0 for a free one; [`LOCKED`]; [`MOVED`] |
//! | link | the number of the next overflow bucket, or 0; in the first bucket of a chain also the *version* |
//! | pairs | for each slot the words of a key, then those of a value |
//!
//! What they are for is in [`chain`](super::chain).

use core::marker::PhantomData;
use core::ptr;

use super::shape::{MAX_SLOTS, MAX_WORDS, Shape, Words};
use crate::sync::{AtomicU64, Ordering::*};

/// The lowest bit of each tag.
const LOW: u64 = 0x01_0101_0101_0101;
/// The tags of all slots.
pub const TAGS: u64 = LOW * 0xFF;
/// A writer has the chain.
pub const LOCKED: u64 = 1 << 63;
/// The pairs are in the next table.
pub const MOVED: u64 = 1 << 62;

/// Returns the byte of a hash that is in heads: not one of the bits that number buckets.
#[inline(always)]
pub fn tag(hash: u64) -> u64 {
    (hash >> 56).max(1)
}

/// Returns the tag of a slot, which is 0 if the slot is free.
#[inline(always)]
pub fn tag_of(head: u64, slot: usize) -> u64 {
    head >> (8 * slot) & 0xFF
}

/// Slots: the highest bit of the byte of each.
pub struct Slots(u64);

impl Slots {
    /// Returns those that have a tag.
    #[inline(always)]
    pub fn with<S: Shape>(head: u64, tag: u64) -> Self {
        let slots = LOW >> (8 * (MAX_SLOTS - S::SLOTS));
        let differing = (head ^ (tag * LOW)) & TAGS;
        // The highest bit of each byte that differs: no sum leaves its byte.
        let differing = ((differing & (LOW * 0x7F)) + LOW * 0x7F) | differing;
        Self(!differing & (slots << 7))
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let (lowest, is_there) = (self.0.trailing_zeros() as usize / 8, self.0 != 0);
        self.0 &= self.0.wrapping_sub(1);
        is_there.then_some(lowest)
    }
}

/// One bucket: the pointer to its words, whose number follows from the shape.
pub struct Bucket<'t, S> {
    words: *const AtomicU64,
    shape: PhantomData<(&'t [AtomicU64], S)>,
}

impl<S> Clone for Bucket<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Bucket<'_, S> {}

impl<'t, S: Shape> Bucket<'t, S> {
    /// The bucket of these words.
    #[inline(always)]
    pub fn new(words: &'t [AtomicU64]) -> Self {
        debug_assert_eq!(words.len(), S::WORDS);
        Self { words: words.as_ptr(), shape: PhantomData }
    }

    /// Returns `true` for the same bucket.
    #[inline(always)]
    pub fn is(self, other: Self) -> bool {
        ptr::eq(self.words, other.words)
    }

    #[inline(always)]
    fn word(self, index: usize) -> &'t AtomicU64 {
        debug_assert!(index < S::WORDS);
        // SAFETY: a bucket has the words of `SLOTS` pairs, and more slots are in no head.
        unsafe { &*self.words.add(index) }
    }

    #[inline(always)]
    fn pair_word(self, slot: usize, index: usize) -> &'t AtomicU64 {
        self.word(2 + slot * (S::KEY + S::VALUE) + index)
    }

    /// Begins to fetch the last line: loads behind the locked instruction that takes the lock wait for the first one.
    #[inline(always)]
    pub fn prefetch(self) {
        #[cfg(not(loom))]
        crate::memory::prefetch(self.word(S::WORDS - 1));
    }

    #[inline(always)]
    pub fn head(self) -> u64 {
        // Acquire: the pairs that it names are not older than it, and the next table has those of a moved chain; pairs
        // with the Release in `set_head`.
        self.word(0).load(Acquire)
    }

    #[inline(always)]
    pub fn set_head(self, head: u64) {
        // Release: publishes pairs, or the copies of a chain that moves, and gives the lock to the next writer; pairs with
        // the Acquire in `head` and `try_lock`.
        self.word(0).store(head, Release);
    }

    /// Stores the lock bit, if the head is still this one.
    #[inline(always)]
    pub fn try_lock(self, head: u64) -> bool {
        // Acquire: what the last writer has stored, also if it has left the head as it was; pairs with the Release in
        // `set_head`.
        self.word(0).compare_exchange(head, head | LOCKED, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    pub fn link(self) -> u64 {
        // Acquire: the head is not older than the version, and an overflow bucket is not older than the link to it; pairs
        // with the Release in `set_link`.
        self.word(1).load(Acquire)
    }

    #[inline(always)]
    pub fn set_link(self, link: u64) {
        // Release: as in `link`.
        self.word(1).store(link, Release);
    }

    /// The link, for the holder of the lock, or after the pairs of the chain were read.
    #[inline(always)]
    pub fn own_link(self) -> u64 {
        // Relaxed: the lock orders it, or the Acquire in `read`, `head` and `link`.
        self.word(1).load(Relaxed)
    }

    #[inline(always)]
    fn read(self, slot: usize, index: usize) -> u64 {
        // Acquire: the version that was stored before; pairs with the Release in `write`.
        self.pair_word(slot, index).load(Acquire)
    }

    #[inline(always)]
    pub fn write(self, slot: usize, index: usize, word: u64) {
        // Release: as in `read`.
        self.pair_word(slot, index).store(word, Release);
    }

    #[inline(always)]
    pub fn has_key(self, slot: usize, key: &Words) -> bool {
        (0..S::KEY).all(|index| self.read(slot, index) == key[index])
    }

    pub fn key(self, slot: usize) -> Words {
        let mut key = [0; MAX_WORDS];
        (0..S::KEY).for_each(|index| key[index] = self.read(slot, index));
        key
    }

    #[inline(always)]
    pub fn value(self, slot: usize) -> Words {
        let mut value = [0; MAX_WORDS];
        (0..S::VALUE).for_each(|index| value[index] = self.read(slot, S::KEY + index));
        value
    }

    pub fn set_value(self, slot: usize, value: &Words) {
        (0..S::VALUE).for_each(|index| self.write(slot, S::KEY + index, value[index]));
    }

    /// Calls `f` with each slot of a head: with its pair, if it has one.
    pub fn for_each(self, head: u64, f: &mut impl FnMut(Option<(Words, Words)>)) {
        for slot in 0..S::SLOTS {
            f((tag_of(head, slot) != 0).then(|| (self.key(slot), self.value(slot))));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Plain;
    impl Shape for Plain {
        const KEY: usize = 1;
        const VALUE: usize = 1;
    }

    #[test]
    fn slots_are_found_by_tag() {
        let head = LOCKED | MOVED | 0x01_07_00_01_FF_80_07;
        let slots = |tag| Slots::with::<Plain>(head, tag).collect::<Vec<_>>();
        let found = [0x07, 0x80, 0xFF, 0x01, 0x00, 0x09].map(slots);
        assert_eq!(found, [vec![0, 5], vec![1], vec![2], vec![3, 6], vec![4], vec![]]);
    }

    #[test]
    fn pairs_of_numbers_fill_two_lines() {
        assert_eq!((Plain::WORDS, Plain::SPARE, Plain::ROOM), (16, 0, 20));
    }
}
