//! Grace periods do not wait for a thread without a handle.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let handle = qsbr::register();
    let seen = number.load(&handle);
    drop(handle); //~ E0505 cannot move out of `handle` because it is borrowed
    assert_eq!(*seen, 1);
}
