//! A thread that runs the destructors of its retired values at known times.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, Guard, StaticDomain};

pub const LOCAL: DeferOptions = DeferOptions::new().run_on_retiring_thread();
/// After as many retirements a thread does its bookkeeping.
pub const BLOCK: usize = 64;

/// Retires values without destructors.
pub fn retire_plain<D: StaticDomain>(count: usize) {
    (0..count).for_each(|_| D::INSTANCE.retire(Box::new(0_u64)));
}

/// Keeps the worker of a domain in a callback until it is dropped.
pub struct Busy(#[expect(dead_code, reason = "the callback waits for its end")] Sender<()>);

/// Keeps the worker from the queue of the calling thread, which must have deferred nothing yet.
pub fn busy<D: StaticDomain<Section = Guard<D>>>() -> Busy {
    // First, so that the thread below, and the worker, do not get this thread's queue.
    Guard::<D>::register();
    let (end, ended) = channel::<()>();
    let (begin, begun) = channel();
    let call = move || {
        D::INSTANCE.call(move || {
            begin.send(()).expect("the test waits");
            ended.recv().expect_err("the sender is dropped");
        });
    };
    thread::spawn(call).join().expect("the thread ends");
    begun.recv().expect("the callback runs");
    Busy(end)
}

/// Begins a section in another thread. The returned closure ends it.
pub fn section_elsewhere<D: StaticDomain<Section = Guard<D>>>() -> impl FnOnce() {
    let (leave, left) = channel::<()>();
    let (enter, entered) = channel();
    let reader = thread::spawn(move || {
        let _guard = Guard::<D>::enter();
        enter.send(()).expect("the test waits");
        left.recv().expect_err("the sender is dropped");
    });
    entered.recv().expect("the thread enters");
    move || {
        drop(leave);
        reader.join().expect("the thread ends");
    }
}
