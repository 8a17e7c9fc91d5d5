//! A guard borrows its handle.
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let guard = domain.enter();
    drop(domain);
    drop(guard);
}
