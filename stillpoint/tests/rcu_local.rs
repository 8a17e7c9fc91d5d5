//! Destructors that the thread which retired the value runs: they delay what this thread has deferred, and nothing else.
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

/// One test at a time: the workers of the process are watched.
static ONE: Mutex<()> = Mutex::new(());

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What `f` returns in a local destructor that this thread runs.
fn run_locally<D: RcuDomain, R: Send + 'static>(f: fn() -> R) -> R {
    let own = thread::current().id();
    let (ended, has_ended) = channel::<Option<R>>();
    let retire = |ended: Sender<_>| {
        // Nothing if the worker was faster.
        let run = move || ended.send((thread::current().id() == own).then(f)).expect("the test waits");
        D::INSTANCE.retire_with(Box::new(OnDrop(run)), DeferOptions::new().run_on_retiring_thread());
    };
    retire(ended.clone());
    loop {
        match has_ended.try_recv() {
            Ok(Some(result)) => return result,
            Ok(None) => retire(ended.clone()),
            // Owners run what is ripe while they retire.
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

/// Nanoseconds for which threads of the library have run.
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
        // Long enough for a worker that looks again and again to be seen.
        thread::sleep(Duration::from_millis(200));
        (barrier, Instant::now(), worker_time() - before, begin.elapsed().as_nanos() as u64)
    });
    assert!(ran < all / 4, "the worker ran for {ran} of {all} ns, while nothing could be done");
    assert!(barrier.join().expect("it does not panic") > ended, "the barrier waits for the destructor");
}

/// How often threads of the library have gone to sleep.
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
            // Long enough for a worker that is woken to sleep again.
            while begin.elapsed() < number * Duration::from_micros(20) {}
        }
        (worker_sleeps() - before, begin.elapsed())
    });
    // Twice a millisecond, if it is woken in vain.
    let bound = 4 * time.as_millis() as u64;
    assert!(sleeps <= bound, "the worker sleeps {sleeps} times in {time:?}");
}
