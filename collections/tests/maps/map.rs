//! The operations that both maps have, as a trait; and keys and values of hash maps that are counted.

use std::hash::{BuildHasher, Hash, Hasher};
use std::marker::PhantomData;

use stillpoint::EnterSection;
use stillpoint::rcu::{Guard, StaticDomain};
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

/// What an entry of a hash map has for a key or a value of a test.
pub trait Stored<T>: Clone + Send + Sync + 'static {
    fn new(value: T) -> Self;
    fn get(&self) -> T;
}

impl<T: Copy + Send + Sync + 'static> Stored<T> for T {
    fn new(value: T) -> T {
        value
    }
    fn get(&self) -> T {
        *self
    }
}

impl<K, V, S, D, SK, SV> Map<K, V, S> for HashMap<SK, SV, S, D>
where
    SK: Stored<K> + Hash + Eq,
    SV: Stored<V>,
    S: BuildHasher + Sync,
    D: StaticDomain<Section = Guard<D>>,
{
    type Section = Guard<D>;

    fn enter() -> Guard<D> {
        Guard::enter()
    }
    fn with_hasher(hasher: S) -> Self {
        Self::with_hasher_in(hasher, *D::INSTANCE)
    }
    fn with_capacity(entries: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher_in(entries, hasher, *D::INSTANCE)
    }
    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(SK::new(key), SV::new(value), &Guard::enter()).map(SV::get)
    }
    fn get(&self, key: K) -> Option<V> {
        self.get(&SK::new(key), &Guard::enter()).map(SV::get)
    }
    fn contains_key(&self, key: K) -> bool {
        self.contains_key(&SK::new(key), &Guard::enter())
    }
    /// In one of two ways.
    fn remove(&self, key: K) -> Option<V> {
        let (key, guard) = (SK::new(key), Guard::enter());
        if self.len() % 2 == 1 {
            return self.take(&key, &guard).map(|entry| entry.value.get());
        }
        let (own, value) = self.remove_entry(&key, &guard)?;
        assert!(*own == key);
        Some(value.get())
    }
    fn remove_if(&self, key: K, mut f: impl FnMut(V) -> bool) -> Option<V> {
        let guard = Guard::enter();
        let removed = self.remove_if(&SK::new(key), |_, value| f(value.get()), &guard);
        removed.ok()?.map(|(_, value)| value.get())
    }
    fn retain(&self, mut f: impl FnMut(K, V) -> bool) {
        self.retain(|key, value| f(key.get(), value.get()), &Guard::enter());
    }
    fn clear(&self) {
        self.clear(&Guard::enter());
    }
    fn update(&self, key: K, mut f: impl FnMut(V) -> V) -> Option<V> {
        self.update(&SK::new(key), |value| SV::new(f(value.get())), &Guard::enter()).map(SV::get)
    }
    fn update_or_insert(&self, key: K, mut f: impl FnMut(V) -> V, value: V) -> V {
        let update = |value: &SV| SV::new(f(value.get()));
        self.update_or_insert(&SK::new(key), update, SV::new(value), &Guard::enter()).get()
    }
    fn compute(&self, key: K, mut f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        let operation = |entry: Option<(&SK, &SV)>| match f(entry.map(|(_, value)| value.get())) {
            Some(value) => Operation::Insert(SV::new(value)),
            None if entry.is_some() => Operation::Remove,
            None => Operation::Abort(()),
        };
        match self.compute(&SK::new(key), operation, &Guard::enter()) {
            Compute::Inserted(_, new) | Compute::Updated { new: (_, new), .. } => Some(new.get()),
            Compute::Removed(_) | Compute::Aborted(()) => None,
        }
    }
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V {
        self.get_or_insert_with(&SK::new(key), || SV::new(f()), &Guard::enter()).get()
    }
    fn iter<'m>(&'m self, section: &'m Guard<D>) -> impl Iterator<Item = (K, V)> + 'm {
        self.iter(section).map(|(key, value)| (key.get(), value.get()))
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn capacity(&self) -> usize {
        self.capacity(&Guard::enter())
    }
    fn reserve(&self, entries: usize) {
        self.reserve(entries, &Guard::enter());
    }
    fn shrink_to_fit(&self) {
        self.shrink_to_fit(&Guard::enter());
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

/// A number that notices when it is used after its drop.
#[derive(Clone, PartialEq, Eq)]
pub struct CountedIn<D>(Counted, PhantomData<D>);

impl<D> Hash for CountedIn<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<D: Counts> Stored<u64> for CountedIn<D> {
    fn new(number: u64) -> Self {
        Self(Counted::new(number, D::alive()), PhantomData)
    }
    fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A hash map of such numbers.
pub type CountedMap<D> = HashMap<CountedIn<D>, CountedIn<D>, Masked, D>;
