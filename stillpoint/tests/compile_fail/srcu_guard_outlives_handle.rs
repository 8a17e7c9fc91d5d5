//! A guard keeps the handle that it was taken from.
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let guard = domain.enter();
    drop(domain);
    drop(guard);
}
