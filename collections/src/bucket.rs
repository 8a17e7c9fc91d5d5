//! A bucket of one cache line, and the chain that it begins.
//!
//! | part | contents |
//! |---|---|
//! | `header` | a fingerprint of one byte for each slot, 0 for a free one; [`CHAINED`]; [`MOVED`] |
//! | `slots` | pointers to entries |
//! | `next` | the next bucket of the chain, which has entries for which there was no room: see [`overflow`](crate::overflow) |
//!
//! # Invariants
//!
//! Only the holder of the stripe's lock changes a bucket.
//!
//! 1. A slot is null, or the header has the fingerprint of its entry. So has every later header until the slot is null
//!    again. If a bucket behind it in the chain has an entry, the header has [`CHAINED`].
//! 2. An entry never moves within a chain, and a key has at most one entry in it.
//! 3. A bucket with [`MOVED`] never changes again: it was set after all entries had been copied to the next table.
//! 4. A bucket is linked and unlinked while it is empty and the last of its chain.
//!
//! # Linearization
//!
//! A change of one key takes effect with the store to one slot. The header gets the fingerprint before, and loses it after;
//! so do the headers before it in the chain with [`CHAINED`].
//!
//! - *A lookup that finds an entry* has loaded it from its slot. If the bucket has moved since its header was loaded,
//!   the entry was in the map when it moved (3), which is during the lookup.
//! - *A lookup that finds nothing.* If an entry of the key was there during all of the lookup, it was in one slot (2),
//!   or in a bucket that has moved, whose slots do not change (3). The headers that the lookup loads are not older than
//!   the entry, so they have the fingerprint, and [`CHAINED`] on the way to it (1, 4), or [`MOVED`].
//! - *Two lookups, one after the other.* The second may load an older value from a slot than the first only if nothing
//!   orders them. The header orders them: a lookup reads the slots that the header names. If the first lookup finds the
//!   fingerprint gone, so does the second, or it finds a header in which the slot is used again; that header was stored
//!   after the slot was null (Release), so the second lookup does not find the removed entry. If the first lookup finds
//!   a new entry in a slot that is used again, the header with its fingerprint was stored before (1), so the second
//!   finds it too, even if the first had matched the fingerprint of an earlier entry. Likewise for [`CHAINED`].

#[cfg(loom)]
use core::array;

#[cfg(not(loom))]
use crate::memory::prefetch;
use crate::sync::{Atomic, AtomicU64, Domain, Ordering::*, Shared, step};

/// Entries of a bucket.
pub const SLOTS: usize = 6;

/// The bytes of fingerprints: the lowest bit, and the highest bit of each.
const LOW: u64 = 0x0101_0101_0101;
const HIGH: u64 = LOW << 7;
const FINGERPRINTS: u64 = LOW * 0xFF;
/// There is a next bucket.
pub const CHAINED: u64 = 1 << 48;
/// The entries of the chain are in the next table.
const MOVED: u64 = 1 << 49;

/// What a bucket has to know of its entries.
pub trait Hashed: Send + Sync + 'static {
    /// Returns the hash of the key.
    fn hash(&self) -> u64;

    /// Returns what the entry owns on the heap, if that is known.
    fn heap_bytes(&self) -> Option<usize> {
        Some(0)
    }
}

/// A bucket: see the [module](self).
#[repr(C, align(64))]
pub struct Bucket<E: Hashed, D: Domain> {
    pub header: AtomicU64,
    pub slots: [Atomic<E, D>; SLOTS],
    pub next: Atomic<Bucket<E, D>, D>,
}

/// The bucket has moved to the next table.
#[derive(Debug)]
pub struct Moved;

/// Returns the byte of `hash` that is in headers: not one of the bits that number buckets.
#[inline(always)]
pub fn fingerprint(hash: u64) -> u64 {
    (hash >> 56).max(1)
}

/// The slots whose fingerprint is probably the one: a bit for each, in its byte. The lowest is certain.
pub struct Slots(u64);

impl Slots {
    #[inline(always)]
    pub fn with(header: u64, fingerprint: u64) -> Self {
        let differing = header ^ (fingerprint * LOW);
        Self(differing.wrapping_sub(LOW) & !differing & HIGH)
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lowest = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0.wrapping_sub(1);
        (lowest < SLOTS).then_some(lowest)
    }
}

impl<E: Hashed, D: Domain> Bucket<E, D> {
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { header: AtomicU64::new(0), slots: array::from_fn(|_| Atomic::null()), next: Atomic::null() }
    }

    /// Returns the entry that `is_it`, of those with the fingerprint of `hash`.
    #[inline(always)]
    pub fn find<'g>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(Shared<'g, E>, &'g E) -> bool,
        section: &'g D::Section,
    ) -> Result<Option<Shared<'g, E>>, Moved> {
        let mut bucket = self;
        loop {
            // Acquire: slots that it names are not older than it, and the next table is complete for this bucket; pairs
            // with the Release in `set_header`.
            let header = bucket.header.load(Acquire);
            if header & MOVED != 0 {
                return Err(Moved);
            }
            for slot in Slots::with(header, fingerprint(hash)) {
                let loaded = bucket.slots[slot].load(section);
                if loaded.as_ref().is_some_and(|entry| is_it(loaded, entry)) {
                    return Ok(Some(loaded));
                }
            }
            match bucket.next(header, section) {
                Some(next) => bucket = next,
                None => return Ok(None),
            }
        }
    }

    /// Looks a key up in a chain of one bucket. Returns the entry and its slot, or null; or `None` if another bucket or
    /// another key of that hash has to be looked at.
    #[inline(always)]
    pub fn find_here<'g>(
        &self,
        hash: u64,
        mut is_it: impl FnMut(&'g E) -> bool,
        section: &'g D::Section,
    ) -> Option<(usize, Shared<'g, E>)> {
        // Acquire: as in `find`.
        let header = self.header.load(Acquire);
        if header & MOVED != 0 {
            return None;
        }
        for slot in Slots::with(header, fingerprint(hash)) {
            let loaded = self.slots[slot].load(section);
            if let Some(entry) = loaded.as_ref() {
                if is_it(entry) {
                    return Some((slot, loaded));
                } else if entry.hash() == hash {
                    return None;
                }
            }
        }
        (header & CHAINED == 0).then_some((0, Shared::null()))
    }

    /// Begins to fetch the first entry with the fingerprint of `hash`.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u64, section: &D::Section) {
        // Relaxed: a hint.
        if let Some(slot) = Slots::with(self.header.load(Relaxed), fingerprint(hash)).next() {
            prefetch(self.slots[slot].load(section).as_ptr());
        }
    }

    #[inline(always)]
    pub fn next<'g>(&self, header: u64, section: &'g D::Section) -> Option<&'g Self> {
        if header & CHAINED == 0 {
            return None;
        }
        self.next.load(section).as_ref()
    }

    /// Returns `true` if the entries are in the next table.
    pub fn has_moved(&self) -> bool {
        // Acquire: the next table is complete for this bucket; pairs with the Release in `set_header`.
        self.header.load(Acquire) & MOVED != 0
    }

    /// Calls `f` with the entries of the chain.
    pub fn for_each<'g>(&self, section: &'g D::Section, mut f: impl FnMut(Shared<'g, E>, &'g E)) {
        let mut bucket = self;
        loop {
            for slot in &bucket.slots {
                let loaded = slot.load(section);
                if let Some(entry) = loaded.as_ref() {
                    f(loaded, entry);
                }
            }
            // Relaxed: whether there is a next bucket; its pointer is acquired.
            match bucket.next(bucket.header.load(Relaxed), section) {
                Some(next) => bucket = next,
                None => return,
            }
        }
    }

    /// Calls `f` with the entries of a chain that belongs to the caller.
    #[cfg(not(loom))]
    pub fn for_each_mut<'a>(&'a mut self, f: &mut impl FnMut(&'a mut E)) {
        let mut next = Some(self);
        while let Some(Self { slots, next: after, .. }) = next {
            // SAFETY: the map belongs to the caller; a chain has each entry and each bucket once.
            unsafe {
                slots.iter_mut().filter_map(|slot| node_mut(slot.get_mut())).for_each(&mut *f);
                next = node_mut(after.get_mut());
            }
        }
    }

    /// Returns the entry that `is_it`, of a chain that belongs to the caller.
    #[cfg(not(loom))]
    pub fn find_mut(&mut self, hash: u64, mut is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let mut found = None;
        self.for_each_mut(&mut |entry| {
            if found.is_none() && entry.hash() == hash && is_it(entry) {
                found = Some(entry);
            }
        });
        found
    }
}

/// What only the holder of the stripe's lock may do.
impl<E: Hashed, D: Domain> Bucket<E, D> {
    #[inline(always)]
    pub fn own_header(&self) -> u64 {
        // Relaxed: the last store was this thread's, or the lock orders it.
        self.header.load(Relaxed)
    }

    #[inline(always)]
    pub fn set_header(&self, header: u64) {
        // Release: publishes null slots before they are used again, and the copies of entries before `MOVED`; pairs
        // with the Acquire in `find`.
        self.header.store(header, Release);
    }

    /// Returns a free slot, if the bucket has one, no next bucket, and no entry that may have the hash.
    #[inline(always)]
    pub fn room_here(&self, hash: u64) -> Option<usize> {
        let header = self.own_header();
        let mut is_absent = header & CHAINED == 0;
        step!(
            "absence-here-not-confirmed",
            is_absent &= Slots::with(header, fingerprint(hash)).next().is_none()
        );
        Slots::with(header, 0).next().filter(|_| is_absent)
    }

    /// Stores an entry in a free slot.
    #[inline(always)]
    pub fn fill(&self, slot: usize, hash: u64, new: Shared<'_, E>) {
        self.set_header(self.own_header() | (fingerprint(hash) << (8 * slot)));
        self.slots[slot].store(new);
    }

    /// Empties a slot. Returns `true` if the bucket has no entry left.
    #[inline(always)]
    pub fn empty(&self, slot: usize) -> bool {
        self.slots[slot].store(Shared::null());
        self.set_header(self.own_header() & !(0xFF << (8 * slot)));
        self.is_empty()
    }

    /// Replaces the entry of a slot by one with the same hash.
    #[inline(always)]
    pub fn replace_here(&self, slot: usize, new: Shared<'_, E>) {
        self.slots[slot].store(new);
    }

    /// Returns `true` if the entry is in this slot.
    #[inline(always)]
    pub fn has(&self, slot: usize, entry: Shared<'_, E>, section: &D::Section) -> bool {
        let mut is_there = true;
        step!("presence-not-confirmed", is_there = self.slots[slot].load(section) == entry);
        is_there
    }

    /// Returns `true` if the bucket has no entry.
    pub fn is_empty(&self) -> bool {
        self.own_header() & FINGERPRINTS == 0
    }

    /// Sends readers to the next table, which has all entries.
    pub fn set_moved(&self) {
        self.set_header(self.own_header() | MOVED);
    }
}

/// Returns the node of a pointer that belongs to the caller.
///
/// # Safety
///
/// No other thread has the pointer, or another one to the node.
pub unsafe fn node_mut<'a, T>(node: Shared<'a, T>) -> Option<&'a mut T> {
    // SAFETY: the caller's contract.
    unsafe { node.as_ptr().cast_mut().as_mut() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_by_fingerprint() {
        let header = CHAINED | MOVED | 0x07_00_01_FF_80_07;
        let lowest = |fingerprint| Slots::with(header, fingerprint).next();
        assert_eq!(
            [0x07, 0x80, 0xFF, 0x01, 0x00, 0x09].map(lowest),
            [Some(0), Some(1), Some(2), Some(3), Some(4), None]
        );
        assert!(Slots::with(header, 0x07).any(|slot| slot == 5));
    }

    #[test]
    fn bucket_is_a_cache_line() {
        struct Entry;
        impl Hashed for Entry {
            fn hash(&self) -> u64 {
                0
            }
        }
        assert_eq!(size_of::<Bucket<Entry, stillpoint::rcu::Global>>(), 64);
    }
}
