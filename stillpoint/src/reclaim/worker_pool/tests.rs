use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use super::*;
use support::deadline::deadline;

/// The pool belongs to the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_worker() -> bool {
    fs::read_to_string("/proc/thread-self/comm").is_ok_and(|name| name.trim() == "stillpoint-rcu")
}

fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

fn workers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    // A thread may end at any time.
    let names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
    names.filter(|name| name.trim() == "stillpoint-rcu").count()
}

fn is_idle() -> bool {
    POOL.get().has_idle()
}

#[test]
fn task_runs_in_a_worker_with_all_signals_blocked() {
    static RIGHT: AtomicBool = AtomicBool::new(false);
    let (_running, _alone) = (deadline(), alone());
    assert!(submit(|| {
        let status = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a signal mask");
        let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a number");
        let usr1 = 1 << (libc::SIGUSR1 - 1);
        RIGHT.store(is_worker() && blocked & usr1 != 0, Release);
    }));
    until(|| RIGHT.load(Acquire));
}

#[test]
fn tasks_run_at_once_and_leave_one_idle_worker() {
    const TASKS: usize = 8;
    static ALL: Barrier = Barrier::new(TASKS + 1);
    let (_running, _alone) = (deadline(), alone());
    for _ in 0..20 {
        assert!((0..TASKS).all(|_| submit(|| _ = ALL.wait())));
        ALL.wait();
    }
    until(|| is_idle() && workers() == 1);
}

#[test]
fn submits_that_race_with_finishing_workers_run_each_task_once() {
    const SUBMITS: usize = 500;
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let (_running, _alone) = (deadline(), alone());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..SUBMITS).for_each(|_| assert!(submit(|| _ = RUNS.fetch_add(1, Release)))));
        }
    });
    until(|| RUNS.load(Acquire) == 2 * SUBMITS);
    until(|| is_idle() && workers() == 1);
    assert_eq!(RUNS.load(Acquire), 2 * SUBMITS);
}

#[test]
fn idle_worker_runs_the_next_task_after_a_panic() {
    // Of this test alone: the workers of other tests would take the tasks.
    static OWN: PoolState = PoolState::new();
    static THREADS: Mutex<Vec<thread::ThreadId>> = Mutex::new(Vec::new());
    fn task() -> Task {
        Box::new(|| {
            THREADS.lock().expect("no panic under this lock").push(thread::current().id());
            panic!("on purpose");
        })
    }
    let _running = deadline();
    let worker = thread::spawn(|| {
        run(task());
        while let Some(task) = OWN.next() {
            run(task);
        }
    });
    for _ in 1..10 {
        until(|| OWN.has_idle());
        assert!(OWN.assign(task()).is_ok());
    }
    until(|| OWN.has_idle());
    assert_eq!(*THREADS.lock().expect("no panic under this lock"), [worker.thread().id(); 10]);
}
