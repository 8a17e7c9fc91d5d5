//! A set with a guard.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use stillpoint::EnterSection;

use super::{HashSet, Iter};

/// A [`HashSet`] with a guard, for several operations in a row: see [`HashSet::pin`].
///
/// The references that its methods return are valid as long as it is borrowed.
///
/// ```
/// use stillpoint_collections::HashSet;
///
/// let set = HashSet::new();
/// let pinned = set.pin();
/// assert!(pinned.insert("a") && pinned.contains("a"));
/// assert_eq!(pinned.take("a"), Some(&"a"));
/// ```
pub struct Pinned<'a, T: Send + Sync + 'static, S, D: EnterSection> {
    set: &'a HashSet<T, S, D>,
    guard: D::Guard<'a>,
}

impl<T: Send + Sync + 'static, S, D: EnterSection> HashSet<T, S, D> {
    /// Begins a read-side critical section, and returns a view of the set whose methods need no guard.
    ///
    /// For domains of [`rcu`](stillpoint::rcu) and [`srcu`](stillpoint::srcu).
    #[inline]
    #[track_caller]
    pub fn pin(&self) -> Pinned<'_, T, S, D> {
        Pinned { set: self, guard: self.map.domain().enter_section() }
    }
}

impl<'a, T: Send + Sync + 'static, S, D: EnterSection> Pinned<'a, T, S, D> {
    /// Returns the set.
    pub fn set(&self) -> &'a HashSet<T, S, D> {
        self.set
    }

    /// Returns the guard.
    pub fn guard(&self) -> &D::Guard<'a> {
        &self.guard
    }

    #[inline(always)]
    fn section(&self) -> &D::Section {
        self.guard.borrow()
    }

    /// [`HashSet::len`].
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// [`HashSet::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// [`HashSet::capacity`].
    pub fn capacity(&self) -> usize {
        self.set.capacity(self.section())
    }

    /// [`HashSet::iter`].
    pub fn iter(&self) -> Iter<'_, T, D> {
        self.set.iter(self.section())
    }

    /// [`HashSet::reserve`].
    #[track_caller]
    pub fn reserve(&self, additional: usize) {
        self.set.reserve(additional, self.section());
    }

    /// [`HashSet::shrink_to_fit`].
    #[track_caller]
    pub fn shrink_to_fit(&self) {
        self.set.shrink_to_fit(self.section());
    }
}

impl<T, S, D> Pinned<'_, T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
    /// [`HashSet::contains`].
    #[inline]
    pub fn contains<Q: Hash + Equivalent<T> + ?Sized>(&self, value: &Q) -> bool {
        self.set.contains(value, self.section())
    }

    /// [`HashSet::get`].
    #[inline]
    pub fn get<Q: Hash + Equivalent<T> + ?Sized>(&self, value: &Q) -> Option<&T> {
        self.set.get(value, self.section())
    }

    /// [`HashSet::insert`].
    #[inline]
    #[track_caller]
    pub fn insert(&self, value: T) -> bool {
        self.set.insert(value, self.section())
    }

    /// [`HashSet::replace`].
    #[track_caller]
    pub fn replace(&self, value: T) -> Option<&T> {
        self.set.replace(value, self.section())
    }

    /// [`HashSet::remove`].
    #[inline]
    #[track_caller]
    pub fn remove<Q: Hash + Equivalent<T> + ?Sized>(&self, value: &Q) -> bool {
        self.set.remove(value, self.section())
    }

    /// [`HashSet::take`].
    #[inline]
    #[track_caller]
    pub fn take<Q: Hash + Equivalent<T> + ?Sized>(&self, value: &Q) -> Option<&T> {
        self.set.take(value, self.section())
    }

    /// [`HashSet::retain`].
    #[track_caller]
    pub fn retain(&self, f: impl FnMut(&T) -> bool) {
        self.set.retain(f, self.section());
    }

    /// [`HashSet::clear`].
    #[track_caller]
    pub fn clear(&self) {
        self.set.clear(self.section());
    }
}

impl<'g, T, S, D> IntoIterator for &'g Pinned<'_, T, S, D>
where
    T: Eq + Send + Sync + 'static,
    D: EnterSection,
{
    type Item = &'g T;
    type IntoIter = Iter<'g, T, D>;

    fn into_iter(self) -> Iter<'g, T, D> {
        self.iter()
    }
}

impl<T, S, D> fmt::Debug for Pinned<'_, T, S, D>
where
    T: Eq + fmt::Debug + Send + Sync + 'static,
    D: EnterSection,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}
