//! Tables of buckets, and how one takes the place of another: the engine of all maps.
//!
//! A slot of a bucket holds a pair of plain words ([`pairs`]) or a pointer to an entry ([`entries`]). The rest is the
//! same for both. [`chain`] says how slots are read beside a writer.
//!
//! A hash belongs to a bucket of each table, by its lowest bits. To resize, a writer allocates another table and
//! links it as `next` of the current one. Each chain *moves* under its lock: its slots are copied, then it is marked.
//! Writers move the chain of their key first, and then a few others. The writer that moves the last one makes the
//! next table the current one, and retires the table before it.
//!
//! An entry has its hash. That of a pair that moves is computed before the chain is locked, as that is code of the
//! program. If the chain has got another pair until it is locked, the hashes are computed again. That ends: a writer
//! that gives it another pair did not see the next table yet.
//!
//! # Invariants
//!
//! 1. What has a hash is in the first table, beginning with the current one, in which its chain has not moved.
//! 2. A table is resized once, and only when it is the current one. So at most two tables are in use at a time.
//! 3. When a table becomes the current one, all chains of the table before it have moved.
//! 4. No code of the program runs while a lock is held, except for a global allocator.
//! 5. A thread that holds locks of two tables took that of the older one first. So there is no circle of waiting
//!    threads.

pub mod bucket;
mod chain;
mod change;
pub mod entries;
#[cfg(not(loom))]
mod exclusive;
mod lines;
mod locked;
mod overflow;
pub mod pairs;
mod resize;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod walk;

use bucket::{LINE, Section, Shape};
use chain::{Chain, Moved};
use lines::Lines;
use overflow::Overflow;

#[cfg(not(loom))]
use crate::memory::NoMemory;
#[cfg(loom)]
use crate::model::NoMemory;
use crate::sync::{Atomic, AtomicUsize, Counter, Ordering::*, Owned, Shared};

/// One table.
pub struct Table<S: Shape> {
    lines: Lines<S>,
    /// The number of buckets, which is a power of two, less one.
    mask: usize,
    overflow: Overflow<S>,
    pub next: Atomic<Table<S>, S::Domain>,
    /// Chains that writers have undertaken to move. When each was undertaken once, it is the turn of those that are
    /// left.
    pub claimed: AtomicUsize,
    /// Chains that have moved.
    pub moved: AtomicUsize,
}

impl<S: Shape> Table<S> {
    /// Buckets of the smallest table: four cache lines, or one bucket.
    const LEAST: usize = if cfg!(loom) || S::WORDS > 4 * LINE { 1 } else { 4 * LINE / S::WORDS };

    pub fn try_new(buckets: usize) -> Result<Self, NoMemory> {
        debug_assert!(buckets.is_power_of_two());
        let lines = Lines::new(buckets)?;
        if !S::IS_ENTRY {
            lines.allow_huge_pages();
        }
        Ok(Self {
            lines,
            mask: buckets - 1,
            overflow: Overflow::new(),
            next: Atomic::null(),
            claimed: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        })
    }

    #[track_caller]
    fn new(buckets: usize) -> Self {
        match Self::try_new(buckets) {
            Ok(table) => table,
            Err(error) => error.fail(),
        }
    }

    /// Allows huge pages for the buckets in which chains begin.
    pub fn allow_huge_pages(&self) {
        self.lines.allow_huge_pages();
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
    pub fn next<'g>(&self, section: &'g Section<S>) -> &'g Self {
        self.next.load(section).as_ref().expect("a chain has moved")
    }

    pub fn size(&self) -> usize {
        self.lines.size() + self.overflow.size()
    }
}

/// The entries of a map.
pub struct Tables<S: Shape> {
    /// Null before the first entry.
    pub current: Atomic<Table<S>, S::Domain>,
    pub entries: Counter<isize>,
    /// The number of buckets for the room that was asked for. Tables do not shrink below it.
    pub reserved: AtomicUsize,
    pub domain: S::Domain,
}

impl<S: Shape> Tables<S> {
    /// Does not allocate.
    #[cfg(not(loom))]
    pub const fn new(domain: S::Domain) -> Self {
        let reserved = AtomicUsize::new(0);
        Self { current: Atomic::null(), entries: Counter::new(), reserved, domain }
    }

    /// Makes a table of so many buckets.
    #[cfg(loom)]
    pub fn of(buckets: usize, domain: S::Domain) -> Self {
        let current = Atomic::new(Owned::new(Table::new(buckets)));
        Self { current, entries: Counter::new(), reserved: AtomicUsize::new(0), domain }
    }

    /// Allocates room for `entries`, and keeps it.
    #[cfg(not(loom))]
    #[track_caller]
    pub fn with_capacity(entries: usize, domain: S::Domain) -> Self {
        let mut tables = Self::new(domain);
        tables.make_room(entries);
        *tables.reserved.get_mut() = if entries > 0 { tables.buckets_for(entries) } else { 0 };
        tables
    }

    /// Allocates room for `entries`, but does not keep it, if there is no table.
    #[cfg(not(loom))]
    #[track_caller]
    pub fn make_room(&mut self, entries: usize) {
        if entries > 0 && self.current.get_mut().is_null() {
            let table = Table::new(self.buckets_for(entries));
            table.allow_huge_pages();
            self.current = Atomic::new(Owned::new(table));
        }
    }

    /// Returns the number of entries: exact if no thread changes it at the same time.
    pub fn len(&self) -> usize {
        // An add of another thread may be missing, and not the removal that followed.
        self.entries.get().max(0) as usize
    }

    /// Returns the number of entries that the current table has room for.
    pub fn capacity(&self, section: &Section<S>) -> usize {
        self.current(section).map_or(0, Table::room)
    }

    /// Returns how many buckets have room for as many entries.
    pub fn buckets_for(&self, entries: usize) -> usize {
        // Relaxed: only the number.
        let reserved = self.reserved.load(Relaxed);
        (entries.div_ceil(S::ROOM) * 4).next_power_of_two().max(reserved).max(Table::<S>::LEAST)
    }

    /// Returns the table that is not the next of another one.
    #[inline(always)]
    pub fn current<'g>(&self, section: &'g Section<S>) -> Option<&'g Table<S>> {
        self.current.load(section).as_ref()
    }

    pub fn is_current(&self, table: &Table<S>, section: &Section<S>) -> bool {
        self.current(section).is_some_and(|current| core::ptr::eq(current, table))
    }

    /// Begins to fetch the buckets that lookups of these hashes will need.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch(&self, hashes: &[u64], section: &Section<S>) {
        let Some(table) = self.current(section) else { return };
        hashes.iter().for_each(|&hash| table.chain(hash).home().prefetch());
    }

    #[cold]
    #[track_caller]
    pub fn first<'g>(&self, section: &'g Section<S>) -> &'g Table<S> {
        let first = Owned::new(Table::new(self.buckets_for(0)));
        let current = match self.current.compare_exchange(Shared::null(), first, section) {
            Ok(first) => first,
            Err(error) => error.current,
        };
        current.as_ref().expect("not null")
    }

    /// Returns what `look` finds in the chain of a hash, in the first table in which that has not moved.
    #[inline(always)]
    fn first_not_moved<'g, R>(
        &self,
        hash: u64,
        section: &'g Section<S>,
        mut look: impl FnMut(Chain<'g, S>) -> Result<R, Moved>,
    ) -> Option<R> {
        let mut table = self.current(section)?;
        loop {
            match look(table.chain(hash)) {
                Ok(found) => return Some(found),
                Err(Moved) => table = table.next(section),
            }
        }
    }
}

impl<S: Shape> Drop for Tables<S> {
    fn drop(&mut self) {
        // SAFETY: no section is open in which this map is borrowed.
        unsafe {
            if let Some(mut table) = self.current.take() {
                drop(table.next.take());
            }
        }
    }
}
