//! A domain is not closed by a handle that a guard borrows.
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let guard = domain.enter();
    domain.close().wait(); //~ E0505 cannot move out of `domain` because it is borrowed
    drop(guard);
}
