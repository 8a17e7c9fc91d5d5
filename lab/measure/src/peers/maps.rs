//! Concurrent hash maps, each as its documentation recommends, with the same hasher, that of hashbrown.

use std::sync::{PoisonError, RwLock};

use stillpoint::rcu;

#[cfg(feature = "liburcu")]
pub use super::lfht::Lfht;

/// The hasher of all maps.
pub(super) type Hasher = hashbrown::DefaultHashBuilder;

/// Name of liburcu's hash table in the report.
pub const CDS_LFHT: &str = "cds_lfht";

/// A map from numbers to numbers. The default is empty, and grows, except for `cds_lfht`: see
/// [`bench::map`](crate::bench::map).
pub trait Map: Send + Sync + Default + 'static {
    /// Name in the report.
    const NAME: &'static str;

    /// Makes the calling thread one that uses maps, until the result is dropped. Each thread has at most one.
    fn register() -> impl Sized {}

    /// Creates a map that will always have about so many entries.
    fn for_entries(_entries: usize) -> Self {
        Self::default()
    }

    fn get(&self, key: u64) -> Option<u64>;

    fn insert(&self, key: u64, value: u64);

    fn remove(&self, key: u64);
}

/// The library's.
#[derive(Debug, Default)]
pub struct Stillpoint(stillpoint_collections::HashMap<u64, u64, Hasher>);

impl Map for Stillpoint {
    const NAME: &'static str = harness::report::OURS;

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key, &rcu::enter()).copied()
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value, &rcu::enter());
    }

    #[inline(always)]
    fn remove(&self, key: u64) {
        self.0.remove(&key, &rcu::enter());
    }
}

/// papaya, pinned for each operation, as the others are.
#[derive(Debug, Default)]
pub struct Papaya(papaya::HashMap<u64, u64, Hasher>);

impl Map for Papaya {
    const NAME: &'static str = "papaya";

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.pin().insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: u64) {
        self.0.pin().remove(&key);
    }
}

/// dashmap.
#[derive(Debug, Default)]
pub struct Dashmap(dashmap::DashMap<u64, u64, Hasher>);

impl Map for Dashmap {
    const NAME: &'static str = "dashmap";

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry)
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }
}

/// scc. Its documentation recommends `read_sync` for reads.
#[derive(Debug, Default)]
pub struct Scc(scc::HashMap<u64, u64, Hasher>);

impl Map for Scc {
    const NAME: &'static str = "scc";

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read_sync(&key, |_, value| *value)
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.upsert_sync(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: u64) {
        self.0.remove_sync(&key);
    }
}

/// A map behind a lock of the standard library.
#[derive(Debug, Default)]
pub struct Locked(RwLock<hashbrown::HashMap<u64, u64, Hasher>>);

impl Map for Locked {
    const NAME: &'static str = "rwlock-hashbrown";

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<M: Map>() {
        let _thread = M::register();
        let map = M::default();
        map.insert(1, 2);
        map.insert(1, 3);
        assert_eq!((map.get(1), map.get(2)), (Some(3), None), "{}", M::NAME);
        map.remove(1);
        assert_eq!(map.get(1), None, "{}", M::NAME);
    }

    #[test]
    fn maps_store_numbers() {
        check::<Stillpoint>();
        check::<Papaya>();
        check::<Dashmap>();
        check::<Scc>();
        check::<Locked>();
        #[cfg(feature = "liburcu")]
        check::<Lfht>();
    }
}
