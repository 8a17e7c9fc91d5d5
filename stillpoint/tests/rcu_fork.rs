//! The child of a fork, made at any moment of the other threads.
#![cfg(not(loom))]

#[path = "support/child.rs"]
mod child;
#[path = "support/fork.rs"]
mod fork;
#[path = "support/threads.rs"]
mod threads;
#[path = "support/tracked.rs"]
mod tracked;
#[path = "support/until.rs"]
mod until;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier, Mutex, RwLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{fs, io, mem, process, ptr, thread};

use fork::{await_child, exit, fork, in_child, is_alone};
use stillpoint::Domain as _;
use stillpoint::rcu::{GracePeriod, Hints, Rcu, RcuDomain};
use stillpoint::{fence, rcu};
use threads::deny_threads;
use tracked::Tracked;
use until::until;

/// How often things happened, in a process and in those that were forked from it.
struct Tally(&'static [AtomicU8]);

impl Tally {
    fn new(len: usize) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: fresh memory, wherever the kernel likes.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        // SAFETY: `len` bytes, which are zero, aligned and never unmapped.
        Self(unsafe { std::slice::from_raw_parts(memory.cast(), len) })
    }

    /// Something that is to happen once.
    fn once(&self, index: usize) -> impl FnOnce() + Send + use<> {
        let place = &self.0[index];
        move || _ = place.fetch_add(1, AcqRel)
    }

    fn sum(&self) -> usize {
        self.0.iter().map(|times| usize::from(times.load(Acquire))).sum()
    }

    fn assert_once(&self, count: usize) {
        for (index, times) in self.0[..count].iter().enumerate() {
            assert_eq!(times.load(Acquire), 1, "number {index} of {count}");
        }
    }
}

/// The smallest executor.
fn block_on(mut future: impl Future<Output = ()> + Unpin) {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Arc::new(Unpark(thread::current())).into();
    while poll(&mut future, &waker).is_pending() {
        thread::park();
    }
}

fn poll(future: &mut (impl Future<Output = ()> + Unpin), waker: &Waker) -> Poll<()> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Everything that is there to be used, outside sections.
fn exercise<D: RcuDomain + Copy>(domain: D) {
    assert!(!D::in_read_section());
    fence::light();
    fence::heavy();
    let runs = Arc::new(AtomicUsize::new(0));
    let drops: &'static AtomicUsize = Box::leak(Box::default());
    let run = || {
        let runs = Arc::clone(&runs);
        move || _ = runs.fetch_add(1, Release)
    };
    let value = Rcu::new_in(Tracked(drops), domain);
    let guard = D::enter();
    let old = value.replace(Tracked(drops));
    D::INSTANCE.call(run());
    D::INSTANCE.call_with(run(), Hints::new().lazy());
    D::INSTANCE.retire(Box::new([7_u8; 100]));
    let readers = GracePeriod::start_in(domain);
    drop(old);
    assert!(!readers.is_elapsed());
    assert_eq!((runs.load(Acquire), drops.load(Acquire)), (0, 0));
    drop(guard);
    until(|| readers.is_elapsed());
    D::INSTANCE.barrier();
    assert_eq!((runs.load(Acquire), drops.load(Acquire)), (2, 1));
    // The worker sleeps by now, or will.
    D::INSTANCE.call(run());
    until(|| runs.load(Acquire) == 3);
    drop(value.replace(Tracked(drops)).wait());
    D::INSTANCE.synchronize();
    GracePeriod::now_in(domain).wait();
    GracePeriod::now_in(domain).wait_timeout(Duration::MAX).expect("the time is never up");
    block_on(GracePeriod::now_in(domain).into_future());
}

/// The same beside other threads: a grace period waits for their sections.
fn exercise_with_threads<D: RcuDomain + Copy + Send + Sync>(domain: D) {
    exercise(domain);
    let (inside, left) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let guard = D::enter();
            let before = D::INSTANCE.stats().sleeps;
            inside.wait();
            until(|| D::INSTANCE.stats().sleeps != before);
            left.store(true, Release);
            drop(guard);
            exercise(domain);
        });
        inside.wait();
        D::INSTANCE.synchronize();
        assert!(left.load(Acquire));
        exercise(domain);
        reader.join().expect("no panic");
    });
}

/// Runs `body` in a thread, and waits for it. Not one of the standard library: if one of these starts or ends at the fork,
/// the child can start none.
fn native_thread(body: fn()) {
    extern "C" fn start(body: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer of such a function, see below.
        let body = unsafe { mem::transmute::<*mut c_void, fn()>(body) };
        body();
        ptr::null_mut()
    }
    // SAFETY: the thread takes no references with it, and is joined once.
    unsafe {
        let mut thread = mem::zeroed();
        assert_eq!(libc::pthread_create(&mut thread, ptr::null(), start, body as *mut c_void), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
}

/// What the other nine threads of a parent do, until told to stop; they pause while the gate is closed.
fn commotion<'scope, D: RcuDomain + Copy + Send + Sync>(
    scope: &'scope thread::Scope<'scope, '_>,
    domain: D,
    (stop, gate, started): (&'scope AtomicBool, &'scope RwLock<()>, &'scope Barrier),
    (tally, next): (&'scope Tally, &'scope AtomicUsize),
) {
    let spawn = |body: fn(D)| {
        scope.spawn(move || {
            started.wait();
            while !stop.load(Relaxed) {
                drop(gate.read());
                body(domain);
            }
        });
    };
    spawn(|_| {
        let outer = D::enter();
        thread::yield_now();
        drop(D::enter());
        drop(outer);
    });
    spawn(|_| D::INSTANCE.synchronize());
    spawn(|_| D::INSTANCE.synchronize());
    spawn(|_| D::INSTANCE.barrier());
    spawn(|_| fence::heavy());
    spawn(|domain| {
        GracePeriod::start_in(domain);
        let readers = GracePeriod::now_in(domain);
        while readers.wait_timeout(Duration::from_micros(50)).is_err() {}
        block_on(readers.into_future());
        block_on(GracePeriod::now_in(domain).into_future());
    });
    // Threads that come and go.
    spawn(|_| native_thread(|| drop(D::enter())));
    for _ in 0..2 {
        scope.spawn(|| {
            started.wait();
            while !stop.load(Relaxed) {
                drop(gate.read());
                for _ in 0..50 {
                    let index = next.fetch_add(1, Relaxed);
                    let hints = if index % 3 == 0 { Hints::new().lazy() } else { Hints::new() };
                    D::INSTANCE.call_with(tally.once(index), hints);
                    D::INSTANCE.retire(Box::new(index));
                }
                thread::yield_now();
                if next.load(Relaxed) % 8 == 0 {
                    D::INSTANCE.barrier();
                }
            }
        });
    }
}

#[test]
fn the_child_of_a_fork_works_whatever_the_other_threads_were_doing() {
    if !is_alone("the_child_of_a_fork_works_whatever_the_other_threads_were_doing") {
        return;
    }
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct InTheChild; }
    const ROUNDS: usize = 100;
    fence::report();
    let (stop, gate, started) = (AtomicBool::new(false), RwLock::new(()), Barrier::new(10));
    let (tally, next) = (Tally::new(1 << 30), AtomicUsize::new(0));
    let value = Rcu::new_in(String::from("value"), Own);
    thread::scope(|scope| {
        commotion(scope, Own, (&stop, &gate, &started), (&tally, &next));
        started.wait();
        for round in 0..ROUNDS {
            let before = Own.stats().sleeps;
            let mut sections: Vec<_> = (0..round % 3).map(|_| Own::enter()).collect();
            // Pending at the fork, if there is a section.
            Own.call(tally.once(next.fetch_add(1, Relaxed)));
            drop(value.replace(format!("value {round}")));
            if !sections.is_empty() {
                // Somebody sleeps until this thread leaves.
                until(|| Own.stats().sleeps != before);
            }
            let in_child_alone = |child: &mut dyn FnMut()| match fork() {
                0 => exit(catch_unwind(AssertUnwindSafe(child)).is_ok()),
                pid => {
                    // Leaves the processors to the child.
                    let _closed = gate.write();
                    await_child(pid);
                }
            };
            in_child_alone(&mut || {
                let is_inside = !sections.is_empty();
                assert_eq!(Own::in_read_section(), is_inside);
                if let Some(guard) = sections.first() {
                    assert_eq!(*value.load(guard), format!("value {round}"));
                    let before = Own.stats().sleeps;
                    let writer = thread::spawn(|| Own.synchronize());
                    until(|| Own.stats().sleeps != before || writer.is_finished());
                    assert!(!writer.is_finished());
                    sections.clear();
                    writer.join().expect("the section was left");
                }
                exercise_with_threads(Own);
                exercise(InTheChild);
                // And its child.
                in_child(|| exercise_with_threads(InTheChild));
                exercise(Own);
            });
        }
        stop.store(true, Relaxed);
    });
    Own.barrier();
    exercise_with_threads(Own);
    tally.assert_once(next.into_inner());
}

#[test]
fn what_is_deferred_before_a_fork_is_done_in_the_parent_only_and_after_it_in_either() {
    if !is_alone("what_is_deferred_before_a_fork_is_done_in_the_parent_only_and_after_it_in_either") {
        return;
    }
    stillpoint::domain! { struct Own; }
    const EACH: usize = 200;
    let tally = &Tally::new(3 * EACH);
    // Before the first of them: nothing runs until it is dropped.
    let mut guard = Some(Own::enter());
    for index in 0..EACH / 2 {
        Own.call_with(tally.once(index), Hints::new().lazy());
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| (EACH / 2..EACH).for_each(|index| Own.call(tally.once(index))));
        other.join().expect("no panic");
    });
    in_child(|| {
        (EACH..2 * EACH).for_each(|index| Own.call(tally.once(index)));
        guard = None;
        Own.barrier();
        assert_eq!((tally.sum(), Own.stats().queued), (EACH, 0));
    });
    assert_eq!(tally.sum(), EACH);
    (2 * EACH..3 * EACH).for_each(|index| Own.call(tally.once(index)));
    drop(guard);
    Own.barrier();
    tally.assert_once(3 * EACH);
}

#[test]
fn the_child_has_no_part_in_guards_that_other_threads_hold_or_leaked() {
    if !is_alone("the_child_has_no_part_in_guards_that_other_threads_hold_or_leaked") {
        return;
    }
    stillpoint::domain! { struct Own; }
    let inside = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _guard = Own::enter();
            inside.wait();
            inside.wait();
        });
        inside.wait();
        for _ in 0..10 {
            in_child(|| exercise_with_threads(Own));
        }
        inside.wait();
        other.join().expect("no panic");
    });
    thread::spawn(|| mem::forget(Own::enter())).join().expect("no panic");
    assert!(catch_unwind(|| Own.synchronize()).is_err());
    for _ in 0..10 {
        in_child(|| exercise_with_threads(Own));
    }
    assert!(catch_unwind(|| Own.synchronize()).is_err());
}

#[test]
fn others_may_be_using_the_library_for_the_first_time_at_the_fork() {
    if !is_alone("others_may_be_using_the_library_for_the_first_time_at_the_fork") {
        return;
    }
    stillpoint::domain! { struct Own; }
    // A process in which nobody has used anything, again and again.
    for round in 0..100_u32 {
        in_child(|| {
            let start = Barrier::new(4);
            thread::scope(|scope| {
                let first: [fn(); 3] = [|| drop(Own::enter()), || Own.call(|| ()), || Own.synchronize()];
                for first in first {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        first();
                        // Neither begins nor ends at the fork: see `native_thread`.
                        start.wait();
                    });
                }
                start.wait();
                for _ in 0..round * 20 {
                    std::hint::spin_loop();
                }
                in_child(|| exercise_with_threads(Own));
                start.wait();
            });
            exercise_with_threads(Own);
        });
    }
}

#[test]
fn a_future_that_was_polled_before_a_fork_is_polled_again_in_the_child() {
    if !is_alone("a_future_that_was_polled_before_a_fork_is_polled_again_in_the_child") {
        return;
    }
    stillpoint::domain! { struct Own; }
    let inside = Barrier::new(2);
    let mut future = GracePeriod::now_in(Own).into_future();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = Own::enter();
            inside.wait();
            inside.wait();
        });
        inside.wait();
        assert!(poll(&mut future, Waker::noop()).is_pending());
        in_child(|| {
            let mut other = GracePeriod::now_in(Own).into_future();
            assert!(poll(&mut other, Waker::noop()).is_pending());
            block_on(&mut future);
            drop(other);
            exercise(Own);
        });
        assert!(poll(&mut future, Waker::noop()).is_pending());
        inside.wait();
    });
    block_on(&mut future);
}

#[test]
fn a_callback_that_forks_is_the_last_one_in_the_child() {
    if !is_alone("a_callback_that_forks_is_the_last_one_in_the_child") {
        return;
    }
    stillpoint::domain! { struct Own; }
    const CALLBACKS: usize = 100;
    static PID: AtomicI32 = AtomicI32::new(0);
    static RAN_IN: Mutex<Option<thread::ThreadId>> = Mutex::new(None);
    /// Whether the thread is no more.
    fn has_ended(tid: i32) -> bool {
        fs::read_to_string(format!("/proc/self/task/{tid}/stat")).is_ok_and(|stat| stat.contains(") Z"))
    }
    for _ in 0..20 {
        let tally: &'static Tally = Box::leak(Box::new(Tally::new(CALLBACKS)));
        let guard = Own::enter();
        for index in 0..CALLBACKS / 2 {
            Own.call(tally.once(index));
        }
        Own.call(move || {
            tally.once(CALLBACKS / 2)();
            let pid = fork();
            PID.store(pid, Release);
            if pid != 0 {
                return;
            }
            // Meanwhile this thread goes on, and must not touch the callbacks that follow.
            let (forked, tid) = (thread::current().id(), process::id() as i32);
            thread::spawn(move || {
                let works = catch_unwind(|| {
                    exercise_with_threads(Own);
                    // It becomes a worker, or ends.
                    until(|| {
                        Own.call(|| *RAN_IN.lock().expect("no panic") = Some(thread::current().id()));
                        Own.barrier();
                        has_ended(tid) || *RAN_IN.lock().expect("no panic") == Some(forked)
                    });
                    exercise_with_threads(Own);
                });
                exit(works.is_ok());
            });
        });
        for index in CALLBACKS / 2 + 1..CALLBACKS {
            Own.call(tally.once(index));
        }
        drop(guard);
        Own.barrier();
        await_child(PID.load(Acquire));
        tally.assert_once(CALLBACKS);
    }
}

#[test]
fn a_waker_may_fork() {
    if !is_alone("a_waker_may_fork") {
        return;
    }
    stillpoint::domain! { struct Own; }
    struct Forks;
    impl Wake for Forks {
        fn wake(self: Arc<Self>) {
            in_child(|| exercise_with_threads(Own));
        }
    }
    for _ in 0..10 {
        let guard = Own::enter();
        let readers = GracePeriod::now_in(Own);
        drop(guard);
        let mut future = readers.into_future();
        let _ = poll(&mut future, &Arc::new(Forks).into());
        block_on(future);
    }
    exercise_with_threads(Own);
}

#[test]
fn a_callback_may_fork_that_barrier_runs_for_want_of_threads() {
    if !is_alone("a_callback_may_fork_that_barrier_runs_for_want_of_threads") {
        return;
    }
    stillpoint::domain! { struct Own; }
    const CALLBACKS: usize = 10;
    static PID: AtomicI32 = AtomicI32::new(0);
    deny_threads();
    let tally = Tally::new(2 * CALLBACKS);
    for index in 0..CALLBACKS {
        Own.call(tally.once(index));
        if index == CALLBACKS / 2 {
            Own.call(|| PID.store(fork(), Release));
        }
    }
    Own.barrier();
    match PID.load(Acquire) {
        0 => {
            // In the child nothing is left of it.
            let before = tally.sum();
            for index in CALLBACKS..2 * CALLBACKS {
                Own.call_with(tally.once(index), Hints::new().lazy());
            }
            let right = tally.0[CALLBACKS..].iter().all(|times| times.load(Acquire) == 0);
            Own.barrier();
            exit(right && tally.sum() >= before + CALLBACKS);
        }
        pid => await_child(pid),
    }
    tally.assert_once(2 * CALLBACKS);
}

#[test]
fn leader_forked_in_a_stall_hook_ends_no_grace_period_of_the_child() {
    if !is_alone("leader_forked_in_a_stall_hook_ends_no_grace_period_of_the_child") {
        return;
    }
    stillpoint::domain! { struct Own; }
    static FORKED: AtomicBool = AtomicBool::new(false);
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
    static INSIDE: AtomicBool = AtomicBool::new(false);
    static RETURNS: AtomicBool = AtomicBool::new(false);
    static SEEN: AtomicBool = AtomicBool::new(false);
    /// A section of the child, until the hook has returned there for long enough.
    fn reads() {
        let guard = Own::enter();
        let readers = GracePeriod::now_in(Own);
        INSIDE.store(true, Release);
        until(|| RETURNS.load(Acquire));
        for _ in 0..10_000 {
            if readers.is_elapsed() {
                exit(false);
            }
            thread::yield_now();
        }
        drop(guard);
        SEEN.store(true, Release);
    }
    rcu::set_stall_timeout(Some(Duration::from_millis(1)));
    rcu::set_stall_hook(Box::new(|_| {
        if FORKED.swap(true, AcqRel) {
            return;
        }
        match fork() {
            0 => {
                IS_CHILD.store(true, Release);
                thread::spawn(reads);
                until(|| INSIDE.load(Acquire));
                RETURNS.store(true, Release);
            }
            child => await_child(child),
        }
    }));
    let inside = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = Own::enter();
            inside.wait();
            until(|| FORKED.load(Acquire));
            drop(guard);
        });
        inside.wait();
        Own.synchronize();
        if IS_CHILD.load(Acquire) {
            until(|| SEEN.load(Acquire));
            exit(true);
        }
    });
}
