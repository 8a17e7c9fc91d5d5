//! What the library does where no thread can be started. The program's own `pthread_create` takes the place of the C
//! library's, in this process.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_env = "gnu", not(stillpoint_portable)))]

use std::ffi::{c_int, c_void};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{mem, thread};

use stillpoint::Domain as _;
use stillpoint::rcu::GracePeriod;
use support::child;
use support::deadline::deadline;
use support::until::until;

static IS_DENIED: AtomicBool = AtomicBool::new(false);
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
static STARTS: AtomicUsize = AtomicUsize::new(0);
/// Milliseconds before a new thread begins.
static DELAY: AtomicU64 = AtomicU64::new(0);
/// Threads that may still be started.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

type Main = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Main, *mut c_void) -> c_int;

/// # Safety
///
/// As the C library's.
// SAFETY: the program links no other.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    let take = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
    if IS_DENIED.load(Acquire) || LEFT.fetch_update(AcqRel, Acquire, take).is_err() {
        ATTEMPTS.fetch_add(1, Relaxed);
        return libc::EAGAIN;
    }
    STARTS.fetch_add(1, Relaxed);
    let started = Box::into_raw(Box::new((main, argument)));
    // SAFETY: the next function of this name has this type; the caller's contract.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        mem::transmute::<*mut c_void, Create>(next)(thread, attributes, begin_late, started.cast())
    }
}

extern "C" fn begin_late(started: *mut c_void) -> *mut c_void {
    // SAFETY: the box of `pthread_create`.
    let (main, argument) = *unsafe { Box::from_raw(started.cast::<(Main, *mut c_void)>()) };
    thread::sleep(Duration::from_millis(DELAY.load(Relaxed)));
    main(argument)
}

stillpoint::domain! { struct Own; }
stillpoint::domain! { struct Busy; }

fn deny(is_denied: bool) {
    IS_DENIED.store(is_denied, Release);
}

/// Blocks the worker of [`Busy`] in a callback, until the sender is dropped. The receiver knows when.
fn blocking_call() -> (Sender<()>, Receiver<()>) {
    let (blocks, blocked) = channel();
    let (release, released) = channel::<()>();
    Busy.call(move || {
        blocks.send(()).expect("the test listens");
        let _ = released.recv();
    });
    (release, blocked)
}

/// Blocks the only worker in a callback, until the result is dropped. No more threads can be started.
fn block_worker() -> Sender<()> {
    let (release, blocked) = blocking_call();
    blocked.recv().expect("it runs");
    deny(true);
    release
}

/// Calls its function.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

#[test]
fn thread_that_waits_gets_a_poller_as_soon_as_one_can_be_started() {
    if !child::is_alone(thread_that_waits_gets_a_poller_as_soon_as_one_can_be_started) {
        return;
    }
    let _running = deadline();
    thread::scope(|scope| {
        let (go, goes) = channel();
        let waits = scope.spawn(move || {
            goes.recv().expect("the test goes on");
            GracePeriod::now_in(Own).wait_timeout(Duration::from_secs(3600))
        });
        let _release = block_worker();
        let guard = Own::enter();
        go.send(()).expect("it listens");
        // Its poller cannot be started.
        until(|| ATTEMPTS.load(Relaxed) != 0);
        let starts = STARTS.load(Relaxed);
        deny(false);
        until(|| STARTS.load(Relaxed) != starts);
        drop(guard);
        assert!(waits.join().expect("no panic"));
    });
}

#[test]
fn poll_gets_a_poller_as_soon_as_one_can_be_started() {
    if !child::is_alone(poll_gets_a_poller_as_soon_as_one_can_be_started) {
        return;
    }
    let _running = deadline();
    let (stay, stays) = channel::<()>();
    let (inside, begins) = channel();
    let reader = thread::spawn(move || {
        let _guard = Own::enter();
        inside.send(()).expect("the test listens");
        _ = stays.recv();
    });
    begins.recv().expect("it begins");
    let _release = block_worker();
    let mut future = pin!(GracePeriod::now_in(Own).into_future());
    let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    let starts = STARTS.load(Relaxed);
    deny(false);
    until(|| poll().is_ready() || STARTS.load(Relaxed) != starts);
    drop(stay);
    until(|| poll().is_ready());
    reader.join().expect("no panic");
}

/// Nothing else would end it.
#[test]
fn thread_that_waits_ends_a_grace_period_that_no_thread_can_wait_for() {
    if !child::is_alone(thread_that_waits_ends_a_grace_period_that_no_thread_can_wait_for) {
        return;
    }
    let _running = deadline();
    let _release = block_worker();
    assert!(GracePeriod::now_in(Own).wait_timeout(Duration::from_secs(3600)));
}

#[test]
fn future_of_a_barrier_runs_callbacks_that_no_thread_can_run() {
    if !child::is_alone(future_of_a_barrier_runs_callbacks_that_no_thread_can_run) {
        return;
    }
    let _running = deadline();
    let _release = block_worker();
    let (sender, runs) = channel();
    Own.call(move || sender.send(()).expect("the test listens"));
    let mut future = pin!(Own.barrier_async());
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    runs.recv().expect("it has run");
}

/// The worker that was to be idle is the timer instead.
#[test]
fn timer_does_not_sleep_for_readers_after_a_worker_has() {
    if !child::is_alone(timer_does_not_sleep_for_readers_after_a_worker_has) {
        return;
    }
    stillpoint::domain! { struct First; }
    stillpoint::domain! { struct Second; }
    let _running = deadline();
    let (stay, stays) = channel::<()>();
    let (inside, begins) = channel();
    let reader = thread::spawn(move || {
        let _guards = (First::enter(), Second::enter());
        inside.send(()).expect("the test listens");
        _ = stays.recv();
    });
    begins.recv().expect("it begins");
    let _release = block_worker();
    // A worker, and the spare that it starts.
    LEFT.store(2, Release);
    DELAY.store(20, Relaxed);
    deny(false);
    First.call(|| ());
    until(|| LEFT.load(Relaxed) == 0);
    for round in 0..200 {
        Second.call(|| ());
        let (sender, runs) = channel();
        Own.call(move || _ = sender.send(()));
        if round % 10 == 0 {
            runs.recv().expect("it runs");
        }
    }
    drop(stay);
    reader.join().expect("no panic");
}

#[test]
fn busy_worker_serves_other_domains() {
    const CALLBACKS: usize = 500;
    static RUN: AtomicUsize = AtomicUsize::new(0);
    if !child::is_alone(busy_worker_serves_other_domains) {
        return;
    }
    let _running = deadline();
    let (first, blocked) = blocking_call();
    blocked.recv().expect("it runs");
    // These have the same grace period.
    let (release, blocked) = blocking_call();
    for _ in 0..CALLBACKS {
        Busy.call(|| {
            thread::sleep(Duration::from_millis(2));
            RUN.fetch_add(1, Relaxed);
        });
    }
    drop(first);
    blocked.recv().expect("it runs");
    deny(true);
    let (sender, receiver) = channel();
    Own.call(move || sender.send(RUN.load(Relaxed)).expect("the test listens"));
    drop(release);
    let run = receiver.recv().expect("it runs");
    assert!(run < CALLBACKS, "it waited for all callbacks of another domain");
}

#[test]
fn waker_may_wait_for_callbacks_of_its_domain() {
    if !child::is_alone(waker_may_wait_for_callbacks_of_its_domain) {
        return;
    }
    let _running = deadline();
    // One worker.
    Own.call(|| ());
    Own.barrier();
    deny(true);
    let (sender, ends) = channel();
    let waker = Arc::new(Calls(move || {
        Own.call(|| ());
        Own.barrier();
        let _ = sender.send(());
    }))
    .into();
    for _ in 0..100 {
        // The worker has more to do when the barrier ends.
        Own.call(|| Own.call(|| ()));
        let mut future = pin!(Own.barrier_async());
        // It may have been called for an earlier barrier, or by this thread.
        while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            ends.recv().expect("it is called");
        }
    }
}

#[test]
fn failed_start_of_a_thread_is_not_repeated_at_each_push() {
    const PUSHES: usize = 50_000;
    if !child::is_alone(failed_start_of_a_thread_is_not_repeated_at_each_push) {
        return;
    }
    let _running = deadline();
    deny(true);
    (0..PUSHES).for_each(|value| Own.retire(Box::new(value.to_string())));
    let attempts = ATTEMPTS.load(Relaxed);
    assert!((1..PUSHES / 10).contains(&attempts), "{attempts} attempts");
    // The caller runs them.
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
    deny(false);
    // It is tried again, some time.
    let (sender, receiver) = channel();
    while receiver.try_recv().is_err() {
        let sender = sender.clone();
        Own.call(move || _ = sender.send(thread::current().id()));
    }
}
