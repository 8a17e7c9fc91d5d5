//! The set and its operations.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;
use std::collections::hash_map::RandomState;

use equivalent::Equivalent;
use stillpoint::rcu::{DeferOptions, Global};

use crate::hash_map::{self, HashMap, TryReserveError};
use crate::sync::Domain;

/// A hash set that many threads use at the same time.
///
/// What is said of [`HashMap`] is true of it: guards, domains, panics, and memory.
///
/// ```
/// use stillpoint::rcu;
/// use stillpoint_collections::HashSet;
///
/// let blocked = HashSet::new();
/// let guard = rcu::enter();
/// assert!(blocked.insert("10.0.0.1", &guard));
/// assert!(!blocked.insert("10.0.0.1", &guard));
/// assert!(blocked.contains("10.0.0.1", &guard));
/// assert!(blocked.remove("10.0.0.1", &guard));
/// assert!(blocked.is_empty());
/// ```
///
/// A reference cannot outlive its guard:
///
/// ```compile_fail,E0505
/// use stillpoint::rcu;
/// use stillpoint_collections::HashSet;
///
/// let names = HashSet::from(["ada".to_owned()]);
/// let guard = rcu::enter();
/// let name = names.get("ada", &guard);
/// drop(guard);
/// assert!(name.is_some());
/// ```
pub struct HashSet<T, S = RandomState, D: Domain = Global>
where
    T: Send + Sync + 'static,
{
    pub(super) map: HashMap<T, (), S, D>,
}

impl<T: Send + Sync + 'static> HashSet<T> {
    /// Creates an empty set for the readers of [`rcu`](stillpoint::rcu).
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set with room for `capacity` values: see [`HashMap::with_capacity`].
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { map: HashMap::with_capacity(capacity) }
    }
}

impl<T: Send + Sync + 'static, D: Domain> HashSet<T, RandomState, D> {
    /// Creates an empty set for the readers of `domain`.
    pub fn new_in(domain: D) -> Self {
        Self { map: HashMap::new_in(domain) }
    }
}

impl<T: Send + Sync + 'static, S> HashSet<T, S> {
    /// Creates an empty set with a hasher.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { map: HashMap::with_hasher(hasher) }
    }
}

impl<T: Send + Sync + 'static, S, D: Domain> HashSet<T, S, D> {
    /// [`new_in`](HashSet::new_in), with a hasher. Does not allocate.
    pub const fn with_hasher_in(hasher: S, domain: D) -> Self {
        Self { map: HashMap::with_hasher_in(hasher, domain) }
    }

    /// Creates an empty set with room for `capacity` values, a hasher, and a domain.
    #[track_caller]
    pub fn with_capacity_and_hasher_in(capacity: usize, hasher: S, domain: D) -> Self {
        Self { map: HashMap::with_capacity_and_hasher_in(capacity, hasher, domain) }
    }

    /// Sets how values are retired: see [`HashMap::with_defer_options`].
    #[must_use]
    pub fn with_defer_options(self, options: DeferOptions) -> Self {
        Self { map: self.map.with_defer_options(options) }
    }

    /// Returns the number of values: see [`HashMap::len`].
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns `true` if the set has no values.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the number of values that the table has room for before it grows.
    #[track_caller]
    pub fn capacity(&self, guard: &D::Section) -> usize {
        self.map.capacity(guard)
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        self.map.hasher()
    }

    /// Returns the domain whose guards the methods take.
    pub fn domain(&self) -> &D {
        self.map.domain()
    }

    /// Returns an iterator over the values, in no order: see [`HashMap::iter`].
    #[track_caller]
    pub fn iter<'g>(&'g self, guard: &'g D::Section) -> Iter<'g, T, D> {
        Iter(self.map.keys(guard))
    }

    /// Makes room for more values: see [`HashMap::reserve`].
    #[track_caller]
    pub fn reserve(&self, additional: usize, guard: &D::Section) {
        self.map.reserve(additional, guard);
    }

    /// [`reserve`](Self::reserve), but for an error if there is no memory.
    ///
    /// # Errors
    ///
    /// As [`HashMap::try_reserve`].
    #[track_caller]
    pub fn try_reserve(&self, additional: usize, guard: &D::Section) -> Result<(), TryReserveError> {
        self.map.try_reserve(additional, guard)
    }

    /// Shrinks the table to its values: see [`HashMap::shrink_to_fit`].
    #[track_caller]
    pub fn shrink_to_fit(&self, guard: &D::Section) {
        self.map.shrink_to_fit(guard);
    }

    /// Takes all values out, and returns them: see [`HashMap::drain`].
    pub fn drain(&mut self) -> IntoIter<T> {
        IntoIter(self.map.drain())
    }

    /// Drops all values at once: see [`HashMap::clear_mut`].
    pub fn clear_mut(&mut self) {
        self.map.clear_mut();
    }
}

impl<T, S, D> HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    /// Returns `true` if the set has the value.
    #[inline]
    #[track_caller]
    pub fn contains<Q>(&self, value: &Q, guard: &D::Section) -> bool
    where
        Q: Hash + Equivalent<T> + ?Sized,
    {
        self.map.contains_key(value, guard)
    }

    /// Returns the value of the set that is equal to this one.
    #[inline]
    #[track_caller]
    pub fn get<'g, Q>(&'g self, value: &Q, guard: &'g D::Section) -> Option<&'g T>
    where
        Q: Hash + Equivalent<T> + ?Sized,
    {
        Some(self.map.get_key_value(value, guard)?.0)
    }

    /// Inserts a value, unless the set has it. Returns `true` if it was inserted.
    #[inline]
    #[track_caller]
    pub fn insert(&self, value: T, guard: &D::Section) -> bool {
        self.map.try_insert(value, (), guard).is_ok()
    }

    /// Inserts a value in place of one that is equal, and returns that one.
    #[track_caller]
    pub fn replace<'g>(&'g self, value: T, guard: &'g D::Section) -> Option<&'g T> {
        self.map.replace(value, (), guard).map(|(old, ())| old)
    }

    /// Removes a value. Returns `true` if the set had it.
    #[inline]
    #[track_caller]
    pub fn remove<Q>(&self, value: &Q, guard: &D::Section) -> bool
    where
        Q: Hash + Equivalent<T> + ?Sized,
    {
        self.map.remove(value, guard).is_some()
    }

    /// Removes a value, and returns that of the set.
    #[inline]
    #[track_caller]
    pub fn take<'g, Q>(&'g self, value: &Q, guard: &'g D::Section) -> Option<&'g T>
    where
        Q: Hash + Equivalent<T> + ?Sized,
    {
        Some(self.map.remove_entry(value, guard)?.0)
    }

    /// Returns an iterator over the values that both sets have.
    ///
    /// Of values that other threads insert or remove at the same time, it may return some: so do
    /// [`union`](Self::union) and [`is_subset`](Self::is_subset).
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashSet;
    ///
    /// let (even, small) = (HashSet::from([2, 4, 6]), HashSet::from([1, 2]));
    /// let guard = rcu::enter();
    /// assert!(even.intersection(&small, &guard).eq(&[2]));
    /// assert_eq!(even.union(&small, &guard).count(), 4);
    /// assert!(HashSet::from([2]).is_subset(&small, &guard));
    /// ```
    #[track_caller]
    pub fn intersection<'g>(&'g self, other: &'g Self, guard: &'g D::Section) -> impl Iterator<Item = &'g T> {
        self.iter(guard).filter(move |value| other.contains(*value, guard))
    }

    /// Returns an iterator over the values that one of the sets has, or both.
    #[track_caller]
    pub fn union<'g>(&'g self, other: &'g Self, guard: &'g D::Section) -> impl Iterator<Item = &'g T> {
        self.iter(guard).chain(other.iter(guard).filter(move |value| !self.contains(*value, guard)))
    }

    /// Returns `true` if the other set has all values of this one.
    #[track_caller]
    pub fn is_subset(&self, other: &Self, guard: &D::Section) -> bool {
        self.iter(guard).all(|value| other.contains(value, guard))
    }

    /// Keeps the values for which `f` returns `true`: see [`HashMap::retain`].
    #[track_caller]
    pub fn retain(&self, mut f: impl FnMut(&T) -> bool, guard: &D::Section) {
        self.map.retain(|value, ()| f(value), guard);
    }

    /// Removes all values. Those that other threads insert during the call may stay.
    #[track_caller]
    pub fn clear(&self, guard: &D::Section) {
        self.map.clear(guard);
    }
}

impl<T, S, D> Default for HashSet<T, S, D>
where
    T: Send + Sync + 'static,
    S: Default,
    D: Domain + Default,
{
    fn default() -> Self {
        Self { map: HashMap::default() }
    }
}

impl<T, S, D> fmt::Debug for HashSet<T, S, D>
where
    T: fmt::Debug + Eq + Send + Sync + 'static,
    D: Domain,
{
    /// Shows the values, as the map does its entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain().with_section(|section| match section {
            Some(section) => f.debug_set().entries(self.iter(section)).finish(),
            None => f.debug_struct("HashSet").field("len", &self.len()).finish_non_exhaustive(),
        })
    }
}

/// An iterator over the values of a set: see [`HashSet::iter`].
#[derive(Debug)]
pub struct Iter<'g, T: Send + Sync + 'static, D: Domain>(hash_map::Keys<'g, T, (), D>);

impl<'g, T: Eq + Send + Sync + 'static, D: Domain> Iterator for Iter<'g, T, D> {
    type Item = &'g T;

    fn next(&mut self) -> Option<&'g T> {
        self.0.next()
    }
}

impl<T: Eq + Send + Sync + 'static, D: Domain> FusedIterator for Iter<'_, T, D> {}

/// An iterator over the values of a set that it has taken.
#[derive(Debug)]
pub struct IntoIter<T>(hash_map::IntoIter<T, ()>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        Some(self.0.next()?.0)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}
impl<T> FusedIterator for IntoIter<T> {}
