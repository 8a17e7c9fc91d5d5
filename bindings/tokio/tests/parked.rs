//! What grace periods see of worker threads that park. One test, as it counts what grace periods look at in the whole
//! process.

use std::sync::{Arc, Barrier};

use stillpoint::rcu;
use stillpoint_tokio::BuilderExt as _;
use support::deadline::deadline;
use support::until::until;
use tokio::runtime::{Builder, Runtime};

const WORKERS: usize = 8;

/// A section in each worker thread: none continues before all have one.
fn read_in_all_workers(runtime: &Runtime) {
    let all = Arc::new(Barrier::new(WORKERS));
    let tasks = (0..WORKERS).map(|_| {
        let all = Arc::clone(&all);
        runtime.spawn(async move {
            drop(rcu::enter());
            all.wait();
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).expect("no panic"));
}

/// Returns how many readers a grace period looks at.
fn readers_visited() -> u64 {
    let before = rcu::stats();
    rcu::synchronize();
    let after = rcu::stats();
    assert_eq!(after.grace_periods, before.grace_periods + 1);
    after.scanned - before.scanned
}

#[test]
fn parked_workers_are_not_visited() {
    let _running = deadline();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(WORKERS);

    // The control: without the hint, grace periods visit all workers for ever.
    let runtime = builder.build().expect("a runtime");
    read_in_all_workers(&runtime);
    for _ in 0..100 {
        assert_eq!(readers_visited(), WORKERS as u64);
    }
    drop(runtime);
    assert_eq!(readers_visited(), 0, "the workers have exited");

    let runtime = builder.hint_idle_on_park().build().expect("a runtime");
    for _ in 0..10 {
        read_in_all_workers(&runtime);
        // Each worker parks at some time, and does not read any more.
        until(|| readers_visited() == 0);
    }
    // One worker that is awake is a reader again.
    let (enter, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let task = runtime.spawn({
        let (enter, leave) = (Arc::clone(&enter), Arc::clone(&leave));
        async move {
            drop(rcu::enter());
            enter.wait();
            leave.wait();
        }
    });
    enter.wait();
    assert_eq!(readers_visited(), 1);
    leave.wait();
    runtime.block_on(task).expect("no panic");
    until(|| readers_visited() == 0);
}
