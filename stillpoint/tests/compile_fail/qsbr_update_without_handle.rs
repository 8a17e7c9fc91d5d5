//! A thread of a `qsbr` domain reads through its handle.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    number.update(|number| number + 1);
    //~ E0277 a section of `stillpoint::qsbr::Global` cannot be begun on the spot
    number.modify(|number| *number += 1);
    //~ E0277 a section of `stillpoint::qsbr::Global` cannot be begun on the spot
    assert_eq!(*number.read(), 3);
    //~ E0277 a section of `stillpoint::qsbr::Global` cannot be begun on the spot
    //~ E0614 type `stillpoint::rcu::Ref<'_, {integer}, stillpoint::qsbr::Global>` cannot be dereferenced
}
