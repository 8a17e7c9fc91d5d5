//! The map and its operations.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::hash_map::RandomState;

use stillpoint::rcu::{self, Global};

use super::plain::{Pair, Plain, decode, encode};
use super::shape::Words;
use super::tables::Tables;
use crate::hash::hash_of;
use crate::hash_map::TryReserveError;

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
/// A panic in a closure leaves the map as it was, and nothing locked. So does one in a hasher, but a change may have been made
/// by then: hashers are also called for entries that move to another table. These do not run while a bucket is locked, so they
/// may use the map. If a closure changes the entry of the key whose operation calls it, it is called
/// again.
pub struct CopyMap<K: Plain, V: Plain, S = RandomState> {
    pub(super) tables: Tables<Pair<K, V>, Global>,
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
        Self { tables: Tables::new(Global), hasher }
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

    /// Computed once for each operation: a hasher that returns something else each time must not keep one from ending.
    #[inline(always)]
    fn hash_of(&self, key: &K) -> u64 {
        hash_of(&self.hasher, key)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.get_hashed(self.hash_of(key), key)
    }

    #[inline(always)]
    fn get_hashed(&self, hash: u64, key: &K) -> Option<V> {
        let value = self.tables.get(hash, &encode(key), &rcu::enter())?;
        Some(decode(&value))
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
        let pair = [&encode(&key), &encode(&value)];
        let old = self.tables.insert(hash, pair, &self.rehash(), &rcu::enter())?;
        Some(decode(&old))
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        let hash = self.hash_of(key);
        let (Ok(old) | Err(old)) =
            self.tables.remove(hash, &encode(key), None, &self.rehash(), &rcu::enter());
        Some(decode(&old?))
    }

    /// Removes the entry of a key if `f` returns `true` for the value, and returns that. If the value has changed since,
    /// `f` is called again.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let uses = CopyMap::from([(1, 0), (2, 7)]);
    /// assert_eq!(uses.remove_if(&1, |uses| uses == 0), Some(0));
    /// assert_eq!(uses.remove_if(&2, |uses| uses == 0), None);
    /// ```
    pub fn remove_if(&self, key: &K, f: impl FnMut(V) -> bool) -> Option<V> {
        let hash = self.hash_of(key);
        self.remove_value_if(hash, key, self.get_hashed(hash, key)?, f)
    }

    /// [`remove_if`](Self::remove_if) for a key that has `value`, or had it.
    fn remove_value_if(&self, hash: u64, key: &K, mut value: V, mut f: impl FnMut(V) -> bool) -> Option<V> {
        while f(value) {
            match self.remove_exact(hash, key, &value) {
                Ok(()) => return Some(value),
                Err(current) => value = current?,
            }
        }
        None
    }

    /// Removes the entry of a key with this value.
    fn remove_exact(&self, hash: u64, key: &K, value: &V) -> Result<(), Option<V>> {
        let expected = encode(value);
        match self.tables.remove(hash, &encode(key), Some(&expected), &self.rehash(), &rcu::enter()) {
            Ok(_) => Ok(()),
            Err(current) => Err(current.as_ref().map(decode)),
        }
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
        self.exchange_hashed(self.hash_of(&key), &key, current, new)
    }

    #[track_caller]
    fn exchange_hashed(&self, hash: u64, key: &K, current: Option<V>, new: V) -> Result<(), Option<V>> {
        let (pair, expected) = ([&encode(key), &encode(&new)], current.as_ref().map(encode));
        let exchanged = self.tables.exchange(hash, pair, expected.as_ref(), &self.rehash(), &rcu::enter());
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
        let inserted = self.exchange_hashed(hash, &key, None, value);
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
    /// `f` is called again if the value has changed since. One thread or another makes progress; an `f` that takes long may
    /// be called often beside faster writers of the same key.
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
        let hash = self.hash_of(key);
        let mut value = self.get_hashed(hash, key)?;
        loop {
            let new = f(value);
            match self.exchange_hashed(hash, key, Some(value), new) {
                Ok(()) => return Some(new),
                Err(current) => value = current?,
            }
        }
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
        let hash = self.hash_of(&key);
        let mut value = self.get_hashed(hash, &key);
        loop {
            let new = value.map_or_else(&mut insert, &mut update);
            match self.exchange_hashed(hash, &key, value, new) {
                Ok(()) => return new,
                Err(current) => value = current,
            }
        }
    }

    /// [`update_or_insert_with`](Self::update_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn update_or_insert(&self, key: K, update: impl FnMut(V) -> V, value: V) -> V {
        self.update_or_insert_with(key, update, || value)
    }

    /// Replaces the entry of a key by the value that `f` returns, or removes it if `f` returns `None`. `f` gets the value
    /// of the key, if it has one. Returns the value that the key has then.
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
    #[track_caller]
    pub fn compute(&self, key: &K, mut f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        let hash = self.hash_of(key);
        let mut value = self.get_hashed(hash, key);
        loop {
            let new = f(value);
            let changed = match (value, new) {
                (None, None) => return None,
                (current, Some(new)) => self.exchange_hashed(hash, key, current, new),
                (Some(current), None) => self.remove_exact(hash, key, &current),
            };
            match changed {
                Ok(()) => return new,
                Err(current) => value = current,
            }
        }
    }

    /// Keeps the entries for which `f` returns `true`, and removes the others.
    ///
    /// `f` gets the value that the key has when it is asked. If that is replaced before it is removed, `f` is asked about
    /// the new one too. Entries that are inserted during the call may stay.
    pub fn retain(&self, mut f: impl FnMut(K, V) -> bool) {
        for (key, value) in self {
            if !f(key, value) {
                let hash = self.hash_of(&key);
                if let Err(Some(current)) = self.remove_exact(hash, &key, &value) {
                    self.remove_value_if(hash, &key, current, |value| !f(key, value));
                }
            }
        }
    }

    /// Removes all entries. Those that other threads insert during the call may stay.
    pub fn clear(&self) {
        for (key, _) in self {
            self.remove(&key);
        }
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
