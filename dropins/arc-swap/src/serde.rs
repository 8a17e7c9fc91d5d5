//! Serialization: as the pointer that is there.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::strategy::Strategy;
use crate::{ArcSwapAny, RefCnt};

impl<T: RefCnt + Serialize, S: Strategy<T>> Serialize for ArcSwapAny<T, S> {
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        self.load().serialize(serializer)
    }
}

impl<'de, T: RefCnt + Deserialize<'de>, S: Strategy<T> + Default> Deserialize<'de> for ArcSwapAny<T, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}
