//! Grace periods of one domain do not wait for sections of another.
use stillpoint::rcu::{self, Rcu};

stillpoint::domain! { struct Here; }

fn main() {
    let number = Rcu::new_in(1, Here);
    let guard = rcu::enter();
    assert_eq!(*number.load(&guard), 1); //~ E0308 mismatched types: expected `&Guard<Here>`, found `&Guard`
}
