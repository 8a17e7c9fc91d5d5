//! A reference ends where its guard is repinned.
use stillpoint::rcu::Rcu;
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let number = Rcu::new_in(1, domain.clone());
    let mut guard = domain.enter();
    let seen = number.load(&guard);
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
    let mut guard = domain.enter_owned();
    let seen = number.load(&guard);
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}
