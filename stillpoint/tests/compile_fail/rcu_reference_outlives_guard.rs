//! A reference cannot outlive its guard.
use stillpoint::rcu::{self, Rcu};

fn main() {
    let number = Rcu::new(1);
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*seen, 1);
}
