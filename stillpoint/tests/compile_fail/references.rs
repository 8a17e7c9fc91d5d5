//! References and pointers to nodes outlive neither their section nor what they were loaded from, in no kind of
//! domain.
use stillpoint::qsbr::{self, Handle};
use stillpoint::rcu::{self, Atomic, Owned, Rcu, Ref};
use stillpoint::srcu::Domain;

fn main() {}

fn outlives_guard(number: &Rcu<u32>) {
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*seen, 1);
}

/// A value that may have been freed is not the current one.
fn compare_exchange_after_section(number: &Rcu<u32>) {
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    let _ = number.compare_exchange(&rcu::enter(), seen, Box::new(2));
}

/// Dropping the pointer frees the value at once.
fn outlives_pointer(number: Rcu<u32>) {
    let value = number.read();
    drop(number); //~ E0505 cannot move out of `number` because it is borrowed
    assert_eq!(*value, 1);
}

/// What `map` sees does not outlive the section.
fn outlives_map(number: &Rcu<u32>) {
    let mut kept = None;
    let value = Ref::map(number.read(), |number| {
        kept = Some(number); //~ E0521 borrowed data escapes outside of closure
        number
    });
    drop(value);
    assert_eq!(kept, Some(&1));
}

fn node_outlives_guard(first: Atomic<u64>) {
    let mut guard = rcu::enter();
    let value = first.load(&guard).as_ref();
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(value, Some(&1));
    let stored = first.compare_exchange(first.load(&guard), Owned::new(2), &guard).unwrap();
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert!(!stored.is_null());
}

fn node_outlives_link(mut first: Atomic<u64>) {
    let node = first.get_mut();
    first.store(Owned::new(2));
    //~ E0502 cannot borrow `first` as immutable because it is also borrowed as mutable
    assert!(!node.is_null());
}

fn outlives_handle(number: &Rcu<u32, qsbr::Global>, handle: Handle) {
    let seen = number.load(&handle);
    drop(handle); //~ E0505 cannot move out of `handle` because it is borrowed
    assert_eq!(*seen, 1);
}

fn outlives_offline(number: &Rcu<u32, qsbr::Global>, handle: &mut Handle) {
    let seen = number.load(handle);
    handle.offline(|| assert_eq!(*seen, 1));
    //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
}

fn load_while_offline(number: &Rcu<u32, qsbr::Global>, handle: &mut Handle) {
    handle.offline(|| assert_eq!(*number.load(handle), 1));
    //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
}

/// In `synchronize` the thread is offline.
fn outlives_report(number: &Rcu<u32, qsbr::Global>, handle: &mut Handle, first: Atomic<u64, qsbr::Global>) {
    let node = first.load(handle);
    handle.quiescent(); //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
    assert!(node.is_null());
    let seen = number.load(handle);
    handle.synchronize(); //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}

fn outlives_srcu_guard(number: &Rcu<u32, Domain>, domain: &Domain, first: Atomic<u64, Domain>) {
    let node = first.load(&domain.enter()); //~ E0716 temporary value dropped while borrowed
    assert!(node.is_null());
    let guard = domain.enter();
    let value = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*value, 1);
}

fn outlives_owned_guard(number: &Rcu<u32, Domain>, domain: &Domain) {
    let guard = domain.enter_owned();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*seen, 1);
}

fn section_taken_out_of_guard(number: &Rcu<u32, Domain>, domain: &Domain) {
    let section = *domain.enter(); //~ E0507 cannot move out of dereference of `stillpoint::srcu::Guard<'_>`
    assert_eq!(*number.load(&section), 1);
}

fn guard_outlives_handle(domain: Domain) {
    let guard = domain.enter();
    drop(domain); //~ E0505 cannot move out of `domain` because it is borrowed
    drop(guard);
}
