//! A bucket: some cache lines of words, with what orders the accesses to each. What a slot holds is its [`Shape`]: a
//! pair of plain words ([`pairs`](super::pairs)), or a pointer to an entry ([`entries`](super::entries)).
//!
//! | word | contents |
//! |---|---|
//! | head | a tag of one byte for each slot, 0 for a free one; [`LOCKED`]; [`MOVED`] |
//! | link | the number of the next overflow bucket, or 0; the *version* of the bucket |
//! | slots | for each the words of a key, then those of a value; or a pointer to an entry |
//!
//! What they are for is in [`chain`](super::chain).

use core::marker::PhantomData;
use core::ptr;

use crate::sync::{AtomicU64, Domain, Ordering::*, step};

/// The words of a key or of a value. Those that it does not need are zero.
pub type Words = [u64; MAX_WORDS];

/// Words that a key or a value may have.
pub const MAX_WORDS: usize = 8;

/// Tags of a head.
pub const MAX_SLOTS: usize = 7;

/// Words of a cache line.
pub const LINE: usize = 8;

/// The sections of a map's domain.
pub type Section<S> = <<S as Shape>::Domain as Domain>::Section;

/// The sizes of keys and values, and what follows for buckets: whole cache lines, with a head and a link.
pub trait Shape: Sized + Send + Sync + 'static {
    /// The domain of the sections in which lookups are made.
    type Domain: Domain;
    /// A word of a slot.
    type Word: Word;
    /// A word of a slot, once it is loaded.
    type Loaded<'g>: Copy + Default;
    /// Computes the hash of what a slot holds again.
    type Rehash<'a>: Copy;

    /// Words of a key.
    const KEY: usize;
    /// Words of a value.
    const VALUE: usize;
    /// Words of a slot.
    const SLOT: usize = Self::KEY + Self::VALUE;
    /// Whether a slot is a pointer to an entry, which is null if the slot is free. The entry has its hash.
    const IS_ENTRY: bool = false;
    /// Slots of a bucket.
    const SLOTS: usize = slots_of(Self::SLOT);
    /// Words of a bucket.
    const WORDS: usize = (2 + Self::SLOTS * Self::SLOT).next_multiple_of(LINE);
    /// Slots of a bucket that stay free. A value of several words is not replaced in its place.
    const SPARE: usize = if Self::VALUE > 1 { 1 } else { 0 };
    /// Entries that a table has room for, in each four buckets. If the hashes are random, one in eight buckets has
    /// overflowed then.
    const ROOM: usize = if Self::IS_ENTRY {
        16
    } else if Self::SLOTS - Self::SPARE < MAX_SLOTS {
        15
    } else {
        20
    };

    /// Loads the words of all slots that are not free, in a section. Returns how many words that are; `room` is for
    /// those of all slots.
    fn load<'g>(
        bucket: Bucket<'_, Self>,
        head: u64,
        section: &'g Section<Self>,
        room: &mut [Self::Loaded<'g>],
    ) -> usize;

    /// Returns the hash that the entry of a slot has. The caller has locked the chain.
    #[inline(always)]
    fn entry_hash(_: Bucket<'_, Self>, _: usize, _: &Section<Self>) -> Option<u64> {
        None
    }

    /// Copies a slot to a free one. The caller has locked both chains.
    fn copy(from: Bucket<'_, Self>, slot: usize, to: Bucket<'_, Self>, free: usize);

    /// Empties a slot that is a pointer to an entry.
    #[inline(always)]
    fn clear(_: Bucket<'_, Self>, _: usize) {}

    /// Returns the hash of what a slot holds. Runs code of the program, unless that is an entry.
    fn hash(loaded: &[Self::Loaded<'_>], rehash: Self::Rehash<'_>) -> u64;
}

/// Returns the slots of a bucket, of so many words each.
pub const fn slots_of(words: usize) -> usize {
    if words == 1 { LINE - 2 } else { MAX_SLOTS }
}

/// A word of a slot.
///
/// # Safety
///
/// Zeros are a word. It has at most the size and the alignment of an `AtomicU64`.
pub unsafe trait Word: Send + Sync + 'static {
    /// A word of zeros.
    #[cfg(loom)]
    fn zero() -> Self;
}

/// A bucket of the models.
#[cfg(loom)]
pub struct Cells<W> {
    /// The head and the link.
    pub own: [AtomicU64; 2],
    pub slots: Box<[W]>,
}

/// The lowest bit of each tag.
const LOW: u64 = 0x01_0101_0101_0101;
/// The tags of all slots.
pub const TAGS: u64 = LOW * 0xFF;
/// A writer has the chain.
pub const LOCKED: u64 = 1 << 63;
/// The pairs are in the next table.
pub const MOVED: u64 = 1 << 62;

/// The bits of a link that are the number of an overflow bucket; 0 is none. The others are the version.
pub const NEXT: u64 = (1 << 28) - 1;

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
    /// Returns those that have a tag. Those of entries are probable, but the lowest one is certain: a slot that is
    /// free has no entry.
    #[inline(always)]
    pub fn with<S: Shape>(head: u64, tag: u64) -> Self {
        let slots = LOW >> (8 * (MAX_SLOTS - S::SLOTS));
        if S::IS_ENTRY {
            let differing = head ^ (tag * LOW);
            return Self(differing.wrapping_sub(LOW) & !differing & (slots << 7));
        }
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
pub struct Bucket<'t, S: Shape> {
    #[cfg(not(loom))]
    words: *const AtomicU64,
    #[cfg(loom)]
    words: &'t Cells<S::Word>,
    shape: PhantomData<(&'t [AtomicU64], S)>,
}

impl<S: Shape> Clone for Bucket<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Shape> Copy for Bucket<'_, S> {}

impl<'t, S: Shape> Bucket<'t, S> {
    /// The bucket of these words.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn new(words: &'t [AtomicU64]) -> Self {
        debug_assert_eq!(words.len(), S::WORDS);
        Self { words: words.as_ptr(), shape: PhantomData }
    }

    #[cfg(loom)]
    pub fn new(words: &'t Cells<S::Word>) -> Self {
        Self { words, shape: PhantomData }
    }

    /// Returns `true` for the same bucket.
    #[inline(always)]
    pub fn is(self, other: Self) -> bool {
        ptr::eq(self.words, other.words)
    }

    /// Returns the head, or the link.
    #[inline(always)]
    fn own_word(self, index: usize) -> &'t AtomicU64 {
        // SAFETY: a bucket has at least these two words.
        #[cfg(not(loom))]
        return unsafe { &*self.words.add(index) };
        #[cfg(loom)]
        return &self.words.own[index];
    }

    /// Returns a word of a slot.
    #[inline(always)]
    pub fn slot_word(self, slot: usize, index: usize) -> &'t S::Word {
        debug_assert!(slot < S::SLOTS && index < S::SLOT);
        let index = slot * S::SLOT + index;
        // SAFETY: a bucket has the words of `SLOTS` slots, and more slots are in no head. They began as zeros, and
        // the shape is always the same.
        #[cfg(not(loom))]
        return unsafe { &*self.words.add(2 + index).cast() };
        #[cfg(loom)]
        return &self.words.slots[index];
    }

    /// Begins to fetch the first line and the last.
    #[inline(always)]
    pub fn prefetch(self) {
        #[cfg(not(loom))]
        crate::memory::prefetch(self.words);
        self.prefetch_last();
    }

    /// Begins to fetch the last line: loads behind the locked instruction that takes the lock wait for the first one.
    #[inline(always)]
    pub fn prefetch_last(self) {
        #[cfg(not(loom))]
        if S::WORDS > LINE {
            crate::memory::prefetch(self.words.wrapping_add(S::WORDS - 1));
        }
    }

    #[inline(always)]
    pub fn head(self) -> u64 {
        // Acquire: the pairs that it names are not older than it, and the next table has those of a moved chain;
        // pairs with the Release in `set_head`.
        self.own_word(0).load(Acquire)
    }

    #[inline(always)]
    pub fn set_head(self, head: u64) {
        // Release: publishes pairs, or the copies of a chain that moves, and gives the lock to the next writer; pairs
        // with the Acquire in `head` and `try_lock`.
        self.own_word(0).store(head, Release);
    }

    /// Stores the lock bit, if the head is still this one.
    #[inline(always)]
    pub fn try_lock(self, head: u64) -> bool {
        // Acquire: what the last writer has stored, also if it has left the head as it was; pairs with the Release in
        // `set_head`.
        self.own_word(0).compare_exchange(head, head | LOCKED, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    pub fn link(self) -> u64 {
        // Acquire: the head is not older than the version, and an overflow bucket is not older than the link to it;
        // pairs with the Release in `set_link`.
        self.own_word(1).load(Acquire)
    }

    #[inline(always)]
    pub fn set_link(self, link: u64) {
        // Release: as in `link`.
        self.own_word(1).store(link, Release);
    }

    /// Makes another version of the link.
    #[inline(always)]
    pub fn raise_version(self) {
        self.set_link(self.own_link().wrapping_add(NEXT + 1));
    }

    /// Says that a slot will be filled.
    #[inline(always)]
    pub fn begin_fill(self) {
        step!("pair-without-version", self.raise_version());
    }

    /// Stores the number of a link.
    pub fn set_next(self, link: u64) {
        self.set_link(self.own_link() & !NEXT | link & NEXT);
    }

    /// The link, for the holder of the lock, or after the pairs of the bucket were read.
    #[inline(always)]
    pub fn own_link(self) -> u64 {
        // Relaxed: the lock orders it, or the Acquire in `read`, `head` and `link`.
        self.own_word(1).load(Relaxed)
    }

    /// Returns what `look` finds in a slot with the tag of the hash, given the link and then the head of the bucket.
    /// Returns `None` if the words of a pair may be those of a later one. An entry tells its key.
    #[inline(always)]
    pub fn search<R>(
        self,
        link: u64,
        head: u64,
        hash: u64,
        look: &mut impl FnMut(Self, usize) -> Option<R>,
    ) -> Option<Option<R>> {
        let (mut found, mut is_unchanged) = (None, true);
        for slot in Slots::with::<S>(head, tag(hash)) {
            found = look(self, slot);
            if !S::IS_ENTRY {
                step!("pair-not-checked", is_unchanged = self.own_link() == link);
            }
            if found.is_some() || !is_unchanged {
                break;
            }
        }
        is_unchanged.then_some(found)
    }

    /// Calls `f` with each slot, and whether the head has a tag of it.
    #[inline(always)]
    pub fn for_each(self, head: u64, mut f: impl FnMut(usize, bool)) {
        for slot in 0..S::SLOTS {
            f(slot, tag_of(head, slot) != 0);
        }
    }
}
