//! A value that may have been freed is not the current one.
use stillpoint::rcu::{self, Rcu};

fn main() {
    let number = Rcu::new(1);
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard);
    let _ = number.compare_exchange(&rcu::enter(), seen, Box::new(2));
}
