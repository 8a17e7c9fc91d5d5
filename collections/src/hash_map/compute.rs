//! Changes that depend on the entry.

use core::convert::Infallible;
use core::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use super::passed_key::is_passed_on;
use super::{Entry, HashMap};
use crate::attempts::{self, Attempts};
use crate::free_list;
use crate::hash::hash_of;
use crate::sync::Domain;

/// What to do with the entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<V, T> {
    /// Insert the value, or replace the entry by one with the value.
    Insert(V),
    /// Remove the entry, if there is one.
    Remove,
    /// Change nothing, and return the value in [`Compute::Aborted`].
    Abort(T),
}

/// What was done with the entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute<'g, K, V, T> {
    /// The entry was inserted.
    Inserted(&'g K, &'g V),
    /// The entry was replaced.
    Updated {
        /// The entry before.
        old: (&'g K, &'g V),
        /// The entry now.
        new: (&'g K, &'g V),
    },
    /// The entry was removed, or `None` if there was none.
    Removed(Option<(&'g K, &'g V)>),
    /// Nothing was changed.
    Aborted(T),
}

impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    /// Returns the value of a key. If it has none, inserts the one that `f` returns, with an owned key.
    ///
    /// If several threads do this at the same time, each may call `f`, and all return the same value.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let counts = HashMap::<String, AtomicU64>::new();
    /// let guard = rcu::enter();
    /// for word in ["the", "cat", "the"] {
    ///     // Allocates a `String` for a new word only.
    ///     counts.get_or_insert_with(word, AtomicU64::default, &guard).fetch_add(1, Relaxed);
    /// }
    /// assert_eq!(counts.get("the", &guard).map(|count| count.load(Relaxed)), Some(2));
    /// ```
    #[track_caller]
    pub fn get_or_insert_with<'g, Q>(&'g self, key: &Q, f: impl FnOnce() -> V, guard: &'g D::Section) -> &'g V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        if let Some(entry) = self.tables.find(hash, |entry| key.equivalent(&entry.key), guard) {
            return &entry.value;
        }
        let new = Entry { hash, value: f(), key: key.to_owned() };
        let (Ok((entry, _)) | Err((entry, _))) = self.insert_if_absent(new, guard);
        &entry.value
    }

    /// [`get_or_insert_with`](Self::get_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn get_or_insert<'g, Q>(&'g self, key: &Q, value: V, guard: &'g D::Section) -> &'g V
    where
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_insert_with(key, || value, guard)
    }

    /// Replaces the value of a key by the one that `f` makes of it, and returns the new value. Returns `None` if the
    /// key has no entry.
    ///
    /// `f` is called again if the entry has changed since. After some calls, other writers of the key wait, for up to
    /// a second. So `f` may take long, but if it takes longer than that, writers that are faster may always be first.
    /// The new entry has a clone of the key that the old one has, or the key itself if that is a `String`.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let hits = HashMap::from([("/", 1)]);
    /// let guard = rcu::enter();
    /// assert_eq!(hits.update("/", |old| old + 1, &guard), Some(&2));
    /// assert_eq!(hits.update("/other", |old| old + 1, &guard), None);
    /// ```
    #[track_caller]
    pub fn update<'g, Q>(
        &'g self,
        key: &Q,
        mut f: impl FnMut(&V) -> V,
        guard: &'g D::Section,
    ) -> Option<&'g V>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let new = |entry: Option<(&K, &V)>| {
            entry.map_or(Operation::Abort(()), |(_, old)| Operation::Insert(f(old)))
        };
        let new_value = |computed| match computed {
            Compute::Updated { new: (_, new), .. } => Some(new),
            _ => None,
        };
        self.compute_with(key, |old| old.expect("it inserts nothing").clone(), new, new_value, guard)
    }

    /// Replaces the value of a key by a clone that `f` has changed, and returns the new value. Returns `None` if the
    /// key has no entry.
    ///
    /// An [`update`](Self::update) for values that are changed in place.
    #[track_caller]
    pub fn modify<'g, Q>(&'g self, key: &Q, mut f: impl FnMut(&mut V), guard: &'g D::Section) -> Option<&'g V>
    where
        K: Clone,
        V: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let change = |old: &V| {
            let mut new = old.clone();
            f(&mut new);
            new
        };
        self.update(key, change, guard)
    }

    /// Replaces the value of a key by the one that `update` makes of it. If the key has none, inserts the one that
    /// `insert` returns. Returns the new value.
    ///
    /// `update` or `insert` is called again if the entry has changed since, as in [`update`](Self::update).
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let counts = HashMap::<String, u64>::new();
    /// let guard = rcu::enter();
    /// for word in ["the", "cat", "the"] {
    ///     counts.update_or_insert_with(word, |count| count + 1, || 1, &guard);
    /// }
    /// assert_eq!(counts.get("the", &guard), Some(&2));
    /// ```
    #[track_caller]
    pub fn update_or_insert_with<'g, Q>(
        &'g self,
        key: &Q,
        mut update: impl FnMut(&V) -> V,
        mut insert: impl FnMut() -> V,
        guard: &'g D::Section,
    ) -> &'g V
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        let new = |entry: Option<(&K, &V)>| {
            Operation::<_, Infallible>::Insert(entry.map_or_else(&mut insert, |(_, old)| update(old)))
        };
        let new_value = |computed| match computed {
            Compute::Updated { new: (_, new), .. } | Compute::Inserted(_, new) => new,
            Compute::Removed(_) => unreachable!("it inserts"),
            Compute::Aborted(never) => match never {},
        };
        self.compute_with(key, key_of(key), new, new_value, guard)
    }

    /// [`update_or_insert_with`](Self::update_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn update_or_insert<'g, Q>(
        &'g self,
        key: &Q,
        update: impl FnMut(&V) -> V,
        value: V,
        guard: &'g D::Section,
    ) -> &'g V
    where
        K: Clone,
        V: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.update_or_insert_with(key, update, || value.clone(), guard)
    }

    /// Does with the entry of a key what `f` says, which gets the entry, if there is one.
    ///
    /// `f` is called again if the entry has changed since, as in [`update`](Self::update). An entry that is replaced
    /// keeps its key.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    /// use stillpoint_collections::hash_map::{Compute, Operation};
    ///
    /// let tokens = HashMap::from([("a", 1)]);
    /// let guard = rcu::enter();
    /// // Takes a token, and removes the entry with the last one.
    /// let take = |entry: Option<(&&str, &u32)>| match entry {
    ///     None => Operation::Abort("none left"),
    ///     Some((_, 1)) => Operation::Remove,
    ///     Some((_, left)) => Operation::Insert(left - 1),
    /// };
    /// assert_eq!(tokens.compute(&"a", take, &guard), Compute::Removed(Some((&"a", &1))));
    /// assert_eq!(tokens.compute(&"a", take, &guard), Compute::Aborted("none left"));
    /// ```
    #[track_caller]
    pub fn compute<'g, Q, T>(
        &'g self,
        key: &Q,
        f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
        guard: &'g D::Section,
    ) -> Compute<'g, K, V, T>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        self.compute_with(key, key_of(key), f, |computed| computed, guard)
    }

    /// [`compute`](Self::compute), with what makes the key of a new entry, given that of the entry before, and what the
    /// caller returns.
    #[inline(always)]
    #[track_caller]
    pub(super) fn compute_with<'g, Q, T, R>(
        &'g self,
        key: &Q,
        new_key: impl Fn(Option<&K>) -> K,
        mut f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
        result: impl FnOnce(Compute<'g, K, V, T>) -> R,
        guard: &'g D::Section,
    ) -> R
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.tables.domain.check_section(guard);
        let hash = hash_of(&self.hasher, key);
        // An operation whose turn begins after this may lose once more to the first attempt.
        if self.turn.is_free() {
            if let Some(computed) = self.try_compute(hash, key, &new_key, &mut f, None, guard) {
                return result(computed);
            }
        }
        self.compute_slow(hash, key, new_key, f, result, guard)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn compute_slow<'g, Q, T, R>(
        &'g self,
        hash: u64,
        key: &Q,
        new_key: impl Fn(Option<&K>) -> K,
        mut f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
        result: impl FnOnce(Compute<'g, K, V, T>) -> R,
        guard: &'g D::Section,
    ) -> R
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let mut attempts = Attempts::after_first(&self.turn, hash);
        loop {
            let attempts = Some(&mut attempts);
            if let Some(computed) = self.try_compute(hash, key, &new_key, &mut f, attempts, guard) {
                return result(computed);
            }
        }
    }

    /// An attempt, which is the first one without `attempts`, and does not wait for others then. Returns `None` if the
    /// entry has changed since.
    #[inline(always)]
    #[track_caller]
    fn try_compute<'g, Q, T>(
        &'g self,
        hash: u64,
        key: &Q,
        new_key: &impl Fn(Option<&K>) -> K,
        f: &mut impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
        mut attempts: Option<&mut Attempts<'g>>,
        guard: &'g D::Section,
    ) -> Option<Compute<'g, K, V, T>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let watch = attempts.as_mut().and_then(|attempts| attempts.begin());
        let observed = self.look_up(hash, key, guard);
        let old = observed.entry.as_ref().map(Entry::pair);
        let value = match f(old) {
            Operation::Abort(value) => {
                attempts::end(watch);
                return Some(Compute::Aborted(value));
            }
            Operation::Remove => None,
            Operation::Insert(value) => Some(value),
        };
        let passes_on = old.is_some() && is_passed_on::<K>();
        let new_key = (value.is_some() && !passes_on).then(|| new_key(old.map(|(key, _)| key)));
        attempts::end(watch);
        if let Some(attempts) = attempts {
            attempts.wait();
        }
        let new = match (value, new_key) {
            (None, _) if old.is_none() => return Some(Compute::Removed(None)),
            (None, _) => self.exchange_now(hash, &observed, None, guard),
            (Some(value), None) => self.pass_key_on(hash, &observed, value, guard),
            (Some(value), Some(key)) => {
                let new = free_list::new(Entry { hash, key, value });
                self.exchange_now(hash, &observed, Some(new.into()), guard)
            }
        };
        Some(match (new.ok()?, old) {
            (None, _) => Compute::Removed(old),
            (Some(new), None) => Compute::Inserted(&new.key, &new.value),
            (Some(new), Some(old)) => Compute::Updated { old, new: new.pair() },
        })
    }
}

/// Returns what makes the key of a new entry: a clone of that of the entry before, or `key`, owned.
fn key_of<K: Clone, Q: ToOwned<Owned = K> + ?Sized>(key: &Q) -> impl Fn(Option<&K>) -> K + '_ {
    move |old| old.cloned().unwrap_or_else(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use core::iter;

    use stillpoint::rcu;

    use super::*;

    #[test]
    fn removal_of_no_entry_defeats_no_attempt() {
        let map = HashMap::<u32, u32>::new();
        let mut attempts = Attempts::new(&map.turn, hash_of(&map.hasher, &1));
        let watch = iter::repeat_with(|| attempts.begin()).find_map(|watch| watch);
        let guard = rcu::enter();
        assert_eq!(map.compute(&1, |_| Operation::<_, ()>::Remove, &guard), Compute::Removed(None));
        attempts::end(watch);
    }
}
