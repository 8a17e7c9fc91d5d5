//! References outlive neither their guard nor its next section, and guards do not outlive their handle.
use stillpoint::rcu::Rcu;
use stillpoint::srcu::Domain;

fn outlives_guard(number: &Rcu<u32, Domain>, domain: &Domain) {
    let guard = domain.enter();
    let value = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*value, 1);
}

fn outlives_repin(number: &Rcu<u32, Domain>, domain: &Domain) {
    let mut guard = domain.enter();
    let seen = number.load(&guard);
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
    let mut guard = domain.enter_owned();
    let seen = number.load(&guard);
    guard.repin(); //~ E0502 cannot borrow `guard` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}

fn section_taken_out_of_guard(number: &Rcu<u32, Domain>, domain: &Domain) {
    let section = *domain.enter(); //~ E0507 cannot move out of dereference of `stillpoint::srcu::Guard<'_>`
    assert_eq!(*number.load(&section), 1);
}

fn guard_outlives_handle(domain: Domain) {
    let guard = domain.enter();
    drop(domain); //~ E0505 cannot move out of `domain` because it is borrowed
    drop(guard);
}

fn main() {
    let domain = Domain::new();
    let number = Rcu::new_in(1, domain.clone());
    outlives_guard(&number, &domain);
    outlives_repin(&number, &domain);
    section_taken_out_of_guard(&number, &domain);
    guard_outlives_handle(domain);
}
