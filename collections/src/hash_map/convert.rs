//! Conversions from and to maps.

use core::hash::{BuildHasher, Hash};

use stillpoint::rcu::RcuDomain;

use super::HashMap;
use super::iter::IntoIter;
use crate::sync::Domain;

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> IntoIterator for HashMap<K, V, S, D> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    /// Returns the entries, without waiting: no reader has the map.
    fn into_iter(mut self) -> IntoIter<K, V> {
        let mut entries = Vec::with_capacity(self.len());
        self.tables_mut().drain(|entry| entries.push(entry));
        IntoIter::new(entries)
    }
}

impl<K, V, S, D> Extend<(K, V)> for &HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: RcuDomain,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value, &D::enter());
        }
    }
}

impl<K, V, S, D> Extend<(K, V)> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: RcuDomain,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).extend(entries);
    }
}

impl<K, V, S> FromIterator<(K, V)> for HashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K, V, const N: usize> From<[(K, V); N]> for HashMap<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V, S, D> Clone for HashMap<K, V, S, D>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: Clone + BuildHasher,
    D: RcuDomain,
{
    /// Returns a map with clones of the entries: see [`HashMap::iter`].
    fn clone(&self) -> Self {
        let clone = Self::with_hasher_in(self.hasher().clone(), *self.domain());
        let guard = D::enter();
        self.iter(&guard).for_each(|(key, value)| {
            clone.insert(key.clone(), value.clone(), &guard);
        });
        clone
    }
}
