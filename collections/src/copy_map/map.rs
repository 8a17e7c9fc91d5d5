//! The map.

use std::collections::hash_map::RandomState;

use stillpoint::rcu::Global;

use super::plain::{Pair, Plain, decode, encode};
use crate::hash::mix;
use crate::sync::Domain;
use crate::table::Tables;
use crate::turn::Turn;

/// A hash map of plain pairs that many threads use at the same time: see the [module](super).
///
/// ```
/// use stillpoint_collections::CopyMap;
///
/// let hits = CopyMap::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for page in [1_u32, 2, 1] {
///                 hits.update_or_insert(page, |hits| hits + 1, 1_u64);
///             }
///         });
///     }
/// });
/// assert_eq!((hits.get(&1), hits.get(&2), hits.get(&3)), (Some(8), Some(4), None));
/// ```
///
/// An empty map has no memory, so that it can be a static, with a hasher that is made at compile time:
///
/// ```
/// use std::hash::{BuildHasherDefault, DefaultHasher};
/// use stillpoint_collections::CopyMap;
///
/// static LENGTHS: CopyMap<u32, u32, BuildHasherDefault<DefaultHasher>> =
///     CopyMap::with_hasher(BuildHasherDefault::new());
///
/// LENGTHS.insert(7, 5);
/// assert_eq!(LENGTHS.get(&7), Some(5));
/// ```
///
/// The parameter `D` is the domain: [`rcu::Global`](Global) if nothing else is said. In a domain of `rcu`, and in an
/// [`srcu::Domain`](stillpoint::srcu::Domain), operations begin their sections themselves. Threads of a
/// [`qsbr`](stillpoint::qsbr) domain have handles, with which they use the map [within](Self::within) a section.
///
/// # Panics
///
/// A panic in a closure leaves the map as it was, and nothing locked. So does one in a hasher, or in a
/// `CheckedBitPattern`, but a change may have been made by then: hashers are also called for entries that move to
/// another table, and values are checked when they are returned. None of these runs while a bucket is locked, so they
/// may use the map. If a closure changes the entry of the key whose operation calls it, it is called again. The
/// operation panics if it does so in each of a thousand calls.
pub struct CopyMap<K: Plain, V: Plain, S = RandomState, D: Domain = Global> {
    pub(super) tables: Tables<Pair<K, V, D>>,
    pub(super) turn: Turn,
    pub(super) hasher: S,
}

impl<K: Plain, V: Plain> CopyMap<K, V> {
    /// Creates an empty map. Does not allocate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty map with room for `capacity` entries. The table does not shrink below that, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_in(capacity, Global)
    }
}

impl<K: Plain, V: Plain, D: Domain> CopyMap<K, V, RandomState, D> {
    /// Creates an empty map for the readers of `domain`. Does not allocate.
    ///
    /// ```
    /// use stillpoint::{qsbr, srcu};
    /// use stillpoint_collections::CopyMap;
    ///
    /// let map = CopyMap::new_in(srcu::Domain::new());
    /// map.insert(1, 10);
    /// assert_eq!(map.get(&1), Some(10));
    ///
    /// let map = CopyMap::new_in(qsbr::Global);
    /// let thread = qsbr::register();
    /// map.within(&thread).insert(1, 10);
    /// assert_eq!(map.within(&thread).get(&1), Some(10));
    /// ```
    pub fn new_in(domain: D) -> Self {
        Self::with_hasher_in(RandomState::new(), domain)
    }

    /// [`new_in`](Self::new_in), with room for `capacity` entries. The table does not shrink below that, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    #[track_caller]
    pub fn with_capacity_in(capacity: usize, domain: D) -> Self {
        Self::with_capacity_and_hasher_in(capacity, RandomState::new(), domain)
    }
}

impl<K: Plain, V: Plain, S> CopyMap<K, V, S> {
    /// Creates an empty map with a hasher. Does not allocate.
    pub const fn with_hasher(hasher: S) -> Self {
        Self::with_hasher_in(hasher, Global)
    }

    /// [`with_capacity`](CopyMap::with_capacity), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self::with_capacity_and_hasher_in(capacity, hasher, Global)
    }
}

impl<K: Plain, V: Plain, S, D: Domain> CopyMap<K, V, S, D> {
    /// [`new_in`](CopyMap::new_in), with a hasher. Does not allocate.
    pub const fn with_hasher_in(hasher: S, domain: D) -> Self {
        Self { tables: Tables::new(domain), turn: Turn::new(), hasher }
    }

    /// [`with_capacity_in`](CopyMap::with_capacity_in), with a hasher.
    #[track_caller]
    pub fn with_capacity_and_hasher_in(capacity: usize, hasher: S, domain: D) -> Self {
        Self { tables: Tables::with_capacity(capacity, domain), turn: Turn::new(), hasher }
    }

    /// Returns the number of entries.
    ///
    /// It contains each change that happened before. Changes that other threads make at the same time may be missing.
    /// Takes a load for each CPU.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns `true` if the map has no entries: see [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the domain of the sections in which the map is read.
    pub fn domain(&self) -> &D {
        &self.tables.domain
    }

    /// [`get`](Self::get) with the hasher's `hash` of the key, for a thread that is inside a section. Not stable: for
    /// the C interface.
    #[doc(hidden)]
    #[inline(always)]
    #[track_caller]
    pub fn get_in(&self, hash: u64, key: &K, section: &D::Section) -> Option<V> {
        self.tables.domain.check_section(section);
        self.tables.get(mix(hash), &encode(key), section).map(|value| decode(&value))
    }
}
