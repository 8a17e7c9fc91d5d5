//! A guard borrows its handle.
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let guard = domain.enter();
    drop(domain); //~ E0505 cannot move out of `domain` because it is borrowed
    drop(guard);
}
