//! Concurrent hash maps, each as its documentation recommends, with the same hasher, that of hashbrown.

use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use stillpoint::rcu;

#[cfg(feature = "liburcu")]
pub use super::lfht::Lfht;

/// The hasher of all maps.
pub(crate) type Hasher = hashbrown::DefaultHashBuilder;

/// Name of liburcu's hash table in the report.
pub const CDS_LFHT: &str = "cds_lfht";

/// A key with a number.
pub trait Key: Hash + Eq + Clone + Default + Send + Sync + 'static {
    /// Name in the report.
    const NAME: &'static str;

    /// Returns the key with a number. Neighbours are not neighbours in any table.
    fn with_number(number: usize) -> Self;
}

impl Key for u64 {
    const NAME: &'static str = "u64";

    #[inline(always)]
    fn with_number(number: usize) -> Self {
        (number as Self).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl Key for String {
    const NAME: &'static str = "String";

    fn with_number(number: usize) -> Self {
        format!("session {:016x}", u64::with_number(number))
    }
}

/// A map to numbers. The default is empty, and grows, except for `cds_lfht`: see [`bench::map`](crate::bench::map).
pub trait Map<K = u64>: Send + Sync + Default + 'static {
    /// Name in the report.
    const NAME: &'static str;

    /// Makes the calling thread one that uses maps, until the result is dropped. Each thread has at most one.
    fn register() -> impl Sized {}

    /// Creates a map that will always have about so many entries.
    fn for_entries(_entries: usize) -> Self {
        Self::default()
    }

    fn get(&self, key: &K) -> Option<u64>;

    fn insert(&self, key: K, value: u64);

    fn remove(&self, key: &K);
}

/// The library's.
#[derive(Debug, Default)]
pub struct Stillpoint<K: Key = u64>(stillpoint_collections::HashMap<K, u64, Hasher>);

impl<K: Key> Map<K> for Stillpoint<K> {
    const NAME: &'static str = harness::report::OURS;

    #[inline(always)]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.get(key, &rcu::enter()).copied()
    }

    #[inline(always)]
    fn insert(&self, key: K, value: u64) {
        self.0.insert(key, value, &rcu::enter());
    }

    #[inline(always)]
    fn remove(&self, key: &K) {
        self.0.remove(key, &rcu::enter());
    }
}

/// The library's, of pairs that it copies.
#[derive(Debug, Default)]
pub struct CopyMap(stillpoint_collections::CopyMap<u64, u64, Hasher>);

impl Map for CopyMap {
    const NAME: &'static str = "stillpoint-copy";

    #[inline(always)]
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get(key)
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: &u64) {
        self.0.remove(key);
    }
}

/// papaya, pinned for each operation, as the others are.
#[derive(Debug, Default)]
pub struct Papaya<K: Key = u64>(papaya::HashMap<K, u64, Hasher>);

impl<K: Key> Map<K> for Papaya<K> {
    const NAME: &'static str = "papaya";

    #[inline(always)]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.pin().get(key).copied()
    }

    #[inline(always)]
    fn insert(&self, key: K, value: u64) {
        self.0.pin().insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: &K) {
        self.0.pin().remove(key);
    }
}

/// dashmap.
#[derive(Debug, Default)]
pub struct Dashmap<K: Key = u64>(dashmap::DashMap<K, u64, Hasher>);

impl<K: Key> Map<K> for Dashmap<K> {
    const NAME: &'static str = "dashmap";

    #[inline(always)]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.get(key).map(|entry| *entry)
    }

    #[inline(always)]
    fn insert(&self, key: K, value: u64) {
        self.0.insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: &K) {
        self.0.remove(key);
    }
}

/// scc. Its documentation recommends `read_sync` for reads.
#[derive(Debug, Default)]
pub struct Scc<K: Key = u64>(scc::HashMap<K, u64, Hasher>);

impl<K: Key> Map<K> for Scc<K> {
    const NAME: &'static str = "scc";

    #[inline(always)]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.read_sync(key, |_, value| *value)
    }

    #[inline(always)]
    fn insert(&self, key: K, value: u64) {
        self.0.upsert_sync(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: &K) {
        self.0.remove_sync(key);
    }
}

/// A map behind a lock of the standard library.
#[derive(Debug, Default)]
pub struct Locked<K: Key = u64>(RwLock<hashbrown::HashMap<K, u64, Hasher>>);

impl<K: Key> Map<K> for Locked<K> {
    const NAME: &'static str = "rwlock-hashbrown";

    #[inline(always)]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    #[inline(always)]
    fn insert(&self, key: K, value: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: &K) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Key, M: Map<K>>() {
        let _thread = M::register();
        let (map, key) = (M::default(), K::with_number);
        map.insert(key(1), 2);
        map.insert(key(1), 3);
        assert_eq!((map.get(&key(1)), map.get(&key(2))), (Some(3), None), "{}", M::NAME);
        map.remove(&key(1));
        assert_eq!(map.get(&key(1)), None, "{}", M::NAME);
    }

    fn check_all<K: Key>() {
        check::<K, Stillpoint<K>>();
        check::<K, Papaya<K>>();
        check::<K, Dashmap<K>>();
        check::<K, Scc<K>>();
        check::<K, Locked<K>>();
    }

    #[test]
    fn maps_store_numbers() {
        check_all::<u64>();
        check::<u64, CopyMap>();
        check_all::<String>();
        #[cfg(feature = "liburcu")]
        check::<u64, Lfht>();
    }
}
