//! A hash map whose lookups write nothing shared and never wait.
mod compute;
mod iter;
mod map;
mod pinned;

pub use compute::{Compute, Operation};
pub use iter::{IntoIter, Iter, Keys, Values};
pub use map::HashMap;
pub use pinned::Pinned;

use crate::bucket::Hashed;

/// A key and its value.
struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

impl<K, V> Entry<K, V> {
    fn pair(&self) -> (&K, &V) {
        (&self.key, &self.value)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Hashed for Entry<K, V> {
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.hash
    }
}
