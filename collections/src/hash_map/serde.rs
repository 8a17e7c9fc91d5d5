//! The feature `serde`.

use core::borrow::Borrow as _;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stillpoint::EnterSection;

use super::HashMap;
use crate::sync::Domain;

/// Entries that other threads insert or remove at the same time may be missing or not: see [`HashMap::iter`].
impl<K, V, S, D> Serialize for HashMap<K, V, S, D>
where
    K: Serialize + Eq + Send + Sync + 'static,
    V: Serialize + Send + Sync + 'static,
    D: EnterSection,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        let guard = self.domain.enter_section();
        // In a list first, as some formats begin with the number.
        serializer.collect_map(self.iter(guard.borrow()).collect::<Vec<_>>())
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
        struct Entries<M>(PhantomData<M>);

        impl<'de, K, V, S, D> Visitor<'de> for Entries<HashMap<K, V, S, D>>
        where
            K: Deserialize<'de> + Hash + Eq + Send + Sync + 'static,
            V: Deserialize<'de> + Send + Sync + 'static,
            S: BuildHasher + Default,
            D: Domain + Default,
        {
            type Value = HashMap<K, V, S, D>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = HashMap::default();
                while let Some((key, value)) = entries.next_entry()? {
                    map.insert_mut(key, value);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}
