//! References outlive neither their section nor their pointer.
use stillpoint::rcu::{self, Rcu, Ref};

fn outlives_guard(number: &Rcu<u32>) {
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    assert_eq!(*seen, 1);
}

/// A value that may have been freed is not the current one.
fn compare_exchange_after_section(number: &Rcu<u32>) {
    let guard = rcu::enter();
    let seen = number.load(&guard);
    drop(guard); //~ E0505 cannot move out of `guard` because it is borrowed
    let _ = number.compare_exchange(&rcu::enter(), seen, Box::new(2));
}

/// Dropping the pointer frees the value at once.
fn outlives_pointer(number: Rcu<u32>) {
    let value = number.read();
    drop(number); //~ E0505 cannot move out of `number` because it is borrowed
    assert_eq!(*value, 1);
}

/// What `map` sees does not outlive the section.
fn outlives_map(number: &Rcu<u32>) {
    let mut kept = None;
    let value = Ref::map(number.read(), |number| {
        kept = Some(number); //~ E0521 borrowed data escapes outside of closure
        number
    });
    drop(value);
    assert_eq!(kept, Some(&1));
}

fn main() {
    let number = Rcu::new(1);
    outlives_guard(&number);
    compare_exchange_after_section(&number);
    outlives_map(&number);
    outlives_pointer(number);
}
