//! Conversions from and to maps.

use core::hash::{BuildHasher, Hash};

use stillpoint::EnterSection;

use super::iter::Iter;
use super::map::CopyMap;
use super::plain::Plain;
use crate::sync::Domain;

impl<K: Plain, V: Plain, S: Default, D: Domain + Default> Default for CopyMap<K, V, S, D> {
    fn default() -> Self {
        Self::with_hasher_in(S::default(), D::default())
    }
}

impl<'m, K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> IntoIterator
    for &'m CopyMap<K, V, S, D>
{
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V, S, D>;

    fn into_iter(self) -> Iter<'m, K, V, S, D> {
        self.iter()
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> Extend<(K, V)>
    for &CopyMap<K, V, S, D>
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> Extend<(K, V)> for CopyMap<K, V, S, D> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.tables.make_room(entries.size_hint().0);
        (&*self).extend(entries);
    }
}

/// In any domain of [`rcu`](stillpoint::rcu) or [`srcu`](stillpoint::srcu) that has a default. For others, use
/// [`new_in`](CopyMap::new_in), and insert the entries.
///
/// ```
/// use std::collections::hash_map::RandomState;
///
/// use stillpoint::srcu;
/// use stillpoint_collections::CopyMap;
///
/// let map: CopyMap<_, _, RandomState, srcu::Domain> = [(1, 10), (2, 20)].into_iter().collect();
/// assert_eq!(map.get(&2), Some(20));
/// ```
impl<K, V, S, D> FromIterator<(K, V)> for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq,
    V: Plain,
    S: BuildHasher + Default,
    D: EnterSection + Default,
{
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

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher + Clone, D: EnterSection> Clone for CopyMap<K, V, S, D> {
    /// Returns a map with the entries, in the same domain. It copies them one after the other: see [`CopyMap::iter`].
    fn clone(&self) -> Self {
        let mut clone = Self::with_hasher_in(self.hasher.clone(), self.tables.domain.clone());
        clone.tables.make_room(self.len());
        clone.extend(self);
        clone
    }
}

/// Maps are equal if they have equal entries. If other threads change them during the comparison, it is one of
/// entries that were there at different times.
impl<K, V, S, T, D, E> PartialEq<CopyMap<K, V, T, E>> for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq,
    V: Plain + PartialEq,
    S: BuildHasher,
    T: BuildHasher,
    D: EnterSection,
    E: EnterSection,
{
    fn eq(&self, other: &CopyMap<K, V, T, E>) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(&key) == Some(value))
    }
}

impl<K: Plain + Hash + Eq, V: Plain + Eq, S: BuildHasher, D: EnterSection> Eq for CopyMap<K, V, S, D> {}
