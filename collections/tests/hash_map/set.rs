//! The hash set.

use std::collections::BTreeSet;

use stillpoint::{qsbr, rcu, srcu};
use stillpoint_collections::HashSet;

#[test]
fn value_is_in_the_set_until_it_is_removed() {
    let set = HashSet::new();
    let guard = rcu::enter();
    assert!(set.insert("a".to_owned(), &guard) && !set.insert("a".to_owned(), &guard));
    assert!(set.contains("a", &guard) && !set.contains("b", &guard));
    assert_eq!((set.len(), set.get("a", &guard).map(String::as_str)), (1, Some("a")));
    assert_eq!(set.replace("a".to_owned(), &guard).map(String::as_str), Some("a"));
    assert_eq!(set.take("a", &guard).map(String::as_str), Some("a"));
    assert!(!set.remove("a", &guard) && set.is_empty());
}

/// Equal, whatever its second number is.
#[derive(Debug, Clone, Copy)]
pub struct Value(pub u32, pub u32);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Value {}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn first_of_equal_values_stays_unless_it_is_replaced() {
    let mut set = HashSet::from([Value(1, 1), Value(1, 2)]);
    let second = |set: &HashSet<Value>| set.pin().get(&Value(1, 0)).map(|value| value.1);
    assert_eq!(second(&set), Some(1));
    set.extend([Value(1, 3)]);
    (&set).extend([Value(1, 4)]);
    assert!(!set.pin().insert(Value(1, 5)));
    assert_eq!(second(&set), Some(1));
    assert_eq!(set.pin().replace(Value(1, 6)).map(|value| value.1), Some(1));
    assert_eq!(second(&set), Some(6));
}

#[test]
fn set_is_collected_compared_and_taken_apart() {
    let set: HashSet<u32> = (0..100).collect();
    let mut clone = set.clone();
    assert_eq!(set, clone);
    clone.pin().retain(|value| value % 2 == 0);
    assert_ne!(set, clone);
    assert_eq!(clone.pin().iter().copied().collect::<BTreeSet<_>>(), (0..100).step_by(2).collect());
    assert_eq!((&clone.pin()).into_iter().count(), 50);
    assert_eq!((clone.drain().len(), clone.len()), (50, 0));
    assert_eq!(format!("{:?} {:?}", HashSet::from([1]), HashSet::from([1]).pin()), "{1} {1}");
    assert_eq!(set.into_iter().sum::<u32>(), 99 * 50);
    let pinned = clone.pin();
    pinned.reserve(1000);
    assert!(pinned.capacity() >= 1000);
    pinned.insert(1);
    pinned.clear();
    pinned.shrink_to_fit();
    assert!(pinned.is_empty() && pinned.capacity() < 1000);
}

#[test]
fn set_works_in_domains_of_all_kinds() {
    let (domain, handle) = (srcu::Domain::new(), qsbr::register());
    let set = HashSet::new_in(domain.clone());
    assert!(set.insert(1, &domain.enter()) && set.contains(&1, &domain.enter()));
    let set = HashSet::new_in(qsbr::Global);
    assert!(set.insert(1, &handle) && set.remove(&1, &handle));
}
