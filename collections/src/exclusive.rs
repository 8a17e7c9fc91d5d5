//! What the owner of a map does with it: without sections, locks and grace periods, as no other thread has it.
//!
//! The entries are then in one table: a resize that is under way is completed first.

use crate::bucket::Hashed;
use crate::sync::{Atomic, Domain, Owned};
use crate::table::{FULL, Table, Tables};

impl<E: Hashed, D: Domain> Tables<E, D> {
    /// Returns the table with all entries.
    pub fn table_mut(&mut self) -> Option<&mut Table<E, D>> {
        if self.is_moving() {
            // SAFETY: no other thread has the map, so none has its tables.
            let (mut table, mut next) = unsafe {
                let mut table = self.current.take()?;
                let next = table.next.take()?;
                (table, next)
            };
            table.drain(|bucket| !bucket.has_moved(), &mut |entry| _ = next.add(entry));
            self.current = Atomic::new(next);
        }
        let table = self.current.get_mut().as_ptr().cast_mut();
        // SAFETY: as above; the table exists until it is taken out.
        unsafe { table.as_mut() }
    }

    fn is_moving(&mut self) -> bool {
        let table = self.current.get_mut().as_ptr().cast_mut();
        // SAFETY: as in `table_mut`.
        unsafe { table.as_mut() }.is_some_and(|table| !table.next.get_mut().is_null())
    }

    /// Calls `f` with the entries.
    pub fn for_each_mut<'a>(&'a mut self, mut f: impl FnMut(&'a mut E)) {
        if let Some(table) = self.table_mut() {
            table.buckets.iter_mut().for_each(|bucket| bucket.for_each_mut(&mut f));
        }
    }

    /// Returns the entry that `is_it`, of those that may have `hash`.
    pub fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        self.table_mut()?.find_mut(hash, is_it)
    }

    /// Adds an entry of a key that the map does not have.
    #[track_caller]
    pub fn add(&mut self, entry: Owned<E>) {
        if self.current.get_mut().is_null() {
            self.current = Atomic::new(Owned::new(Table::new(self.buckets_for(0))));
        }
        self.stripes.of_hash(entry.hash()).count(1);
        if self.table_mut().is_some_and(|table| table.add(entry)) {
            self.grow();
        }
    }

    /// Doubles the table if it has more entries than it should.
    #[cold]
    fn grow(&mut self) {
        let entries = self.len();
        if let Some(table) = self.table_mut().filter(|table| entries > table.len() * FULL) {
            let mut larger = Table::new(2 * table.len());
            table.drain(|_| true, &mut |entry| _ = larger.add(entry));
            larger.allow_huge_pages();
            *table = larger;
        }
    }

    /// Takes all entries out. The map has no table then.
    pub fn take_all(&mut self, f: impl FnMut(Owned<E>)) {
        self.drain(f);
        self.stripes.reset();
    }
}

impl<E: Hashed, D: Domain> Table<E, D> {
    fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let index = self.index(hash);
        self.buckets[index].find_mut(hash, is_it)
    }

    /// Returns `true` if there was no room in the first bucket.
    fn add(&mut self, entry: Owned<E>) -> bool {
        let index = self.index(entry.hash());
        self.buckets[index].add(entry, &self.overflow)
    }
}
