//! Concurrent hash maps, each as its documentation recommends, with the same hasher, that of hashbrown.

use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use stillpoint::rcu;

/// The hasher of all maps.
pub(crate) type Hasher = hashbrown::DefaultHashBuilder;

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

/// A map.
pub trait Map<K = u64>: Send + Sync + Default + 'static {
    /// Name in the report.
    const NAME: &'static str;

    fn get(&self, key: &K) -> Option<u64>;

    fn insert(&self, key: K, value: u64);

    fn remove(&self, key: &K);
}

/// Implements [`Map`] for a map with any key: its type, its name, and its operations.
macro_rules! map {
    ($(#[$doc:meta])* $type:ident, $inner:ty, $name:expr, |$map:ident, $key:ident| $get:expr, |$value:ident| $insert:expr, $remove:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $type<K: Key = u64>($inner);

        impl<K: Key> Default for $type<K> {
            fn default() -> Self {
                Self(<$inner>::default())
            }
        }

        impl<K: Key> Map<K> for $type<K> {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn get(&self, $key: &K) -> Option<u64> {
                let $map = &self.0;
                $get
            }

            #[inline(always)]
            fn insert(&self, $key: K, $value: u64) {
                let $map = &self.0;
                let _ = $insert;
            }

            #[inline(always)]
            fn remove(&self, $key: &K) {
                let $map = &self.0;
                $remove;
            }
        }
    };
}

map!(
    /// The library's.
    Stillpoint,
    stillpoint_collections::HashMap<K, u64, Hasher>,
    harness::report::OURS,
    |map, key| map.get(key, &rcu::enter()).copied(),
    |value| map.insert(key, value, &rcu::enter()).is_some(),
    map.remove(key, &rcu::enter())
);

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

map!(
    /// papaya, pinned for each operation, as the others are.
    Papaya,
    papaya::HashMap<K, u64, Hasher>,
    "papaya",
    |map, key| map.pin().get(key).copied(),
    |value| map.pin().insert(key, value).is_some(),
    map.pin().remove(key)
);

map!(
    /// dashmap.
    Dashmap,
    dashmap::DashMap<K, u64, Hasher>,
    "dashmap",
    |map, key| map.get(key).map(|entry| *entry),
    |value| map.insert(key, value),
    map.remove(key)
);

map!(
    /// scc. Its documentation recommends `read_sync` for reads.
    Scc,
    scc::HashMap<K, u64, Hasher>,
    "scc",
    |map, key| map.read_sync(key, |_, value| *value),
    |value| map.upsert_sync(key, value),
    map.remove_sync(key)
);

map!(
    /// scc's map for reads. Its insertion replaces nothing.
    SccIndex,
    scc::HashIndex<K, u64, Hasher>,
    "scc-index",
    |map, key| map.peek_with(key, |_, value| *value),
    |value| map.insert_sync(key, value),
    map.remove_sync(key)
);

map!(
    /// A map behind a lock of the standard library.
    Locked,
    RwLock<hashbrown::HashMap<K, u64, Hasher>>,
    "rwlock-hashbrown",
    |map, key| map.read().unwrap_or_else(PoisonError::into_inner).get(key).copied(),
    |value| map.write().unwrap_or_else(PoisonError::into_inner).insert(key, value),
    map.write().unwrap_or_else(PoisonError::into_inner).remove(key)
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Key, M: Map<K>>() {
        let (map, key) = (M::default(), K::with_number);
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
        check::<K, SccIndex<K>>();
        check::<K, Locked<K>>();
    }

    #[test]
    fn maps_store_numbers() {
        check_all::<u64>();
        check::<u64, CopyMap>();
        check_all::<String>();
    }
}
