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

use super::chain::{Chain, Moved};
use super::lines::Lines;
use super::overflow::Overflow;
use super::shape::{Shape, Words};
#[cfg(not(loom))]
use crate::memory::NoMemory;
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::{Atomic, AtomicUsize, Counter, Domain, Ordering::*, Owned, Shared};

/// Buckets of the smallest table.
pub const LEAST: usize = if cfg!(loom) { 1 } else { 16 };

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

    /// Returns the number of entries that the table has room for.
    pub fn room(&self) -> usize {
        self.len().saturating_mul(S::ROOM) / 4
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

/// The entries of a map.
pub struct Tables<S: Shape, D: Domain> {
    /// Null before the first entry.
    pub current: Atomic<Table<S, D>, D>,
    pub entries: Counter<isize>,
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
        self.entries.get().max(0) as usize
    }

    /// Returns the number of entries that the current table has room for.
    pub fn capacity(&self, section: &D::Section) -> usize {
        self.current(section).map_or(0, Table::room)
    }

    /// Returns how many buckets have room for as many entries.
    pub fn buckets_for(&self, entries: usize) -> usize {
        // Relaxed: only the number.
        let reserved = self.reserved.load(Relaxed);
        (entries.div_ceil(S::ROOM) * 4).next_power_of_two().max(reserved).max(LEAST)
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
    pub fn first<'g>(&self, section: &'g D::Section) -> &'g Table<S, D> {
        let first = Owned::new(Table::new(self.buckets_for(0)));
        let current = match self.current.compare_exchange(Shared::null(), first, section) {
            Ok(first) => first,
            Err(error) => error.current,
        };
        current.as_ref().expect("not null")
    }

    /// Returns what `look` finds in the chain of a hash, in the first table in which that has not moved.
    #[inline(always)]
    fn find<R>(
        &self,
        hash: u64,
        section: &D::Section,
        look: impl Fn(Chain<'_, S>) -> Result<R, Moved>,
    ) -> Option<R> {
        let mut table = self.current(section)?;
        loop {
            match look(table.chain(hash)) {
                Ok(found) => return Some(found),
                Err(Moved) => table = table.next(section),
            }
        }
    }

    /// Returns `false` only if no key has the hash. Looks at one head.
    #[inline(always)]
    pub fn may_have(&self, hash: u64, section: &D::Section) -> bool {
        self.find(hash, section, |chain| chain.may_have(hash)).unwrap_or(false)
    }

    /// Returns the value of a key.
    #[inline(always)]
    pub fn get(&self, hash: u64, key: &Words, section: &D::Section) -> Option<Words> {
        self.find(hash, section, |chain| chain.get(hash, key))?
    }
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
