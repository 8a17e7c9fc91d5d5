//! What the library does where no thread can be started. The program's own `pthread_create` takes the place of the C
//! library's, in this process.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_env = "gnu", not(stillpoint_portable)))]

use std::ffi::{c_int, c_void};
use std::pin::pin;

use support::counting::{Counting, allocations};
use support::futures::waker;
use support::owner::section_elsewhere;
use support::prelude::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

#[test]
fn waiting_thread_gets_a_poller_once_one_can_be_started() {
    alone!();
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
    alone!();
    let leave = section_elsewhere::<Own>();
    let _release = block_worker();
    let mut future = pin!(GracePeriod::now_in(Own).into_future());
    let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    let starts = STARTS.load(Relaxed);
    deny(false);
    until(|| poll().is_ready() || STARTS.load(Relaxed) != starts);
    leave();
    until(|| poll().is_ready());
}

/// Nothing else would end it.
#[test]
fn waiting_thread_ends_a_grace_period_without_a_poller() {
    alone!();
    let _release = block_worker();
    assert!(GracePeriod::now_in(Own).wait_timeout(Duration::from_secs(3600)));
}

#[test]
fn future_of_a_barrier_runs_callbacks_that_no_thread_can_run() {
    alone!();
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
    alone!();
    stillpoint::domain! { struct First; }
    stillpoint::domain! { struct Second; }
    let (leave_first, leave_second) = (section_elsewhere::<First>(), section_elsewhere::<Second>());
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
    leave_first();
    leave_second();
}

#[test]
fn busy_worker_serves_other_domains() {
    const CALLBACKS: usize = 500;
    static RUN: AtomicUsize = AtomicUsize::new(0);
    alone!();
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
    alone!();
    // One worker.
    Own.call(|| ());
    Own.barrier();
    deny(true);
    let (sender, ends) = channel();
    let waker = waker(move || {
        Own.call(|| ());
        Own.barrier();
        let _ = sender.send(());
    });
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

fn leak() -> &'static srcu::Domain {
    Box::leak(Box::default())
}

/// Takes all places for domains, until the result is dropped.
fn take_places() -> Vec<srcu::Guard<'static>> {
    let stall = |_| {
        let domain = leak();
        let guard = domain.enter();
        domain.call(|| ());
        guard
    };
    (0..thread::available_parallelism().expect("a number").get()).map(stall).collect()
}

/// A callback of one domain waits for another one. If that `is_busy`, a thread has just run one of its callbacks, and
/// parks the domain for the next one. All threads that could resume it wait for the first callback.
fn wait_in_callback(is_busy: bool, wait: fn(&'static srcu::Domain)) {
    let guards = take_places();
    let (first, others, last) = (leak(), [(); 4].map(|()| leak()), leak());
    let (begins, begun) = channel();
    let blocking_call = |domain: &'static srcu::Domain, then: fn(&'static srcu::Domain)| {
        let begins = begins.clone();
        let (go, goes) = channel();
        domain.call(move || {
            begins.send(()).expect("the test listens");
            goes.recv().expect("the test goes on");
            then(last);
        });
        begun.recv().expect("it runs");
        go
    };
    let end_last = is_busy.then(|| blocking_call(last, |_| ()));
    let guard = last.enter();
    let go = blocking_call(first, wait);
    if let Some(end_last) = end_last {
        go.send(()).expect("it listens");
        until(|| last.stats().queued == 2);
        end_last.send(()).expect("it listens");
        until(|| last.stats().queued == 1);
    }
    deny(true);
    others.iter().for_each(|other| other.call(|| first.barrier()));
    _ = go.send(());
    drop(guard);
    others.iter().for_each(|other| other.barrier());
    drop(guards);
}

fn call_and_wait(domain: &'static srcu::Domain) {
    domain.call(|| ());
    domain.barrier();
}

#[test]
fn callback_that_waits_for_a_grace_period_needs_no_other_thread() {
    alone!();
    wait_in_callback(false, |last| {
        assert!(GracePeriod::now_in(last.clone()).wait_timeout(Duration::from_secs(3600)));
    });
}

#[test]
fn callback_that_waits_for_a_parked_domain_needs_no_other_thread() {
    alone!();
    wait_in_callback(false, call_and_wait);
}

/// Refutes: callback-relies-on-others
#[test]
fn callback_that_waits_needs_no_other_thread_once_the_domain_is_parked() {
    alone!();
    wait_in_callback(true, call_and_wait);
}

/// Defers calls until a worker runs one, for which a thread is started some time.
fn call_in_worker() {
    let (sender, receiver) = channel();
    while receiver.try_recv().is_err() {
        let sender = sender.clone();
        Busy.call(move || _ = sender.send(()));
    }
}

/// Pushes to a domain that is parked. Few of them take more than storing the callback, which allocates once in 64.
fn push_to_parked_domain() {
    const PUSHES: usize = 50_000;
    let before = allocations();
    (0..PUSHES).for_each(|_| Own.call(|| ()));
    let allocations = allocations() - before;
    assert!(allocations < PUSHES / 10, "{allocations} allocations");
}

#[test]
fn push_to_a_parked_domain_is_cheap_where_no_thread_can_be_started() {
    alone!();
    let leave = section_elsewhere::<Own>();
    // One worker.
    Busy.call(|| ());
    Busy.barrier();
    deny(true);
    push_to_parked_domain();
    leave();
    Own.barrier();
}

#[test]
fn push_to_a_parked_domain_is_cheap_after_a_thread_could_not_be_started() {
    alone!();
    let leave = section_elsewhere::<Own>();
    deny(true);
    Busy.call(|| ());
    deny(false);
    call_in_worker();
    let guards = take_places();
    push_to_parked_domain();
    drop(guards);
    leave();
    Own.barrier();
}

#[test]
fn failed_start_of_a_thread_is_not_repeated_at_each_push() {
    const PUSHES: usize = 50_000;
    alone!();
    deny(true);
    (0..PUSHES).for_each(|value| Own.retire(Box::new(value.to_string())));
    let attempts = ATTEMPTS.load(Relaxed);
    assert!((1..PUSHES / 10).contains(&attempts), "{attempts} attempts");
    // The caller runs them.
    Own.barrier();
    assert_eq!(Own.stats().queued, 0);
    deny(false);
    call_in_worker();
}
