//! A map within a section.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter;
use core::num::Wrapping;
use core::ops::Add;

use super::map::CopyMap;
use super::operations::Operations;
use super::plain::Plain;
use crate::forward::forward;
use crate::hash_map::TryReserveError;
use crate::sync::Domain;

/// A [`CopyMap`] within a read-side critical section of the caller: see [`CopyMap::within`].
///
/// Closures are called inside the section, and must not wait for a grace period of the domain.
///
/// ```
/// use stillpoint::qsbr;
/// use stillpoint_collections::CopyMap;
///
/// let hits = CopyMap::new_in(qsbr::Global);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mut thread = qsbr::register();
///             for page in [1_u32, 2, 1] {
///                 hits.within(&thread).fetch_add(page, 1_u64);
///                 thread.quiescent();
///             }
///         });
///     }
/// });
/// let thread = qsbr::register();
/// assert_eq!(hits.within(&thread).get_many([&1, &2, &3]), [Some(8), Some(4), None]);
/// ```
pub struct Within<'m, K: Plain, V: Plain, S, D: Domain> {
    map: &'m CopyMap<K, V, S, D>,
    section: &'m D::Section,
}

impl<K: Plain, V: Plain, S, D: Domain> CopyMap<K, V, S, D> {
    /// Returns the map within a section of the caller, in which all operations of the view are made.
    ///
    /// For threads of [`qsbr`](stillpoint::qsbr) domains, and for several operations in a row in any other: each
    /// would begin a section of its own otherwise. The section lasts longer, so what is unlinked meanwhile waits for
    /// it.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::CopyMap;
    ///
    /// let prices = CopyMap::from([(1, 10), (2, 20)]);
    /// let guard = rcu::enter();
    /// let view = prices.within(&guard);
    /// assert_eq!([1, 2, 3].iter().filter_map(|item| view.get(item)).sum::<u32>(), 30);
    /// ```
    ///
    /// The view cannot outlive the section:
    ///
    /// ```compile_fail,E0502
    /// use stillpoint::qsbr;
    /// use stillpoint_collections::CopyMap;
    ///
    /// let map = CopyMap::new_in(qsbr::Global);
    /// let mut thread = qsbr::register();
    /// let view = map.within(&thread);
    /// view.insert(1, 2);
    /// thread.quiescent();
    /// view.get(&1);
    /// ```
    ///
    /// # Panics
    ///
    /// If the section is one of another [`srcu::Domain`](stillpoint::srcu::Domain) than the map.
    #[inline]
    #[track_caller]
    pub fn within<'m>(&'m self, section: &'m D::Section) -> Within<'m, K, V, S, D> {
        self.tables.domain.check_section(section);
        Within { map: self, section }
    }
}

impl<'m, K: Plain, V: Plain, S, D: Domain> Within<'m, K, V, S, D> {
    /// Returns the map.
    pub fn map(&self) -> &'m CopyMap<K, V, S, D> {
        self.map
    }
}

impl<K: Plain, V: Plain, S, D: Domain> Clone for Within<'_, K, V, S, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Plain, V: Plain, S, D: Domain> Copy for Within<'_, K, V, S, D> {}

impl<K, V, S, D> Operations<K, V, S, D> for Within<'_, K, V, S, D>
where
    K: Plain + Hash + Eq,
    V: Plain,
    S: BuildHasher,
    D: Domain,
{
    #[inline(always)]
    fn map(&self) -> &CopyMap<K, V, S, D> {
        self.map
    }

    #[inline(always)]
    fn section(&self) -> impl Borrow<D::Section> {
        self.section
    }
}

impl<'m, K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: Domain> Within<'m, K, V, S, D> {
    forward! { CopyMap: |view| [Operations(view, ..)];
        get(key: &K) -> Option<V>;
        get_many[const N: usize](keys: [&K; N]) -> [Option<V>; N];
        contains_key(key: &K) -> bool;
        insert(key: K, value: V) -> Option<V>;
        fetch_add(key: K, by: V) -> Option<V> where [Wrapping<V>: Add<Output = Wrapping<V>>];
        remove(key: &K) -> Option<V>;
        /// # Errors
        ///
        /// If `f` has returned `false`.
        remove_if(key: &K, f: impl FnMut(V) -> bool) -> Result<Option<V>, V>;
        /// # Errors
        ///
        /// If the key has another value, or no entry.
        compare_exchange(key: K, current: Option<V>, new: V) -> Result<(), Option<V>>;
        get_or_insert_with(key: K, f: impl FnOnce() -> V) -> V;
        get_or_insert(key: K, value: V) -> V;
        update(key: &K, f: impl FnMut(V) -> V) -> Option<V>;
        update_or_insert_with(key: K, update: impl FnMut(V) -> V, insert: impl FnMut() -> V) -> V;
        update_or_insert(key: K, update: impl FnMut(V) -> V, value: V) -> V;
        compute(key: &K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V>;
        retain(f: impl FnMut(K, V) -> bool);
        clear();
        capacity() -> usize;
        reserve(additional: usize);
        /// # Errors
        ///
        /// If there is no memory.
        try_reserve(additional: usize) -> Result<(), TryReserveError>;
        shrink_to_fit();
    }

    /// Returns an iterator over copies of the entries: see [`CopyMap::iter`].
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + use<'m, K, V, S, D> {
        let (view, mut walk) = (*self, self.walk());
        iter::from_fn(move || view.next(&mut walk))
    }
}

impl<K, V, S, D> fmt::Debug for Within<'_, K, V, S, D>
where
    K: Plain + Hash + Eq + fmt::Debug,
    V: Plain + fmt::Debug,
    S: BuildHasher,
    D: Domain,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
