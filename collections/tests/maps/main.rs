//! What both maps promise: each test runs on a `HashMap` and on a `CopyMap`.
#![cfg(not(loom))]

mod changes;
#[path = "../hash_map/counted.rs"]
mod counted;
#[path = "../hash_map/hashers.rs"]
mod hashers;
mod tables;
mod torture;
mod weak_hashers;

use std::hash::{BuildHasher, Hash};

use stillpoint::rcu;
use stillpoint_collections::copy_map::Plain;
use stillpoint_collections::hash_map::{Compute, Operation};
use stillpoint_collections::{CopyMap, HashMap};

/// A map, whose guards are inside.
trait Map<K, V, S>: Sync {
    fn with_hasher(hasher: S) -> Self;
    fn with_capacity(entries: usize, hasher: S) -> Self;
    fn insert(&self, key: K, value: V) -> Option<V>;
    fn get(&self, key: K) -> Option<V>;
    fn remove(&self, key: K) -> Option<V>;
    fn remove_if(&self, key: K, f: impl FnMut(V) -> bool) -> Option<V>;
    fn retain(&self, f: impl FnMut(K, V) -> bool);
    fn update(&self, key: K, f: impl FnMut(V) -> V) -> Option<V>;
    fn update_or_insert(&self, key: K, f: impl FnMut(V) -> V, value: V) -> V;
    /// Returns the value that the key has then.
    fn compute(&self, key: K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V>;
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V;
    fn entries(&self) -> Vec<(K, V)>;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn reserve(&self, entries: usize);
    fn shrink_to_fit(&self);
}

impl<K, V, S> Map<K, V, S> for HashMap<K, V, S>
where
    K: Copy + Hash + Eq + Send + Sync + 'static,
    V: Copy + Send + Sync + 'static,
    S: BuildHasher + Sync,
{
    fn with_hasher(hasher: S) -> Self {
        Self::with_hasher(hasher)
    }
    fn with_capacity(entries: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher(entries, hasher)
    }
    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(key, value, &rcu::enter()).copied()
    }
    fn get(&self, key: K) -> Option<V> {
        self.get(&key, &rcu::enter()).copied()
    }
    fn remove(&self, key: K) -> Option<V> {
        self.remove(&key, &rcu::enter()).copied()
    }
    fn remove_if(&self, key: K, mut f: impl FnMut(V) -> bool) -> Option<V> {
        Some(*self.remove_if(&key, |_, &value| f(value), &rcu::enter()).ok()??.1)
    }
    fn retain(&self, mut f: impl FnMut(K, V) -> bool) {
        self.retain(|&key, &value| f(key, value), &rcu::enter());
    }
    fn update(&self, key: K, mut f: impl FnMut(V) -> V) -> Option<V> {
        self.update(&key, |&value| f(value), &rcu::enter()).copied()
    }
    fn update_or_insert(&self, key: K, mut f: impl FnMut(V) -> V, value: V) -> V {
        *self.update_or_insert(&key, |&value| f(value), value, &rcu::enter())
    }
    fn compute(&self, key: K, mut f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        let operation = |entry: Option<(&K, &V)>| match f(entry.map(|(_, &value)| value)) {
            Some(value) => Operation::Insert(value),
            None if entry.is_some() => Operation::Remove,
            None => Operation::Abort(()),
        };
        match self.compute(&key, operation, &rcu::enter()) {
            Compute::Inserted(_, &new) | Compute::Updated { new: (_, &new), .. } => Some(new),
            Compute::Removed(_) | Compute::Aborted(()) => None,
        }
    }
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V {
        *self.get_or_insert_with(&key, f, &rcu::enter())
    }
    fn entries(&self) -> Vec<(K, V)> {
        self.iter(&rcu::enter()).map(|(&key, &value)| (key, value)).collect()
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn capacity(&self) -> usize {
        self.capacity(&rcu::enter())
    }
    fn reserve(&self, entries: usize) {
        self.reserve(entries, &rcu::enter());
    }
    fn shrink_to_fit(&self) {
        self.shrink_to_fit(&rcu::enter());
    }
}

impl<K: Plain + Hash + Eq + Sync, V: Plain + Sync, S: BuildHasher + Sync> Map<K, V, S> for CopyMap<K, V, S> {
    fn with_hasher(hasher: S) -> Self {
        Self::with_hasher(hasher)
    }
    fn with_capacity(entries: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher(entries, hasher)
    }
    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(key, value)
    }
    fn get(&self, key: K) -> Option<V> {
        self.get(&key)
    }
    fn remove(&self, key: K) -> Option<V> {
        self.remove(&key)
    }
    fn remove_if(&self, key: K, f: impl FnMut(V) -> bool) -> Option<V> {
        self.remove_if(&key, f).ok()?
    }
    fn retain(&self, f: impl FnMut(K, V) -> bool) {
        self.retain(f);
    }
    fn update(&self, key: K, f: impl FnMut(V) -> V) -> Option<V> {
        self.update(&key, f)
    }
    fn update_or_insert(&self, key: K, f: impl FnMut(V) -> V, value: V) -> V {
        self.update_or_insert(key, f, value)
    }
    fn compute(&self, key: K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        self.compute(&key, f)
    }
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V {
        self.get_or_insert_with(key, f)
    }
    fn entries(&self) -> Vec<(K, V)> {
        self.iter().collect()
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn capacity(&self) -> usize {
        self.capacity()
    }
    fn reserve(&self, entries: usize) {
        self.reserve(entries);
    }
    fn shrink_to_fit(&self) {
        self.shrink_to_fit();
    }
}

/// Makes tests of functions with a parameter that is the map.
macro_rules! both {
    ($($name:ident: <$key:ty, $value:ty, $hasher:ty>;)+) => {
        mod hash_map {
            use super::*;
            $(
                #[test]
                fn $name() {
                    super::$name::<stillpoint_collections::HashMap<$key, $value, $hasher>>();
                }
            )+
        }
        mod copy_map {
            use super::*;
            $(
                #[test]
                fn $name() {
                    super::$name::<stillpoint_collections::CopyMap<$key, $value, $hasher>>();
                }
            )+
        }
    };
}
use both;
