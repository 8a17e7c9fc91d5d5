//! Changes that depend on the entry.

use core::convert::Infallible;
use core::hash::{BuildHasher, Hash};

use super::attempts::{self, Attempts};
use super::map::{inserted, returned};
use super::{Entry, HashMap};
use crate::hash::hash_of;
use crate::sync::{Domain, Owned};

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
    /// Returns the value of a key. If it has none, inserts the one that `f` returns.
    ///
    /// If several threads do this at the same time, each may call `f`, and all return the same value.
    ///
    /// ```
    /// use stillpoint::rcu;
    /// use stillpoint_collections::HashMap;
    ///
    /// let lengths = HashMap::new();
    /// let guard = rcu::enter();
    /// assert_eq!(lengths.get_or_insert_with("four", || 4, &guard), &4);
    /// assert_eq!(lengths.get_or_insert_with("four", || unreachable!(), &guard), &4);
    /// ```
    #[track_caller]
    pub fn get_or_insert_with<'g>(&'g self, key: K, f: impl FnOnce() -> V, guard: &'g D::Section) -> &'g V {
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        if let Some(entry) = self.tables.find(hash, |entry| entry.key == key, guard) {
            return &entry.value;
        }
        let new = Entry { hash, value: f(), key };
        let (Ok(entry) | Err((entry, _))) = self.insert_if_absent(new, guard);
        &entry.value
    }

    /// [`get_or_insert_with`](Self::get_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn get_or_insert<'g>(&'g self, key: K, value: V, guard: &'g D::Section) -> &'g V {
        self.get_or_insert_with(key, || value, guard)
    }

    /// Replaces the value of a key by the one that `f` makes of it, and returns the new value. Returns `None` if the
    /// key has no entry.
    ///
    /// `f` is called again if the entry has changed since. After some calls, other writers of the key wait, for up
    /// to a second. So `f` may take long, but if it takes longer than that, writers that are faster may always be first.
    /// The entry gets the new key, as with [`insert`](Self::insert).
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
    pub fn update<'g>(&'g self, key: K, mut f: impl FnMut(&V) -> V, guard: &'g D::Section) -> Option<&'g V> {
        match self.compute(
            key,
            |entry| entry.map_or(Operation::Abort(()), |(_, old)| Operation::Insert(f(old))),
            guard,
        ) {
            Compute::Updated { new: (_, new), .. } => Some(new),
            _ => None,
        }
    }

    /// Replaces the value of a key by a clone that `f` has changed, and returns the new value. Returns `None` if the
    /// key has no entry.
    ///
    /// An [`update`](Self::update) for values that are changed in place.
    #[track_caller]
    pub fn modify<'g>(&'g self, key: K, mut f: impl FnMut(&mut V), guard: &'g D::Section) -> Option<&'g V>
    where
        V: Clone,
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
    /// let counts = HashMap::new();
    /// let guard = rcu::enter();
    /// for word in ["the", "cat", "the"] {
    ///     counts.update_or_insert_with(word, |count| count + 1, || 1, &guard);
    /// }
    /// assert_eq!(counts.get("the", &guard), Some(&2));
    /// ```
    #[track_caller]
    pub fn update_or_insert_with<'g>(
        &'g self,
        key: K,
        mut update: impl FnMut(&V) -> V,
        mut insert: impl FnMut() -> V,
        guard: &'g D::Section,
    ) -> &'g V {
        let new = |entry: Option<(&K, &V)>| {
            Operation::<_, Infallible>::Insert(entry.map_or_else(&mut insert, |(_, old)| update(old)))
        };
        match self.compute(key, new, guard) {
            Compute::Updated { new: (_, new), .. } | Compute::Inserted(_, new) => new,
            Compute::Removed(_) => unreachable!("it inserts"),
            Compute::Aborted(never) => match never {},
        }
    }

    /// [`update_or_insert_with`](Self::update_or_insert_with) for a value that is there.
    #[track_caller]
    pub fn update_or_insert<'g>(
        &'g self,
        key: K,
        update: impl FnMut(&V) -> V,
        value: V,
        guard: &'g D::Section,
    ) -> &'g V
    where
        V: Clone,
    {
        self.update_or_insert_with(key, update, || value.clone(), guard)
    }

    /// Does with the entry of a key what `f` says, which gets the entry, if there is one.
    ///
    /// `f` is called again if the entry has changed since, as in [`update`](Self::update). The entry gets the new
    /// key, as with [`insert`](Self::insert).
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
    /// assert_eq!(tokens.compute("a", take, &guard), Compute::Removed(Some((&"a", &1))));
    /// assert_eq!(tokens.compute("a", take, &guard), Compute::Aborted("none left"));
    /// ```
    #[track_caller]
    pub fn compute<'g, T>(
        &'g self,
        mut key: K,
        mut f: impl FnMut(Option<(&'g K, &'g V)>) -> Operation<V, T>,
        guard: &'g D::Section,
    ) -> Compute<'g, K, V, T> {
        self.domain.check_section(guard);
        let hash = hash_of(&self.hasher, &key);
        let mut attempts = Attempts::new(&self.precedence, hash);
        loop {
            let watch = attempts.begin();
            let seen = self.look_up(hash, &key, guard);
            let old = seen.entry.as_ref().map(Entry::pair);
            let operation = f(old);
            attempts::end(watch);
            match operation {
                Operation::Abort(value) => return Compute::Aborted(value),
                Operation::Remove => {
                    if self.exchange(&mut attempts, &seen, None, guard).is_ok() {
                        return Compute::Removed(old);
                    }
                }
                Operation::Insert(value) => {
                    let new = Owned::new(Entry { hash, key, value });
                    match (self.exchange(&mut attempts, &seen, Some(new), guard), old) {
                        (Ok(new), Some(old)) => return Compute::Updated { old, new: inserted(new).pair() },
                        (Ok(new), None) => {
                            return Compute::Inserted(&inserted(new).key, &inserted(new).value);
                        }
                        (Err(unused), _) => key = returned(unused).into_box().key,
                    }
                }
            }
        }
    }
}
