//! A map with a guard.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use stillpoint::EnterSection;
use stillpoint::rcu::Retired;

use super::{Compute, Entry, HashMap, Iter, Keys, OccupiedError, Operation, TryReserveError, Values};
use crate::forward::forward;

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

    /// [`HashMap::len`].
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// [`HashMap::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    forward! { HashMap: |view| [HashMap(view.map, .., view.section())];
        iter() -> Iter<'_, K, V, D>;
        capacity() -> usize;
        keys() -> Keys<'_, K, V, D>;
        values() -> Values<'_, K, V, D>;
        reserve(additional: usize);
        /// # Errors
        ///
        /// If there is no memory.
        try_reserve(additional: usize) -> Result<(), TryReserveError>;
        shrink_to_fit();
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
    forward! { HashMap: |view| [HashMap(view.map, .., view.section())];
        get[Q](key: &Q) -> Option<&V> where [Q: Hash + Equivalent<K> + ?Sized];
        get_many[Q, const N: usize](keys: [&Q; N]) -> [Option<&V>; N] where [Q: Hash + Equivalent<K> + ?Sized];
        get_key_value[Q](key: &Q) -> Option<(&K, &V)> where [Q: Hash + Equivalent<K> + ?Sized];
        contains_key[Q](key: &Q) -> bool where [Q: Hash + Equivalent<K> + ?Sized];
        insert(key: K, value: V) -> Option<&V>;
        replace(key: K, value: V) -> Option<(&K, &V)>;
        /// # Errors
        ///
        /// If the key has an entry.
        try_insert(key: K, value: V) -> Result<&V, OccupiedError<'_, V>>;
        /// # Errors
        ///
        /// If the key has an entry.
        try_insert_with(key: K, f: impl FnOnce() -> V) -> Result<&V, &V>;
        get_or_insert[Q](key: &Q, value: V) -> &V
            where [Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized];
        get_or_insert_with[Q](key: &Q, f: impl FnOnce() -> V) -> &V
            where [Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized];
        update[Q](key: &Q, f: impl FnMut(&V) -> V) -> Option<&V>
            where [K: Clone, Q: Hash + Equivalent<K> + ?Sized];
        modify[Q](key: &Q, f: impl FnMut(&mut V)) -> Option<&V>
            where [K: Clone, V: Clone, Q: Hash + Equivalent<K> + ?Sized];
        update_or_insert[Q](key: &Q, update: impl FnMut(&V) -> V, value: V) -> &V
            where [K: Clone, V: Clone, Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized];
        update_or_insert_with[Q](key: &Q, update: impl FnMut(&V) -> V, insert: impl FnMut() -> V) -> &V
            where [K: Clone, Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized];
        remove[Q](key: &Q) -> Option<&V> where [Q: Hash + Equivalent<K> + ?Sized];
        remove_entry[Q](key: &Q) -> Option<(&K, &V)> where [Q: Hash + Equivalent<K> + ?Sized];
        take[Q](key: &Q) -> Option<Retired<Entry<K, V>, D>> where [Q: Hash + Equivalent<K> + ?Sized];
        /// # Errors
        ///
        /// If the entry stays.
        remove_if[Q](key: &Q, f: impl FnMut(&K, &V) -> bool) -> Result<Option<(&K, &V)>, (&K, &V)>
            where [Q: Hash + Equivalent<K> + ?Sized];
        retain(f: impl FnMut(&K, &V) -> bool);
        clear();
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
