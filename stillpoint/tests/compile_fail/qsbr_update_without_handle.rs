//! A thread of a `qsbr` domain reads through its handle.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    number.update(|number| number + 1);
    number.modify(|number| *number += 1);
    assert_eq!(*number.read(), 3);
}
