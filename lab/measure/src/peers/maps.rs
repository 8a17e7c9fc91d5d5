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

/// A value.
pub trait Value: Clone + Send + Sync + 'static {
    fn of(number: usize) -> Self;

    /// Something that depends on it.
    fn number(&self) -> u64;
}

impl Value for u64 {
    #[inline(always)]
    fn of(number: usize) -> Self {
        number as Self
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        *self
    }
}

impl Value for String {
    fn of(number: usize) -> Self {
        format!("a page with the number {number:08}")
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        self.len() as u64
    }
}

/// A map.
pub trait Map<K = u64, V = u64>: Send + Sync + Default + 'static {
    /// Name in the report.
    const NAME: &'static str;

    /// Returns the number of a value.
    fn get(&self, key: &K) -> Option<u64>;

    fn insert(&self, key: K, value: V);

    fn remove(&self, key: &K);

    fn retain(&self, stays: impl Fn(&K) -> bool);

    fn for_each(&self, f: impl FnMut(&V));
}

/// Implements [`Map`] for a map with any key and value: its type, its name, and its operations.
macro_rules! map {
    ($(#[$doc:meta])* $type:ident, $inner:ty, $name:expr, |$map:ident, $key:ident| $get:expr, |$value:ident| $insert:expr, $remove:expr, |$stays:ident| $retain:expr, |$f:ident| $for_each:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $type<K: Key = u64, V: Value = u64>($inner);

        impl<K: Key, V: Value> Default for $type<K, V> {
            fn default() -> Self {
                Self(<$inner>::default())
            }
        }

        impl<K: Key, V: Value> Map<K, V> for $type<K, V> {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn get(&self, $key: &K) -> Option<u64> {
                let $map = &self.0;
                $get
            }

            #[inline(always)]
            fn insert(&self, $key: K, $value: V) {
                let $map = &self.0;
                let _ = $insert;
            }

            #[inline(always)]
            fn remove(&self, $key: &K) {
                let $map = &self.0;
                $remove;
            }

            fn retain(&self, $stays: impl Fn(&K) -> bool) {
                let $map = &self.0;
                $retain;
            }

            #[inline(always)]
            fn for_each(&self, #[allow(unused_mut, reason = "some pass it on")] mut $f: impl FnMut(&V)) {
                let $map = &self.0;
                $for_each;
            }
        }
    };
}

map!(
    /// The library's.
    Stillpoint,
    stillpoint_collections::HashMap<K, V, Hasher>,
    harness::report::OURS,
    |map, key| map.get(key, &rcu::enter()).map(V::number),
    |value| map.insert(key, value, &rcu::enter()).is_some(),
    map.remove(key, &rcu::enter()),
    |stays| map.retain(|key, _| stays(key), &rcu::enter()),
    |f| map.values(&rcu::enter()).for_each(f)
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

    fn retain(&self, stays: impl Fn(&u64) -> bool) {
        self.0.retain(|key, _| stays(&key));
    }

    #[inline(always)]
    fn for_each(&self, mut f: impl FnMut(&u64)) {
        self.0.values().for_each(|value| f(&value));
    }
}

map!(
    /// papaya, pinned for each operation, as the others are.
    Papaya,
    papaya::HashMap<K, V, Hasher>,
    "papaya",
    |map, key| map.pin().get(key).map(V::number),
    |value| map.pin().insert(key, value).is_some(),
    map.pin().remove(key),
    |stays| map.pin().retain(|key, _| stays(key)),
    |f| map.pin().values().for_each(f)
);

map!(
    /// dashmap.
    Dashmap,
    dashmap::DashMap<K, V, Hasher>,
    "dashmap",
    |map, key| map.get(key).map(|entry| entry.number()),
    |value| map.insert(key, value),
    map.remove(key),
    |stays| map.retain(|key, _| stays(key)),
    |f| map.iter().for_each(|entry| f(entry.value()))
);

map!(
    /// scc. Its documentation recommends `read_sync` for reads.
    Scc,
    scc::HashMap<K, V, Hasher>,
    "scc",
    |map, key| map.read_sync(key, |_, value| value.number()),
    |value| map.upsert_sync(key, value),
    map.remove_sync(key),
    |stays| map.retain_sync(|key, _| stays(key)),
    |f| map.iter_sync(|_, value| {
        f(value);
        true
    })
);

map!(
    /// scc's map for reads. Its insertion replaces nothing.
    SccIndex,
    scc::HashIndex<K, V, Hasher>,
    "scc-index",
    |map, key| map.peek_with(key, |_, value| value.number()),
    |value| map.insert_sync(key, value),
    map.remove_sync(key),
    |stays| map.retain_sync(|key, _| stays(key)),
    |f| map.iter(&scc::Guard::new()).for_each(|(_, value)| f(value))
);

map!(
    /// A map behind a lock of the standard library.
    Locked,
    RwLock<hashbrown::HashMap<K, V, Hasher>>,
    "rwlock-hashbrown",
    |map, key| map.read().unwrap_or_else(PoisonError::into_inner).get(key).map(V::number),
    |value| map.write().unwrap_or_else(PoisonError::into_inner).insert(key, value),
    map.write().unwrap_or_else(PoisonError::into_inner).remove(key),
    |stays| map.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| stays(key)),
    |f| map.read().unwrap_or_else(PoisonError::into_inner).values().for_each(f)
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
        (0..10).for_each(|number| map.insert(key(number), 1));
        let four = key(4);
        map.retain(|key| *key != four);
        let mut sum = 0;
        map.for_each(|value| sum += value);
        assert_eq!(sum, 9, "{}", M::NAME);
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
