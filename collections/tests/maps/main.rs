//! What both maps promise: each test runs on a `HashMap` and on a `CopyMap`.
#![cfg(not(loom))]

mod changes;
#[path = "../hash_map/counted.rs"]
mod counted;
mod fuzz;
#[path = "../hash_map/hashers.rs"]
mod hashers;
mod map;
mod tables;
mod torture;
mod weak_hashers;

use map::Map;

/// Makes tests of functions with a parameter that is the map.
macro_rules! both {
    ($($name:ident: <$key:ty, $value:ty, $hasher:ty>;)+) => {
        mod hash_map {
            use super::*;
            $(
                #[test]
                fn $name() {
                    super::$name::<stillpoint_collections::HashMap<$key, $value, $hasher>>();
                }
            )+
        }
        mod copy_map {
            use super::*;
            $(
                #[test]
                fn $name() {
                    super::$name::<stillpoint_collections::CopyMap<$key, $value, $hasher>>();
                }
            )+
        }
    };
}
use both;
