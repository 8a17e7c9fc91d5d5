//! What the owner of a map does with it, without guards.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;
use std::vec;

use equivalent::Equivalent;

use super::iter::IntoIter;
use super::{Entry, HashMap};
use crate::hash::hash_of;
use crate::sync::{Domain, Owned};

/// What the owner of a map does with it. No reader has a reference into the map, so values are changed in place, and
/// nothing waits for a grace period.
impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    D: Domain,
{
    /// Returns the value of a key, to change it.
    ///
    /// ```
    /// use stillpoint_collections::HashMap;
    ///
    /// let mut ages = HashMap::from([("Ada", 36)]);
    /// if let Some(age) = ages.get_mut("Ada") {
    ///     *age += 1;
    /// }
    /// assert_eq!(ages.pin().get("Ada"), Some(&37));
    /// ```
    ///
    /// Not while a reader has a reference:
    ///
    /// ```compile_fail,E0502
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let mut ages = HashMap::from([("Ada", 36)]);
    /// let guard = rcu::enter();
    /// let age = ages.get("Ada", &guard);
    /// ages.get_mut("Ada");
    /// assert_eq!(age, Some(&36));
    /// ```
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        S: BuildHasher,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let hash = hash_of(&self.hasher, key);
        Some(&mut self.tables.find_mut(hash, |entry| key.equivalent(&entry.key))?.value)
    }

    /// Returns an iterator over the entries, to change their values.
    ///
    /// ```
    /// use stillpoint_collections::HashMap;
    ///
    /// let mut squares: HashMap<u32, u32> = (0..10).map(|n| (n, n)).collect();
    /// squares.iter_mut().for_each(|(key, value)| *value *= key);
    /// assert_eq!(squares.pin().get(&9), Some(&81));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        let mut entries = Vec::with_capacity(self.len());
        self.tables.for_each_mut(|Entry { key, value, .. }| entries.push((&*key, value)));
        IterMut(entries.into_iter())
    }

    /// Returns an iterator over the values, to change them.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Takes all entries out, and returns them. They are gone even if the iterator is forgotten.
    ///
    /// ```
    /// use stillpoint_collections::HashMap;
    ///
    /// let mut jobs = HashMap::from([(1, "scan"), (2, "sort")]);
    /// assert_eq!(jobs.drain().count(), 2);
    /// assert!(jobs.is_empty());
    /// ```
    pub fn drain(&mut self) -> IntoIter<K, V> {
        let mut entries = Vec::with_capacity(self.len());
        self.tables.take_all(|entry| entries.push(entry));
        IntoIter(entries.into_iter())
    }

    /// Drops all entries at once, where [`clear`](Self::clear) leaves them to the domain.
    pub fn clear_mut(&mut self) {
        drop(self.drain());
    }

    /// Allocates room for `entries`, but does not keep it, if the map has no table.
    #[track_caller]
    pub(crate) fn make_room(&mut self, entries: usize) {
        self.tables.make_room(entries);
    }

    /// Inserts an entry, or replaces that of the key.
    #[track_caller]
    pub(super) fn insert_mut(&mut self, key: K, value: V)
    where
        K: Hash + Eq,
        S: BuildHasher,
    {
        let hash = hash_of(&self.hasher, &key);
        match self.tables.find_mut(hash, |entry| entry.key == key) {
            Some(entry) => (entry.key, entry.value) = (key, value),
            None => self.tables.add(Owned::new(Entry { key, value, hash })),
        }
    }
}

/// An iterator over the entries of a map that belongs to the caller: see [`HashMap::iter_mut`].
pub struct IterMut<'a, K, V>(vec::IntoIter<(&'a K, &'a mut V)>);

impl<'a, K, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> ExactSizeIterator for IterMut<'_, K, V> {}
impl<K, V> FusedIterator for IterMut<'_, K, V> {}

impl<K, V> fmt::Debug for IterMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").field("len", &self.len()).finish_non_exhaustive()
    }
}
