//! A thread of a `qsbr` domain holds no references when grace periods do not wait for it.
use stillpoint::qsbr::{self, Global, Handle};
use stillpoint::rcu::Rcu;

fn outlives_handle(number: &Rcu<u32, Global>, handle: Handle) {
    let seen = number.load(&handle);
    drop(handle); //~ E0505 cannot move out of `handle` because it is borrowed
    assert_eq!(*seen, 1);
}

fn outlives_offline(number: &Rcu<u32, Global>, handle: &mut Handle) {
    let seen = number.load(handle);
    handle.offline(|| assert_eq!(*seen, 1));
    //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
}

fn load_while_offline(number: &Rcu<u32, Global>, handle: &mut Handle) {
    handle.offline(|| assert_eq!(*number.load(handle), 1));
    //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
}

fn outlives_report(number: &Rcu<u32, Global>, handle: &mut Handle) {
    let seen = number.load(handle);
    handle.quiescent(); //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}

/// In `synchronize` the thread is offline.
fn outlives_synchronize(number: &Rcu<u32, Global>, handle: &mut Handle) {
    let seen = number.load(handle);
    handle.synchronize(); //~ E0502 cannot borrow `*handle` as mutable because it is also borrowed as immutable
    assert_eq!(*seen, 1);
}

fn main() {
    let (number, mut handle) = (Rcu::new_in(1, Global), qsbr::register());
    outlives_offline(&number, &mut handle);
    load_while_offline(&number, &mut handle);
    outlives_report(&number, &mut handle);
    outlives_synchronize(&number, &mut handle);
    outlives_handle(&number, handle);
}
