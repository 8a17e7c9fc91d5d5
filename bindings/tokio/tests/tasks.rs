//! Grace periods and barriers beside tasks that read, yield, never yield, or hold a guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Waker};
use std::{hint, thread};

use stillpoint::rcu::{self, GracePeriod, Rcu};
use stillpoint::{Domain as _, domain};
use stillpoint_tokio::BuilderExt as _;
use support::deadline::deadline;
use support::panics::message;
use support::until::until;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{LocalSet, yield_now};

const TASKS: usize = 64;

fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).hint_idle_on_park().build().expect("a runtime")
}

/// Spawns a task that occupies its worker until `stop` is set, and returns when it runs.
fn spawn_busy_task(runtime: &Runtime, stop: &Arc<AtomicBool>, section: bool) -> tokio::task::JoinHandle<()> {
    let (runs, stop) = (Arc::new(AtomicBool::new(false)), Arc::clone(stop));
    let task = runtime.spawn({
        let runs = Arc::clone(&runs);
        async move {
            let guard = section.then(rcu::enter);
            runs.store(true, SeqCst);
            while !stop.load(SeqCst) {
                hint::spin_loop();
            }
            drop(guard);
        }
    });
    until(|| runs.load(SeqCst));
    task
}

#[test]
fn task_that_never_yields_delays_no_grace_period_outside_sections() {
    const REPLACEMENTS: u64 = 100;
    let _running = deadline();
    let runtime = two_workers();
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let current = Arc::new(Rcu::new(0));
    let busy = spawn_busy_task(&runtime, &stop, false);
    // The other worker runs the rest.
    let readers = (2..TASKS).map(|_| {
        let (stop, reads, current) = (Arc::clone(&stop), Arc::clone(&reads), Arc::clone(&current));
        runtime.spawn(async move {
            let mut last = 0;
            while !stop.load(SeqCst) {
                let seen = *current.read();
                assert!(seen >= last);
                last = seen;
                reads.fetch_add(1, SeqCst);
                yield_now().await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let writer = runtime.spawn(async move {
        for new in 1..=REPLACEMENTS {
            assert_eq!(current.replace(new).await, new - 1);
        }
        rcu::Global.barrier_async().await;
    });
    runtime.block_on(writer).expect("no panic");
    assert!(!busy.is_finished() && reads.load(SeqCst) > 0);
    stop.store(true, SeqCst);
    readers.into_iter().chain([busy]).for_each(|task| runtime.block_on(task).expect("no panic"));
}

#[test]
fn task_that_never_yields_inside_a_section_delays_grace_periods_only() {
    let _running = deadline();
    let runtime = two_workers();
    let stop = Arc::new(AtomicBool::new(false));
    let busy = spawn_busy_task(&runtime, &stop, true);
    let period = GracePeriod::start();
    let waiting = runtime.spawn(async move { period.await });
    // The other worker is not blocked by the wait.
    for _ in 0..100 {
        runtime.block_on(runtime.spawn(async { drop(rcu::enter()) })).expect("no panic");
    }
    assert!(!period.is_elapsed() && !waiting.is_finished());
    stop.store(true, SeqCst);
    runtime.block_on(waiting).expect("no panic");
    runtime.block_on(busy).expect("no panic");
    assert!(period.is_elapsed());
}

#[test]
fn barrier_ends_after_all_callbacks_and_blocks_no_worker() {
    domain! { struct Own; }
    let _running = deadline();
    // The only thread of the runtime: whatever blocked it would hang the test.
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let (called, release) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(2)));
    Own.call({
        let (called, release) = (Arc::clone(&called), Arc::clone(&release));
        move || {
            release.wait();
            called.fetch_add(1, SeqCst);
        }
    });
    thread::scope(|s| {
        s.spawn(|| (0..100).for_each(|_| Own.call(count(&called))));
    });
    runtime.block_on(async {
        let waiting = tokio::spawn(Own.barrier_async());
        yield_now().await;
        assert!(!waiting.is_finished());
        release.wait();
        waiting.await.expect("no panic");
        assert_eq!(called.load(SeqCst), 101);
    });
}

fn count(called: &Arc<AtomicU64>) -> impl FnOnce() + Send + 'static {
    let called = Arc::clone(called);
    move || {
        called.fetch_add(1, SeqCst);
    }
}

#[test]
fn dropped_barrier_leaves_callbacks_to_the_worker() {
    domain! { struct Own; }
    let _running = deadline();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let called = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        Own.call(count(&called));
        let mut waiting = Box::pin(Own.barrier_async());
        let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(waiting);
        Own.barrier_async().await;
    });
    assert_eq!(called.load(SeqCst), 1);
}

#[test]
fn barrier_under_a_guard_of_its_thread_panics() {
    domain! { struct Own; }
    let _running = deadline();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let guard = Own::enter();
        let other = tokio::task::spawn_local(Own.barrier_async());
        assert!(other.await.expect_err("it waits for its own thread").is_panic());
        drop(guard);
        Own.barrier_async().await;
    });
}

/// Calls `meanwhile` with a runtime whose blocking threads are all in `block`.
fn with_full_pool(block: impl Fn(Handle) + Send + Sync + 'static, meanwhile: impl FnOnce(&Runtime)) {
    const THREADS: usize = 4;
    let runtime = Builder::new_multi_thread().worker_threads(1).max_blocking_threads(THREADS).build();
    let runtime = runtime.expect("a runtime");
    let (all, block) = (Arc::new(Barrier::new(THREADS + 1)), Arc::new(block));
    let blocking = [(); THREADS].map(|()| {
        let (all, block, handle) = (Arc::clone(&all), Arc::clone(&block), runtime.handle().clone());
        runtime.spawn_blocking(move || {
            all.wait();
            block(handle);
        })
    });
    all.wait();
    meanwhile(&runtime);
    blocking.into_iter().for_each(|task| runtime.block_on(task).expect("no panic"));
}

#[test]
fn barriers_in_all_blocking_threads_end() {
    domain! { struct Own; }
    let _running = deadline();
    let called = Arc::new(AtomicU64::new(0));
    let calls = Arc::clone(&called);
    let block = move |handle: Handle| {
        Own.call(count(&calls));
        handle.block_on(Own.barrier_async());
    };
    with_full_pool(block, |_| ());
    assert_eq!(called.load(SeqCst), 4);
}

#[test]
fn barrier_ends_while_all_blocking_threads_wait_for_it() {
    domain! { struct Own; }
    let _running = deadline();
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let block = move |_| until(|| ends.load(SeqCst));
    with_full_pool(block, |runtime| {
        Own.call(|| ());
        runtime.block_on(Own.barrier_async());
        ended.store(true, SeqCst);
    });
}

#[test]
fn barrier_inside_a_callback_of_its_domain_panics() {
    domain! { struct Own; }
    let _running = deadline();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let (send, receive) = mpsc::channel();
    Own.call(move || {
        let panic = catch_unwind(AssertUnwindSafe(|| runtime.block_on(Own.barrier_async())))
            .expect_err("it waits for itself");
        send.send(message(&*panic).to_owned()).expect("the test waits");
    });
    let message = receive.recv().expect("the callback has not panicked");
    assert!(message.contains("inside a callback of the same domain would wait for itself"), "{message}");
}
