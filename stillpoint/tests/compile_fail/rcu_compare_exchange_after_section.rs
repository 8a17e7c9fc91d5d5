//! A value that may have been freed is not the current one.
use stillpoint::rcu::{self, Rcu};

fn main() {
    let number = Rcu::new(1);
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    let _ = number.compare_exchange(&rcu::enter(), seen, Box::new(2));
}
