//! Changes of one entry, or of all.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::error::Error;

use equivalent::Equivalent;

use super::attempts::{self, Attempts};
use super::map::{inserted, returned};
use super::{Entry, HashMap};
use crate::hash::hash_of;
use crate::recycled;
use crate::sync::{Domain, Owned, Shared};
use crate::walk::Walk;
use crate::writer::Seen;

/// The entry that was inserted, or the one that the key has, and the one that was not inserted.
type InsertedIfAbsent<'g, K, V> = Result<&'g Entry<K, V>, (&'g Entry<K, V>, Entry<K, V>)>;

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
    /// difference for keys that are equal, but not the same. Readers may have the old entry, so its key cannot be moved.
    #[inline]
    #[track_caller]
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> Option<&'g V> {
        Some(self.replace(key, value, guard)?.1)
    }

    /// Inserts an entry, or replaces that of the key, and returns the old one.
    #[inline]
    #[track_caller]
    pub fn replace<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> Option<(&'g K, &'g V)> {
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        let mut new = Owned::from(recycled::new(Entry { hash, key, value }));
        if let Some(spot) = self.spot(hash, &new.key, guard) {
            match spot.insert(&self.tables, hash, new, &self.domain, guard) {
                Ok(_) => {
                    attempts::note_change(&self.precedence, hash);
                    return Some(spot.entry.as_ref()?.pair());
                }
                Err(unused) => new = unused,
            }
        }
        self.insert_slow(new, guard)
    }

    #[cold]
    #[track_caller]
    fn insert_slow<'g>(
        &'g self,
        mut new: Owned<Entry<K, V>>,
        guard: &'g D::Section,
    ) -> Option<(&'g K, &'g V)> {
        let hash = new.hash;
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let seen = self.attempt(&mut attempts, hash, &new.key, guard);
            match self.exchange(&mut attempts, &seen, Some(new), guard) {
                Ok(_) => return Some(seen.entry.as_ref()?.pair()),
                Err(unused) => new = returned(unused),
            }
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
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        match self.insert_if_absent(Entry { hash, key, value }, guard) {
            Ok(new) => Ok(&new.value),
            Err((entry, unused)) => Err(OccupiedError { current: &entry.value, not_inserted: unused.value }),
        }
    }

    /// Inserts an entry, unless the key has one.
    #[inline]
    #[track_caller]
    pub(super) fn insert_if_absent<'g>(
        &'g self,
        new: Entry<K, V>,
        guard: &'g D::Section,
    ) -> InsertedIfAbsent<'g, K, V> {
        let hash = new.hash;
        if let Some(spot) = self.spot(hash, &new.key, guard) {
            if let Some(entry) = spot.entry.as_ref() {
                return Err((entry, new));
            }
            return match spot.insert(&self.tables, hash, Owned::from(recycled::new(new)), &self.domain, guard)
            {
                Ok(new) => {
                    attempts::note_change(&self.precedence, hash);
                    Ok(new)
                }
                Err(unused) => self.insert_if_absent_slow(unused, guard),
            };
        }
        self.insert_if_absent_slow(Owned::new(new), guard)
    }

    #[cold]
    #[track_caller]
    fn insert_if_absent_slow<'g>(
        &'g self,
        mut new: Owned<Entry<K, V>>,
        guard: &'g D::Section,
    ) -> InsertedIfAbsent<'g, K, V> {
        let hash = new.hash;
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let seen = self.attempt(&mut attempts, hash, &new.key, guard);
            if let Some(entry) = seen.entry.as_ref() {
                return Err((entry, *new.into_box()));
            }
            match self.exchange(&mut attempts, &seen, Some(new), guard) {
                Ok(new) => return Ok(inserted(new)),
                Err(unused) => new = returned(unused),
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
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        if let Some(spot) = self.spot(hash, key, guard) {
            let entry = spot.entry.as_ref()?;
            if spot.remove(&self.tables, hash, &self.domain, guard) {
                attempts::note_change(&self.precedence, hash);
                return Some(entry.pair());
            }
        }
        self.remove_slow(hash, key, guard)
    }

    #[cold]
    #[track_caller]
    fn remove_slow<'g, Q>(&'g self, hash: u64, key: &Q, guard: &'g D::Section) -> Option<(&'g K, &'g V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let seen = self.attempt(&mut attempts, hash, key, guard);
            let entry = seen.entry.as_ref()?;
            if self.exchange(&mut attempts, &seen, None, guard).is_ok() {
                return Some(entry.pair());
            }
        }
    }

    /// Removes the entry of a key if `f` returns `true` for it, and returns it.
    ///
    /// `f` is called again if the entry has changed since, as in [`update`](Self::update).
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let uses = HashMap::from([("a", 0), ("b", 1)]);
    /// let guard = rcu::enter();
    /// assert_eq!(uses.remove_if("a", |_, &uses| uses == 0, &guard), Some((&"a", &0)));
    /// assert_eq!(uses.remove_if("b", |_, &uses| uses == 0, &guard), None);
    /// ```
    #[track_caller]
    pub fn remove_if<'g, Q>(
        &'g self,
        key: &Q,
        mut f: impl FnMut(&K, &V) -> bool,
        guard: &'g D::Section,
    ) -> Option<(&'g K, &'g V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let watch = attempts.begin();
            let seen = self.look_up(hash, key, guard);
            let entry = seen.entry.as_ref().filter(|entry| f(&entry.key, &entry.value));
            attempts::end(watch);
            let entry = entry?;
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
