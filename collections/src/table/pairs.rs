//! Pairs of plain words, which lie in their slots.

use core::marker::PhantomData;

use super::Tables;
use super::bucket::{Bucket, MAX_WORDS, Section, Shape, Slots, Word, Words, slots_of, tag_of};
use super::locked::{Change, Locked, Place};
use crate::sync::{AtomicU64, Domain, Ordering::*, step};

/// The sizes of keys and values.
pub trait Sizes: Send + Sync + 'static {
    /// The domain of the map.
    type Domain: Domain;
    /// Words of a key.
    const KEY: usize;
    /// Words of a value.
    const VALUE: usize;
    /// Slots of a bucket.
    const SLOTS: usize = slots_of(Self::KEY + Self::VALUE);
}

/// The shape of pairs of such sizes.
pub struct Pairs<T>(PhantomData<T>);

impl<T: Sizes> Shape for Pairs<T> {
    type Domain = T::Domain;
    type Word = AtomicU64;
    type Loaded<'g> = u64;
    type Rehash<'a> = Rehash<'a>;

    const KEY: usize = T::KEY;
    const VALUE: usize = T::VALUE;
    const SLOTS: usize = T::SLOTS;

    #[inline(always)]
    fn load(bucket: Bucket<'_, Self>, head: u64, _: &Section<Self>, room: &mut [u64]) -> usize {
        let mut len = 0;
        // Without branches that depend on tags, which would often be mispredicted.
        bucket.for_each(head, |slot, has_tag| {
            // In models, which lose no time to branches, no further load may take the place of an order.
            if cfg!(loom) && !has_tag {
                return;
            }
            let room = &mut room[len..len + Self::SLOT];
            (0..Self::SLOT).for_each(|index| room[index] = bucket.read(slot, index));
            len += if has_tag { Self::SLOT } else { 0 };
        });
        len
    }

    fn copy(from: Bucket<'_, Self>, slot: usize, to: Bucket<'_, Self>, free: usize) {
        (0..Self::SLOT).for_each(|index| to.write(free, index, from.read(slot, index)));
    }

    fn hash(pair: &[u64], rehash: Rehash<'_>) -> u64 {
        rehash(pair)
    }
}

// SAFETY: a number.
unsafe impl Word for AtomicU64 {
    #[cfg(loom)]
    fn zero() -> Self {
        Self::new(0)
    }
}

/// Computes the hash of the key again with which words begin.
pub type Rehash<'a> = &'a dyn Fn(&[u64]) -> u64;

impl<T: Sizes> Bucket<'_, Pairs<T>> {
    #[inline(always)]
    fn read(self, slot: usize, index: usize) -> u64 {
        // Acquire: the version that was stored before; pairs with the Release in `write`.
        self.slot_word(slot, index).load(Acquire)
    }

    #[inline(always)]
    fn write(self, slot: usize, index: usize, word: u64) {
        // Release: as in `read`.
        self.slot_word(slot, index).store(word, Release);
    }

    #[inline(always)]
    fn has_key(self, slot: usize, key: &Words) -> bool {
        (0..T::KEY).all(|index| self.read(slot, index) == key[index])
    }

    fn key(self, slot: usize) -> Words {
        let mut key = [0; MAX_WORDS];
        (0..T::KEY).for_each(|index| key[index] = self.read(slot, index));
        key
    }

    #[inline(always)]
    fn value(self, slot: usize) -> Words {
        let mut value = [0; MAX_WORDS];
        (0..T::VALUE).for_each(|index| value[index] = self.read(slot, T::KEY + index));
        value
    }

    #[inline(always)]
    fn set_value(self, slot: usize, value: &Words) {
        (0..T::VALUE).for_each(|index| self.write(slot, T::KEY + index, value[index]));
    }

    #[inline(always)]
    fn set_pair(self, slot: usize, [key, value]: [&Words; 2]) {
        (0..T::KEY).for_each(|index| self.write(slot, index, key[index]));
        self.set_value(slot, value);
    }
}

impl<'t, T: Sizes> Locked<'t, Pairs<T>> {
    /// Returns the place of a key, and its value.
    #[inline(always)]
    fn find_key(&self, hash: u64, key: &Words) -> Option<(Place<'t, Pairs<T>>, Words)> {
        let place = self.find(hash, |bucket, slot| bucket.has_key(slot, key))?;
        let value = place.bucket.value(place.slot);
        Some((place, value))
    }

    /// Replaces a value.
    #[inline(always)]
    fn replace(&mut self, place: &Place<'t, Pairs<T>>, value: &Words) {
        let &Place { bucket, previous, slot } = place;
        if <Pairs<T>>::SPARE == 0 {
            return bucket.set_value(slot, value);
        }
        let head = self.head(bucket);
        let spare = Slots::with::<Pairs<T>>(head, 0).next().expect("a slot is free");
        let key = bucket.key(slot);
        bucket.begin_fill();
        if previous.is_some_and(|previous| !self.is_home(previous)) {
            step!("replaced-without-version", self.raise_first_overflow());
        }
        bucket.set_pair(spare, [&key, value]);
        self.set_head(bucket, head & !(0xFF << (8 * slot)) | tag_of(head, slot) << (8 * spare));
    }

    /// Adds a pair whose key the chain does not have.
    #[inline(always)]
    pub fn add(&mut self, hash: u64, pair: [&Words; 2]) -> Change {
        self.insert(hash, |bucket, slot| bucket.set_pair(slot, pair))
    }
}

impl<T: Sizes> Tables<Pairs<T>> {
    /// Returns `false` only if no key has the hash. Looks at one head.
    #[inline(always)]
    fn may_have(&self, hash: u64, section: &Section<Pairs<T>>) -> bool {
        self.first_not_moved(hash, section, |chain| chain.may_have(hash)).unwrap_or(false)
    }

    /// Returns the value of a key.
    #[inline(always)]
    pub fn get(&self, hash: u64, key: &Words, section: &Section<Pairs<T>>) -> Option<Words> {
        let value = |bucket: Bucket<'_, _>, slot| bucket.has_key(slot, key).then(|| bucket.value(slot));
        self.first_not_moved(hash, section, |chain| chain.search(hash, value))?
    }

    /// Makes the value that `f` makes of that of a key its value. Returns the old one. `f` is called under the lock.
    #[inline(always)]
    #[track_caller]
    pub fn upsert(
        &self,
        hash: u64,
        key: &Words,
        f: impl FnOnce(Option<&Words>) -> Words,
        rehash: Rehash<'_>,
        section: &Section<Pairs<T>>,
    ) -> Option<Words> {
        let mut changing = self.begin_change(hash, rehash, section);
        let chain = &mut changing.chain;
        let (old, change) = match chain.find_key(hash, key) {
            Some((place, old)) => {
                chain.replace(&place, &f(Some(&old)));
                (Some(old), Change::NONE)
            }
            None => (None, chain.add(hash, [key, &f(None)])),
        };
        self.end_change(changing, change, hash, rehash, section);
        old
    }

    /// Removes a key. Returns the value that it had.
    #[inline(always)]
    pub fn remove(
        &self,
        hash: u64,
        key: &Words,
        rehash: Rehash<'_>,
        section: &Section<Pairs<T>>,
    ) -> Option<Words> {
        // Nothing is locked for most keys that are not there.
        if !self.may_have(hash, section) {
            return None;
        }
        let mut changing = self.begin_change(hash, rehash, section);
        let (old, change) = match changing.chain.find_key(hash, key) {
            Some((place, old)) => (Some(old), changing.chain.remove(place)),
            None => (None, Change::NONE),
        };
        self.end_change(changing, change, hash, rehash, section);
        old
    }

    /// Makes `new` the value of a key, if it has the one that is `expected`. `None` is no entry.
    ///
    /// # Errors
    ///
    /// If it has another value, or one, or none.
    #[inline(always)]
    #[track_caller]
    pub fn exchange(
        &self,
        hash: u64,
        key: &Words,
        [expected, new]: [Option<&Words>; 2],
        rehash: Rehash<'_>,
        section: &Section<Pairs<T>>,
    ) -> Result<(), Option<Words>> {
        let mut changing = self.begin_change(hash, rehash, section);
        let chain = &mut changing.chain;
        let (place, old) = chain.find_key(hash, key).unzip();
        // Not all words of both, most of which are zero.
        let is_done = old.as_ref().map(|old| &old[..T::VALUE]) == expected.map(|words| &words[..T::VALUE]);
        let change = match (place, new) {
            _ if !is_done => Change::NONE,
            (Some(place), Some(new)) => {
                chain.replace(&place, new);
                Change::NONE
            }
            (Some(place), None) => chain.remove(place),
            (None, Some(new)) => chain.add(hash, [key, new]),
            (None, None) => Change::NONE,
        };
        self.end_change(changing, change, hash, rehash, section);
        if is_done { Ok(()) } else { Err(old) }
    }
}
