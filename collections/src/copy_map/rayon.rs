//! The feature `rayon`.

use core::hash::{BuildHasher, Hash};

use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator as _};
use stillpoint::EnterSection;

use super::map::CopyMap;
use super::plain::Plain;

/// Of copies: see [`CopyMap::iter`].
impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher, D: EnterSection> IntoParallelIterator
    for &CopyMap<K, V, S, D>
{
    type Item = (K, V);
    type Iter = rayon::vec::IntoIter<(K, V)>;

    fn into_par_iter(self) -> Self::Iter {
        self.iter().collect::<Vec<_>>().into_par_iter()
    }
}

impl<K: Plain + Hash + Eq, V: Plain, S: BuildHasher + Sync, D: EnterSection> ParallelExtend<(K, V)>
    for &CopyMap<K, V, S, D>
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_par_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

impl<K, V, S, D> FromParallelIterator<(K, V)> for CopyMap<K, V, S, D>
where
    K: Plain + Hash + Eq,
    V: Plain,
    S: BuildHasher + Default + Sync,
    D: EnterSection + Default,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let map = Self::default();
        (&map).par_extend(entries);
        map
    }
}
