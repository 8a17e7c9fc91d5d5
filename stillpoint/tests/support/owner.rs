//! A thread that runs the destructors of what it has retired, and knows when.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, RcuDomain};

pub const LOCAL: DeferOptions = DeferOptions::new().run_on_retiring_thread();
/// A thread does its bookkeeping after as many retirements.
pub const BLOCK: usize = 64;

/// Retires values without destructors.
pub fn retire_plain<D: RcuDomain>(count: usize) {
    (0..count).for_each(|_| D::INSTANCE.retire(Box::new(0_u64)));
}

/// The worker of a domain runs a callback until this is dropped.
pub struct Busy(#[expect(dead_code, reason = "the callback waits for its end")] Sender<()>);

/// Keeps the worker from the queues of the calling thread, which must have deferred nothing yet.
pub fn busy<D: RcuDomain>() -> Busy {
    // So that the queue which the worker claims does not become this thread's.
    D::register();
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

/// Begins a section in another thread; what is returned ends it.
pub fn section_elsewhere<D: RcuDomain>() -> impl FnOnce() {
    let (leave, left) = channel::<()>();
    let (enter, entered) = channel();
    let reader = thread::spawn(move || {
        let _guard = D::enter();
        enter.send(()).expect("the test waits");
        left.recv().expect_err("the sender is dropped");
    });
    entered.recv().expect("the thread enters");
    move || {
        drop(leave);
        reader.join().expect("the thread ends");
    }
}
