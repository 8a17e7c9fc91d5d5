//! What a hazard pointer protects, and what it does not.

use stillpoint::hazard::{self, HazardPointer};
use stillpoint::rcu::{Atomic, Owned, Shared};
use support::prelude::*;

#[test]
fn protected_value_outlives_its_retirement() {
    own!(hazard Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let mut pointer = HazardPointer::new();
    let kept = pointer.protect(&value);
    drop(value.replace(Tracked(&DROPS)));
    for _ in 0..3 {
        Own.barrier();
        assert_eq!(kept.0.load(Acquire), 0);
        // While the worker looks at it again, after a second, it counts once more.
        until(|| (Own.stats().queued, Own.stats().protected) == (1, 1));
    }
    pointer.reset();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
    assert_eq!((Own.stats().queued, Own.stats().done), (0, 1));
}

#[test]
fn null_and_tags_are_returned_as_they_are() {
    own!(hazard Own);
    let next: Atomic<u64, Own> = Atomic::null();
    let mut pointer = HazardPointer::new();
    assert!(pointer.protect(&next).is_null());
    let node = pointer.protect(&next).with_tag(1);
    next.store(node);
    assert_eq!(pointer.protect(&next).tag(), 1);
    next.store(Owned::new(7));
    next.fetch_or(2, &Own::enter());
    let tagged = pointer.protect(&next);
    assert_eq!((tagged.tag(), tagged.as_ref()), (2, Some(&7)));
    assert!(next.try_store(tagged, Shared::null()).is_ok());
    // SAFETY: no longer reachable.
    unsafe { Own.retire_shared(tagged, DeferOptions::new()) };
    Own.barrier();
    assert_eq!(tagged.as_ref(), Some(&7), "protected without its tag");
}

#[test]
fn try_protect_of_a_changed_pointer_protects_nothing() {
    own!(hazard Own, DROPS);
    let next: Atomic<Tracked, Own> = Atomic::new(Owned::new(Tracked(&DROPS)));
    let [mut first, mut second] = HazardPointer::array();
    let seen = first.protect(&next);
    assert!(second.try_protect(&next, seen).is_some());
    next.try_store(seen, Shared::null()).expect("no other thread changes it");
    assert!(second.try_protect(&next, seen).is_none());
    // SAFETY: no longer reachable.
    unsafe { Own.retire_shared(seen, DeferOptions::new()) };
    first.reset();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

/// Miri tells the two apart.
#[test]
fn node_at_the_address_of_a_freed_one_is_protected() {
    own!(hazard Own);
    let mut next: Atomic<u64, Own> = Atomic::new(Owned::new(2));
    let [mut first, mut second] = HazardPointer::array();
    let address = first.protect(&next).as_ptr().addr();
    // SAFETY: it is not dereferenced, as that of a freed node.
    let expected = unsafe { Shared::from_ptr(ptr::without_provenance(address)) };
    let node = second.try_protect(&next, expected).expect("the address is the same");
    assert_eq!(node.as_ref(), Some(&2));
    // SAFETY: no other thread has the node.
    drop(unsafe { next.take() });
}

#[test]
fn node_kept_in_a_section_outlives_it() {
    own!(hazard Own, DROPS);
    let next: Atomic<Tracked, Own> = Atomic::new(Owned::new(Tracked(&DROPS)));
    let mut pointer = HazardPointer::new();
    let section = Own::enter();
    let seen = next.load(&section);
    next.try_store(seen, Shared::null()).expect("no other thread changes it");
    // SAFETY: no longer reachable.
    unsafe { Own.retire_shared(seen, DeferOptions::new()) };
    // SAFETY: loaded in this section.
    let kept = unsafe { pointer.keep(seen) };
    drop(section);
    Own.barrier();
    assert_eq!(kept.as_ref().map(|kept| kept.0.load(Acquire)), Some(0));
    pointer.reset();
    Own.barrier();
    assert_eq!(DROPS.load(Acquire), 1);
}

#[test]
fn values_of_other_sizes_are_protected() {
    own!(hazard Own);
    let slice: Rcu<[u32], Own> = Rcu::from_box_in(vec![1, 2, 3].into(), Own);
    let text: Rcu<str, Own> = Rcu::from_box_in("abc".into(), Own);
    let unit = Rcu::new_in((), Own);
    let [mut first, mut second, mut third] = HazardPointer::array();
    let seen = (first.protect(&slice), second.protect(&text), third.protect(&unit));
    slice.swap([4].into());
    text.swap("d".into());
    unit.replace(());
    Own.barrier();
    assert_eq!(seen, (&[1, 2, 3][..], "abc", &()));
}

hazard::domain! { struct First; }
hazard::domain! { struct Second; }

#[test]
fn one_pointer_serves_all_domains() {
    let _running = deadline();
    let (first, second) = (Rcu::new_in(1, First), Rcu::new_in(2, Second));
    let mut pointer = HazardPointer::new();
    assert_eq!(*pointer.protect(&first), 1);
    let kept = pointer.protect(&second);
    first.replace(3);
    second.replace(4);
    First.barrier();
    Second.barrier();
    assert_eq!(*kept, 2);
    // It counts once more while the worker looks at it again.
    until(|| (First.stats().queued, Second.stats().queued) == (0, 1));
}
