//! Iterators over maps.

use core::fmt;
use core::iter::FusedIterator;
use std::vec;

use super::Entry;
use crate::sync::{Domain, Owned, Shared};
use crate::table::Tables;
use crate::table::entries::Entries;
use crate::table::walk::Walk;

/// An iterator over the entries of a map: see [`HashMap::iter`](super::HashMap::iter).
pub struct Iter<'g, K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> {
    tables: &'g Tables<Entries<Entry<K, V>, D>>,
    section: &'g D::Section,
    walk: Walk<Shared<'g, Entry<K, V>>>,
}

impl<'g, K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> Iter<'g, K, V, D> {
    pub(super) fn new(tables: &'g Tables<Entries<Entry<K, V>, D>>, section: &'g D::Section) -> Self {
        Self { tables, section, walk: Walk::new(tables, section) }
    }

    /// Returns the next entry.
    #[inline(always)]
    pub(super) fn next_entry(&mut self) -> Option<Shared<'g, Entry<K, V>>> {
        Some(self.walk.next(1, |walk| _ = walk.load(self.tables, (), self.section, usize::MAX))?[0])
    }
}

impl<'g, K: Eq + Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> Iterator for Iter<'g, K, V, D> {
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry()?.as_ref().map(Entry::pair)
    }
}

impl<K: Eq + Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> FusedIterator for Iter<'_, K, V, D> {}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> fmt::Debug for Iter<'_, K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

/// An iterator over the keys of a map: see [`HashMap::keys`](super::HashMap::keys).
#[derive(Debug)]
pub struct Keys<'g, K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain>(
    pub(super) Iter<'g, K, V, D>,
);

impl<'g, K: Eq + Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> Iterator for Keys<'g, K, V, D> {
    type Item = &'g K;

    fn next(&mut self) -> Option<&'g K> {
        Some(self.0.next()?.0)
    }
}

/// An iterator over the values of a map: see [`HashMap::values`](super::HashMap::values).
#[derive(Debug)]
pub struct Values<'g, K: Send + Sync + 'static, V: Send + Sync + 'static, D: Domain>(
    pub(super) Iter<'g, K, V, D>,
);

impl<'g, K: Eq + Send + Sync + 'static, V: Send + Sync + 'static, D: Domain> Iterator
    for Values<'g, K, V, D>
{
    type Item = &'g V;

    fn next(&mut self) -> Option<&'g V> {
        Some(self.0.next()?.1)
    }
}

/// An iterator over the entries of a map that it has taken: see `HashMap::into_iter`.
pub struct IntoIter<K, V>(pub(super) vec::IntoIter<Owned<Entry<K, V>>>);

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let Entry { key, value, .. } = *self.0.next()?.into_box();
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> ExactSizeIterator for IntoIter<K, V> {}
impl<K, V> FusedIterator for IntoIter<K, V> {}

impl<K, V> fmt::Debug for IntoIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("len", &self.len()).finish_non_exhaustive()
    }
}
