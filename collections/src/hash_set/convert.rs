//! Conversions from and to sets, and comparison.

use core::borrow::Borrow as _;
use core::hash::{BuildHasher, Hash};

use stillpoint::EnterSection;

use super::{HashSet, IntoIter};
use crate::sync::Domain;

impl<T: Send + Sync + 'static, S, D: Domain> IntoIterator for HashSet<T, S, D> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    /// Returns the values, without waiting: no reader has the set.
    fn into_iter(mut self) -> IntoIter<T> {
        self.drain()
    }
}

/// As of the standard library, values that the set has stay.
impl<T, S, D> Extend<T> for &HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.insert(value, self.domain().enter_section().borrow());
        }
    }
}

impl<T, S, D> Extend<T> for HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: Domain,
{
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let values = values.into_iter();
        self.map.make_room(values.size_hint().0);
        for value in values {
            if self.map.get_mut(&value).is_none() {
                self.map.extend([(value, ())]);
            }
        }
    }
}

impl<T, S, D> FromIterator<T> for HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Default,
    D: Domain + Default,
{
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::default();
        set.extend(values);
        set
    }
}

impl<T: Hash + Eq + Send + Sync + 'static, const N: usize> From<[T; N]> for HashSet<T> {
    fn from(values: [T; N]) -> Self {
        values.into_iter().collect()
    }
}

impl<T, S, D> Clone for HashSet<T, S, D>
where
    T: Clone + Hash + Eq + Send + Sync + 'static,
    S: Clone + BuildHasher,
    D: EnterSection,
{
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

/// Sets are equal if they have equal values: see [`HashMap`](crate::HashMap#impl-PartialEq).
impl<T, S, U, D, E> PartialEq<HashSet<T, U, E>> for HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    U: BuildHasher,
    D: EnterSection,
    E: EnterSection,
{
    fn eq(&self, other: &HashSet<T, U, E>) -> bool {
        self.map == other.map
    }
}

impl<T, S, D> Eq for HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
    D: EnterSection,
{
}

#[cfg(feature = "rayon")]
impl<T: Send + Sync + 'static, S, D: Domain> rayon::iter::IntoParallelIterator for HashSet<T, S, D> {
    type Item = T;
    type Iter = rayon::vec::IntoIter<T>;

    fn into_par_iter(self) -> Self::Iter {
        self.into_iter().collect::<Vec<_>>().into_par_iter()
    }
}

#[cfg(feature = "rayon")]
impl<T, S, D> rayon::iter::FromParallelIterator<T> for HashSet<T, S, D>
where
    T: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Default + Sync,
    D: EnterSection + Default,
{
    fn from_par_iter<I: rayon::iter::IntoParallelIterator<Item = T>>(values: I) -> Self {
        use rayon::iter::ParallelIterator as _;
        Self { map: values.into_par_iter().map(|value| (value, ())).collect() }
    }
}
