//! Destructors that the retiring thread runs: they delay callbacks of this thread only. The tests observe the workers
//! of the process, so each has a process of its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;

use support::prelude::*;

/// Runs `f` in a destructor on this thread, and returns its result.
fn run_locally<D: StaticDomain, R: Send + 'static>(f: fn() -> R) -> R {
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
    alone!();
    run_locally::<Own, _>(|| {
        let (called, is_called) = channel();
        let other = thread::spawn(|| Own.call(move || called.send(()).expect("the destructor waits")));
        is_called.recv().expect("the callback runs while the thread waits");
        other
    })
    .join()
    .expect("it does not panic");
}

/// Numbers of the library's threads, by thread id.
type Workers = HashMap<OsString, u64>;

/// Reads a number from `file` in the folder of each of the library's threads in `/proc`.
fn workers(file: &str, number: fn(&str) -> Option<u64>) -> Workers {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    let workers = tasks.filter_map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).ok();
        let is_worker = read("comm")?.trim() == "stillpoint-rcu";
        is_worker.then_some((task.file_name(), number(&read(file)?)?))
    });
    workers.collect()
}

/// Returns the CPU time of the library's threads, in nanoseconds.
fn worker_time() -> Workers {
    workers("schedstat", |text| text.split(' ').next()?.parse().ok())
}

/// Returns by how much the numbers have grown. Threads that have exited since do not count.
fn growth(before: &Workers, after: Workers) -> u64 {
    after.into_iter().map(|(thread, number)| number - before.get(&thread).unwrap_or(&0)).sum()
}

#[test]
fn worker_sleeps_while_a_local_destructor_runs() {
    stillpoint::domain! { struct Own; }
    alone!();
    let (barrier, ended, ran, all) = run_locally::<Own, _>(|| {
        let barrier = thread::spawn(|| {
            Own.barrier();
            Instant::now()
        });
        let (begin, before) = (Instant::now(), worker_time());
        // Long enough to notice a worker that polls.
        thread::sleep(Duration::from_millis(200));
        (barrier, Instant::now(), growth(&before, worker_time()), begin.elapsed().as_nanos() as u64)
    });
    assert!(ran < all / 4, "the worker ran for {ran} of {all} ns, although no callback could run");
    assert!(barrier.join().expect("it does not panic") > ended, "the barrier waits for the destructor");
}

/// Returns how often the library's threads have gone to sleep.
fn worker_sleeps() -> Workers {
    workers("status", |text| {
        let line = text.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    })
}

#[test]
fn nested_retirements_do_not_each_wake_the_worker() {
    stillpoint::domain! { struct Own; }
    const COUNT: u32 = 5_000;
    alone!();
    let (sleeps, time) = run_locally::<Own, _>(|| {
        let (before, begin) = (worker_sleeps(), Instant::now());
        for number in 0..COUNT {
            Own.retire(Box::new(0_u64));
            // Long enough for a woken worker to sleep again.
            while begin.elapsed() < number * Duration::from_micros(20) {}
        }
        (growth(&before, worker_sleeps()), begin.elapsed())
    });
    // A spurious wake-up for each retirement would make it twice a millisecond.
    let bound = 4 * time.as_millis() as u64;
    assert!(sleeps <= bound, "the worker sleeps {sleeps} times in {time:?}");
}
