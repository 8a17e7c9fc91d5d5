//! A set with a guard.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use stillpoint::EnterSection;

use super::{HashSet, Iter};
use crate::forward::forward;

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

    forward! { HashSet: |view| [HashSet(view.set, .., view.section())];
        capacity() -> usize;
        iter() -> Iter<'_, T, D>;
        reserve(additional: usize);
        shrink_to_fit();
    }
}

impl<T, S, D> Pinned<'_, T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
    forward! { HashSet: |view| [HashSet(view.set, .., view.section())];
        contains[Q: Hash + Equivalent<T> + ?Sized](value: &Q) -> bool;
        get[Q: Hash + Equivalent<T> + ?Sized](value: &Q) -> Option<&T>;
        insert(value: T) -> bool;
        replace(value: T) -> Option<&T>;
        remove[Q: Hash + Equivalent<T> + ?Sized](value: &Q) -> bool;
        take[Q: Hash + Equivalent<T> + ?Sized](value: &Q) -> Option<&T>;
        retain(f: impl FnMut(&T) -> bool);
        clear();
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
