//! The features `serde` and `rayon`, and keys that are only equivalent.

use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::Equivalent;

/// A key of two parts, without a tuple to borrow.
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
    assert_eq!(map.pin().remove(&Parts("a", 1)), Some(&7));
}

#[cfg(feature = "serde")]
#[test]
fn maps_and_sets_are_written_and_read() {
    use stillpoint_collections::HashSet;

    let map: HashMap<String, u32> = (0..100).map(|key| (key.to_string(), key)).collect();
    let text = serde_json::to_string(&map).expect("text");
    assert_eq!(serde_json::from_str::<HashMap<String, u32>>(&text).expect("a map"), map);
    assert!(serde_json::from_str::<HashMap<String, u32>>("[1]").is_err());
    let set: HashSet<u32> = (0..100).collect();
    let text = serde_json::to_string(&set).expect("text");
    assert_eq!(serde_json::from_str::<HashSet<u32>>(&text).expect("a set"), set);
}

#[cfg(feature = "rayon")]
#[test]
#[cfg_attr(miri, ignore = "threads of rayon's pool do not end")]
fn maps_and_sets_are_made_and_read_in_parallel() {
    use rayon::prelude::*;
    use stillpoint_collections::HashSet;

    let map: HashMap<u32, u32> = (0..10_000).into_par_iter().map(|key| (key, 1)).collect();
    let pinned = map.pin();
    assert_eq!((&pinned).into_par_iter().map(|(_, value)| value).sum::<u32>(), 10_000);
    (&map).par_extend((0..20_000).into_par_iter().map(|key| (key, 2)));
    drop(pinned);
    assert_eq!(map.into_par_iter().map(|(_, value)| value).sum::<u32>(), 40_000);
    let set: HashSet<u32> = (0..10_000).into_par_iter().collect();
    assert_eq!(set.into_par_iter().count(), 10_000);
}
