//! What `map` sees does not outlive the section.
use stillpoint::rcu::{Rcu, Ref};

fn main() {
    let number = Rcu::new(1);
    let mut kept = None;
    let value = Ref::map(number.read(), |number| {
        kept = Some(number); //~ E0521 borrowed data escapes outside of closure
        number
    });
    drop(value);
    assert_eq!(kept, Some(&1));
}
