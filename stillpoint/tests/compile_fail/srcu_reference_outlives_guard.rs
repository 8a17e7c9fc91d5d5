//! A reference cannot outlive its guard.
use stillpoint::rcu::Rcu;
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let number = Rcu::new_in(1, domain.clone());
    let guard = domain.enter();
    let value = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*value, 1);
}
