//! A map with a guard.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use stillpoint::EnterSection;
use stillpoint::rcu::Retired;

use super::{Compute, Entry, HashMap, Iter, Keys, OccupiedError, Operation, TryReserveError, Values};

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
pub struct Pinned<'a, K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: EnterSection> {
    map: &'a HashMap<K, V, S, D>,
    guard: D::Guard<'a>,
}

impl<'a, K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: EnterSection> Pinned<'a, K, V, S, D> {
    /// Returns the map.
    pub fn map(&self) -> &'a HashMap<K, V, S, D> {
        self.map
    }

    /// Returns the guard.
    pub fn guard(&self) -> &D::Guard<'a> {
        &self.guard
    }

    #[inline(always)]
    fn section(&self) -> &D::Section {
        self.guard.borrow()
    }

    /// Returns an iterator over the entries: see [`HashMap::iter`].
    pub fn iter(&self) -> Iter<'_, K, V, D> {
        self.map.iter(self.section())
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
        self.map.capacity(self.section())
    }

    /// [`HashMap::keys`].
    pub fn keys(&self) -> Keys<'_, K, V, D> {
        self.map.keys(self.section())
    }

    /// [`HashMap::values`].
    pub fn values(&self) -> Values<'_, K, V, D> {
        self.map.values(self.section())
    }

    /// [`HashMap::reserve`].
    #[track_caller]
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional, self.section());
    }

    /// [`HashMap::try_reserve`].
    ///
    /// # Errors
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn try_reserve(&self, additional: usize) -> Result<(), TryReserveError> {
        self.map.try_reserve(additional, self.section())
    }

    /// [`HashMap::shrink_to_fit`].
    #[track_caller]
    pub fn shrink_to_fit(&self) {
        self.map.shrink_to_fit(self.section());
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: EnterSection> HashMap<K, V, S, D> {
    /// Begins a read-side critical section, and returns a view of the map whose methods need no guard.
    ///
    /// For domains of [`rcu`](stillpoint::rcu) and [`srcu`](stillpoint::srcu).
    #[inline]
    #[track_caller]
    pub fn pin(&self) -> Pinned<'_, K, V, S, D> {
        Pinned { map: self, guard: self.tables.domain.enter_section() }
    }
}

impl<K, V, S, D> Pinned<'_, K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
    /// [`HashMap::get`].
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get(key, self.section())
    }

    /// [`HashMap::get_many`].
    #[inline]
    pub fn get_many<Q, const N: usize>(&self, keys: [&Q; N]) -> [Option<&V>; N]
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get_many(keys, self.section())
    }

    /// [`HashMap::get_key_value`].
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get_key_value(key, self.section())
    }

    /// [`HashMap::contains_key`].
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.contains_key(key, self.section())
    }

    /// [`HashMap::insert`].
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<&V> {
        self.map.insert(key, value, self.section())
    }

    /// [`HashMap::replace`].
    #[inline]
    #[track_caller]
    pub fn replace(&self, key: K, value: V) -> Option<(&K, &V)> {
        self.map.replace(key, value, self.section())
    }

    /// [`HashMap::try_insert`].
    ///
    /// # Errors
    ///
    /// If the key has an entry.
    #[inline]
    #[track_caller]
    pub fn try_insert(&self, key: K, value: V) -> Result<&V, OccupiedError<'_, V>> {
        self.map.try_insert(key, value, self.section())
    }

    /// [`HashMap::try_insert_with`].
    ///
    /// # Errors
    ///
    /// If the key has an entry.
    #[track_caller]
    pub fn try_insert_with(&self, key: K, f: impl FnOnce() -> V) -> Result<&V, &V> {
        self.map.try_insert_with(key, f, self.section())
    }

    /// [`HashMap::get_or_insert`].
    #[track_caller]
    pub fn get_or_insert<Q>(&self, key: &Q, value: V) -> &V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.map.get_or_insert(key, value, self.section())
    }

    /// [`HashMap::get_or_insert_with`].
    #[track_caller]
    pub fn get_or_insert_with<Q>(&self, key: &Q, f: impl FnOnce() -> V) -> &V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.map.get_or_insert_with(key, f, self.section())
    }

    /// [`HashMap::update`].
    #[track_caller]
    pub fn update<Q>(&self, key: &Q, f: impl FnMut(&V) -> V) -> Option<&V>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.update(key, f, self.section())
    }

    /// [`HashMap::modify`].
    #[track_caller]
    pub fn modify<Q>(&self, key: &Q, f: impl FnMut(&mut V)) -> Option<&V>
    where
        K: Clone,
        V: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.modify(key, f, self.section())
    }

    /// [`HashMap::update_or_insert`].
    #[track_caller]
    pub fn update_or_insert<Q>(&self, key: &Q, update: impl FnMut(&V) -> V, value: V) -> &V
    where
        K: Clone,
        V: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.map.update_or_insert(key, update, value, self.section())
    }

    /// [`HashMap::update_or_insert_with`].
    #[track_caller]
    pub fn update_or_insert_with<Q>(
        &self,
        key: &Q,
        update: impl FnMut(&V) -> V,
        insert: impl FnMut() -> V,
    ) -> &V
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.map.update_or_insert_with(key, update, insert, self.section())
    }

    /// [`HashMap::compute`].
    #[track_caller]
    pub fn compute<'g, Q, T>(
        &'g self,
        key: &Q,
        f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
    ) -> Compute<'g, K, V, T>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.map.compute(key, f, self.section())
    }

    /// [`HashMap::remove`].
    #[inline]
    #[track_caller]
    pub fn remove<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove(key, self.section())
    }

    /// [`HashMap::remove_entry`].
    #[inline]
    #[track_caller]
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_entry(key, self.section())
    }

    /// [`HashMap::take`].
    #[track_caller]
    pub fn take<Q>(&self, key: &Q) -> Option<Retired<Entry<K, V>, D>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.take(key, self.section())
    }

    /// [`HashMap::remove_if`].
    ///
    /// # Errors
    ///
    /// If the entry stays.
    #[track_caller]
    pub fn remove_if<Q>(&self, key: &Q, f: impl FnMut(&K, &V) -> bool) -> Result<Option<(&K, &V)>, (&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_if(key, f, self.section())
    }

    /// [`HashMap::retain`].
    #[track_caller]
    pub fn retain(&self, f: impl FnMut(&K, &V) -> bool) {
        self.map.retain(f, self.section());
    }

    /// [`HashMap::clear`].
    #[track_caller]
    pub fn clear(&self) {
        self.map.clear(self.section());
    }
}

impl<'g, K, V, S, D> IntoIterator for &'g Pinned<'_, K, V, S, D>
where
    K: Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    D: EnterSection,
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
    D: EnterSection,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
