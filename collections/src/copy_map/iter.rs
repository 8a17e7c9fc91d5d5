//! The iterator over copies of entries.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use stillpoint::EnterSection;
use stillpoint::rcu::Global;

use super::map::CopyMap;
use super::operations::Operations;
use super::plain::Plain;
use crate::sync::Domain;
use crate::table::walk::Walk;

/// An iterator over copies of the entries of a map: see [`CopyMap::iter`].
pub struct Iter<'m, K: Plain, V: Plain, S, D: Domain = Global> {
    map: &'m CopyMap<K, V, S, D>,
    walk: Walk<u64>,
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> CopyMap<K, V, S, D> {
    /// Returns an iterator over copies of the entries, in no order.
    ///
    /// It returns each key once that is in the map from this call to the last one of `next`, whatever other threads
    /// do, with a value that the key had in between. It holds no section and no lock.
    ///
    /// ```
    /// use stillpoint_collections::CopyMap;
    ///
    /// let squares: CopyMap<u32, u32> = (0..10).map(|n| (n, n * n)).collect();
    /// assert_eq!(squares.iter().map(|(_, square)| square).sum::<u32>(), 285);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, S, D> {
        Iter { map: self, walk: self.walk() }
    }

    /// Returns an iterator over copies of the keys: see [`iter`](Self::iter).
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns an iterator over copies of the values: see [`iter`](Self::iter).
    pub fn values(&self) -> impl Iterator<Item = V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> Iterator for Iter<'_, K, V, S, D> {
    type Item = (K, V);

    #[inline]
    fn next(&mut self) -> Option<(K, V)> {
        Operations::next(self.map, &mut self.walk)
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> FusedIterator for Iter<'_, K, V, S, D> {}

impl<K: Plain, V: Plain, S, D: Domain> fmt::Debug for Iter<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
