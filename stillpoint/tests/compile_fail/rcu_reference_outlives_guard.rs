//! A reference cannot outlive its guard.
use stillpoint::rcu::{self, Rcu};

fn main() {
    let number = Rcu::new(1);
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard);
    assert_eq!(*seen, 1);
}
