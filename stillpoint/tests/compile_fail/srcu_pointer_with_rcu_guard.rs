//! A guard of `rcu` cannot load a pointer of an `srcu` domain.
use stillpoint::rcu::{self, Rcu};
use stillpoint::srcu::Domain;

fn main() {
    let number = Rcu::new_in(1, Domain::new());
    let guard = rcu::enter();
    assert_eq!(*number.load(&guard), 1); //~ E0308 mismatched types: expected `&Section`, found `&Guard`
}
