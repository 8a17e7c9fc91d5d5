//! Destructors that the retiring thread runs: they delay callbacks of this thread only.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, RcuDomain};

/// Serializes the tests, which observe the workers of the process.
static ONE: Mutex<()> = Mutex::new(());

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `f` in a destructor on this thread, and returns its result.
fn run_locally<D: RcuDomain, R: Send + 'static>(f: fn() -> R) -> R {
    let own = thread::current().id();
    let (ended, has_ended) = channel::<Option<R>>();
    let retire = |ended: Sender<_>| {
        // `None` if the worker was faster.
        let run = move || ended.send((thread::current().id() == own).then(f)).expect("the test waits");
        D::INSTANCE.retire_with(Box::new(OnDrop(run)), DeferOptions::new().run_on_retiring_thread());
    };
    retire(ended.clone());
    loop {
        match has_ended.try_recv() {
            Ok(Some(result)) => return result,
            Ok(None) => retire(ended.clone()),
            // Owners run ready callbacks while they retire.
            Err(_) => D::INSTANCE.retire(Box::new([0_u64; 8])),
        }
    }
}

#[test]
fn local_destructor_may_wait_for_another_threads_callback() {
    stillpoint::domain! { struct Own; }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _running = deadline();
    run_locally::<Own, _>(|| {
        let (called, is_called) = channel();
        let other = thread::spawn(|| Own.call(move || called.send(()).expect("the destructor waits")));
        is_called.recv().expect("the callback runs meanwhile");
        other
    })
    .join()
    .expect("it does not panic");
}

/// Returns the CPU time of the library's threads, in nanoseconds.
fn worker_time() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    tasks.fold(0, |time, task| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let is_worker = read("comm").trim() == "stillpoint-rcu";
        let ran = read("schedstat").split(' ').next().and_then(|time| time.parse().ok());
        time + if is_worker { ran.unwrap_or(0) } else { 0 }
    })
}

#[test]
fn worker_sleeps_while_a_local_destructor_runs() {
    stillpoint::domain! { struct Own; }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _running = deadline();
    let (barrier, ended, ran, all) = run_locally::<Own, _>(|| {
        let barrier = thread::spawn(|| {
            Own.barrier();
            Instant::now()
        });
        let (begin, before) = (Instant::now(), worker_time());
        // Long enough to notice a worker that polls.
        thread::sleep(Duration::from_millis(200));
        (barrier, Instant::now(), worker_time() - before, begin.elapsed().as_nanos() as u64)
    });
    assert!(ran < all / 4, "the worker ran for {ran} of {all} ns, although no callback could run");
    assert!(barrier.join().expect("it does not panic") > ended, "the barrier waits for the destructor");
}

/// Returns how often the library's threads have gone to sleep.
fn worker_sleeps() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    let status = tasks.flat_map(|task| fs::read_to_string(task.path().join("status")));
    let workers = status.filter(|status| status.contains("stillpoint-rcu"));
    let sleeps = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    workers.filter_map(sleeps).sum()
}

#[test]
fn nested_retirements_do_not_each_wake_the_worker() {
    stillpoint::domain! { struct Own; }
    const COUNT: u32 = 5_000;
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _running = deadline();
    let (sleeps, time) = run_locally::<Own, _>(|| {
        let (before, begin) = (worker_sleeps(), Instant::now());
        for number in 0..COUNT {
            Own.retire(Box::new(0_u64));
            // Long enough for a woken worker to sleep again.
            while begin.elapsed() < number * Duration::from_micros(20) {}
        }
        (worker_sleeps() - before, begin.elapsed())
    });
    // A spurious wake-up for each retirement would make it twice a millisecond.
    let bound = 4 * time.as_millis() as u64;
    assert!(sleeps <= bound, "the worker sleeps {sleeps} times in {time:?}");
}
