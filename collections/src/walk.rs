//! Walks over all entries of a map.
//!
//! A walk goes through the buckets of the table that was the current one when it began. A bucket that has moved since
//! stands for those buckets of the later tables that have its entries:
//!
//! ```text
//! the walk's table, of 4 buckets      0   1   2   3        bucket 1: hashes that end in 01
//!                                        / \               has moved to
//! the next table, of 8 buckets      0   1   2 ... 5  ...   buckets 1 (001) and 5 (101)
//! ```
//!
//! If the table has shrunk instead, bucket 5 of 8 has moved to bucket 1 of 4, with the entries of bucket 1 of 8. There
//! the walk takes the hashes that end in 101 only, for the others are another bucket's.

use core::ptr;

use crate::bucket::Hashed;
use crate::sync::{Domain, Shared};
use crate::table::{Table, Tables};

/// A walk over the buckets of the table that was the current one when it began, and what has become of them.
pub struct Walk<'g, E: Hashed, D: Domain> {
    tables: &'g Tables<E, D>,
    table: Option<&'g Table<E, D>>,
    index: usize,
    section: &'g D::Section,
}

impl<'g, E: Hashed, D: Domain> Walk<'g, E, D> {
    pub fn new(tables: &'g Tables<E, D>, section: &'g D::Section) -> Self {
        Self { tables, table: tables.current(section), index: 0, section }
    }

    /// Calls `add` with the entries of the next bucket. Returns `false` if there is none.
    ///
    /// An entry that is in the map during all of the walk is added once. A key that is removed and inserted again may
    /// be added several times, by the same call.
    pub fn next(&mut self, mut add: impl FnMut(Shared<'g, E>, &'g E)) -> bool {
        let Some(table) = self.table.filter(|table| self.index < table.len()) else { return false };
        collect(self.tables, table, table.len() - 1, self.index, self.section, &mut add);
        self.index += 1;
        true
    }
}

/// Calls `add` with the entries whose hash has the bits `value` of `mask`: those in a table or, if their bucket has
/// moved, in the current one or the next.
fn collect<'g, E: Hashed, D: Domain>(
    tables: &Tables<E, D>,
    table: &'g Table<E, D>,
    mask: usize,
    value: usize,
    section: &'g D::Section,
    add: &mut impl FnMut(Shared<'g, E>, &'g E),
) {
    let buckets = table.len() - 1;
    for index in (value & buckets..table.len()).step_by(mask + 1) {
        // Those of one bucket. If the table is smaller than one before it, the bucket has others too.
        let (mask, value) = if buckets > mask { (buckets, index) } else { (mask, value) };
        let bucket = &table.buckets[index];
        if bucket.has_moved() {
            // All buckets of the tables between this one and the current one have moved.
            let current = tables.current(section).filter(|current| !ptr::eq(*current, table));
            collect(tables, current.unwrap_or_else(|| table.next(section)), mask, value, section, add);
            continue;
        }
        bucket.for_each(section, |loaded, entry| {
            if entry.hash() as usize & mask == value {
                add(loaded, entry);
            }
        });
    }
}
