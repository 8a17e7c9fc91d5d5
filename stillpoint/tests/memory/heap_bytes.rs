//! What the library knows of the memory that values own, compared with what the allocator counts.

use stillpoint::rcu::known_heap_bytes as known;

use support::counting::live;

/// Checks that the library knows what the value owns, up to a third.
fn check<T: Sync + 'static>(make: impl FnOnce() -> T) {
    let before = live();
    let value = make();
    let owned = live() - before;
    let known = known(&value).expect("a type of the list");
    let name = std::any::type_name::<T>();
    assert!(known.abs_diff(owned) <= owned / 3, "{name}: {known} of {owned} bytes");
}

#[test]
fn heap_bytes_of_known_types_are_what_the_allocator_counts() {
    check(|| [1_u8; 1000]);
    check(|| "text".repeat(1000));
    check(|| Box::<str>::from("text".repeat(1000)));
    check(|| vec![1_u8; 1000]);
    check(|| Vec::<u64>::with_capacity(1000));
    check(|| Box::<[f64]>::from(vec![1.0; 1000]));
}

#[test]
fn heap_bytes_of_other_types_are_unknown() {
    struct Table(#[expect(dead_code, reason = "owned")] Vec<u8>);
    assert_eq!(known(&Table(vec![1])), None);
    assert_eq!(known::<dyn Send + Sync>(&String::new()), None);
    assert_eq!((known::<[String]>(&[]), known(&vec![String::new()])), (None, None));
    assert_eq!((known::<str>("text"), known(&7), known::<[u8]>(&[1])), (Some(0), Some(0), Some(0)));
}
