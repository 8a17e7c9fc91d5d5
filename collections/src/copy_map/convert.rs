//! Conversions from and to maps.

use core::hash::{BuildHasher, Hash};

use super::iter::Iter;
use super::map::CopyMap;
use super::plain::Plain;

impl<K: Plain, V: Plain, S: Default> Default for CopyMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<'m, K: Plain + Hash + Eq, V: Plain, S: BuildHasher> IntoIterator for &'m CopyMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V, S>;

    fn into_iter(self) -> Iter<'m, K, V, S> {
        self.iter()
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher> Extend<(K, V)> for &CopyMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher> Extend<(K, V)> for CopyMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.tables.make_room(entries.size_hint().0);
        (&*self).extend(entries);
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher + Default> FromIterator<(K, V)> for CopyMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K: Plain + Hash + Eq, V: Plain, const N: usize> From<[(K, V); N]> for CopyMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher + Clone> Clone for CopyMap<K, V, S> {
    /// Returns a map with the entries, which it copies one after the other: see [`CopyMap::iter`].
    fn clone(&self) -> Self {
        let mut clone = Self::with_hasher(self.hasher.clone());
        clone.tables.make_room(self.len());
        clone.extend(self);
        clone
    }
}

/// Maps are equal if they have equal entries. If other threads change them during the comparison, it is one of
/// entries that were there at different times.
impl<K, V, S, T> PartialEq<CopyMap<K, V, T>> for CopyMap<K, V, S>
where
    K: Plain + Hash + Eq,
    V: Plain + PartialEq,
    S: BuildHasher,
    T: BuildHasher,
{
    fn eq(&self, other: &CopyMap<K, V, T>) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(&key) == Some(value))
    }
}

impl<K: Plain + Hash + Eq, V: Plain + Eq, S: BuildHasher> Eq for CopyMap<K, V, S> {}
