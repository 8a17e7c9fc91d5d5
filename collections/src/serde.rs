//! The feature `serde`.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter;
use core::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
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
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
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
        iter::from_fn(|| entries.next_entry().transpose()).collect()
    }
}
