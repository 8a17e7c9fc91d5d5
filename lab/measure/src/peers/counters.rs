//! Maps whose values are counters: each adds to one in the way that suits it best.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use stillpoint::rcu;

use super::maps::Hasher;

/// What is counted: a number, or a string.
pub trait Counted:
    Hash + Eq + ToOwned<Owned: Hash + Eq + Clone + Borrow<Self> + Send + Sync> + 'static
{
}

impl Counted for u64 {}
impl Counted for str {}

/// A map of counters.
pub trait Counters<Q: Counted + ?Sized>: Default + Send + Sync + 'static {
    /// Name in the report.
    const NAME: &'static str;

    /// Adds one.
    fn add(&self, key: &Q);
}

/// Implements [`Counters`]: the type of the map, its name, and its operations.
macro_rules! counters {
    ($(#[$doc:meta])* $type:ident, $inner:ty, $name:expr, |$map:ident, $key:ident| $add:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $type<Q: Counted + ?Sized>($inner)
        where
            Q::Owned: 'static;

        impl<Q: Counted + ?Sized> Default for $type<Q> {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        impl<Q: Counted + ?Sized> Counters<Q> for $type<Q> {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn add(&self, $key: &Q) {
                let $map = &self.0;
                $add;
            }
        }
    };
}

counters!(
    /// The library's, whose entries are replaced.
    Stillpoint,
    stillpoint_collections::HashMap<Q::Owned, u64, Hasher>,
    harness::report::OURS,
    |map, key| map.update_or_insert(key, |count| count + 1, 1, &rcu::enter())
);

counters!(
    /// The library's, with atomic values.
    StillpointAtomic,
    stillpoint_collections::HashMap<Q::Owned, AtomicU64, Hasher>,
    "stillpoint-atomic",
    |map, key| map.get_or_insert_with(key, AtomicU64::default, &rcu::enter()).fetch_add(1, Relaxed)
);

/// The library's, of pairs that it copies.
#[derive(Debug, Default)]
pub struct CopyMap(stillpoint_collections::CopyMap<u64, u64, Hasher>);

impl Counters<u64> for CopyMap {
    const NAME: &'static str = "stillpoint-copy";

    #[inline(always)]
    fn add(&self, key: &u64) {
        self.0.fetch_add(*key, 1);
    }
}

counters!(
    /// papaya, whose updates need a key.
    Papaya,
    papaya::HashMap<Q::Owned, u64, Hasher>,
    "papaya",
    |map, key| { map.pin().update_or_insert(key.to_owned(), |count| count + 1, 1); }
);

counters!(
    /// papaya, with atomic values.
    PapayaAtomic,
    papaya::HashMap<Q::Owned, AtomicU64, Hasher>,
    "papaya-atomic",
    |map, key| {
        let map = map.pin();
        map.get(key)
            .unwrap_or_else(|| map.get_or_insert_with(key.to_owned(), AtomicU64::default))
            .fetch_add(1, Relaxed);
    }
);

counters!(
    /// dashmap.
    Dashmap,
    dashmap::DashMap<Q::Owned, u64, Hasher>,
    "dashmap",
    |map, key| match map.get_mut(key) {
        Some(mut count) => *count += 1,
        None => *map.entry(key.to_owned()).or_insert(0) += 1,
    }
);

counters!(
    /// scc.
    Scc,
    scc::HashMap<Q::Owned, u64, Hasher>,
    "scc",
    |map, key| if map.update_sync(key, |_, count| *count += 1).is_none() {
        *map.entry_sync(key.to_owned()).or_insert(0).get_mut() += 1;
    }
);

counters!(
    /// scc's map for reads, with atomic values.
    SccIndex,
    scc::HashIndex<Q::Owned, AtomicU64, Hasher>,
    "scc-index",
    |map, key| if map.peek_with(key, |_, count| count.fetch_add(1, Relaxed)).is_none() {
        map.entry_sync(key.to_owned()).or_default().get().fetch_add(1, Relaxed);
    }
);

counters!(
    /// A map behind a lock of the standard library.
    Locked,
    RwLock<hashbrown::HashMap<Q::Owned, u64, Hasher>>,
    "rwlock-hashbrown",
    |map, key| {
        let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
        match map.get_mut(key) {
            Some(count) => *count += 1,
            None => _ = map.insert(key.to_owned(), 1),
        }
    }
);
