//! A thread that reports holds no references.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let mut handle = qsbr::register();
    let seen = number.load(&handle);
    handle.quiescent(); //~ E0502 cannot borrow `handle` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}
