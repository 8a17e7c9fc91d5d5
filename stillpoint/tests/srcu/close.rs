//! A closed `srcu` domain has no handle and no section left, and has run everything that was deferred.

use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use std::{fs, thread};

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, GracePeriod, Rcu, Stall, set_stall_hook, set_stall_timeout};
use stillpoint::srcu::{Close, Domain};
use support::callbacks::{LAZY, counter};
use support::child;
use support::deadline::deadline;
use support::panics::message;
#[cfg(target_os = "linux")]
use support::threads::deny_threads;
use support::tracked::Tracked;
use support::until::until;

/// Waits for `close` in some way.
type Wait = fn(Close);

/// Blocking, and on an executor.
const WAYS: [Wait; 2] = [|close| close.wait(), block_on];

fn block_on(close: Close) {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(close);
}

/// Wakes nothing.
struct Noop;

impl Wake for Noop {
    fn wake(self: Arc<Self>) {}
}

fn is_send_and_static<T: Send + Sync + 'static>(_: &T) {}

#[test]
fn close_waits_for_handles_sections_and_callbacks() {
    let _running = deadline();
    for wait in WAYS {
        let (calls, call) = counter();
        let (drops, _) = counter();
        let domain = Domain::new();
        let value = Rcu::new_in(Tracked(drops), domain.clone());
        let (guard, stage) = (domain.enter_owned(), Arc::new(AtomicUsize::new(0)));
        let reader = thread::spawn({
            let stage = Arc::clone(&stage);
            move || {
                until(|| stage.load(Acquire) == 1);
                assert_eq!(value.load(&guard).0.load(Acquire), 0);
                drop(value.replace(Tracked(drops)));
                stage.store(2, Release);
                drop(guard);
                thread::sleep(Duration::from_millis(5));
                stage.store(3, Release);
                drop(value);
            }
        });
        (0..100).for_each(|_| domain.call_with(call, LAZY));
        let close = domain.close();
        is_send_and_static(&close);
        assert!(!close.is_closed());
        stage.store(1, Release);
        wait(close);
        assert_eq!(stage.load(Acquire), 3, "the pointer had a handle");
        assert_eq!((calls.load(Acquire), drops.load(Acquire)), (100, 2));
        reader.join().expect("no panic");
    }
}

#[test]
fn close_of_the_only_handle_ends_at_once() {
    let _running = deadline();
    for wait in WAYS {
        wait(Domain::new().close());
        let domain = Domain::new();
        domain.synchronize();
        let close = domain.close();
        assert!(close.is_closed());
        close.wait();
        wait(close);
    }
}

#[test]
fn borrowed_data_is_not_used_after_close() {
    let _running = deadline();
    for wait in WAYS {
        let mut calls = AtomicUsize::new(0);
        let domain = Domain::new();
        for _ in 0..1000 {
            // SAFETY: the counter exists until the domain is closed, and threads may share it.
            unsafe { domain.call_unchecked(|| _ = calls.fetch_add(1, Relaxed), DeferOptions::new()) };
        }
        wait(domain.close());
        assert_eq!(*calls.get_mut(), 1000);
    }
}

/// Defers itself `left` times, with a handle.
fn chain(domain: Domain, left: usize, calls: &'static AtomicUsize) {
    let next = domain.clone();
    domain.call(move || {
        calls.fetch_add(1, Release);
        if left != 0 {
            chain(next, left - 1, calls);
        }
    });
}

#[test]
fn close_waits_for_what_callbacks_defer() {
    const LENGTH: usize = 50;
    let _running = deadline();
    for wait in WAYS {
        let (calls, _) = counter();
        let domain = Domain::new();
        chain(domain.clone(), LENGTH, calls);
        wait(domain.close());
        assert_eq!(calls.load(Acquire), LENGTH + 1);
    }
}

#[test]
fn close_waits_for_a_lazy_callback_with_a_handle() {
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    let own = domain.clone();
    domain.call_with(
        move || {
            own.call(call);
            drop(own);
        },
        LAZY,
    );
    domain.close().wait();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn close_inside_a_callback_panics() {
    let _running = deadline();
    for wait in WAYS {
        let (sender, receiver) = channel();
        let domain = Domain::new();
        let own = domain.clone();
        domain.call(move || {
            let refused = catch_unwind(AssertUnwindSafe(|| wait(own.close())));
            sender.send(refused.map_err(|panic| message(&*panic).to_owned())).expect("the test listens");
        });
        let refused = receiver.recv().expect("the callback runs").expect_err("it would wait for itself");
        assert!(refused.contains("inside a callback"), "{refused}");
        wait(domain.close());
    }
}

#[test]
fn callback_may_close_another_domain() {
    let _running = deadline();
    let (calls, call) = counter();
    let (outer, inner) = (Domain::new(), Domain::new());
    inner.call(call);
    outer.call(move || inner.close().wait());
    outer.close().wait();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn all_closers_of_a_domain_are_woken() {
    const CLOSERS: usize = 16;
    let _running = deadline();
    let domain = Domain::new();
    let guard = domain.enter_owned();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for index in 0..CLOSERS {
            let (close, is_over) = (domain.clone().close(), &is_over);
            scope.spawn(move || {
                WAYS[index % 2](close);
                assert!(is_over.load(Acquire));
            });
        }
        drop(domain);
        thread::sleep(Duration::from_millis(5));
        is_over.store(true, Release);
        drop(guard);
    });
}

#[test]
fn dropped_close_keeps_neither_domain_nor_waker() {
    let _running = deadline();
    let domain = Domain::new();
    let signal = Arc::new(Noop);
    {
        let mut close = pin!(domain.clone().close());
        let waker = Waker::from(Arc::clone(&signal));
        for _ in 0..2 {
            assert!(close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(Arc::strong_count(&signal), 1);
    domain.synchronize();
    domain.close().wait();
}

#[test]
fn close_does_not_wait_for_a_leaked_borrowing_guard() {
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    mem::forget(domain.enter());
    domain.call(call);
    domain.close().wait();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn future_of_a_closing_domain_completes() {
    let _running = deadline();
    let domain = Domain::new();
    let guard = domain.enter_owned();
    let readers = GracePeriod::now_in(domain.clone());
    let waiter = thread::spawn(move || readers.wait());
    let close = domain.close();
    drop(guard);
    close.wait();
    waiter.join().expect("no panic");
}

#[test]
fn tasks_holding_owned_guards_are_waited_for() {
    const TASKS: usize = 50;
    let _running = deadline();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let (domain, left) = (Domain::new(), Arc::new(AtomicUsize::new(TASKS)));
        for _ in 0..TASKS {
            let (guard, left) = (domain.enter_owned(), Arc::clone(&left));
            tokio::spawn(async move {
                let mut guard = guard;
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                    guard.repin();
                }
                left.fetch_sub(1, Release);
                drop(guard);
            });
        }
        domain.close().await;
        assert_eq!(left.load(Acquire), 0);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn close_ends_without_worker_threads() {
    if child::variant().is_none() {
        return child::run(close_ends_without_worker_threads, "denied", None);
    }
    let _running = deadline();
    deny_threads();
    for wait in WAYS {
        let (calls, call) = counter();
        let domain = Domain::new();
        let own = domain.clone();
        domain.call_with(
            move || {
                own.call(call);
                drop(own);
            },
            LAZY,
        );
        domain.call(call);
        wait(domain.close());
        assert_eq!(calls.load(Acquire), 2);
        // More than the reports of a stall, whose intervals double, would let run.
        const LENGTH: usize = 50;
        let (calls, _) = counter();
        let domain = Domain::new();
        chain(domain.clone(), LENGTH, calls);
        wait(domain.close());
        assert_eq!(calls.load(Acquire), LENGTH + 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn task_of_a_dropped_close_runs_what_the_last_handle_leaves() {
    if child::variant().is_none() {
        return child::run(task_of_a_dropped_close_runs_what_the_last_handle_leaves, "denied", None);
    }
    let _running = deadline();
    let (calls, call) = counter();
    let (began, begins) = channel();
    let (stay, stays) = channel::<()>();
    let domain = Domain::new();
    {
        // Starts the only thread of the library, for a task that waits.
        let mut close = pin!(domain.clone().close());
        let waker = Arc::new(Noop).into();
        assert!(close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        deny_threads();
        domain.call(move || {
            began.send(()).expect("the test listens");
            let _ = stays.recv();
        });
        // In the task.
        begins.recv().expect("the callback runs");
    }
    domain.call(call);
    domain.call_with(call, LAZY);
    drop(domain);
    drop(stay);
    until(|| calls.load(Acquire) == 2);
}

#[test]
fn close_that_waits_for_a_handle_is_reported() {
    static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());
    if child::variant().is_none() {
        return child::run(close_that_waits_for_a_handle_is_reported, "", None);
    }
    let _running = deadline();
    set_stall_timeout(Some(Duration::from_millis(2)));
    set_stall_hook(Box::new(|stall| STALLS.lock().expect("no panic").push(stall.clone())));
    let stalls = || STALLS.lock().expect("no panic").len();
    let domain = Domain::new();
    let line = line!() - 1;
    let [value, other] = [(); 2].map(|()| Rcu::new_in(1, domain.clone()));
    let guard = domain.enter_owned();
    thread::scope(|scope| {
        for wait in WAYS {
            let (close, before) = (domain.clone().close(), stalls());
            scope.spawn(move || wait(close));
            until(|| stalls() >= before + 2);
        }
        drop((guard, value, other, domain));
    });
    let stalls = STALLS.lock().expect("no panic");
    let stall = &stalls[0];
    assert_eq!((stall.domain(), stall.grace_period(), stall.readers().len()), ("srcu::Domain", 0, 0));
    assert_eq!((stall.handles(), stall.sections()), (4, 1), "{stall}");
    assert_eq!(stall.made_at().map(|site| site.line()), Some(line));
    let text = stall.to_string();
    assert!(text.contains(" has waited ") && text.ends_with("and 1 sections are open"), "{text}");
}

#[test]
fn close_that_is_dropped_after_a_poll_keeps_no_thread() {
    if !child::is_alone(close_that_is_dropped_after_a_poll_keeps_no_thread) {
        return;
    }
    let _running = deadline();
    let threads = || fs::read_dir("/proc/self/task").expect("the process has threads").count();
    let domains: Vec<_> = (0..20).map(|_| Domain::new()).collect();
    for domain in &domains {
        let mut close = pin!(domain.clone().close());
        let waker = Arc::new(Noop).into();
        assert!(close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    // An idle worker, the deadline, and the threads of the test program.
    until(|| threads() < 20);
}
