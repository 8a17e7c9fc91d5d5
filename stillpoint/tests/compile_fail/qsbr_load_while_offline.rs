//! A thread that is offline cannot load.
use stillpoint::{qsbr, rcu::Rcu};

fn main() {
    let number = Rcu::new_in(1, qsbr::Global);
    let mut handle = qsbr::register();
    handle.offline(|| assert_eq!(*number.load(&handle), 1));
    //~ E0502 cannot borrow `handle` as mutable because it is also borrowed as immutable
}
