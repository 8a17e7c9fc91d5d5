//! Grace periods do not wait for an offline thread.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let mut handle = qsbr::register();
    let seen = number.load(&handle);
    handle.offline(|| assert_eq!(*seen, 1));
    //~ E0502 cannot borrow `handle` as mutable because it is also borrowed as immutable
}
