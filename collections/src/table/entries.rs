//! Entries, of which a slot has the pointer.
//!
//! A writer first looks its key up as a reader does ([`Tables::observe`]). That compares keys, which is code of the
//! program, and brings the lines of the bucket and of the entry into the cache. Then it takes the lock, and makes its
//! change if the chain still has what it has observed: the entry of its key, or no entry that it has not compared.
//! The section keeps the addresses of entries from being used again. Otherwise the writer looks again.

use core::marker::PhantomData;

use super::Tables;
use super::bucket::{Bucket, LINE, Shape, Word};
use super::chain::{Chain, Version};
use super::locked::{Change, Locked, Place};
#[cfg(not(loom))]
use crate::memory;
use crate::sync::{Atomic, Domain, Owned, Shared, share, step};

/// What a map has to know of its entries.
pub trait Hashed: Send + Sync + 'static {
    /// Slots of a bucket.
    const SLOTS: usize = LINE - 2;

    /// Returns the hash of the key.
    fn hash(&self) -> u64;
}

/// The shape of pointers to entries.
pub struct Entries<E, D>(PhantomData<fn() -> (E, D)>);

impl<E: Hashed, D: Domain> Shape for Entries<E, D> {
    type Domain = D;
    type Word = Atomic<E, D>;
    type Loaded<'g> = Shared<'g, E>;
    type Rehash<'a> = ();

    const KEY: usize = 0;
    const VALUE: usize = 1;
    const IS_ENTRY: bool = true;
    const SLOTS: usize = E::SLOTS;

    #[inline(always)]
    fn load<'g>(
        bucket: Bucket<'_, Self>,
        head: u64,
        section: &'g D::Section,
        room: &mut [Shared<'g, E>],
    ) -> usize {
        let mut len = 0;
        // Without branches, as for pairs: so a free slot has an address that is in the cache.
        bucket.for_each(head, |slot, _| {
            let entry = bucket.entry(slot, section);
            room[len] = entry;
            #[cfg(not(loom))]
            memory::prefetch_to_l2(if entry.is_null() { room.as_ptr().cast() } else { entry.as_ptr() });
            len += usize::from(!entry.is_null());
        });
        len
    }

    #[inline(always)]
    fn entry_hash(bucket: Bucket<'_, Self>, slot: usize, section: &D::Section) -> Option<u64> {
        bucket.entry(slot, section).as_ref().map(E::hash)
    }

    #[inline(always)]
    fn copy(from: Bucket<'_, Self>, slot: usize, to: Bucket<'_, Self>, free: usize) {
        // SAFETY: it is only stored.
        to.slot_word(free, 0).store(unsafe { from.slot_word(slot, 0).load_unprotected() });
    }

    #[inline(always)]
    fn clear(bucket: Bucket<'_, Self>, slot: usize) {
        bucket.slot_word(slot, 0).store(Shared::null());
    }

    #[inline(always)]
    fn hash(entries: &[Shared<'_, E>], (): ()) -> u64 {
        entries[0].as_ref().map_or(0, E::hash)
    }
}

// SAFETY: a pointer; zeros are the null pointer.
unsafe impl<E: Hashed, D: Domain> Word for Atomic<E, D> {
    #[cfg(loom)]
    fn zero() -> Self {
        Self::null()
    }
}

impl<'t, E: Hashed, D: Domain> Bucket<'t, Entries<E, D>> {
    #[inline(always)]
    pub fn entry<'g>(self, slot: usize, section: &'g D::Section) -> Shared<'g, E> {
        self.slot_word(slot, 0).load(section)
    }
}

/// What a lookup has seen of a hash, for a change: the map is changed if that is still so.
pub struct Observed<'g, E: Hashed, D: Domain> {
    /// The entry of the key, or null.
    pub entry: Shared<'g, E>,
    /// The slot of the entry, in any bucket.
    slot: usize,
    /// Where it looked. `None` if there was no table.
    chain: Option<(Chain<'g, Entries<E, D>>, Version)>,
}

impl<'g, E: Hashed, D: Domain> Observed<'g, E, D> {
    /// An entry that is to be removed, wherever it is.
    pub fn of(entry: Shared<'g, E>) -> Self {
        Self { entry, slot: 0, chain: None }
    }
}

impl<E: Hashed, D: Domain> Locked<'_, Entries<E, D>> {
    /// Returns `true` if the chain has got no entry of the hash since the key was not found.
    #[inline(always)]
    fn is_absent(&self, hash: u64, observed: &Observed<'_, E, D>, section: &D::Section) -> bool {
        let is_same = |(chain, version): (Chain<'_, _>, _)| {
            let mut is_same = self.has_version(version);
            step!("chain-not-compared", is_same &= chain.is(self.chain));
            is_same
        };
        let mut is_absent = true;
        step!(
            "absence-not-confirmed",
            is_absent = observed.chain.is_some_and(is_same) || !self.chain.has_hash(self.head, hash, section)
        );
        is_absent
    }
}

impl<'t, E: Hashed, D: Domain> Chain<'t, Entries<E, D>> {
    #[cold]
    fn has_hash(self, head: u64, hash: u64, section: &D::Section) -> bool {
        let has_hash = |entry: Shared<'_, E>| entry.as_ref().is_some_and(|entry| entry.hash() == hash);
        self.find(head, hash, |bucket, slot| has_hash(bucket.entry(slot, section))).is_some()
    }

    #[cold]
    fn place_of(
        self,
        head: u64,
        hash: u64,
        entry: Shared<'_, E>,
        section: &D::Section,
    ) -> Option<Place<'t, Entries<E, D>>> {
        self.find(head, hash, |bucket, slot| bucket.entry(slot, section) == entry)
    }
}

impl<E: Hashed, D: Domain> Tables<Entries<E, D>> {
    /// Returns the entry that `is_it`, of those that may have `hash`.
    #[inline(always)]
    pub fn find<'g>(
        &self,
        hash: u64,
        is_it: impl Fn(&'g E) -> bool + Copy,
        section: &'g D::Section,
    ) -> Option<&'g E> {
        let look = move |bucket: Bucket<'g, Entries<E, D>>, slot| {
            bucket.entry(slot, section).as_ref().filter(|entry| is_it(entry))
        };
        self.first_not_moved(hash, section, |chain| chain.search_entries(hash, look))?
    }

    /// [`find`](Self::find), for a change.
    #[inline(always)]
    pub fn observe<'g>(
        &self,
        hash: u64,
        is_it: impl Fn(&'g E) -> bool + Copy,
        section: &'g D::Section,
    ) -> Observed<'g, E, D> {
        let look = move |bucket: Bucket<'g, Entries<E, D>>, slot| {
            let entry = bucket.entry(slot, section);
            entry.as_ref().is_some_and(is_it).then_some((entry, slot))
        };
        let found = self.first_not_moved(hash, section, |chain| {
            let (found, version) = chain.observe(hash, look)?;
            let (entry, slot) = found.unwrap_or_default();
            Ok(Observed { entry, slot, chain: Some((chain, version)) })
        });
        found.unwrap_or_else(|| Observed::of(Shared::null()))
    }

    /// Begins to fetch what lookups of these hashes will need: the buckets, and then the entries.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch_entries(&self, hashes: &[u64], section: &D::Section) {
        self.prefetch(hashes, section);
        let Some(table) = self.current(section) else { return };
        for &hash in hashes {
            let first = |bucket: Bucket<'_, Entries<E, D>>, slot| Some(bucket.entry(slot, section));
            if let Ok(Some(entry)) = table.chain(hash).search(hash, first) {
                memory::prefetch(entry.as_ptr());
            }
        }
    }

    /// Makes `new` the entry of the key that was looked up, or removes that entry, which the caller retires. There is
    /// one of the two.
    ///
    /// # Errors
    ///
    /// If the map has changed since. Returns `new`.
    #[inline(always)]
    #[track_caller]
    pub fn exchange<'g>(
        &self,
        hash: u64,
        observed: &Observed<'g, E, D>,
        new: Option<Owned<E>>,
        section: &'g D::Section,
    ) -> Result<Option<&'g E>, Option<Owned<E>>> {
        let old = observed.entry;
        debug_assert!(new.is_some() || !old.is_null());
        let new = new.map_or(Shared::null(), |new| share::<E, D>(new, section));
        let mut changing = self.begin_change(hash, (), section);
        let chain = &mut changing.chain;
        let (mut is_done, mut change) = (true, Change::NONE);
        if old.is_null() {
            if chain.is_absent(hash, observed, section) {
                change = chain.insert(hash, move |bucket, slot| bucket.slot_word(slot, 0).store(new));
            } else {
                is_done = false;
            }
        } else {
            let mut place = Some(Place { bucket: chain.chain.home, previous: None, slot: observed.slot });
            if chain.chain.home.entry(observed.slot, section) != old {
                place = chain.chain.place_of(chain.head, hash, old, section);
            }
            match place {
                None => is_done = false,
                Some(place) if new.is_null() => change = chain.remove(place),
                Some(Place { bucket, slot, .. }) => bucket.slot_word(slot, 0).store(new),
            }
        }
        self.end_change(changing, change, hash, (), section);
        if is_done {
            return Ok(new.as_ref());
        }
        // SAFETY: it comes from `share` above, and was not stored.
        Err((!new.is_null()).then(|| unsafe { new.into_owned() }))
    }
}
