//! The feature `serde`.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter;
use core::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stillpoint::EnterSection;

use crate::copy_map::Plain;
use crate::sync::Domain;
use crate::{CopyMap, HashMap, HashSet};

// Maps and sets are listed first, as some formats begin with the number.

/// Entries that other threads insert or remove at the same time may be missing or not: see [`HashMap::iter`].
impl<K, V, S, D> Serialize for HashMap<K, V, S, D>
where
    K: Serialize + Eq + Send + Sync + 'static,
    V: Serialize + Send + Sync + 'static,
    D: EnterSection,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        let guard = self.domain().enter_section();
        serializer.collect_map(self.iter(guard.borrow()).collect::<Vec<_>>())
    }
}

/// Entries that other threads insert or remove at the same time may be missing or not: see [`CopyMap::iter`].
impl<K, V, S, D> Serialize for CopyMap<K, V, S, D>
where
    K: Plain + Serialize + Hash + Eq,
    V: Plain + Serialize,
    S: BuildHasher,
    D: EnterSection,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        serializer.collect_map(self.iter().collect::<Vec<_>>())
    }
}

impl<T, S, D> Serialize for HashSet<T, S, D>
where
    T: Serialize + Eq + Send + Sync + 'static,
    D: EnterSection,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        let guard = self.domain().enter_section();
        serializer.collect_seq(self.iter(guard.borrow()).collect::<Vec<_>>())
    }
}

impl<'de, K, V, S, D> Deserialize<'de> for HashMap<K, V, S, D>
where
    K: Deserialize<'de> + Hash + Eq + Send + Sync + 'static,
    V: Deserialize<'de> + Send + Sync + 'static,
    S: BuildHasher + Default,
    D: Domain + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<'de, K, V, S, D> Deserialize<'de> for CopyMap<K, V, S, D>
where
    K: Plain + Deserialize<'de> + Hash + Eq,
    V: Plain + Deserialize<'de>,
    S: BuildHasher + Default,
    D: EnterSection + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<'de, T, S, D> Deserialize<'de> for HashSet<T, S, D>
where
    T: Deserialize<'de> + Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Default,
    D: Domain + Default,
{
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        deserializer.deserialize_seq(Values(PhantomData))
    }
}

/// Makes a map of the entries that it visits.
struct Entries<M, K, V>(PhantomData<(M, K, V)>);

impl<'de, M, K, V> Visitor<'de> for Entries<M, K, V>
where
    M: FromIterator<(K, V)>,
    K: Deserialize<'de>,
    V: Deserialize<'de>,
{
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<M, A::Error> {
        let hint = entries.size_hint();
        collect(hint, iter::from_fn(|| entries.next_entry().transpose()))
    }
}

/// Makes a set of the values that it visits.
struct Values<M, T>(PhantomData<(M, T)>);

impl<'de, M: FromIterator<T>, T: Deserialize<'de>> Visitor<'de> for Values<M, T> {
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<M, A::Error> {
        let hint = values.size_hint();
        collect(hint, iter::from_fn(|| values.next_element().transpose()))
    }
}

/// Collects what an input has, into a table with room for as many entries as it says.
fn collect<C, T, E>(hint: Option<usize>, entries: impl Iterator<Item = Result<T, E>>) -> Result<C, E>
where
    C: FromIterator<T>,
{
    // The input may lie, so that the first table gets entries of a mebibyte at most, as in serde. Each takes 16 bytes
    // of a table, or more.
    let most = (1 << 20) / size_of::<T>().max(16);
    let (least, mut error) = (hint.unwrap_or(0).min(most), None);
    let entries = entries.map_while(|entry| entry.map_err(|err| error = Some(err)).ok());
    let collected = Hinted { entries, least }.collect();
    error.map_or(Ok(collected), Err)
}

/// An iterator over as many entries as an input says.
struct Hinted<I> {
    entries: I,
    least: usize,
}

impl<I: Iterator> Iterator for Hinted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.entries.next()
    }

    /// Only asked for before the first entry.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.least, None)
    }
}
