//! The feature `rayon`.

use core::borrow::Borrow as _;
use core::hash::{BuildHasher, Hash};

use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator as _};
use stillpoint::EnterSection;

use super::{HashMap, Pinned};
use crate::sync::Domain;

impl<K, V, S, D> IntoParallelIterator for HashMap<K, V, S, D>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    D: Domain,
{
    type Item = (K, V);
    type Iter = rayon::vec::IntoIter<(K, V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.into_iter().collect::<Vec<_>>().into_par_iter()
    }
}

/// The guard of the calling thread keeps the entries, as that thread waits for the others.
impl<'g, K, V, S, D> IntoParallelIterator for &'g Pinned<'_, K, V, S, D>
where
    K: Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    D: EnterSection,
{
    type Item = (&'g K, &'g V);
    type Iter = rayon::vec::IntoIter<(&'g K, &'g V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.iter().collect::<Vec<_>>().into_par_iter()
    }
}

impl<K, V, S, D> ParallelExtend<(K, V)> for &HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Sync,
    D: EnterSection,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_par_iter().for_each(|(key, value)| {
            self.insert(key, value, self.tables.domain.enter_section().borrow());
        });
    }
}

impl<K, V, S, D> ParallelExtend<(K, V)> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Sync,
    D: EnterSection,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).par_extend(entries);
    }
}

impl<K, V, S, D> FromParallelIterator<(K, V)> for HashMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default + Sync,
    D: EnterSection + Default,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}
