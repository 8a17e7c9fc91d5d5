//! Rounds of the worker: they do not delay ready callbacks, and are rate-limited. An idle worker sleeps.

use std::fs;

use support::owner::{BLOCK, LOCAL, busy, section_elsewhere};
use support::prelude::*;

#[test]
fn ready_callbacks_run_while_a_grace_period_waits() {
    own!(Own);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let busy = busy::<Own>();
    let leave = section_elsewhere::<Own>();
    (0..BLOCK).for_each(|_| Own.call(|| _ = CALLS.fetch_add(1, Release)));
    let writer = waiting_synchronize::<Own>();
    leave();
    writer.join().expect("the grace period ends");
    // The callbacks are ready. The worker must find the next grace period in progress.
    let leave = section_elsewhere::<Own>();
    let writer = waiting_synchronize::<Own>();
    // Ends the worker's batch, so that it scans the queues again.
    until(|| Own.stats().oldest > Duration::from_millis(5));
    drop(busy);
    until(|| CALLS.load(Acquire) == BLOCK);
    assert!(!writer.is_finished());
    leave();
    writer.join().expect("the grace period ends");
}

#[test]
fn grace_periods_of_an_idle_writer_are_paced() {
    own!(Own);
    const COUNT: u64 = 200;
    let (stay, stays) = channel::<()>();
    let (register, registered) = channel();
    // Another registered reader, so that grace periods are not skipped.
    let reader = thread::spawn(move || {
        Own::register();
        register.send(()).expect("the test waits");
        stays.recv().expect_err("the sender is dropped");
    });
    registered.recv().expect("the thread registers");
    let begin = Instant::now();
    for number in 0..COUNT {
        Own.call(|| ());
        until(|| Own.stats().done > number);
    }
    let (time, grace_periods) = (begin.elapsed(), Own.stats().grace_periods);
    drop(stay);
    reader.join().expect("the thread ends");
    // They begin a millisecond apart, except for the writer's own bookkeeping.
    let bound = time.as_millis() as u64 * 3 / 2;
    assert!(grace_periods <= bound, "{grace_periods} grace periods in {time:?}");
}

#[test]
fn barrier_over_local_entries_does_not_wait_for_them() {
    own!(Own);
    const OTHERS: usize = 100;
    let (batches, all_batches) = (AtomicUsize::new(0), repetitions(200));
    // Keeps the CPU: beside other programs, each yield may take milliseconds.
    let spins = || {
        let begin = Instant::now();
        while begin.elapsed() <= Duration::from_micros(10) {}
    };
    let stop = AtomicBool::new(false);
    let begin = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            Own::register();
            begin.wait();
            begin.wait();
            // There is something to wait for until all barriers have ended.
            while !stop.load(Relaxed) {
                (0..4 * BLOCK).for_each(|_| Own.retire_with(Box::new(OnDrop(spins)), LOCAL));
                until(|| Own.stats().queued == 0);
                batches.fetch_add(1, Relaxed);
            }
        });
        begin.wait();
        // Many queues after that one, so that the worker's scan takes longer than the owner's destructors.
        let all = Barrier::new(OTHERS);
        in_threads(OTHERS, |_| {
            Own::register();
            all.wait();
        });
        begin.wait();
        while batches.load(Relaxed) < all_batches {
            Own.barrier();
        }
        stop.store(true, Relaxed);
    });
}

/// A batch of a queue ends when its time is up, however few callbacks have run.
#[test]
fn slow_callbacks_of_one_thread_let_those_of_another_run() {
    const EACH: usize = 16;
    own!(Own);
    static RUNS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    /// How many callbacks of the other thread have run before the first one of each.
    static BEFORE: [AtomicUsize; 2] = [const { AtomicUsize::new(usize::MAX) }; 2];
    // It finds both queues in one round. (A thread that has exited leaves its queue to the next.)
    let (busy, both) = (busy::<Own>(), &Barrier::new(2));
    thread::scope(|scope| {
        for own in 0..2 {
            scope.spawn(move || {
                both.wait();
                for _ in 0..EACH {
                    Own.call(move || {
                        if RUNS[own].fetch_add(1, Relaxed) == 0 {
                            BEFORE[own].store(RUNS[1 - own].load(Relaxed), Relaxed);
                        }
                        // Longer than a batch may take, and a tick of the clock.
                        let begin = Instant::now();
                        until(|| begin.elapsed() > Duration::from_millis(12));
                    });
                }
                both.wait();
            });
        }
    });
    drop(busy);
    Own.barrier();
    let before = BEFORE.each_ref().map(|before| before.load(Relaxed));
    assert!(before.iter().all(|before| *before <= 2), "{before:?}");
}

/// Returns the states and context-switch counts of the existing workers.
fn switches() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    let status = tasks.flat_map(|task| fs::read_to_string(task.path().join("status")));
    let workers = status.filter(|status| status.contains("stillpoint-rcu"));
    let counts = |status: String| {
        status.lines().filter(|line| line.contains("ctxt") || line.starts_with("State")).collect::<String>()
    };
    workers.map(counts).collect()
}

/// Returns `true` if there is one worker, which sleeps for `time`.
fn are_idle_for(time: Duration) -> bool {
    let (before, start) = (switches(), Instant::now());
    // A worker that starts has no name yet.
    if before.len() != 1 {
        return false;
    }
    while start.elapsed() < time {
        thread::park_timeout(time);
    }
    // A runnable worker would change later.
    switches() == before && before[0].contains("(sleeping)")
}

/// Runs two callbacks. Then one idle worker is left, sooner or later.
fn work<D: StaticDomain>() {
    let (calls, call) = counter();
    D::INSTANCE.call(call);
    until(|| calls.load(Acquire) == 1);
    D::INSTANCE.call(call);
    D::INSTANCE.barrier();
}

#[cfg(target_os = "linux")]
#[test]
fn worker_of_an_idle_process_is_not_woken() {
    alone!();
    stillpoint::domain! { struct Own; }
    work::<Own>();
    until(|| are_idle_for(Duration::from_secs(2)));
}
