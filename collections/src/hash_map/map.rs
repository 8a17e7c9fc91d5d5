//! The map and its operations.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::hash_map::RandomState;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use equivalent::Equivalent;
use stillpoint::rcu::{DeferOptions, Global};

use super::Entry;
use super::iter::{Iter, Keys, Values};
use crate::attempts::{self, Attempts};
use crate::free_list;
use crate::hash::hash_of;
use crate::sync::{Domain, Owned, Shared};
use crate::table::Tables;
use crate::table::entries::{Entries, Observed};
use crate::turn::Turn;

/// The entry that was stored, if one was, or the one that was not, if the map had changed.
pub(super) type Exchanged<'g, K, V> = Result<Option<&'g Entry<K, V>>, Option<Owned<Entry<K, V>>>>;

/// What a lookup has seen of a key.
pub(super) type ObservedKey<'g, K, V, D> = Observed<'g, Entry<K, V>, D>;

/// A hash map that many threads use at the same time.
///
/// A lookup takes a guard of the map's domain, and returns a reference that is valid as long as the guard. It writes
/// nothing that other threads use, and waits for no lock, also while the table grows or shrinks. Writers of different
/// keys seldom wait for each other. Entries that are replaced or removed are dropped after a grace period.
///
/// While the table grows or shrinks, a change moves the bucket of its key and at most eight others, each of six
/// entries or seldom more. Only [`reserve`](Self::reserve) and [`shrink_to_fit`](Self::shrink_to_fit) move all.
///
/// The parameter `D` is the domain: [`rcu::Global`](Global) if nothing else is said, another domain of `rcu` or
/// `qsbr`, or an [`srcu::Domain`](stillpoint::srcu::Domain).
///
/// Keys and values do not change in place. To change a value, [replace](Self::update) it, or let it contain atomics
/// or a lock.
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
/// All methods panic if the guard is one of another [`srcu::Domain`](stillpoint::srcu::Domain) than the map. A panic
/// in a hasher, in `Eq`, or in a closure leaves the map as it was.
///
/// Hashers, `Eq`, closures and destructors do not run while a lock of the map is held, so they may use the map. If a
/// closure or `Eq` changes the entry of the key whose operation calls it, the operation tries again, with the new
/// entry. So it does if another thread changes the entry first; if that happens again and again, other writers of the
/// key wait until the closure returns, each for a second at most. The operation panics if its own code changes the
/// entry in each of a thousand attempts. Entries of other keys count as its own if their hashes are equal.
///
/// Where a bucket has more entries than room, an operation whose `Eq` changes other entries of the bucket each time
/// that it is called may never end: not even a lookup, which starts over if entries come and go meanwhile.
pub struct HashMap<K, V, S = RandomState, D: Domain = Global>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(super) tables: Tables<Entries<Entry<K, V>, D>>,
    pub(super) turn: Turn,
    pub(super) hasher: S,
    /// How entries are retired whose types are not known.
    pub(super) options: DeferOptions,
}

// SAFETY: lends entries to several threads, and passes them from one to another: `K` and `V` are `Send` and `Sync`.
// The compiler would find that out, but not for types of which a value contains a map of such values.
unsafe impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S: Send, D: Domain> Send
    for HashMap<K, V, S, D>
{
}
// SAFETY: as above.
unsafe impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S: Sync, D: Domain> Sync
    for HashMap<K, V, S, D>
{
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
        Self { tables: Tables::new(domain), turn: Turn::new(), hasher, options: DeferOptions::new() }
    }

    /// [`with_capacity_in`](HashMap::with_capacity_in), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher_in(capacity: usize, hasher: S, domain: D) -> Self {
        let tables = Tables::with_capacity(capacity, domain);
        Self { tables, turn: Turn::new(), hasher, options: DeferOptions::new() }
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
        self.tables.domain.check_section(guard);
        self.tables.capacity(guard)
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the domain whose guards the methods take.
    pub fn domain(&self) -> &D {
        &self.tables.domain
    }

    /// Returns an iterator over the entries, in no order.
    ///
    /// It returns each entry once that is in the map from this call to the last one of `next`, whatever other threads
    /// do.
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
        self.tables.domain.check_section(guard);
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

    /// Sets how entries are retired whose types the library does not
    /// [know](stillpoint::rcu::known_heap_bytes); by default, their destructors run in the worker of the domain.
    ///
    /// Strings, numbers and other types of the standard library that only own memory need no option: they are dropped
    /// by the threads that change the map. If the destructors of your types are as harmless, allow that with
    /// [`run_on_retiring_thread`](DeferOptions::run_on_retiring_thread): the thread
    /// that allocated an entry then frees it, where the worker of the domain would.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use stillpoint::rcu::{self, DeferOptions};
    /// use stillpoint_collections::HashMap;
    ///
    /// struct Session {
    ///     user: String,
    /// }
    ///
    /// let options = DeferOptions::new().run_on_retiring_thread().heap_bytes(64);
    /// let sessions = HashMap::new().with_defer_options(options);
    /// let guard = rcu::enter();
    /// sessions.insert(7, Arc::new(Session { user: "ada".into() }), &guard);
    /// assert_eq!(sessions.remove(&7, &guard).map(|session| &*session.user), Some("ada"));
    /// ```
    #[must_use]
    pub const fn with_defer_options(mut self, options: DeferOptions) -> Self {
        self.options = options;
        self
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
    pub(super) fn find<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g Entry<K, V>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        self.tables.find(hash_of(&self.hasher, key), move |entry| key.equivalent(&entry.key), guard)
    }

    #[inline(always)]
    pub(super) fn look_up<'g, Q>(&self, hash: u64, key: &Q, guard: &'g D::Section) -> ObservedKey<'g, K, V, D>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.tables.observe(hash, move |entry| key.equivalent(&entry.key), guard)
    }

    /// Begins an attempt to change an entry that needs no other code of the program than the comparison of keys.
    #[inline(always)]
    #[track_caller]
    pub(super) fn attempt<'g, Q>(
        &self,
        attempts: &mut Attempts<'_>,
        key: &Q,
        guard: &'g D::Section,
    ) -> ObservedKey<'g, K, V, D>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let watch = attempts.begin();
        let observed = self.look_up(attempts.hash(), key, guard);
        attempts::end(watch);
        observed
    }

    /// Makes the change that an attempt has prepared: see [`Tables::exchange`].
    #[inline(always)]
    #[track_caller]
    pub(super) fn exchange<'g>(
        &self,
        attempts: &mut Attempts<'_>,
        observed: &ObservedKey<'g, K, V, D>,
        new: Option<Owned<Entry<K, V>>>,
        guard: &'g D::Section,
    ) -> Exchanged<'g, K, V> {
        attempts.wait();
        self.exchange_now(attempts.hash(), observed, new, guard)
    }

    /// The first attempt, unless an operation has its turn.
    #[inline(always)]
    #[track_caller]
    pub(super) fn exchange_first<'g>(
        &self,
        hash: u64,
        observed: &ObservedKey<'g, K, V, D>,
        new: Option<Owned<Entry<K, V>>>,
        guard: &'g D::Section,
    ) -> Exchanged<'g, K, V> {
        if self.turn.is_free() { self.exchange_now(hash, observed, new, guard) } else { Err(new) }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn exchange_now<'g>(
        &self,
        hash: u64,
        observed: &ObservedKey<'g, K, V, D>,
        new: Option<Owned<Entry<K, V>>>,
        guard: &'g D::Section,
    ) -> Exchanged<'g, K, V> {
        let new = self.tables.exchange(hash, observed, new, guard)?;
        attempts::note_change(&self.turn, hash);
        // SAFETY: it is unlinked.
        unsafe { self.retire(observed.entry) };
        Ok(new)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> HashMap<K, V, S, D> {
    /// Has the domain dispose of an unlinked entry.
    ///
    /// # Safety
    ///
    /// As for `Domain::retire_shared`.
    #[inline(always)]
    pub(super) unsafe fn retire(&self, entry: Shared<'_, Entry<K, V>>) {
        let Some(bytes) = entry.as_ref().and_then(Entry::heap_bytes) else {
            // SAFETY: the caller's contract.
            return unsafe { self.tables.domain.retire_shared(entry, self.options) };
        };
        // SAFETY: the caller's contract; entries come from a `Box`. It only owns memory.
        unsafe { free_list::retire(&self.tables.domain, entry.as_ptr().cast_mut(), bytes) };
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S, D: Domain> Drop for HashMap<K, V, S, D> {
    /// Drops the entries, also those after one whose destructor panics, and then continues the panic.
    fn drop(&mut self) {
        let mut panic = None;
        self.tables.take_all(|entry| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(entry))) {
                panic.get_or_insert(payload);
            }
        });
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
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

impl<K, V, S, D> Default for HashMap<K, V, S, D>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Default,
    D: Domain + Default,
{
    fn default() -> Self {
        Self::with_hasher_in(S::default(), D::default())
    }
}

impl<K, V, S, D> fmt::Debug for HashMap<K, V, S, D>
where
    K: fmt::Debug + Eq + Send + Sync + 'static,
    V: fmt::Debug + Send + Sync + 'static,
    D: Domain,
{
    /// Shows the entries, but only their number in [`qsbr`](stillpoint::qsbr) domains, where a handle is needed for
    /// more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.domain.with_section(|section| match section {
            Some(section) => f.debug_map().entries(self.iter(section)).finish(),
            None => f.debug_struct("HashMap").field("len", &self.len()).finish_non_exhaustive(),
        })
    }
}
