//! Walks over all entries of a map.
//!
//! A walk has a step for each value of the lowest bits of hashes: as many as its table had buckets when it began. A step
//! looks at the buckets of the current table whose entries may have these bits: one bucket, if the table has not been resized
//! since, several if it has grown, or a part of one if it has shrunk. Chains that have moved stand for those of the next
//! table.

use super::chain::Moved;
use super::shape::{Shape, Words};
use super::tables::{Rehash, Table, Tables};
use crate::sync::Domain;

/// The steps that are left of a walk.
pub struct Walk {
    mask: usize,
    /// `None` after the last step.
    value: Option<usize>,
}

impl Walk {
    pub fn new<S: Shape, D: Domain>(tables: &Tables<S, D>, section: &D::Section) -> Self {
        let table = tables.current(section);
        Self { mask: table.map_or(0, |table| table.len() - 1), value: table.map(|_| 0) }
    }

    /// Calls `add` with the pairs of the next step. Returns `false` if there is none.
    ///
    /// A key that is in the map during all of the walk is added once.
    pub fn next<S: Shape, D: Domain>(
        &mut self,
        tables: &Tables<S, D>,
        rehash: Rehash<'_>,
        section: &D::Section,
        add: &mut impl FnMut(Words, Words),
    ) -> bool {
        let (Some(value), Some(table)) = (self.value, tables.current(section)) else { return false };
        self.value = (value < self.mask).then_some(value + 1);
        collect(table, self.mask, value, rehash, section, add);
        true
    }
}

/// Calls `add` with the pairs whose hash has the bits `value` of `mask`: those in a table, or in the next one if their
/// chain has moved.
fn collect<S: Shape, D: Domain>(
    table: &Table<S, D>,
    mask: usize,
    value: usize,
    rehash: Rehash<'_>,
    section: &D::Section,
    add: &mut impl FnMut(Words, Words),
) {
    let buckets = table.len() - 1;
    for index in (value & buckets..table.len()).step_by(mask + 1) {
        // Those of one bucket. If the table is smaller than one before it, the bucket has others too.
        let (mask, value) = if buckets > mask { (buckets, index) } else { (mask, value) };
        let chain = table.chain_at(index);
        let mut pairs = Vec::new();
        loop {
            pairs.clear();
            match chain.snapshot(|pair| pairs.extend(pair)) {
                Err(Moved) => {
                    collect(table.next(section), mask, value, rehash, section, add);
                    break;
                }
                Ok(None) => {}
                Ok(Some(_)) => break,
            }
        }
        for (key, own) in pairs {
            if buckets == mask || rehash(&key) as usize & mask == value {
                add(key, own);
            }
        }
    }
}
