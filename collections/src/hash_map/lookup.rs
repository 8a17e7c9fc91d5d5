//! Lookups.

use core::array;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use super::{Entry, HashMap};
use crate::hash::hash_of;
use crate::sync::Domain;

impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    /// Returns the value of a key.
    #[inline]
    #[track_caller]
    pub fn get<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        Some(&self.find(key, guard)?.value)
    }

    /// Returns the entry of a key.
    #[inline]
    #[track_caller]
    pub fn get_key_value<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        Some(self.find(key, guard)?.pair())
    }

    /// Returns `true` if the key has an entry.
    #[inline]
    #[track_caller]
    pub fn contains_key<Q>(&self, key: &Q, guard: &D::Section) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.find(key, guard).is_some()
    }

    /// Returns the values of several keys, in their order.
    ///
    /// For tables that are larger than the caches: it begins to fetch all buckets, and then all entries, before it
    /// looks the first key up, so that the waits for memory overlap.
    ///
    /// The lookups are not one: other threads may change the map between two of them.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let squares: HashMap<u32, u32> = (0..10).map(|n| (n, n * n)).collect();
    /// let guard = rcu::enter();
    /// assert_eq!(squares.get_many([&3, &20, &5], &guard), [Some(&9), None, Some(&25)]);
    /// ```
    #[inline]
    #[track_caller]
    pub fn get_many<'g, Q, const N: usize>(
        &'g self,
        keys: [&Q; N],
        guard: &'g D::Section,
    ) -> [Option<&'g V>; N]
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        let hashes = keys.map(|key| hash_of(&self.hasher, key));
        self.tables.prefetch_entries(&hashes, guard);
        array::from_fn(|index| {
            let key = keys[index];
            let is_it = move |entry: &'g Entry<K, V>| key.equivalent(&entry.key);
            Some(&self.tables.find(hashes[index], is_it, guard)?.value)
        })
    }
}
