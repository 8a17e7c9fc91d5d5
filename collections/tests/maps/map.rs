//! The operations that both maps have, as a trait; and a hash map whose keys and values are counted.

use std::hash::{BuildHasher, Hash};

use stillpoint::EnterSection;
use stillpoint::rcu::{self, Guard, StaticDomain};
use stillpoint_collections::copy_map::Plain;
use stillpoint_collections::hash_map::{Compute, Operation};
use stillpoint_collections::{CopyMap, HashMap};

use crate::counted::{Alive, Counted};
use crate::hashers::Masked;

/// A map, whose guards are inside.
pub trait Map<K, V, S>: Sync {
    /// What an iteration needs, and in which several operations may be made.
    type Section;

    fn enter() -> Self::Section;
    fn with_hasher(hasher: S) -> Self;
    fn with_capacity(entries: usize, hasher: S) -> Self;
    fn insert(&self, key: K, value: V) -> Option<V>;
    fn get(&self, key: K) -> Option<V>;
    fn contains_key(&self, key: K) -> bool;
    fn remove(&self, key: K) -> Option<V>;
    fn remove_if(&self, key: K, f: impl FnMut(V) -> bool) -> Option<V>;
    fn retain(&self, f: impl FnMut(K, V) -> bool);
    fn clear(&self);
    fn update(&self, key: K, f: impl FnMut(V) -> V) -> Option<V>;
    fn update_or_insert(&self, key: K, f: impl FnMut(V) -> V, value: V) -> V;
    /// Returns the value that the key has then.
    fn compute(&self, key: K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V>;
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V;
    fn iter<'m>(&'m self, section: &'m Self::Section) -> impl Iterator<Item = (K, V)> + 'm;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn reserve(&self, entries: usize);
    fn shrink_to_fit(&self);

    /// Inserts `new` if the key has the value `old`. Returns the value that it has otherwise.
    fn compare_exchange(&self, key: K, old: Option<V>, new: V) -> Result<(), Option<V>>
    where
        V: Copy + PartialEq,
    {
        let mut found = None;
        self.compute(key, |value| {
            found = value;
            if value == old { Some(new) } else { value }
        });
        if found == old { Ok(()) } else { Err(found) }
    }

    fn entries(&self) -> Vec<(K, V)> {
        let section = Self::enter();
        self.iter(&section).collect()
    }
}

impl<K, V, S> Map<K, V, S> for HashMap<K, V, S>
where
    K: Copy + Hash + Eq + Send + Sync + 'static,
    V: Copy + Send + Sync + 'static,
    S: BuildHasher + Sync,
{
    type Section = Guard;

    fn enter() -> Guard {
        rcu::enter()
    }
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
    fn contains_key(&self, key: K) -> bool {
        self.contains_key(&key, &rcu::enter())
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
    fn clear(&self) {
        self.clear(&rcu::enter());
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
    fn iter<'m>(&'m self, section: &'m Guard) -> impl Iterator<Item = (K, V)> + 'm {
        self.iter(section).map(|(&key, &value)| (key, value))
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

impl<K, V, S, D> Map<K, V, S> for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq + Sync,
    V: Plain + Sync,
    S: BuildHasher + Sync,
    D: EnterSection + Default,
{
    type Section = ();

    fn enter() {}
    fn with_hasher(hasher: S) -> Self {
        Self::with_hasher_in(hasher, D::default())
    }
    fn with_capacity(entries: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher_in(entries, hasher, D::default())
    }
    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(key, value)
    }
    fn get(&self, key: K) -> Option<V> {
        self.get(&key)
    }
    fn contains_key(&self, key: K) -> bool {
        self.contains_key(&key)
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
    fn clear(&self) {
        self.clear();
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
    fn iter<'m>(&'m self, (): &'m ()) -> impl Iterator<Item = (K, V)> + 'm {
        self.iter()
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
    fn compare_exchange(&self, key: K, old: Option<V>, new: V) -> Result<(), Option<V>> {
        self.compare_exchange(key, old, new)
    }
}

/// A domain of a test, and the number of the keys and values of its maps that exist.
pub trait Counts: StaticDomain<Section = Guard<Self>> {
    fn alive() -> &'static Alive;
}

/// A hash map of numbers, whose keys and values notice when they are used after their drop.
pub struct CountedMap<D: Counts>(HashMap<Counted, Counted, Masked, D>);

fn counted<D: Counts>(number: u64) -> Counted {
    Counted::new(number, D::alive())
}

impl<D: Counts> Map<u64, u64, Masked> for CountedMap<D> {
    type Section = Guard<D>;

    fn enter() -> Guard<D> {
        Guard::enter()
    }
    fn with_hasher(hasher: Masked) -> Self {
        Self(HashMap::with_hasher_in(hasher, *D::INSTANCE))
    }
    fn with_capacity(entries: usize, hasher: Masked) -> Self {
        Self(HashMap::with_capacity_and_hasher_in(entries, hasher, *D::INSTANCE))
    }
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.insert(counted::<D>(key), counted::<D>(value), &Self::enter()).map(Counted::get)
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&counted::<D>(key), &Self::enter()).map(Counted::get)
    }
    fn contains_key(&self, key: u64) -> bool {
        self.0.contains_key(&counted::<D>(key), &Self::enter())
    }
    /// In one of two ways.
    fn remove(&self, key: u64) -> Option<u64> {
        let guard = Self::enter();
        if key % 2 == 1 {
            return self.0.take(&counted::<D>(key), &guard).map(|entry| entry.value.get());
        }
        let (own, value) = self.0.remove_entry(&counted::<D>(key), &guard)?;
        assert_eq!(own.get(), key);
        Some(value.get())
    }
    fn remove_if(&self, key: u64, mut f: impl FnMut(u64) -> bool) -> Option<u64> {
        let guard = Self::enter();
        let removed = self.0.remove_if(&counted::<D>(key), |_, value| f(value.get()), &guard);
        removed.ok()?.map(|(_, value)| value.get())
    }
    fn retain(&self, mut f: impl FnMut(u64, u64) -> bool) {
        self.0.retain(|key, value| f(key.get(), value.get()), &Self::enter());
    }
    fn clear(&self) {
        self.0.clear(&Self::enter());
    }
    fn update(&self, key: u64, mut f: impl FnMut(u64) -> u64) -> Option<u64> {
        let update = |value: &Counted| counted::<D>(f(value.get()));
        self.0.update(&counted::<D>(key), update, &Self::enter()).map(Counted::get)
    }
    fn update_or_insert(&self, key: u64, mut f: impl FnMut(u64) -> u64, value: u64) -> u64 {
        let update = |value: &Counted| counted::<D>(f(value.get()));
        self.0.update_or_insert(&counted::<D>(key), update, counted::<D>(value), &Self::enter()).get()
    }
    fn compute(&self, key: u64, mut f: impl FnMut(Option<u64>) -> Option<u64>) -> Option<u64> {
        let operation = |entry: Option<(&Counted, &Counted)>| match f(entry.map(|(_, value)| value.get())) {
            Some(value) => Operation::Insert(counted::<D>(value)),
            None if entry.is_some() => Operation::Remove,
            None => Operation::Abort(()),
        };
        match self.0.compute(&counted::<D>(key), operation, &Self::enter()) {
            Compute::Inserted(_, new) | Compute::Updated { new: (_, new), .. } => Some(new.get()),
            Compute::Removed(_) | Compute::Aborted(()) => None,
        }
    }
    fn get_or_insert_with(&self, key: u64, f: impl FnOnce() -> u64) -> u64 {
        self.0.get_or_insert_with(&counted::<D>(key), || counted::<D>(f()), &Self::enter()).get()
    }
    fn iter<'m>(&'m self, section: &'m Guard<D>) -> impl Iterator<Item = (u64, u64)> + 'm {
        self.0.iter(section).map(|(key, value)| (key.get(), value.get()))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn capacity(&self) -> usize {
        self.0.capacity(&Self::enter())
    }
    fn reserve(&self, entries: usize) {
        self.0.reserve(entries, &Self::enter());
    }
    fn shrink_to_fit(&self) {
        self.0.shrink_to_fit(&Self::enter());
    }
}
