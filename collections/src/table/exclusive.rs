//! What the owner of a map of entries does with it: without sections, locks and grace periods, as no other thread has
//! it.

use super::entries::{Entries, Hashed};
use super::locked::Change;
use super::{Table, Tables};
use crate::sync::{Atomic, Domain, Owned, Shared};

/// Calls `f` with the entries of the chains that have not moved.
///
/// # Safety
///
/// No other thread has the table, and each entry is used once.
unsafe fn for_each<'a, E: Hashed, D: Domain>(table: &Table<Entries<E, D>>, mut f: impl FnMut(Shared<'a, E>)) {
    for chain in (0..table.len()).map(|index| table.chain_at(index)).filter(|chain| !chain.has_moved()) {
        chain.own().for_each(|bucket, slot, _| {
            // SAFETY: the caller's contract.
            let entry = unsafe { bucket.slot_word(slot, 0).load_unprotected() };
            if !entry.is_null() {
                f(entry);
            }
        });
    }
}

/// Adds an entry of a key that the table does not have.
fn add<E: Hashed, D: Domain>(table: &Table<Entries<E, D>>, entry: Shared<'_, E>) -> Change {
    let hash = entry.as_ref().map_or(0, E::hash);
    table.chain(hash).own().insert(hash, |bucket, slot| bucket.slot_word(slot, 0).store(entry))
}

impl<E: Hashed, D: Domain> Tables<Entries<E, D>> {
    /// Returns the table, with all entries: a resize that is under way is completed first.
    fn table_mut(&mut self) -> Option<&mut Table<Entries<E, D>>> {
        let current = self.current.get_mut().as_ptr().cast_mut();
        // SAFETY: no other thread has the map, so none has its tables.
        let table = unsafe { current.as_mut() }?;
        // SAFETY: as above; a table is linked once.
        if let Some(next) = unsafe { table.next.take() } {
            // SAFETY: as above. The entries of chains that have moved are in the next table, and only they.
            unsafe {
                for_each(table, |entry| _ = add(&next, entry));
                drop(self.current.take());
            }
            self.current = Atomic::new(next);
        }
        let current = self.current.get_mut().as_ptr().cast_mut();
        // SAFETY: as above.
        unsafe { current.as_mut() }
    }

    /// Calls `f` with the entries.
    pub fn for_each_mut<'a>(&'a mut self, mut f: impl FnMut(&'a mut E)) {
        let Some(table) = self.table_mut() else { return };
        // SAFETY: the map belongs to the caller, and has each entry once.
        unsafe { for_each(table, |entry| f(&mut *entry.as_ptr().cast_mut())) };
    }

    /// Returns the entry that `is_it`, of those that may have `hash`.
    pub fn find_mut(&mut self, hash: u64, mut is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let chain = self.table_mut()?.chain(hash).own();
        let mut found = None;
        chain.find(hash, |bucket, slot| {
            // SAFETY: as in `for_each_mut`.
            let entry = unsafe { bucket.slot_word(slot, 0).load_unprotected().as_ptr().cast_mut().as_mut() };
            found = entry.filter(|entry| is_it(entry));
            found.is_some()
        });
        found
    }

    /// Adds an entry of a key that the map does not have.
    #[track_caller]
    pub fn add(&mut self, entry: Owned<E>) {
        if self.current.get_mut().is_null() {
            self.current = Atomic::new(Owned::new(Table::new(self.buckets_for(0))));
        }
        self.entries.add(1);
        let mut entry = Atomic::<E, D>::new(entry);
        let change = self.table_mut().map(|table| add(table, entry.get_mut()));
        if change.is_some_and(|change| change.overflow.is_some()) {
            self.grow_mut();
        }
    }

    /// Doubles the table if it has more entries than it should.
    #[cold]
    fn grow_mut(&mut self) {
        let entries = self.len();
        if let Some(table) = self.table_mut().filter(|table| entries > table.room()) {
            let larger = Table::new(2 * table.len());
            // SAFETY: as in `for_each_mut`.
            unsafe { for_each(table, |entry| _ = add(&larger, entry)) };
            larger.allow_huge_pages();
            *table = larger;
        }
    }

    /// Takes all entries out. The map has no table then.
    pub fn take_all(&mut self, mut f: impl FnMut(Owned<E>)) {
        self.entries.add(-self.entries.get());
        // SAFETY: no section is open in which this map is borrowed. The entries of chains that have moved are in the
        // next table, and only they.
        unsafe {
            let Some(mut table) = self.current.take() else { return };
            let next = table.next.take();
            for table in [Some(table), next].iter().flatten() {
                for_each(table, |entry| f(entry.into_owned()));
            }
        }
    }
}
