//! Nodes and pointers to them are not used after the section in which they were loaded.
use stillpoint::rcu::{self, Atomic, Owned};
use stillpoint::{qsbr, srcu};

fn main() {
    let first: Atomic<u64> = Atomic::new(Owned::new(1));
    let mut guard = rcu::enter();
    let node = first.load(&guard);
    let value = node.as_ref();
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(value, Some(&1));
    let stored = first.compare_exchange(first.load(&guard), Owned::new(2), &guard).unwrap();
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert!(!stored.is_null());

    let first: Atomic<u64, qsbr::Global> = Atomic::null();
    let mut thread = qsbr::register();
    let node = first.load(&thread);
    thread.quiescent(); //~ E0502 cannot borrow `thread` as mutable because it is also borrowed as immutable
    assert!(node.is_null());

    let domain = srcu::Domain::new();
    let first: Atomic<u64, srcu::Domain> = Atomic::null();
    let node = first.load(&domain.enter()); //~ E0716 temporary value dropped while borrowed
    assert!(node.is_null());

    let mut first: Atomic<u64> = Atomic::new(Owned::new(1));
    let node = first.get_mut();
    first.store(Owned::new(2));
    //~ E0502 cannot borrow `first` as immutable because it is also borrowed as mutable
    assert!(!node.is_null());
}
