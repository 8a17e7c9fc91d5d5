//! A map with a guard.

use core::fmt;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use stillpoint::rcu::{Guard, RcuDomain};

use super::{Compute, HashMap, Iter, Keys, OccupiedError, Operation, TryReserveError, Values};

/// A [`HashMap`] with a guard, for several operations in a row: see [`HashMap::pin`].
///
/// The references that its methods return are valid as long as it is borrowed.
///
/// ```
/// use stillpoint_collections::HashMap;
///
/// let map = HashMap::new();
/// let pinned = map.pin();
/// pinned.insert("a", 1);
/// let value = pinned.get("a");
/// pinned.remove("a");
/// assert_eq!(value, Some(&1));
/// ```
pub struct Pinned<'a, K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: RcuDomain> {
    map: &'a HashMap<K, V, S, D>,
    guard: Guard<D>,
}

impl<'a, K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: RcuDomain> Pinned<'a, K, V, S, D> {
    /// Returns the map.
    pub fn map(&self) -> &'a HashMap<K, V, S, D> {
        self.map
    }

    /// Returns the guard.
    pub fn guard(&self) -> &Guard<D> {
        &self.guard
    }

    /// Returns an iterator over the entries: see [`HashMap::iter`].
    pub fn iter(&self) -> Iter<'_, K, V, D> {
        self.map.iter(&self.guard)
    }

    /// [`HashMap::len`].
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// [`HashMap::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// [`HashMap::capacity`].
    pub fn capacity(&self) -> usize {
        self.map.capacity(&self.guard)
    }

    /// [`HashMap::keys`].
    pub fn keys(&self) -> Keys<'_, K, V, D> {
        self.map.keys(&self.guard)
    }

    /// [`HashMap::values`].
    pub fn values(&self) -> Values<'_, K, V, D> {
        self.map.values(&self.guard)
    }

    /// [`HashMap::reserve`].
    #[track_caller]
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional, &self.guard);
    }

    /// [`HashMap::try_reserve`].
    ///
    /// # Errors
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn try_reserve(&self, additional: usize) -> Result<(), TryReserveError> {
        self.map.try_reserve(additional, &self.guard)
    }

    /// [`HashMap::shrink_to_fit`].
    #[track_caller]
    pub fn shrink_to_fit(&self) {
        self.map.shrink_to_fit(&self.guard);
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: RcuDomain> HashMap<K, V, S, D> {
    /// Begins a read-side critical section, and returns a view of the map whose methods need no guard.
    ///
    /// For domains of [`rcu`](stillpoint::rcu).
    #[inline]
    #[track_caller]
    pub fn pin(&self) -> Pinned<'_, K, V, S, D> {
        Pinned { map: self, guard: D::enter() }
    }
}

impl<K, V, S, D> Pinned<'_, K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: RcuDomain,
{
    /// [`HashMap::get`].
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get(key, &self.guard)
    }

    /// [`HashMap::get_many`].
    #[inline]
    pub fn get_many<Q, const N: usize>(&self, keys: [&Q; N]) -> [Option<&V>; N]
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get_many(keys, &self.guard)
    }

    /// [`HashMap::get_key_value`].
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get_key_value(key, &self.guard)
    }

    /// [`HashMap::contains_key`].
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.contains_key(key, &self.guard)
    }

    /// [`HashMap::insert`].
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<&V> {
        self.map.insert(key, value, &self.guard)
    }

    /// [`HashMap::replace`].
    #[inline]
    #[track_caller]
    pub fn replace(&self, key: K, value: V) -> Option<(&K, &V)> {
        self.map.replace(key, value, &self.guard)
    }

    /// [`HashMap::try_insert`].
    ///
    /// # Errors
    ///
    /// If the key has an entry.
    #[inline]
    #[track_caller]
    pub fn try_insert(&self, key: K, value: V) -> Result<&V, OccupiedError<'_, V>> {
        self.map.try_insert(key, value, &self.guard)
    }

    /// [`HashMap::get_or_insert`].
    #[track_caller]
    pub fn get_or_insert(&self, key: K, value: V) -> &V {
        self.map.get_or_insert(key, value, &self.guard)
    }

    /// [`HashMap::get_or_insert_with`].
    #[track_caller]
    pub fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> &V {
        self.map.get_or_insert_with(key, f, &self.guard)
    }

    /// [`HashMap::update`].
    #[track_caller]
    pub fn update(&self, key: K, f: impl FnMut(&V) -> V) -> Option<&V> {
        self.map.update(key, f, &self.guard)
    }

    /// [`HashMap::modify`].
    #[track_caller]
    pub fn modify(&self, key: K, f: impl FnMut(&mut V)) -> Option<&V>
    where
        V: Clone,
    {
        self.map.modify(key, f, &self.guard)
    }

    /// [`HashMap::update_or_insert`].
    #[track_caller]
    pub fn update_or_insert(&self, key: K, update: impl FnMut(&V) -> V, value: V) -> &V
    where
        V: Clone,
    {
        self.map.update_or_insert(key, update, value, &self.guard)
    }

    /// [`HashMap::update_or_insert_with`].
    #[track_caller]
    pub fn update_or_insert_with(
        &self,
        key: K,
        update: impl FnMut(&V) -> V,
        insert: impl FnMut() -> V,
    ) -> &V {
        self.map.update_or_insert_with(key, update, insert, &self.guard)
    }

    /// [`HashMap::compute`].
    #[track_caller]
    pub fn compute<'g, T>(
        &'g self,
        key: K,
        f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
    ) -> Compute<'g, K, V, T> {
        self.map.compute(key, f, &self.guard)
    }

    /// [`HashMap::remove`].
    #[inline]
    #[track_caller]
    pub fn remove<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove(key, &self.guard)
    }

    /// [`HashMap::remove_entry`].
    #[inline]
    #[track_caller]
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_entry(key, &self.guard)
    }

    /// [`HashMap::remove_if`].
    #[track_caller]
    pub fn remove_if<Q>(&self, key: &Q, f: impl FnMut(&K, &V) -> bool) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_if(key, f, &self.guard)
    }

    /// [`HashMap::retain`].
    #[track_caller]
    pub fn retain(&self, f: impl FnMut(&K, &V) -> bool) {
        self.map.retain(f, &self.guard);
    }

    /// [`HashMap::clear`].
    #[track_caller]
    pub fn clear(&self) {
        self.map.clear(&self.guard);
    }
}

impl<'g, K, V, S, D> IntoIterator for &'g Pinned<'_, K, V, S, D>
where
    K: Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    D: RcuDomain,
{
    type Item = (&'g K, &'g V);
    type IntoIter = Iter<'g, K, V, D>;

    fn into_iter(self) -> Iter<'g, K, V, D> {
        self.iter()
    }
}

impl<K, V, S, D> fmt::Debug for Pinned<'_, K, V, S, D>
where
    K: Eq + fmt::Debug + Send + Sync + 'static,
    V: fmt::Debug + Send + Sync + 'static,
    D: RcuDomain,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
