//! Walks over all entries of a map.
//!
//! A walk has a step for each value of the lowest bits of hashes: as many as its table had buckets when it began. A
//! step looks at the buckets of the current table whose entries may have these bits: one bucket, if the table has not
//! been resized since, several if it has grown, or a part of one if it has shrunk. Chains that have moved stand for
//! those of the next table.

use super::bucket::{Section, Shape};
use super::chain::Moved;
use super::{Table, Tables};

/// Buckets ahead of a walk whose entries are fetched.
const AHEAD: usize = 3;

/// The steps that are left of a walk.
pub struct Walk {
    mask: usize,
    /// `None` after the last step.
    value: Option<usize>,
}

impl Walk {
    pub fn new<S: Shape>(tables: &Tables<S>, section: &Section<S>) -> Self {
        let table = tables.current(section);
        Self { mask: table.map_or(0, |table| table.len() - 1), value: table.map(|_| 0) }
    }

    /// Adds the items of the next step. Returns `false` if there is none.
    ///
    /// A key that is in the map during all of the walk is added once.
    #[inline]
    pub fn next<'g, S: Shape>(
        &mut self,
        tables: &Tables<S>,
        rehash: S::Rehash<'_>,
        section: &'g Section<S>,
        items: &mut Vec<S::Item<'g>>,
    ) -> bool {
        let (Some(value), Some(table)) = (self.value, tables.current(section)) else { return false };
        self.value = (value < self.mask).then_some(value + 1);
        // The table has as many buckets as when the walk began, in the usual case.
        if table.len() - 1 != self.mask || table.chain_at(value).items(section, items).is_err() {
            collect(table, self.mask, value, rehash, section, items);
        }
        S::prefetch(table.chain_at(value + AHEAD).home());
        true
    }
}

/// Adds the items whose hash has the bits `value` of `mask`: those in a table, or in the next one if their chain has
/// moved.
#[cold]
fn collect<'g, S: Shape>(
    table: &'g Table<S>,
    mask: usize,
    value: usize,
    rehash: S::Rehash<'_>,
    section: &'g Section<S>,
    items: &mut Vec<S::Item<'g>>,
) {
    let buckets = table.len() - 1;
    for index in (value & buckets..table.len()).step_by(mask + 1) {
        // Those of one bucket. If the table is smaller than one before it, the bucket has others too.
        let (mask, value) = if buckets > mask { (buckets, index) } else { (mask, value) };
        let before = items.len();
        if let Err(Moved) = table.chain_at(index).items(section, items) {
            collect(table.next(section), mask, value, rehash, section, items);
        } else if buckets != mask {
            let mut kept = items.split_off(before);
            kept.retain(|item| S::hash(item, rehash) as usize & mask == value);
            items.append(&mut kept);
        }
    }
}
