//! A section of rcu keeps no grace period of qsbr from ending.
use stillpoint::{qsbr, rcu, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let guard = rcu::enter();
    assert_eq!(*number.load(&guard), 1);
}
