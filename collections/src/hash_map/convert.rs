//! Conversions from and to maps, and comparison.

use core::borrow::Borrow as _;
use core::hash::{BuildHasher, Hash};

use stillpoint::EnterSection;

use super::HashMap;
use super::iter::IntoIter;
use crate::sync::Domain;

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> IntoIterator for HashMap<K, V, S, D> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    /// Returns the entries, without waiting: no reader has the map.
    fn into_iter(mut self) -> IntoIter<K, V> {
        self.drain()
    }
}

impl<K, V, S, D> Extend<(K, V)> for &HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            let guard = self.tables.domain.enter_section();
            self.insert(key, value, guard.borrow());
        }
    }
}

impl<K, V, S, D> Extend<(K, V)> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        self.tables.make_room(entries.size_hint().0);
        entries.for_each(|(key, value)| self.insert_mut(key, value));
    }
}

impl<'a, K, V, S, D> Extend<(&'a K, &'a V)> for HashMap<K, V, S, D>
where
    K: Copy + Hash + Eq + Send + Sync + 'static,
    V: Copy + Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, entries: I) {
        self.extend(entries.into_iter().map(|(&key, &value)| (key, value)));
    }
}

/// In any domain that has a default. For one that has not, use [`new_in`](HashMap::new_in) and [`Extend`].
///
/// ```
/// use std::collections::hash_map::RandomState;
///
/// use stillpoint::{qsbr, srcu};
/// use stillpoint_collections::HashMap;
///
/// let pairs = [(1, "one"), (2, "two")];
/// let map: HashMap<_, _, RandomState, srcu::Domain> = pairs.into_iter().collect();
/// assert_eq!(map.get(&2, &map.domain().enter()), Some(&"two"));
///
/// // No handle is needed: no other thread has the map.
/// let mut map: HashMap<_, _, RandomState, qsbr::Global> = pairs.into_iter().collect();
/// map.extend([(3, "three")]);
/// assert_eq!(map.len(), 3);
/// ```
impl<K, V, S, D> FromIterator<(K, V)> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
    D: Domain + Default,
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
    D: EnterSection,
{
    /// Returns a map with clones of the entries, in the same domain: see [`HashMap::iter`].
    fn clone(&self) -> Self {
        let clone = Self::with_hasher_in(self.hasher.clone(), self.tables.domain.clone());
        let mut clone = clone.with_defer_options(self.options);
        let guard = self.tables.domain.enter_section();
        clone.tables.make_room(self.len());
        clone.extend(self.iter(guard.borrow()).map(|(key, value)| (key.clone(), value.clone())));
        clone
    }
}

/// Maps are equal if they have equal entries. If other threads change them during the comparison, it is one of
/// entries that were there at different times.
impl<K, V, S, T, D, E> PartialEq<HashMap<K, V, T, E>> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
    S: BuildHasher,
    T: BuildHasher,
    D: EnterSection,
    E: EnterSection,
{
    fn eq(&self, other: &HashMap<K, V, T, E>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let (guard, others) = (self.tables.domain.enter_section(), other.tables.domain.enter_section());
        self.iter(guard.borrow()).all(|(key, value)| other.get(key, others.borrow()) == Some(value))
    }
}

impl<K, V, S, D> Eq for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
}
