//! What the user sees of a task that never yields: a line on the standard error, in a process of its own.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, hint};

use stillpoint::rcu::{self, GracePeriod, Rcu};
use stillpoint::{Domain as _, qsbr};
use stillpoint_tokio::BuilderExt as _;
use support::child;
use support::deadline::deadline;
use support::until::until;
use tokio::runtime::Builder;
use tokio::task::yield_now;

const TASKS: usize = 64;

/// Returns the id of the calling thread.
fn own_id() -> u64 {
    let path = fs::read_link("/proc/thread-self").expect("/proc");
    path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("PID/task/TID")
}

/// Runs tasks on two workers, of which one calls `never_yield` and holds what it returns. Waits for `period` until it
/// has reported a stall, as `stalls` counts, and releases the task. Writes the id of its thread.
fn run<T: 'static>(
    never_yield: fn() -> T,
    period: impl Future<Output = ()> + Send + 'static,
    stalls: impl Fn() -> u64,
) {
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("web")
        .hint_idle_on_park()
        .build()
        .expect("a runtime");
    let (stop, thread) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let stuck = runtime.spawn({
        let (stop, thread) = (Arc::clone(&stop), Arc::clone(&thread));
        async move {
            let held = never_yield();
            thread.store(own_id(), SeqCst);
            while !stop.load(SeqCst) {
                hint::spin_loop();
            }
            drop(held);
        }
    });
    until(|| thread.load(SeqCst) != 0);
    let (current, reads) = (Arc::new(Rcu::new(1)), Arc::new(AtomicU64::new(0)));
    let readers = (1..TASKS).map(|_| {
        let (stop, reads, current) = (Arc::clone(&stop), Arc::clone(&reads), Arc::clone(&current));
        runtime.spawn(async move {
            while !stop.load(SeqCst) {
                assert_eq!(*current.read(), 1);
                reads.fetch_add(1, SeqCst);
                yield_now().await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let waiting = runtime.spawn(period);
    until(|| stalls() != 0);
    assert!(!waiting.is_finished());
    // The other worker runs all other tasks meanwhile.
    let before = reads.load(SeqCst);
    until(|| reads.load(SeqCst) > before + TASKS as u64);
    eprintln!("the thread is {}", thread.load(SeqCst));
    stop.store(true, SeqCst);
    readers.into_iter().chain([waiting, stuck]).for_each(|task| runtime.block_on(task).expect("no panic"));
}

/// The place that the report names.
fn enter_here() -> rcu::Guard {
    rcu::enter()
}

fn register_here() -> qsbr::Handle {
    qsbr::register()
}

/// A report names the worker that runs the task. (Others may name a reader that has lost its CPU.)
fn assert_names_the_worker(stderr: &str, domain: &str, end: &str) {
    let thread = stderr.lines().find_map(|line| line.strip_prefix("the thread is ")).expect("the thread");
    let is_right = |line: &str| {
        line.starts_with("stillpoint: grace period ")
            && line.contains(&format!(" of {domain} has waited "))
            && line.contains(&format!(" for thread {thread} (web), which registered at {}:", file!()))
            && line.ends_with(end)
    };
    assert!(stderr.lines().any(is_right), "{stderr}");
}

#[test]
fn task_that_never_yields_inside_a_section_is_reported_by_its_worker() {
    let _running = deadline();
    let test = task_that_never_yields_inside_a_section_is_reported_by_its_worker;
    if child::variant().is_none() {
        let stderr = child::stderr(test, "child", None);
        return assert_names_the_worker(&stderr, "stillpoint::rcu::Global", "");
    }
    run(enter_here, async { GracePeriod::start().await }, || rcu::stats().stalls);
}

#[test]
fn task_that_never_reports_is_reported_by_its_worker() {
    let _running = deadline();
    let test = task_that_never_reports_is_reported_by_its_worker;
    if child::variant().is_none() {
        let stderr = child::stderr(test, "child", None);
        let end = " and has not reported a quiescent state";
        return assert_names_the_worker(&stderr, "stillpoint::qsbr::Global", end);
    }
    let period = async { GracePeriod::now_in(qsbr::Global).await };
    run(register_here, period, || qsbr::Global.stats().stalls);
}
