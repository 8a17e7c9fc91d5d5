//! Changes of one entry, or of all.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::error::Error;

use equivalent::Equivalent;
use stillpoint::rcu::Retired;

use super::iter::Iter;
use super::map::{inserted, returned};
use super::{Compute, Entry, HashMap, Operation};
use crate::attempts::{self, Attempts};
use crate::free_list;
use crate::hash::hash_of;
use crate::sync::{Domain, Owned, Shared};
use crate::table::entries::Observed;

/// The entry that was inserted and the one that it has replaced, or the one that the key has and the one that was not
/// inserted.
type Stored<'g, K, V> = Result<(&'g Entry<K, V>, Option<&'g Entry<K, V>>), (&'g Entry<K, V>, Entry<K, V>)>;

/// The entry that was removed, if there was one, or the one that stays.
type RemovedIf<'g, K, V> = Result<Option<(&'g K, &'g V)>, (&'g K, &'g V)>;

impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    /// Inserts an entry, or replaces that of the key, and returns the old value.
    ///
    /// The new entry has the new key, while the map of the standard library keeps the one that it has. That is a
    /// difference for keys that are equal, but not the same. Readers may have the old entry, so its key cannot be
    /// moved.
    #[inline]
    #[track_caller]
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> Option<&'g V> {
        Some(self.replace(key, value, guard)?.1)
    }

    /// Inserts an entry, or replaces that of the key, and returns the old one.
    #[inline]
    #[track_caller]
    pub fn replace<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> Option<(&'g K, &'g V)> {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        let new = Owned::from(free_list::new(Entry { hash, key, value }));
        let observed = self.look_up(hash, &new.key, guard);
        match self.exchange_first(hash, &observed, Some(new), guard) {
            Ok(_) => Some(observed.entry.as_ref()?.pair()),
            Err(unused) => self.store_slow(returned(unused), false, guard).ok()?.1.map(Entry::pair),
        }
    }

    /// Inserts an entry, unless the key has one, and returns its value.
    ///
    /// # Errors
    ///
    /// If the key has an entry. The error has its value, and the one that was not inserted.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let owners = HashMap::new();
    /// let guard = rcu::enter();
    /// assert_eq!(owners.try_insert("port", "ada", &guard), Ok(&"ada"));
    /// let error = owners.try_insert("port", "bob", &guard).unwrap_err();
    /// assert_eq!((error.current, error.not_inserted), (&"ada", "bob"));
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_insert<'g>(
        &'g self,
        key: K,
        value: V,
        guard: &'g D::Section,
    ) -> Result<&'g V, OccupiedError<'g, V>> {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        match self.insert_if_absent(Entry { hash, key, value }, guard) {
            Ok((new, _)) => Ok(&new.value),
            Err((entry, unused)) => Err(OccupiedError { current: &entry.value, not_inserted: unused.value }),
        }
    }

    /// Inserts an entry with the value that `f` returns, unless the key has one.
    ///
    /// # Errors
    ///
    /// If the key has an entry. The error is its value. If another thread has inserted that while `f` ran, the value
    /// of `f` is dropped.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let names = HashMap::new();
    /// let guard = rcu::enter();
    /// assert_eq!(names.try_insert_with(1, || "one".to_owned(), &guard), Ok(&"one".to_owned()));
    /// assert_eq!(names.try_insert_with(1, || unreachable!(), &guard), Err(&"one".to_owned()));
    /// ```
    #[track_caller]
    pub fn try_insert_with<'g>(
        &'g self,
        key: K,
        f: impl FnOnce() -> V,
        guard: &'g D::Section,
    ) -> Result<&'g V, &'g V> {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        if let Some(entry) = self.tables.find(hash, |entry| entry.key == key, guard) {
            return Err(&entry.value);
        }
        match self.insert_if_absent(Entry { hash, value: f(), key }, guard) {
            Ok((new, _)) => Ok(&new.value),
            Err((entry, _)) => Err(&entry.value),
        }
    }

    /// Inserts an entry, unless the key has one.
    #[inline]
    #[track_caller]
    pub(super) fn insert_if_absent<'g>(
        &'g self,
        new: Entry<K, V>,
        guard: &'g D::Section,
    ) -> Stored<'g, K, V> {
        let hash = new.hash;
        let observed = self.look_up(hash, &new.key, guard);
        if let Some(entry) = observed.entry.as_ref() {
            return Err((entry, new));
        }
        match self.exchange_first(hash, &observed, Some(free_list::new(new).into()), guard) {
            Ok(new) => Ok((inserted(new), None)),
            Err(unused) => self.store_slow(returned(unused), true, guard),
        }
    }

    /// Inserts an entry, after a first attempt. If the key has one, replaces that, or inserts nothing `if_absent`.
    #[cold]
    #[track_caller]
    fn store_slow<'g>(
        &'g self,
        mut new: Owned<Entry<K, V>>,
        if_absent: bool,
        guard: &'g D::Section,
    ) -> Stored<'g, K, V> {
        let mut attempts = Attempts::after_first(&self.turn, new.hash);
        loop {
            let observed = self.attempt(&mut attempts, &new.key, guard);
            match observed.entry.as_ref() {
                Some(entry) if if_absent => return Err((entry, *new.into_box())),
                old => match self.exchange(&mut attempts, &observed, Some(new), guard) {
                    Ok(new) => return Ok((inserted(new), old)),
                    Err(unused) => new = returned(unused),
                },
            }
        }
    }

    /// Removes the entry of a key, and returns the value.
    #[inline]
    #[track_caller]
    pub fn remove<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<&'g V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        Some(self.remove_entry(key, guard)?.1)
    }

    /// Removes the entry of a key, and returns it.
    #[inline]
    #[track_caller]
    pub fn remove_entry<'g, Q>(&'g self, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        let observed = self.look_up(hash, key, guard);
        let entry = observed.entry.as_ref()?;
        if self.exchange_first(hash, &observed, None, guard).is_ok() {
            return Some(entry.pair());
        }
        self.remove_slow(hash, key, guard)
    }

    #[cold]
    #[track_caller]
    fn remove_slow<'g, Q>(&'g self, hash: u64, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let entry = self.unlink(Attempts::after_first(&self.turn, hash), key, guard)?;
        // SAFETY: it is unlinked.
        unsafe { self.retire(entry) };
        entry.as_ref().map(Entry::pair)
    }

    /// Removes the entry of a key, which the caller retires.
    #[track_caller]
    fn unlink<'g, Q>(
        &self,
        mut attempts: Attempts<'_>,
        key: &Q,
        guard: &'g D::Section,
    ) -> Option<Shared<'g, Entry<K, V>>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            let observed = self.attempt(&mut attempts, key, guard);
            observed.entry.as_ref()?;
            attempts.wait();
            if self.tables.exchange(attempts.hash(), &observed, None, guard).is_ok() {
                attempts::note_change(&self.turn, attempts.hash());
                return Some(observed.entry);
            }
        }
    }

    /// Removes the entry of a key if `f` returns `true` for it, and returns it, or `None` if there is none.
    ///
    /// `f` is called again if the entry has changed since, as in [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// If `f` has returned `false`. The error is the entry, which stays.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let uses = HashMap::from([("a", 0), ("b", 1)]);
    /// let guard = rcu::enter();
    /// let is_unused = |_: &&str, &uses: &u32| uses == 0;
    /// assert_eq!(uses.remove_if("a", is_unused, &guard), Ok(Some((&"a", &0))));
    /// assert_eq!(uses.remove_if("a", is_unused, &guard), Ok(None));
    /// assert_eq!(uses.remove_if("b", is_unused, &guard), Err((&"b", &1)));
    /// ```
    #[track_caller]
    pub fn remove_if<'g, Q>(
        &'g self,
        key: &Q,
        mut f: impl FnMut(&K, &V) -> bool,
        guard: &'g D::Section,
    ) -> RemovedIf<'g, K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let remove = |entry| match entry {
            Some((key, value)) if !f(key, value) => Operation::Abort((key, value)),
            _ => Operation::Remove,
        };
        let removed = |computed| match computed {
            Compute::Removed(entry) => Ok(entry),
            Compute::Aborted(entry) => Err(entry),
            _ => unreachable!("it inserts nothing"),
        };
        self.compute_with(key, |_| unreachable!("it inserts nothing"), remove, removed, guard)
    }

    /// Removes the entry of a key, and returns it as its owner, to have it without a clone when its readers are gone:
    /// [wait](Retired::wait) for that outside sections, or `.await` it. Dropping it retires the entry, without the
    /// [options](Self::with_defer_options) of the map.
    ///
    /// ```
    /// use std::net::TcpStream;
    ///
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// fn close(connections: &HashMap<u32, TcpStream>, number: u32) -> Option<TcpStream> {
    ///     let entry = connections.take(&number, &rcu::enter())?;
    ///     Some(entry.wait().value)
    /// }
    /// # assert!(close(&HashMap::new(), 1).is_none());
    /// ```
    #[track_caller]
    pub fn take<Q>(&self, key: &Q, guard: &D::Section) -> Option<Retired<Entry<K, V>, D>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        let entry = self.unlink(Attempts::new(&self.turn, hash), key, guard)?;
        // SAFETY: it is unlinked, and came from a `Box`.
        Some(unsafe { Retired::from_shared(entry, self.tables.domain.clone()) })
    }

    /// Keeps the entries for which `f` returns `true`, and removes the others.
    ///
    /// Entries are read some 64 at a time, before `f` is asked about each. If one is replaced before it is removed,
    /// `f` is asked about the new one too. Entries that are inserted during the call, or take the place of those that
    /// stay, may stay. Does not hash keys again.
    #[track_caller]
    pub fn retain(&self, mut f: impl FnMut(&K, &V) -> bool, guard: &D::Section) {
        self.tables.domain.check_section(guard);
        let mut entries = Iter::new(&self.tables, guard);
        while let Some(entry) = entries.next_entry() {
            if entry.as_ref().is_some_and(|entry| !f(&entry.key, &entry.value)) {
                self.remove_or_ask(entry, &mut f, guard);
            }
        }
    }

    /// Removes an entry, or the one that has taken its place if `f` returns `false` for that.
    #[track_caller]
    fn remove_or_ask<'g>(
        &self,
        entry: Shared<'g, Entry<K, V>>,
        f: &mut impl FnMut(&K, &V) -> bool,
        guard: &'g D::Section,
    ) {
        let Some(Entry { key, hash, .. }) = entry.as_ref() else { return };
        let mut attempts = Attempts::after_first(&self.turn, *hash);
        let mut observed = Observed::of(entry);
        while self.exchange(&mut attempts, &observed, None, guard).is_err() {
            let watch = attempts.begin();
            observed = self.look_up(*hash, key, guard);
            let stays = observed.entry.as_ref().is_none_or(|entry| f(&entry.key, &entry.value));
            attempts::end(watch);
            if stays {
                return;
            }
        }
    }

    /// Removes all entries. Those that other threads insert during the call may stay. The owner of a map can
    /// [`clear_mut`](Self::clear_mut) it, which drops the entries at once.
    #[track_caller]
    pub fn clear(&self, guard: &D::Section) {
        self.retain(|_, _| false, guard);
    }
}

/// The key has an entry: see [`HashMap::try_insert`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OccupiedError<'g, V> {
    /// The value of the entry.
    pub current: &'g V,
    /// The value that was not inserted.
    pub not_inserted: V,
}

impl<V> fmt::Display for OccupiedError<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key has an entry")
    }
}

impl<V: fmt::Debug> Error for OccupiedError<'_, V> {}
