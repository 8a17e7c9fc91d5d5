//! The map and its operations.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::hash_map::RandomState;

use stillpoint::rcu::Global;

use super::Entry;
use super::attempts::{self, Attempts};
use super::iter::{Iter, Keys, Values};
use super::precedence::Precedence;
use crate::sync::{Domain, Owned, Shared};
use crate::table::Tables;
use crate::walk::Walk;
use crate::writer::Seen;

/// The entry that was stored, if one was, or the one that was not, if the map had changed.
type Exchanged<'g, K, V> = Result<Option<&'g Entry<K, V>>, Option<Owned<Entry<K, V>>>>;

/// A hash map that many threads use at the same time.
///
/// A lookup takes a guard of the map's domain, and returns a reference that is valid as long as the guard. It writes
/// nothing that other threads use, and never waits, also while the table grows or shrinks. Writers of different keys
/// seldom wait for each other. Entries that are replaced or removed are dropped after a grace period.
///
/// The parameter `D` is the domain: [`rcu::Global`](Global) if nothing else is said, another domain of `rcu` or
/// `qsbr`, or an [`srcu::Domain`](stillpoint::srcu::Domain).
///
/// Keys and values do not change in place. To change a value, [replace](Self::update) it, or let it contain atomics or
/// a lock.
///
/// ```
/// use stillpoint::rcu;
/// use stillpoint_collections::HashMap;
///
/// let ages = HashMap::new();
/// let guard = rcu::enter();
/// ages.insert("Ada", 36, &guard);
/// assert_eq!(ages.get("Ada", &guard), Some(&36));
/// assert_eq!(ages.insert("Ada", 37, &guard), Some(&36));
/// assert_eq!(ages.remove("Ada", &guard), Some(&37));
/// assert!(ages.is_empty());
/// ```
///
/// An empty map has no memory, so that it can be a static, with a hasher that is made at compile time:
///
/// ```
/// use std::hash::{BuildHasherDefault, DefaultHasher};
/// use stillpoint::rcu::Global;
/// use stillpoint_collections::HashMap;
///
/// static NAMES: HashMap<u32, String, BuildHasherDefault<DefaultHasher>> =
///     HashMap::with_hasher_in(BuildHasherDefault::new(), Global);
///
/// NAMES.pin().insert(7, "seven".into());
/// assert_eq!(NAMES.pin().get(&7).map(String::as_str), Some("seven"));
/// ```
///
/// A reference cannot outlive its guard:
///
/// ```compile_fail,E0505
/// use stillpoint::rcu;
/// use stillpoint_collections::HashMap;
///
/// let map = HashMap::new();
/// let guard = rcu::enter();
/// let value = map.insert(1, 2, &guard);
/// drop(guard);
/// assert_eq!(value, None);
/// ```
///
/// # Panics
///
/// All methods panic if the guard is one of another [`srcu::Domain`](stillpoint::srcu::Domain) than the map. A panic in
/// a hasher, in `Eq`, or in a closure leaves the map as it was.
///
/// Hashers, `Eq`, closures and destructors do not run while a lock of the map is held, so they may use the map. If a
/// closure or `Eq` changes the entry of the key whose operation calls it, the operation tries again, with the new entry.
/// So it does if another thread changes the entry first; if that happens again and again, other writers of the key
/// wait until the closure returns, each for a second at most. The operation panics if its own code changes the entry in
/// each of a thousand attempts.
pub struct HashMap<K, V, S = RandomState, D: Domain = Global>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    tables: Tables<Entry<K, V>, D>,
    precedence: Precedence,
    hasher: S,
    domain: D,
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> HashMap<K, V> {
    /// Creates an empty map for the readers of [`rcu`](stillpoint::rcu).
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty map with room for `capacity` entries. The table does not shrink below that, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_in(capacity, Global)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> HashMap<K, V, RandomState, D> {
    /// Creates an empty map for the readers of `domain`.
    ///
    /// ```
    /// use stillpoint::{qsbr, srcu};
    /// use stillpoint_collections::HashMap;
    ///
    /// let map = HashMap::new_in(qsbr::Global);
    /// let thread = qsbr::register();
    /// map.insert(1, "one", &thread);
    /// assert_eq!(map.get(&1, &thread), Some(&"one"));
    ///
    /// let domain = srcu::Domain::new();
    /// let map = HashMap::new_in(domain.clone());
    /// map.insert(1, "one", &domain.enter());
    /// assert_eq!(map.get(&1, &domain.enter()), Some(&"one"));
    /// ```
    pub fn new_in(domain: D) -> Self {
        Self::with_hasher_in(RandomState::new(), domain)
    }

    /// [`new_in`](Self::new_in), with room for `capacity` entries. The table does not shrink below that, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn with_capacity_in(capacity: usize, domain: D) -> Self {
        Self::with_capacity_and_hasher_in(capacity, RandomState::new(), domain)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S> HashMap<K, V, S> {
    /// Creates an empty map with a hasher.
    pub const fn with_hasher(hasher: S) -> Self {
        Self::with_hasher_in(hasher, Global)
    }

    /// [`with_capacity`](HashMap::with_capacity), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher_in(capacity, hasher, Global)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> HashMap<K, V, S, D> {
    /// [`new_in`](HashMap::new_in), with a hasher. Does not allocate.
    pub const fn with_hasher_in(hasher: S, domain: D) -> Self {
        Self { tables: Tables::new(), precedence: Precedence::new(), hasher, domain }
    }

    /// [`with_capacity_in`](HashMap::with_capacity_in), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher_in(capacity: usize, hasher: S, domain: D) -> Self {
        Self { tables: Tables::with_capacity(capacity), precedence: Precedence::new(), hasher, domain }
    }

    /// Returns the number of entries.
    ///
    /// It contains each change that happened before. Changes that other threads make at the same time may be missing.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns `true` if the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries that the table has room for before it grows.
    #[track_caller]
    pub fn capacity(&self, guard: &D::Section) -> usize {
        self.domain.check_section(guard);
        self.tables.capacity(guard)
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the domain whose guards the methods take.
    pub fn domain(&self) -> &D {
        &self.domain
    }

    /// Returns an iterator over the entries, in no order.
    ///
    /// It returns each entry once that is in the map from this call to the last one of `next`, whatever other threads do.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let squares: HashMap<u32, u32> = (0..10).map(|n| (n, n * n)).collect();
    /// let guard = rcu::enter();
    /// assert_eq!(squares.iter(&guard).map(|(_, square)| square).sum::<u32>(), 285);
    /// ```
    #[track_caller]
    pub fn iter<'g>(&'g self, guard: &'g D::Section) -> Iter<'g, K, V, D> {
        self.domain.check_section(guard);
        Iter::new(&self.tables, guard)
    }

    /// Returns an iterator over the keys: see [`iter`](Self::iter).
    #[track_caller]
    pub fn keys<'g>(&'g self, guard: &'g D::Section) -> Keys<'g, K, V, D> {
        Keys(self.iter(guard))
    }

    /// Returns an iterator over the values: see [`iter`](Self::iter).
    #[track_caller]
    pub fn values<'g>(&'g self, guard: &'g D::Section) -> Values<'g, K, V, D> {
        Values(self.iter(guard))
    }

    pub(super) fn precedence(&self) -> &Precedence {
        &self.precedence
    }

    pub(super) fn tables_mut(&mut self) -> &mut Tables<Entry<K, V>, D> {
        &mut self.tables
    }
}

impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    #[inline(always)]
    #[track_caller]
    fn find<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.domain.check_section(guard);
        self.tables.find(self.hasher.hash_one(key), |entry| entry.key.borrow() == key, guard)
    }

    #[inline(always)]
    pub(super) fn look_up<'g, Q>(&self, hash: u64, key: &Q, guard: &'g D::Section) -> Seen<'g, Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        Seen::look_up(&self.tables, hash, |entry| entry.key.borrow() == key, guard)
    }

    /// Begins an attempt to change an entry that needs no other code of the program than the comparison of keys.
    #[inline(always)]
    #[track_caller]
    pub(super) fn attempt<'g, Q>(
        &self,
        attempts: &mut Attempts<'_>,
        hash: u64,
        key: &Q,
        guard: &'g D::Section,
    ) -> Seen<'g, Entry<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let watch = attempts.begin();
        let seen = self.look_up(hash, key, guard);
        attempts::end(watch);
        seen
    }

    /// Makes the change that an attempt has prepared: see [`Seen::exchange`].
    #[inline(always)]
    pub(super) fn exchange<'g>(
        &self,
        attempts: &mut Attempts<'_>,
        seen: &Seen<'g, Entry<K, V>>,
        new: Option<Owned<Entry<K, V>>>,
        guard: &'g D::Section,
    ) -> Exchanged<'g, K, V> {
        attempts.give_way();
        let new = seen.exchange(&self.tables, attempts.hash(), new, &self.domain, guard)?;
        attempts.note_change();
        Ok(new)
    }

    /// Returns the value of a key.
    #[inline]
    #[track_caller]
    pub fn get<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(&self.find(key, guard)?.value)
    }

    /// Returns the entry of a key.
    #[inline]
    #[track_caller]
    pub fn get_key_value<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(self.find(key, guard)?.pair())
    }

    /// Returns `true` if the key has an entry.
    #[inline]
    #[track_caller]
    pub fn contains_key<Q>(&self, key: &Q, guard: &D::Section) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key, guard).is_some()
    }

    /// Inserts an entry, or replaces that of the key, and returns the old value.
    ///
    /// The new entry has the new key, while the map of the standard library keeps the one that it has. That is a
    /// difference for keys that are equal, but not the same. Readers may have the old entry, so its key cannot be moved.
    #[inline]
    #[track_caller]
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> Option<&'g V> {
        self.domain.check_section(guard);
        let hash = self.hasher.hash_one(&key);
        let mut new = Owned::new(Entry { hash, key, value });
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let seen = self.attempt(&mut attempts, hash, &new.key, guard);
            match self.exchange(&mut attempts, &seen, Some(new), guard) {
                Ok(_) => return Some(&seen.entry.as_ref()?.value),
                Err(unused) => new = returned(unused),
            }
        }
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    #[track_caller]
    pub fn remove<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(self.remove_entry(key, guard)?.1)
    }

    /// Removes the entry of a key, and returns it.
    #[track_caller]
    pub fn remove_entry<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.domain.check_section(guard);
        let hash = self.hasher.hash_one(key);
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let seen = self.attempt(&mut attempts, hash, key, guard);
            let entry = seen.entry.as_ref()?;
            if self.exchange(&mut attempts, &seen, None, guard).is_ok() {
                return Some(entry.pair());
            }
        }
    }

    /// Keeps the entries for which `f` returns `true`, and removes the others.
    ///
    /// `f` gets the entry that the key has when it is asked. If that is replaced before it is removed, `f` is asked about
    /// the new one too. Entries that are inserted during the call, or take the place of those that stay, may stay. Does
    /// not hash keys again.
    #[track_caller]
    pub fn retain(&self, mut f: impl FnMut(&K, &V) -> bool, guard: &D::Section) {
        self.domain.check_section(guard);
        let (mut walk, mut entries) = (Walk::new(&self.tables, guard), Vec::new());
        while walk.next(|loaded, _| entries.push(loaded)) {
            for entry in entries.drain(..) {
                self.retain_entry(entry, &mut f, guard);
            }
        }
    }

    #[track_caller]
    fn retain_entry<'g>(
        &'g self,
        entry: Shared<'g, Entry<K, V>>,
        f: &mut impl FnMut(&K, &V) -> bool,
        guard: &'g D::Section,
    ) {
        let Some(Entry { key, hash, .. }) = entry.as_ref() else { return };
        let mut attempts = Attempts::new(&self.precedence, *hash);
        let mut first = Some(entry);
        loop {
            let watch = attempts.begin();
            // As code of the program, or another thread, may have replaced it since the walk found it.
            let seen = first.take().and_then(|entry| Seen::look_again(&self.tables, *hash, entry, guard));
            let seen = seen.unwrap_or_else(|| self.look_up(*hash, key, guard));
            let stays = seen.entry.as_ref().is_none_or(|entry| f(&entry.key, &entry.value));
            attempts::end(watch);
            if stays || self.exchange(&mut attempts, &seen, None, guard).is_ok() {
                return;
            }
        }
    }

    /// Removes all entries. Those that other threads insert during the call may stay.
    #[track_caller]
    pub fn clear(&self, guard: &D::Section) {
        self.retain(|_, _| false, guard);
    }

    /// Makes room for `additional` more entries: on return, [`capacity`](Self::capacity) has been that large.
    ///
    /// That takes time in proportion to the table. Without it, the table grows as entries are inserted, each of which
    /// moves a few. The room stays, as after [`with_capacity`](HashMap::with_capacity), until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn reserve(&self, additional: usize, guard: &D::Section) {
        self.domain.check_section(guard);
        self.tables.reserve(additional, &self.domain, guard);
    }

    /// Shrinks the table to its entries, and no longer keeps the room that was reserved.
    ///
    /// That takes time in proportion to the table. Only reserved room needs it: a table shrinks by itself as entries are
    /// removed, until it is as large as was reserved.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let map = HashMap::with_capacity(100_000);
    /// let guard = rcu::enter();
    /// map.insert(1, "one", &guard);
    /// assert!(map.capacity(&guard) >= 100_000);
    /// map.shrink_to_fit(&guard);
    /// assert!(map.capacity(&guard) < 10_000);
    /// ```
    #[track_caller]
    pub fn shrink_to_fit(&self, guard: &D::Section) {
        self.domain.check_section(guard);
        self.tables.shrink_to_fit(&self.domain, guard);
    }
}

/// Returns the entry that was stored.
pub(super) fn inserted<K, V>(new: Option<&Entry<K, V>>) -> &Entry<K, V> {
    new.expect("an exchange returns the entry that it has stored")
}

/// Returns the entry that was not stored.
pub(super) fn returned<K, V>(unused: Option<Owned<Entry<K, V>>>) -> Owned<Entry<K, V>> {
    unused.expect("an exchange returns the entry that it was given")
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S: Default> Default for HashMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K, V, S, D: Domain> fmt::Debug for HashMap<K, V, S, D>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Shows the length. The entries need a guard, which cannot be made here in each kind of domain: for those, use
    /// [`pin`](Self::pin).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashMap").field("len", &self.len()).finish_non_exhaustive()
    }
}
