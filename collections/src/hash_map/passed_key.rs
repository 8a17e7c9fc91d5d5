//! Keys that an entry passes on to the one that takes its place.
//!
//! An entry does not change, so an update makes another one, which needs the key too. A clone of a `String`
//! allocates. So both entries have the same one: the new entry owns it, and the old one is freed without it.
//!
//! Readers of the old entry may use the key meanwhile. They only read it, as nothing in a `String` changes through a
//! shared reference. Their sections began before the old entry was unlinked, and so before the new one is: the grace
//! period after which the new entry, or the last one of these, is freed waits for them.

use core::any::TypeId;
use core::hash::{BuildHasher, Hash};
use core::mem::{self, ManuallyDrop};
use core::ptr;

use stillpoint::rcu;

use super::map::{Exchanged, ObservedKey, returned};
use super::{Entry, HashMap};
use crate::attempts;
use crate::free_list;
use crate::sync::{Domain, Owned};

/// Returns `true` for the type of keys that are passed on.
#[inline(always)]
pub fn is_passed_on<K: 'static>() -> bool {
    TypeId::of::<K>() == TypeId::of::<String>()
}

/// An entry that has passed its key on. It has the layout of an `Entry<K, V>`.
type Keyless<K, V> = Entry<ManuallyDrop<K>, V>;

impl<K, V, S, D> HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    /// Replaces the entry that was observed by one with its key, which [is passed on](is_passed_on).
    #[inline(always)]
    #[track_caller]
    pub(super) fn pass_key_on<'g>(
        &'g self,
        hash: u64,
        observed: &ObservedKey<'g, K, V, D>,
        value: V,
        guard: &'g D::Section,
    ) -> Exchanged<'g, K, V> {
        assert!(is_passed_on::<K>(), "readers may change it");
        let old = observed.entry.as_ref().expect("it was observed");
        // SAFETY: one of the two keys is dropped: see below. A panic until then would leak the new entry, as the
        // exchange begins by taking it.
        let key = unsafe { ptr::read(&old.key) };
        let new = Owned::from(free_list::new(Entry { hash, key, value }));
        match self.tables.exchange(hash, observed, Some(new), guard) {
            Ok(new) => {
                attempts::note_change(&self.turn, hash);
                let (domain, heap) = (&self.tables.domain, rcu::known_heap_bytes(&old.value));
                let old = observed.entry.as_ptr().cast_mut().cast::<Keyless<K, V>>();
                // SAFETY: the old entry is unlinked. It came from a `Box`, and its key belongs to the new one.
                unsafe {
                    if let Some(heap) = heap {
                        free_list::retire(domain, old, heap);
                    } else {
                        let drop = free_list::drop::<Keyless<K, V>>;
                        domain.retire_raw_with(old.cast(), size_of::<Keyless<K, V>>(), drop, self.options);
                    }
                }
                Ok(new)
            }
            Err(unused) => {
                // The key stays that of the old entry.
                let Entry { key, value, .. } = *returned(unused).into_box();
                mem::forget(key);
                drop(value);
                Err(None)
            }
        }
    }
}
