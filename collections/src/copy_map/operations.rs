//! The operations of a map, and of one [within](super::within) a section.

use core::array;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::mem;
use core::num::Wrapping;
use core::ops::Add;

use bytemuck::bytes_of;

use super::map::CopyMap;
use super::plain::{Pair, Plain, decode, encode};
use crate::attempts::{self, Attempts};
use crate::hash::hash_of;
use crate::hash_map::TryReserveError;
use crate::sync::Domain;
use crate::table::bucket::{Shape, Words};
use crate::table::walk::Walk;

/// What has a map, and sections. The methods are explained where they are public, at [`CopyMap`].
pub trait Operations<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: Domain> {
    fn map(&self) -> &CopyMap<K, V, S, D>;

    /// Returns a section for one access to the table. Closures of the program are called between two of them.
    #[track_caller]
    fn section(&self) -> impl Borrow<D::Section>;

    /// Computed once for each operation: a hasher that returns something else each time must not keep one from
    /// ending.
    #[inline(always)]
    fn hash_of(&self, key: &K) -> u64 {
        hash_of(&self.map().hasher, key)
    }

    #[inline(always)]
    fn get_hashed(&self, hash: u64, key: &K) -> Option<V> {
        let value = self.map().tables.get(hash, &encode(key), self.section().borrow())?;
        Some(decode(&value))
    }

    #[inline(always)]
    fn get(&self, key: &K) -> Option<V> {
        self.get_hashed(self.hash_of(key), key)
    }

    #[inline(always)]
    fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    #[inline(always)]
    fn get_many<const N: usize>(&self, keys: [&K; N]) -> [Option<V>; N] {
        let hashes = keys.map(|key| self.hash_of(key));
        self.map().tables.prefetch(&hashes, self.section().borrow());
        array::from_fn(|index| self.get_hashed(hashes[index], keys[index]))
    }

    /// Makes the value that `f` makes of that of a key its value, and returns the one before. `f` runs under the
    /// lock, so it calls no code of the program: nor does it [`decode`] types of the program.
    #[inline(always)]
    #[track_caller]
    fn upsert(&self, key: &K, f: impl FnOnce(Option<&Words>) -> Words) -> Option<V> {
        let (map, hash) = (self.map(), self.hash_of(key));
        map.turn.wait(hash, &mut 0);
        let old = map.tables.upsert(hash, &encode(key), f, &map.rehash(), self.section().borrow());
        attempts::note_change(&map.turn, hash);
        Some(decode(&old?))
    }

    #[inline(always)]
    #[track_caller]
    fn insert(&self, key: K, value: V) -> Option<V> {
        self.upsert(&key, |_| encode(&value))
    }

    #[inline(always)]
    #[track_caller]
    fn fetch_add(&self, key: K, by: V) -> Option<V>
    where
        Wrapping<V>: Add<Output = Wrapping<V>>,
    {
        // Only integers of the standard library can be added so, which are decoded without code of the program.
        let add = |old: &Words| (Wrapping(decode::<V>(old)) + Wrapping(by)).0;
        self.upsert(&key, |old| encode(&old.map_or(by, add)))
    }

    #[inline(always)]
    #[track_caller]
    fn remove(&self, key: &K) -> Option<V> {
        let (map, hash) = (self.map(), self.hash_of(key));
        map.turn.wait(hash, &mut 0);
        let old = map.tables.remove(hash, &encode(key), &map.rehash(), self.section().borrow())?;
        attempts::note_change(&map.turn, hash);
        Some(decode(&old))
    }

    #[track_caller]
    fn remove_if(&self, key: &K, mut f: impl FnMut(V) -> bool) -> Result<Option<V>, V> {
        let mut found = None;
        let stays = self.compute(key, |value| {
            found = value;
            value.filter(|&value| !f(value))
        });
        stays.map_or(Ok(found), Err)
    }

    #[track_caller]
    fn compare_exchange(&self, key: K, current: Option<V>, new: V) -> Result<(), Option<V>> {
        let hash = self.hash_of(&key);
        self.map().turn.wait(hash, &mut 0);
        self.exchange(hash, &key, current, Some(new))
    }

    #[inline(always)]
    #[track_caller]
    fn exchange(&self, hash: u64, key: &K, current: Option<V>, new: Option<V>) -> Result<(), Option<V>> {
        let map = self.map();
        let [current, new] = [current, new].map(|value| value.as_ref().map(encode));
        let values = [current.as_ref(), new.as_ref()];
        let exchanged =
            map.tables.exchange(hash, &encode(key), values, &self.map().rehash(), self.section().borrow());
        if exchanged.is_ok() {
            attempts::note_change(&map.turn, hash);
        }
        exchanged.map_err(|current| current.map(|value| decode(&value)))
    }

    #[track_caller]
    fn get_or_insert_with(&self, key: K, f: impl FnOnce() -> V) -> V {
        let hash = self.hash_of(&key);
        if let Some(value) = self.get_hashed(hash, &key) {
            return value;
        }
        let value = f();
        self.map().turn.wait(hash, &mut 0);
        let inserted = self.exchange(hash, &key, None, Some(value));
        inserted.map_or_else(|current| current.expect("an entry, or it is inserted"), |()| value)
    }

    #[track_caller]
    fn get_or_insert(&self, key: K, value: V) -> V {
        self.get_or_insert_with(key, || value)
    }

    #[track_caller]
    fn update(&self, key: &K, mut f: impl FnMut(V) -> V) -> Option<V> {
        self.compute(key, |value| value.map(&mut f))
    }

    #[track_caller]
    fn update_or_insert(&self, key: K, update: impl FnMut(V) -> V, value: V) -> V {
        self.update_or_insert_with(key, update, || value)
    }

    #[track_caller]
    fn update_or_insert_with(
        &self,
        key: K,
        mut update: impl FnMut(V) -> V,
        mut insert: impl FnMut() -> V,
    ) -> V {
        let new = self.compute(&key, |value| Some(value.map_or_else(&mut insert, &mut update)));
        new.expect("the closure returns a value")
    }

    #[inline(always)]
    #[track_caller]
    fn compute(&self, key: &K, f: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        let hash = self.hash_of(key);
        self.compute_from(hash, key, self.get_hashed(hash, key), f)
    }

    /// [`compute`](Self::compute) for a key that has `value`, or had it.
    #[inline(always)]
    #[track_caller]
    fn compute_from(
        &self,
        hash: u64,
        key: &K,
        mut value: Option<V>,
        mut f: impl FnMut(Option<V>) -> Option<V>,
    ) -> Option<V> {
        let mut attempts = Attempts::new(&self.map().turn, hash);
        loop {
            let watch = attempts.begin();
            let new = f(value);
            attempts::end(watch);
            if value.as_ref().map(bytes_of) == new.as_ref().map(bytes_of) {
                let current = value.and_then(|_| self.get_hashed(hash, key));
                if current.as_ref().map(bytes_of) == new.as_ref().map(bytes_of) {
                    return new;
                }
                value = current;
                continue;
            }
            attempts.wait();
            match self.exchange(hash, key, value, new) {
                Ok(()) => return new,
                Err(current) => value = current,
            }
        }
    }

    /// In the order of the walk, that of chains: a lookup of an entry that is removed finds it first.
    #[track_caller]
    fn retain(&self, mut f: impl FnMut(K, V) -> bool) {
        let mut walk = self.walk();
        while let Some((key, value)) = self.next(&mut walk) {
            if !f(key, value) {
                let mut is_asked = true;
                let mut stays = |value: &V| !mem::take(&mut is_asked) && f(key, *value);
                self.compute_from(self.hash_of(&key), &key, Some(value), |value| value.filter(&mut stays));
            }
        }
    }

    /// As [`retain`](Self::retain).
    fn clear(&self) {
        let mut walk = self.walk();
        while let Some((key, _)) = self.next(&mut walk) {
            self.remove(&key);
        }
    }

    fn walk(&self) -> Walk<u64> {
        Walk::new(&self.map().tables, self.section().borrow())
    }

    /// Returns the next entry of a walk.
    #[inline(always)]
    fn next(&self, walk: &mut Walk<u64>) -> Option<(K, V)> {
        let pair = walk.next(<Pair<K, V, D>>::SLOT, |walk| self.load(walk))?;
        Some((decode(pair), decode(&pair[<Pair<K, V, D>>::KEY..])))
    }

    #[inline(never)]
    fn load(&self, walk: &mut Walk<u64>) {
        // A section for each call: grace periods do not wait for a walk over the empty buckets of a large table.
        while !walk.load(&self.map().tables, &self.map().rehash(), self.section().borrow(), 1024) {}
    }

    fn capacity(&self) -> usize {
        self.map().tables.capacity(self.section().borrow())
    }

    #[track_caller]
    fn reserve(&self, additional: usize) {
        if let Err(TryReserveError(error)) = self.try_reserve(additional) {
            error.fail();
        }
    }

    fn try_reserve(&self, additional: usize) -> Result<(), TryReserveError> {
        let map = self.map();
        map.tables.reserve(additional, &map.rehash(), self.section().borrow()).map_err(TryReserveError)
    }

    fn shrink_to_fit(&self) {
        self.map().tables.shrink_to_fit(&self.map().rehash(), self.section().borrow());
    }
}

impl<K: Plain + Hash, V: Plain, S: BuildHasher, D: Domain> CopyMap<K, V, S, D> {
    /// Returns what computes the hash of a key again that moves.
    #[inline(always)]
    fn rehash(&self) -> impl Fn(&[u64]) -> u64 + '_ {
        |key| hash_of(&self.hasher, &decode::<K>(key))
    }
}
