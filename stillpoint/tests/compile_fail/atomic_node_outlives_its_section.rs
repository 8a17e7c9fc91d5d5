//! Nodes and pointers to them are not used after the section in which they were loaded.
use stillpoint::rcu::{self, Atomic, Owned};
use stillpoint::{qsbr, srcu};

fn main() {
    let first: Atomic<u64> = Atomic::new(Owned::new(1));
    let mut guard = rcu::enter();
    let node = first.load(&guard);
    let value = node.as_ref();
    guard.repin();
    assert_eq!(value, Some(&1));
    let stored = first.compare_exchange(first.load(&guard), Owned::new(2), &guard).unwrap();
    drop(guard);
    assert!(!stored.is_null());

    let first: Atomic<u64, qsbr::Global> = Atomic::null();
    let mut thread = qsbr::register();
    let node = first.load(&thread);
    thread.quiescent();
    assert!(node.is_null());

    let domain = srcu::Domain::new();
    let first: Atomic<u64, srcu::Domain> = Atomic::null();
    let node = first.load(&domain.enter());
    assert!(node.is_null());

    let mut first: Atomic<u64> = Atomic::new(Owned::new(1));
    let node = first.get_mut();
    first.store(Owned::new(2));
    assert!(!node.is_null());
}
