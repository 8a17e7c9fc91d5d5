//! The features `serde` and `rayon`, and keys that are only equivalent.

use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::Equivalent;

/// A key of two parts, without a tuple to borrow. Its hash is that of the tuple, as both hash their fields in order.
#[derive(Hash)]
struct Parts<'a>(&'a str, u32);

impl Equivalent<(String, u32)> for Parts<'_> {
    fn equivalent(&self, key: &(String, u32)) -> bool {
        self.0 == key.0 && self.1 == key.1
    }
}

#[test]
fn entry_is_found_by_an_equivalent_key() {
    let mut map = HashMap::from([(("a".to_owned(), 1), 7)]);
    assert_eq!(map.pin().get(&Parts("a", 1)), Some(&7));
    assert_eq!(map.pin().get_many([&Parts("a", 2), &Parts("a", 1)]), [None, Some(&7)]);
    assert_eq!(map.get_mut(&Parts("a", 1)), Some(&mut 7));
    assert_eq!(map.pin().update(&Parts("a", 1), |old| old + 1), Some(&8));
    assert_eq!(map.pin().remove_if(&Parts("a", 1), |_, _| false), Err((&("a".to_owned(), 1), &8)));
    assert_eq!(map.pin().remove(&Parts("a", 1)), Some(&8));
}

#[cfg(feature = "serde")]
#[test]
fn maps_and_sets_are_written_and_read() {
    use std::fmt::Debug;

    use serde::{Serialize, de::DeserializeOwned};
    use stillpoint_collections::{CopyMap, HashSet};

    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(written: T) {
        let text = serde_json::to_string(&written).expect("text");
        assert_eq!(serde_json::from_str::<T>(&text).expect("what was written"), written);
        assert!(serde_json::from_str::<T>("7").is_err());
    }
    check::<HashMap<String, u32>>((0..100).map(|key| (key.to_string(), key)).collect());
    check::<CopyMap<u32, [u8; 2]>>((0..100).map(|key| (key, [key as u8, 1])).collect());
    check::<HashSet<u32>>((0..100).collect());
}

/// Inputs that say how many entries they have, and may lie.
#[cfg(feature = "serde")]
#[test]
fn table_has_room_for_what_the_input_says_up_to_a_mebibyte() {
    use serde::Deserialize;
    use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
    use stillpoint_collections::{CopyMap, HashSet};

    /// Has one entry.
    struct Input {
        says: usize,
        has: bool,
    }
    impl Iterator for Input {
        type Item = (u64, u64);
        fn next(&mut self) -> Option<(u64, u64)> {
            std::mem::take(&mut self.has).then_some((7, 70))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.says, Some(self.says))
        }
    }
    for (says, room) in [(1, 1..100), (10_000, 10_000..30_000), (usize::MAX, 10_000..150_000)] {
        let input = || Input { says, has: true };
        let entries = || MapDeserializer::<_, Error>::new(input());
        let map = HashMap::<u64, u64>::deserialize(entries()).expect("a map");
        assert_eq!((map.len(), map.pin().get(&7)), (1, Some(&70)));
        assert!(room.contains(&map.pin().capacity()), "{says}: {}", map.pin().capacity());
        let map = CopyMap::<u64, u64>::deserialize(entries()).expect("a map");
        assert_eq!((map.len(), map.get(&7)), (1, Some(70)));
        assert!(room.contains(&map.capacity()), "{says}: {}", map.capacity());
        let values = SeqDeserializer::<_, Error>::new(input().map(|(key, _)| key));
        let set = HashSet::<u64>::deserialize(values).expect("a set");
        assert_eq!((set.len(), set.pin().contains(&7)), (1, true));
        assert!(room.contains(&set.pin().capacity()), "{says}: {}", set.pin().capacity());
        assert!(CopyMap::<u64, char>::deserialize(entries()).is_err());
    }
}

/// Whether a tree is `Serialize` is not asked to find that out.
#[cfg(feature = "serde")]
#[test]
fn maps_of_trees_are_written_and_read() {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Debug, Default, PartialEq)]
    struct Tree(HashMap<String, Tree>);
    impl Serialize for Tree {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Tree {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            HashMap::deserialize(deserializer).map(Tree)
        }
    }

    let leaves = ["usr", "etc"].map(|name| (name.to_owned(), Tree::default()));
    let tree = Tree(HashMap::from([("/".to_owned(), Tree(leaves.into_iter().collect()))]));
    let text = serde_json::to_string(&tree).expect("text");
    assert_eq!(serde_json::from_str::<Tree>(&text).expect("a tree"), tree);
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(miri, ignore = "threads of rayon's pool outlive `main`")]
fn maps_and_sets_are_made_and_read_in_parallel() {
    use rayon::prelude::*;
    use stillpoint_collections::{CopyMap, HashSet};

    let map: HashMap<u32, u32> = (0..10_000).into_par_iter().map(|key| (key, 1)).collect();
    let pinned = map.pin();
    assert_eq!((&pinned).into_par_iter().map(|(_, value)| value).sum::<u32>(), 10_000);
    (&map).par_extend((0..20_000).into_par_iter().map(|key| (key, 2)));
    drop(pinned);
    assert_eq!(map.into_par_iter().map(|(_, value)| value).sum::<u32>(), 40_000);
    let map: CopyMap<u32, u32> = (0..10_000).into_par_iter().map(|key| (key, 1)).collect();
    (&map).par_extend((0..20_000).into_par_iter().map(|key| (key, 2)));
    assert_eq!((&map).into_par_iter().map(|(_, value)| value).sum::<u32>(), 40_000);
    let set: HashSet<u32> = (0..10_000).into_par_iter().collect();
    assert_eq!(set.into_par_iter().count(), 10_000);
}
