//! A guard of `rcu` does not delay grace periods of `qsbr`.
use stillpoint::{qsbr, rcu, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let guard = rcu::enter();
    assert_eq!(*number.load(&guard), 1); //~ E0308 mismatched types: expected `&Handle`, found `&Guard`
}
