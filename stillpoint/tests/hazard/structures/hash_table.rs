//! The hash table of M. M. Michael (2002): an array of lists.

use std::array;

use super::Set;
use super::list::List;

/// A set of numbers.
pub struct HashTable {
    buckets: [List; 8],
}

impl Default for HashTable {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| List::default()) }
    }
}

impl HashTable {
    fn bucket(&self, key: u64) -> &List {
        &self.buckets[key as usize % self.buckets.len()]
    }
}

impl Set for HashTable {
    fn insert(&self, key: u64) -> bool {
        self.bucket(key).insert(key)
    }

    fn remove(&self, key: u64) -> bool {
        self.bucket(key).remove(key)
    }

    fn contains(&self, key: u64) -> bool {
        self.bucket(key).contains(key)
    }
}
