//! The map and its operations.

use core::array;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::mem;
use core::num::Wrapping;
use core::ops::Add;
use std::collections::hash_map::RandomState;

use bytemuck::bytes_of;
use stillpoint::rcu::{self, Global};

use super::plain::{Pair, Plain, decode, encode};
use crate::attempts::{self, Attempts};
use crate::hash::{hash_of, mix};
use crate::hash_map::TryReserveError;
use crate::table::Tables;
use crate::table::bucket::Words;
use crate::table::walk::Walk;
use crate::turn::Turn;

/// A hash map of plain pairs that many threads use at the same time: see the [module](super).
///
/// ```
/// use stillpoint_collections::CopyMap;
///
/// let hits = CopyMap::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for page in [1_u32, 2, 1] {
///                 hits.update_or_insert(page, |hits| hits + 1, 1_u64);
///             }
///         });
///     }
/// });
/// assert_eq!((hits.get(&1), hits.get(&2), hits.get(&3)), (Some(8), Some(4), None));
/// ```
///
/// An empty map has no memory, so that it can be a static, with a hasher that is made at compile time:
///
/// ```
/// use std::hash::{BuildHasherDefault, DefaultHasher};
/// use stillpoint_collections::CopyMap;
///
/// static LENGTHS: CopyMap<u32, u32, BuildHasherDefault<DefaultHasher>> =
///     CopyMap::with_hasher(BuildHasherDefault::new());
///
/// LENGTHS.insert(7, 5);
/// assert_eq!(LENGTHS.get(&7), Some(5));
/// ```
///
/// # Panics
///
/// A panic in a closure leaves the map as it was, and nothing locked. So does one in a hasher, or in a
/// `CheckedBitPattern`, but a change may have been made by then: hashers are also called for entries that move to
/// another table, and values are checked when they are returned. None of these runs while a bucket is locked, so they
/// may use the map. If a closure changes the entry of the key whose operation calls it, it is called again. The
/// operation panics if it does so in each of a thousand calls.
pub struct CopyMap<K: Plain, V: Plain, S = RandomState> {
    pub(super) tables: Tables<Pair<K, V>>,
    turn: Turn,
    pub(super) hasher: S,
}

impl<K: Plain, V: Plain> CopyMap<K, V> {
    /// Creates an empty map. Does not allocate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty map with room for `capacity` entries. The table does not shrink below that, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self
    where
        K: Hash + Eq,
    {
        Self::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<K: Plain, V: Plain, S> CopyMap<K, V, S> {
    /// Creates an empty map with a hasher. Does not allocate.
    pub const fn with_hasher(hasher: S) -> Self {
        Self { tables: Tables::new(Global), turn: Turn::new(), hasher }
    }

    /// Returns the number of entries.
    ///
    /// It contains each change that happened before. Changes that other threads make at the same time may be missing.
    /// Takes a load for each CPU.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns `true` if the map has no entries: see [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries that the table has room for before it grows.
    pub fn capacity(&self) -> usize {
        self.tables.capacity(&rcu::enter())
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher> CopyMap<K, V, S> {
    /// [`with_capacity`](CopyMap::with_capacity), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        let map = Self::with_hasher(hasher);
        if capacity > 0 {
            map.reserve(capacity);
        }
        map
    }

    #[inline(always)]
    pub(super) fn rehash(&self) -> impl Fn(&Words) -> u64 + '_ {
        |key| hash_of(&self.hasher, &decode::<K>(key))
    }

    /// Computed once for each operation: a hasher that returns something else each time must not keep one from
    /// ending.
    #[inline(always)]
    fn hash_of(&self, key: &K) -> u64 {
        hash_of(&self.hasher, key)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.get_hashed(self.hash_of(key), key)
    }

    /// [`get`](Self::get) with the hasher's `hash` of the key, for a thread that is inside a section. Not stable: for
    /// the C interface.
    #[doc(hidden)]
    #[inline(always)]
    pub fn get_in(&self, hash: u64, key: &K, section: &rcu::Guard) -> Option<V> {
        self.tables.get(mix(hash), &encode(key), section).map(|value| decode(&value))
    }

    #[inline(always)]
    fn get_hashed(&self, hash: u64, key: &K) -> Option<V> {
        let value = self.tables.get(hash, &encode(key), &rcu::enter())?;
        Some(decode(&value))
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
        let hashes = keys.map(|key| self.hash_of(key));
        self.tables.prefetch(&hashes, &rcu::enter());
        array::from_fn(|index| self.get_hashed(hashes[index], keys[index]))
    }

    /// Returns `true` if the key has an entry.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts an entry, or replaces the value of the key, and returns the old one.
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let hash = self.hash_of(&key);
        self.upsert(hash, &key, |_| encode(&value))
    }

    /// Makes the value that `f` makes of that of a key its value, and returns the one before. `f` runs under the
    /// lock, so it calls no code of the program: nor does it [`decode`] types of the program.
    #[inline(always)]
    #[track_caller]
    fn upsert(&self, hash: u64, key: &K, f: impl FnOnce(Option<&Words>) -> Words) -> Option<V> {
        self.turn.wait(hash, &mut 0);
        let old = self.tables.upsert(hash, &encode(key), f, &self.rehash(), &rcu::enter());
        attempts::note_change(&self.turn, hash);
        Some(decode(&old?))
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
        // Only integers of the standard library can be added so, which are decoded without code of the program.
        let add = |old: &Words| (Wrapping(decode::<V>(old)) + Wrapping(by)).0;
        self.upsert(self.hash_of(&key), &key, |old| encode(&old.map_or(by, add)))
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        let hash = self.hash_of(key);
        self.turn.wait(hash, &mut 0);
        let old = self.tables.remove(hash, &encode(key), &self.rehash(), &rcu::enter())?;
        attempts::note_change(&self.turn, hash);
        Some(decode(&old))
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
    pub fn remove_if(&self, key: &K, mut f: impl FnMut(V) -> bool) -> Result<Option<V>, V> {
        let mut found = None;
        let stays = self.compute(key, |value| {
            found = value;
            value.filter(|&value| !f(value))
        });
        stays.map_or(Ok(found), Err)
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
        let hash = self.hash_of(&key);
        self.turn.wait(hash, &mut 0);
        self.exchange(hash, &key, current, Some(new))
    }

    #[inline(always)]
    #[track_caller]
    fn exchange(&self, hash: u64, key: &K, current: Option<V>, new: Option<V>) -> Result<(), Option<V>> {
        let [current, new] = [current, new].map(|value| value.as_ref().map(encode));
        let values = [current.as_ref(), new.as_ref()];
        let exchanged = self.tables.exchange(hash, &encode(key), values, &self.rehash(), &rcu::enter());
        if exchanged.is_ok() {
            attempts::note_change(&self.turn, hash);
        }
        exchanged.map_err(|current| current.as_ref().map(decode))
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
        let hash = self.hash_of(&key);
        if let Some(value) = self.get_hashed(hash, &key) {
            return value;
        }
        let value = f();
        self.turn.wait(hash, &mut 0);
        let inserted = self.exchange(hash, &key, None, Some(value));
        inserted.map_or_else(|current| current.expect("an entry, or it is inserted"), |()| value)
    }

    /// [`get_or_insert_with`](Self::get_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn get_or_insert(&self, key: K, value: V) -> V {
        self.get_or_insert_with(key, || value)
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
    pub fn update(&self, key: &K, mut f: impl FnMut(V) -> V) -> Option<V> {
        self.compute(key, |value| value.map(&mut f))
    }

    /// Replaces the value of a key by the one that `update` makes of it, or inserts the one that `insert` returns.
    /// Returns the new value. The closures are called again if the entry has changed since: see
    /// [`update`](Self::update).
    #[track_caller]
    pub fn update_or_insert_with(
        &self,
        key: K,
        mut update: impl FnMut(V) -> V,
        mut insert: impl FnMut() -> V,
    ) -> V {
        let new = self.compute(&key, |value| Some(value.map_or_else(&mut insert, &mut update)));
        new.expect("the closure returns a value")
    }

    /// [`update_or_insert_with`](Self::update_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn update_or_insert(&self, key: K, update: impl FnMut(V) -> V, value: V) -> V {
        self.update_or_insert_with(key, update, || value)
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
        let hash = self.hash_of(key);
        self.compute_from(hash, key, self.get_hashed(hash, key), f)
    }

    /// [`compute`](Self::compute) for a key that has `value`, or had it.
    #[inline(always)]
    #[track_caller]
    fn compute_from(
        &self,
        hash: u64,
        key: &K,
        mut value: Option<V>,
        mut f: impl FnMut(Option<V>) -> Option<V>,
    ) -> Option<V> {
        let mut attempts = Attempts::new(&self.turn, hash);
        loop {
            let watch = attempts.begin();
            let new = f(value);
            attempts::end(watch);
            if value.as_ref().map(bytes_of) == new.as_ref().map(bytes_of) {
                let current = value.and_then(|_| self.get_hashed(hash, key));
                if current.as_ref().map(bytes_of) == new.as_ref().map(bytes_of) {
                    return new;
                }
                value = current;
                continue;
            }
            attempts.wait();
            match self.exchange(hash, key, value, new) {
                Ok(()) => return new,
                Err(current) => value = current,
            }
        }
    }

    /// Keeps the entries for which `f` returns `true`, and removes the others.
    ///
    /// Entries are read a bucket at a time, before `f` is asked about each. If one is replaced before it is removed,
    /// `f` is asked about the new one too. Entries that are inserted during the call may stay.
    pub fn retain(&self, mut f: impl FnMut(K, V) -> bool) {
        self.in_order(|key, value| {
            if !f(key, value) {
                let mut is_asked = true;
                let mut stays = |value: &V| !mem::take(&mut is_asked) && f(key, *value);
                self.compute_from(self.hash_of(&key), &key, Some(value), |value| value.filter(&mut stays));
            }
        });
    }

    /// Calls `f` for each entry, those of a chain in its order: a lookup of one that `f` removes finds it first.
    fn in_order(&self, mut f: impl FnMut(K, V)) {
        let (mut walk, mut pairs) = (Walk::new(&self.tables, &rcu::enter()), Vec::new());
        while walk.next(&self.tables, &self.rehash(), &rcu::enter(), &mut pairs) {
            pairs.drain(..).for_each(|(key, value)| f(decode(&key), decode(&value)));
        }
    }

    /// Removes all entries. Those that other threads insert during the call may stay.
    pub fn clear(&self) {
        self.in_order(|key, _| _ = self.remove(&key));
    }

    /// Makes room for `additional` more entries, and keeps it until [`shrink_to_fit`](Self::shrink_to_fit).
    ///
    /// # Panics
    ///
    /// If the table would be larger than the address space. If there is no memory, the program ends, as with the
    /// standard library.
    #[track_caller]
    pub fn reserve(&self, additional: usize) {
        if let Err(error) = self.tables.reserve(additional, &self.rehash(), &rcu::enter()) {
            error.fail();
        }
    }

    /// [`reserve`](Self::reserve), which returns an error if there is no memory.
    ///
    /// # Errors
    ///
    /// If there is no memory for the table.
    pub fn try_reserve(&self, additional: usize) -> Result<(), TryReserveError> {
        self.tables.reserve(additional, &self.rehash(), &rcu::enter()).map_err(TryReserveError)
    }

    /// Shrinks the table to its entries, and keeps no room.
    pub fn shrink_to_fit(&self) {
        self.tables.shrink_to_fit(&self.rehash(), &rcu::enter());
    }
}

impl<K, V, S> fmt::Debug for CopyMap<K, V, S>
where
    K: Plain + Hash + Eq + fmt::Debug,
    V: Plain + fmt::Debug,
    S: BuildHasher,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
