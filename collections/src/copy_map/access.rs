//! The operations of a map, which begin their sections.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::num::Wrapping;
use core::ops::Add;

use stillpoint::EnterSection;

use super::map::CopyMap;
use super::operations::Operations;
use super::plain::Plain;
use crate::hash_map::TryReserveError;
use crate::sync::Domain;

/// Begins a section for each access, so that none is open while closures of the program run.
impl<K, V, S, D> Operations<K, V, S, D> for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq,
    V: Plain,
    S: BuildHasher,
    D: EnterSection,
{
    #[inline(always)]
    fn map(&self) -> &Self {
        self
    }

    #[inline(always)]
    #[track_caller]
    fn section(&self) -> impl Borrow<D::Section> {
        self.tables.domain.enter_section()
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> CopyMap<K, V, S, D> {
    /// Returns the number of entries that the table has room for before it grows.
    pub fn capacity(&self) -> usize {
        Operations::capacity(self)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        Operations::get(self, key)
    }

    /// Returns the values of several keys, in their order. Begins to fetch all buckets before it looks the first key
    /// up, so that in tables larger than the caches the waits for memory overlap.
    ///
    /// The lookups are not one: other threads may change the map between two of them.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let squares: CopyMap<u32, u32> = (0..10).map(|n| (n, n * n)).collect();
    /// assert_eq!(squares.get_many([&3, &20, &5]), [Some(9), None, Some(25)]);
    /// ```
    #[inline]
    pub fn get_many<const N: usize>(&self, keys: [&K; N]) -> [Option<V>; N] {
        Operations::get_many(self, keys)
    }

    /// Returns `true` if the key has an entry.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        Operations::contains_key(self, key)
    }

    /// Inserts an entry, or replaces the value of the key, and returns the old one.
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        Operations::insert(self, key, value)
    }

    /// Adds to the value of a key, and returns the one before. It wraps around on overflow. Where the key has no
    /// entry, inserts one with the value `by`.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let hits = CopyMap::new();
    /// assert_eq!(hits.fetch_add("/".len(), 1), None);
    /// assert_eq!(hits.fetch_add("/".len(), 2), Some(1));
    /// assert_eq!(hits.get(&1), Some(3));
    /// ```
    #[inline]
    #[track_caller]
    pub fn fetch_add(&self, key: K, by: V) -> Option<V>
    where
        Wrapping<V>: Add<Output = Wrapping<V>>,
    {
        Operations::fetch_add(self, key, by)
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        Operations::remove(self, key)
    }

    /// Removes the entry of a key if `f` returns `true` for the value, and returns that, or `None` if there is no
    /// entry. If the value has changed since, `f` is called again.
    ///
    /// # Errors
    ///
    /// If `f` has returned `false`. The error is the value, which stays.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let uses = CopyMap::from([(1, 0), (2, 7)]);
    /// assert_eq!(uses.remove_if(&1, |uses| uses == 0), Ok(Some(0)));
    /// assert_eq!(uses.remove_if(&1, |uses| uses == 0), Ok(None));
    /// assert_eq!(uses.remove_if(&2, |uses| uses == 0), Err(7));
    /// ```
    #[track_caller]
    pub fn remove_if(&self, key: &K, f: impl FnMut(V) -> bool) -> Result<Option<V>, V> {
        Operations::remove_if(self, key, f)
    }

    /// Makes `new` the value of a key whose value is `current`, bit by bit, or that has no entry if that is `None`.
    ///
    /// # Errors
    ///
    /// If the key has another value, which is in the error, or no entry.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let owners = CopyMap::new();
    /// assert_eq!(owners.compare_exchange(80, None, 1), Ok(()));
    /// assert_eq!(owners.compare_exchange(80, None, 2), Err(Some(1)));
    /// assert_eq!(owners.compare_exchange(80, Some(1), 2), Ok(()));
    /// assert_eq!(owners.compare_exchange(81, Some(1), 2), Err(None));
    /// ```
    #[track_caller]
    pub fn compare_exchange(&self, key: K, current: Option<V>, new: V) -> Result<(), Option<V>> {
        Operations::compare_exchange(self, key, current, new)
    }

    /// Returns the value of a key. If it has none, inserts the one that `f` returns.
    ///
    /// If several threads do this at the same time, each may call `f`, and all return the same value.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let roots = CopyMap::new();
    /// assert_eq!(roots.get_or_insert_with(9, || 3), 3);
    /// assert_eq!(roots.get_or_insert_with(9, || unreachable!()), 3);
    /// ```
    #[track_caller]
    pub fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V {
        Operations::get_or_insert_with(self, key, f)
    }

    /// [`get_or_insert_with`](Self::get_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn get_or_insert(&self, key: K, value: V) -> V {
        Operations::get_or_insert(self, key, value)
    }

    /// Replaces the value of a key by the one that `f` makes of it, and returns the new value. Returns `None` if the
    /// key has no entry.
    ///
    /// `f` is called again if the value has changed since. After some calls, other writers of the key wait, for up to
    /// a second. So `f` may take long, but if it takes longer than that, writers that are faster may always be first.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let hits = CopyMap::from([(1, 10)]);
    /// assert_eq!(hits.update(&1, |hits| hits + 1), Some(11));
    /// assert_eq!(hits.update(&2, |hits| hits + 1), None);
    /// ```
    #[track_caller]
    pub fn update(&self, key: &K, f: impl FnMut(V) -> V) -> Option<V> {
        Operations::update(self, key, f)
    }

    /// Replaces the value of a key by the one that `update` makes of it, or inserts the one that `insert` returns.
    /// Returns the new value. The closures are called again if the entry has changed since: see
    /// [`update`](Self::update).
    #[track_caller]
    pub fn update_or_insert_with(&self, key: K, update: impl FnMut(V) -> V, insert: impl FnMut() -> V) -> V {
        Operations::update_or_insert_with(self, key, update, insert)
    }

    /// [`update_or_insert_with`](Self::update_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn update_or_insert(&self, key: K, update: impl FnMut(V) -> V, value: V) -> V {
        Operations::update_or_insert(self, key, update, value)
    }

    /// Replaces the entry of a key by the value that `f` returns, or removes it if `f` returns `None`. `f` gets the
    /// value of the key, if it has one. Returns the value that the key has then.
    ///
    /// `f` is called again if the entry has changed since: see [`update`](Self::update).
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let references = CopyMap::from([(1, 2)]);
    /// let put = |count: Option<u32>| count.filter(|&count| count > 1).map(|count| count - 1);
    /// assert_eq!(references.compute(&1, put), Some(1));
    /// assert_eq!(references.compute(&1, put), None);
    /// assert!(references.is_empty());
    /// ```
    #[inline]
    #[track_caller]
    pub fn compute(&self, key: &K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        Operations::compute(self, key, f)
    }

    /// Keeps the entries for which `f` returns `true`, and removes the others.
    ///
    /// Entries are read some 64 at a time, before `f` is asked about each. If one is replaced before it is removed,
    /// `f` is asked about the new one too. Entries that are inserted during the call may stay.
    #[track_caller]
    pub fn retain(&self, f: impl FnMut(K, V) -> bool) {
        Operations::retain(self, f);
    }

    /// Removes all entries. Those that other threads insert during the call may stay.
    pub fn clear(&self) {
        Operations::clear(self);
    }

    /// Makes room for `additional` more entries, and keeps it until [`shrink_to_fit`](Self::shrink_to_fit).
    ///
    /// # Panics
    ///
    /// If the table would be larger than the address space. If there is no memory, the program ends, as with the
    /// standard library.
    #[track_caller]
    pub fn reserve(&self, additional: usize) {
        Operations::reserve(self, additional);
    }

    /// [`reserve`](Self::reserve), which returns an error if there is no memory.
    ///
    /// # Errors
    ///
    /// If there is no memory for the table.
    pub fn try_reserve(&self, additional: usize) -> Result<(), TryReserveError> {
        Operations::try_reserve(self, additional)
    }

    /// Shrinks the table to its entries, and keeps no room.
    pub fn shrink_to_fit(&self) {
        Operations::shrink_to_fit(self);
    }
}

impl<K, V, S, D> fmt::Debug for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq + fmt::Debug,
    V: Plain + fmt::Debug,
    S: BuildHasher,
    D: Domain,
{
    /// Shows the entries, but only their number in [`qsbr`](stillpoint::qsbr) domains, where a handle is needed for
    /// more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = |section: &_| self.within(section).iter().collect::<Vec<_>>();
        match self.tables.domain.with_section(|section| section.map(entries)) {
            Some(entries) => f.debug_map().entries(entries).finish(),
            None => f.debug_struct("CopyMap").field("len", &self.len()).finish_non_exhaustive(),
        }
    }
}
