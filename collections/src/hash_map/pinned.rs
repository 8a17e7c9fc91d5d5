//! A map with a guard.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use stillpoint::rcu::{Guard, RcuDomain};

use super::{HashMap, Iter};

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
    /// Returns the value of a key.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.get(key, &self.guard)
    }

    /// Returns `true` if the key has an entry.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.contains_key(key, &self.guard)
    }

    /// Inserts an entry, or replaces that of the key, and returns the old value.
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<&V> {
        self.map.insert(key, value, &self.guard)
    }

    /// Returns the value of a key. If it has none, inserts the one that `f` returns: see
    /// [`HashMap::get_or_insert_with`].
    #[track_caller]
    pub fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> &V {
        self.map.get_or_insert_with(key, f, &self.guard)
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    #[track_caller]
    pub fn remove<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.remove(key, &self.guard)
    }

    /// Replaces the value of a key by the one that `f` makes of it: see [`HashMap::update`].
    #[track_caller]
    pub fn update(&self, key: K, f: impl FnMut(&V) -> V) -> Option<&V> {
        self.map.update(key, f, &self.guard)
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
