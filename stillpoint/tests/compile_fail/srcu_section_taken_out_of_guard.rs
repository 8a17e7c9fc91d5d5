//! A section cannot be moved out of its guard.
use stillpoint::rcu::Rcu;
use stillpoint::srcu::Domain;

fn main() {
    let domain = Domain::new();
    let number = Rcu::new_in(1, domain.clone());
    let section = *domain.enter(); //~ E0507 cannot move out of dereference of `stillpoint::srcu::Guard<'_>`
    assert_eq!(*number.load(&section), 1);
}
