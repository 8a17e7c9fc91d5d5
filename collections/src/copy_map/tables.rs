//! Tables, and how one takes the place of another.
//!
//! A hash belongs to a bucket of each table, by its lowest bits. To resize, a writer allocates another table and links it
//! as `next` of the current one. Each chain *moves* under its lock: its pairs are copied, then it is marked. Writers
//! move the chain of their key first, and then a few others. The writer that moves the last one makes the next table the
//! current one, and retires the table before it.
//!
//! The hash of a key that moves is computed before the chain is locked, as that is code of the program. If the chain has
//! got another pair until it is locked, the hashes are computed again. That ends: a writer that gives it another pair did not see
//! the next table yet.
//!
//! # Invariants
//!
//! 1. The pairs of a hash are in the first table, beginning with the current one, in which its chain has not moved.
//! 2. A table is resized once, and only when it is the current one. So at most two tables have pairs at a time.
//! 3. When a table becomes the current one, all chains of the table before it have moved.
//! 4. No code of the program runs while a lock is held, except for a global allocator.
//! 5. A thread that holds locks of two tables took that of the older one first. So there is no circle of waiting threads.

use core::marker::PhantomData;

use super::chain::{Chain, Locked, Moved};
use super::lines::Lines;
use super::overflow::Overflow;
use super::shape::{Shape, Words};
#[cfg(not(loom))]
use crate::memory::NoMemory;
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::{Atomic, AtomicUsize, Counter, Domain, Ordering::*, Owned, Shared, step};

/// Buckets of the smallest table.
const LEAST: usize = if cfg!(loom) { 1 } else { 16 };
/// A table grows when it has an overflow bucket for so many of its buckets: if the hashes are random, when it has five
/// entries for each, of seven that have room.
const CHAINED: usize = 8;

/// Computes the hash of a key again.
pub type Rehash<'a> = &'a dyn Fn(&Words) -> u64;

/// One table.
pub struct Table<S: Shape, D: Domain> {
    lines: Lines,
    /// The number of buckets, which is a power of two, less one.
    mask: usize,
    overflow: Overflow,
    pub next: Atomic<Table<S, D>, D>,
    /// Chains that writers have undertaken to move. When each was undertaken once, it is the turn of those that are left.
    pub claimed: AtomicUsize,
    /// Chains that have moved.
    pub moved: AtomicUsize,
    shape: PhantomData<S>,
}

impl<S: Shape, D: Domain> Table<S, D> {
    pub fn try_new(buckets: usize) -> Result<Self, NoMemory> {
        debug_assert!(buckets.is_power_of_two());
        Ok(Self {
            lines: Lines::new::<S>(buckets)?,
            mask: buckets - 1,
            overflow: Overflow::new(),
            next: Atomic::null(),
            claimed: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            shape: PhantomData,
        })
    }

    #[track_caller]
    fn new(buckets: usize) -> Self {
        match Self::try_new(buckets) {
            Ok(table) => table,
            Err(error) => error.fail(),
        }
    }

    pub fn len(&self) -> usize {
        self.mask + 1
    }

    /// Returns the chain of a bucket.
    #[inline(always)]
    pub fn chain_at(&self, index: usize) -> Chain<'_, S> {
        Chain::new(self.lines.bucket(index & self.mask), &self.overflow)
    }

    /// Returns the chain of a hash.
    #[inline(always)]
    pub fn chain(&self, hash: u64) -> Chain<'_, S> {
        self.chain_at(hash as usize)
    }

    /// Returns the next table, which exists if a chain has moved.
    #[inline(always)]
    pub fn next<'g>(&self, section: &'g D::Section) -> &'g Self {
        self.next.load(section).as_ref().expect("a chain has moved")
    }

    pub fn size(&self) -> usize {
        self.lines.size() + self.overflow.size()
    }
}

/// What a change has done, and what it left.
pub struct Change {
    /// What the number of entries grows by.
    entries: isize,
    /// Overflow buckets in use, if that has grown.
    overflow: Option<usize>,
    /// Whether the first bucket is empty now.
    is_empty: bool,
}

impl Change {
    const NONE: Self = Self { entries: 0, overflow: None, is_empty: false };
}

/// The entries of a map.
pub struct Tables<S: Shape, D: Domain> {
    /// Null before the first entry.
    pub current: Atomic<Table<S, D>, D>,
    entries: Counter<isize>,
    /// The number of buckets for the room that was asked for. Tables do not shrink below it.
    pub reserved: AtomicUsize,
    pub domain: D,
}

impl<S: Shape, D: Domain> Tables<S, D> {
    /// Does not allocate.
    #[cfg(not(loom))]
    pub const fn new(domain: D) -> Self {
        let reserved = AtomicUsize::new(0);
        Self { current: Atomic::null(), entries: Counter::new(), reserved, domain }
    }

    /// Makes a table of so many buckets.
    #[cfg(loom)]
    pub fn of(buckets: usize, domain: D) -> Self {
        let current = Atomic::new(Owned::new(Table::new(buckets)));
        Self { current, entries: Counter::new(), reserved: AtomicUsize::new(0), domain }
    }

    /// Returns the number of entries: exact if no thread changes it at the same time.
    pub fn len(&self) -> usize {
        // An add of another thread may be missing, and not the removal that followed.
        self.entries.sum().max(0) as usize
    }

    /// Returns the number of entries that the current table has room for.
    pub fn capacity(&self, section: &D::Section) -> usize {
        self.current(section).map_or(0, |table| table.len() * S::FULL)
    }

    /// Returns how many buckets have room for as many entries.
    pub fn buckets_for(&self, entries: usize) -> usize {
        // Relaxed: only the number.
        let reserved = self.reserved.load(Relaxed);
        entries.div_ceil(S::FULL).next_power_of_two().max(reserved).max(LEAST)
    }

    /// Returns the table that is not the next of another one.
    #[inline(always)]
    pub fn current<'g>(&self, section: &'g D::Section) -> Option<&'g Table<S, D>> {
        self.current.load(section).as_ref()
    }

    pub fn is_current(&self, table: &Table<S, D>, section: &D::Section) -> bool {
        self.current(section).is_some_and(|current| core::ptr::eq(current, table))
    }

    #[cold]
    #[track_caller]
    fn first<'g>(&self, section: &'g D::Section) -> &'g Table<S, D> {
        let first = Owned::new(Table::new(self.buckets_for(0)));
        let current = match self.current.compare_exchange(Shared::null(), first, section) {
            Ok(first) => first,
            Err(error) => error.current,
        };
        current.as_ref().expect("not null")
    }

    /// Returns the value of a key.
    #[inline(always)]
    pub fn get(&self, hash: u64, key: &Words, section: &D::Section) -> Option<Words> {
        let mut table = self.current(section)?;
        loop {
            match table.chain(hash).get(hash, key) {
                Ok(found) => return found,
                Err(Moved) => table = table.next(section),
            }
        }
    }

    /// Calls `f` with the locked chain of a hash, and does what the change leaves to do.
    #[inline(always)]
    #[track_caller]
    fn change<R>(
        &self,
        hash: u64,
        rehash: Rehash<'_>,
        section: &D::Section,
        f: impl FnOnce(&mut Locked<'_, S>) -> (R, Change),
    ) -> R {
        let mut table = self.current(section).unwrap_or_else(|| self.first(section));
        let mut is_moving = false;
        let mut locked = loop {
            if let Some(next) = table.next.load(section).as_ref() {
                step!("chain-not-moved-first", self.move_chain(table, next, hash as usize, rehash, section));
                (table, is_moving) = (next, true);
                continue;
            }
            match table.chain(hash).lock() {
                Ok(locked) => break locked,
                Err(Moved) => table = table.next(section),
            }
        };
        let (result, change) = f(&mut locked);
        drop(locked);
        if change.entries != 0 {
            self.entries.add(change.entries);
        }
        if is_moving {
            self.help(rehash, section);
        } else if change.overflow.is_some_and(|used| used > table.len() / CHAINED) {
            self.grow(table, section);
        } else if change.is_empty && table.len() > LEAST && is_sample(hash) {
            self.shrink(table, section);
        }
        result
    }

    /// Makes `value` the value of a key. Returns the old one.
    #[inline(always)]
    #[track_caller]
    pub fn insert(
        &self,
        hash: u64,
        [key, value]: [&Words; 2],
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Option<Words> {
        self.change(hash, rehash, section, |chain| match chain.find(hash, key) {
            Some(place) => {
                let old = chain.value(&place);
                chain.replace(&place, value);
                (Some(old), Change::NONE)
            }
            None => {
                let overflow = chain.insert(hash, key, value);
                (None, Change { entries: 1, overflow, is_empty: false })
            }
        })
    }

    /// Removes a key, if its value is the one that is `expected`, or any. Returns the value that it had.
    ///
    /// # Errors
    ///
    /// If it has another value.
    #[inline(always)]
    pub fn remove(
        &self,
        hash: u64,
        key: &Words,
        expected: Option<&Words>,
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Result<Option<Words>, Option<Words>> {
        // Nothing is locked for a key that is not there.
        if self.get(hash, key, section).is_none() {
            return if expected.is_none() { Ok(None) } else { Err(None) };
        }
        self.change(hash, rehash, section, |chain| {
            let place = chain.find(hash, key);
            let old = place.as_ref().map(|place| chain.value(place));
            match place {
                _ if expected.is_some() && old.as_ref() != expected => (Err(old), Change::NONE),
                None => (Ok(None), Change::NONE),
                Some(place) => {
                    let is_empty = chain.remove(place);
                    (Ok(old), Change { entries: -1, overflow: None, is_empty })
                }
            }
        })
    }

    /// Makes `value` the value of a key, if it has the one that is `expected`, or none.
    ///
    /// # Errors
    ///
    /// If it has another value, or one, or none.
    #[track_caller]
    pub fn exchange(
        &self,
        hash: u64,
        [key, value]: [&Words; 2],
        expected: Option<&Words>,
        rehash: Rehash<'_>,
        section: &D::Section,
    ) -> Result<(), Option<Words>> {
        self.change(hash, rehash, section, |chain| {
            let place = chain.find(hash, key);
            let old = place.as_ref().map(|place| chain.value(place));
            if old.as_ref() != expected {
                return (Err(old), Change::NONE);
            }
            if let Some(place) = place {
                chain.replace(&place, value);
                return (Ok(()), Change::NONE);
            }
            let overflow = chain.insert(hash, key, value);
            (Ok(()), Change { entries: 1, overflow, is_empty: false })
        })
    }
}

/// Returns `true` for one of a few hashes: a removal of these that leaves a bucket empty counts the entries, which takes
/// a load for each CPU.
fn is_sample(hash: u64) -> bool {
    cfg!(loom) || (hash >> 32) as usize & (crate::stripes::usual() - 1) == 0
}

impl<S: Shape, D: Domain> Drop for Tables<S, D> {
    fn drop(&mut self) {
        // SAFETY: no section is open in which this map is borrowed.
        unsafe {
            if let Some(mut table) = self.current.take() {
                drop(table.next.take());
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use stillpoint::rcu::{Global, enter};

    use super::*;
    use crate::copy_map::plain::{Pair, encode};

    /// As in a signal handler that has interrupted a writer of the bucket, or in the child of a fork.
    #[test]
    fn lookup_beside_a_locked_chain_does_not_wait() {
        let tables = Tables::<Pair<u64, u64>, _>::new(Global);
        let (key, value, other) = (encode(&1_u64), encode(&2_u64), encode(&3_u64));
        let section = enter();
        tables.insert(0, [&key, &value], &|_| 0, &section);
        let chain = tables.current(&section).expect("a table").chain(0);
        let mut locked = chain.lock().expect("it has not moved");
        let get = |key| tables.get(0, key, &section);
        assert_eq!((get(&key), get(&other)), (Some(value), None));
        locked.insert(0, &other, &value);
        assert_eq!((get(&key), get(&other)), (Some(value), None));
        drop(locked);
        assert_eq!((get(&key), get(&other)), (Some(value), Some(value)));
    }
}
