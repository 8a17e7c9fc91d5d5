//! The queued lock, as a program uses it.
#![cfg(not(loom))]

#[path = "support/asleep.rs"]
mod asleep;
#[path = "support/child.rs"]
mod child;
#[path = "support/deadline.rs"]
mod deadline;
#[path = "support/until.rs"]
mod until;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use asleep::{asleep_in, sleeps, tid};
use deadline::deadline;
use stillpoint::lock::{Mutex, MutexGuard, RawMutex};
use until::until;

/// Threads for a contended lock: more than processors.
const THREADS: usize = 8;

#[test]
fn the_lock_takes_four_bytes() {
    assert_eq!(size_of::<RawMutex>(), 4);
    assert_eq!(size_of::<Mutex<u32>>(), 8);
}

#[test]
fn threads_exclude_each_other() {
    let _running = deadline();
    let total = Mutex::new((0_u64, 0_u64));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for n in 0..20_000 {
                    let mut total = total.lock();
                    total.0 += 1;
                    // Not at once, so that others come meanwhile.
                    (0..n % 64).for_each(|_| std::hint::spin_loop());
                    total.1 += 1;
                    assert_eq!(total.0, total.1);
                }
            });
        }
    });
    assert_eq!(total.into_inner().0, THREADS as u64 * 20_000);
}

#[test]
fn a_lock_that_is_held_cannot_be_tried() {
    let lock = Mutex::new(());
    let guard = lock.lock();
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none());
    drop(guard);
    assert!(!lock.is_locked());
    assert!(lock.try_lock().is_some());
}

#[test]
fn a_wait_for_a_limited_time_ends_not_before_and_leaves_nothing_behind() {
    let _running = deadline();
    let lock = Mutex::new(0);
    let guard = lock.lock();
    thread::scope(|scope| {
        let waits: Vec<_> = (0..THREADS)
            .map(|i| {
                let lock = &lock;
                scope.spawn(move || {
                    let (start, timeout) = (Instant::now(), Duration::from_millis(5 * i as u64));
                    assert!(lock.try_lock_for(timeout).is_none());
                    assert!(start.elapsed() >= timeout);
                    // The place in the queue, if there is one left, is taken again.
                    assert!(lock.try_lock_for(timeout).is_none());
                })
            })
            .collect();
        waits.into_iter().for_each(|wait| wait.join().expect("no assertion failed"));
    });
    drop(guard);
    assert!(lock.try_lock_for(Duration::ZERO).is_some());
    assert!(lock.try_lock_until(Instant::now()).is_some());
    assert!(lock.try_lock_for(Duration::MAX).is_some());
}

#[test]
fn timeouts_and_hand_overs_race_and_nobody_is_forgotten() {
    let _running = deadline();
    let lock = Mutex::new(0_usize);
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for i in 0..THREADS {
            let (lock, taken) = (&lock, &taken);
            scope.spawn(move || {
                for n in 0..2_000 {
                    let timeout = Duration::from_micros((n * 7 + i as u64 * 13) % 60);
                    let guard = if i % 2 == 0 { Some(lock.lock()) } else { lock.try_lock_for(timeout) };
                    if let Some(mut guard) = guard {
                        *guard += 1;
                        taken.fetch_add(1, Relaxed);
                        if n % 64 == 0 {
                            thread::yield_now();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(*lock.lock(), taken.into_inner());
}

#[test]
fn a_fair_release_is_for_who_waits() {
    let _running = deadline();
    let lock = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for round in 0..20 {
            let guard = lock.lock();
            let waiter = asleep_in(scope, || lock.lock().push("waiter"));
            MutexGuard::unlock_fair(guard);
            lock.lock().push("releaser");
            waiter.join().expect("it has the lock");
            assert_eq!(lock.lock()[2 * round..], ["waiter", "releaser"]);
        }
    });
}

#[test]
fn a_guard_may_be_dropped_by_another_thread() {
    let _running = deadline();
    let lock = Mutex::new(1);
    thread::scope(|scope| {
        let guard = lock.lock();
        let waiter = asleep_in(scope, || *lock.lock());
        scope.spawn(move || drop(guard));
        assert_eq!(waiter.join().expect("it has the lock"), 1);
    });
}

#[test]
fn the_last_owner_frees_the_lock_while_others_still_return_from_it() {
    let _running = deadline();
    for _ in 0..2_000 {
        let lock = Arc::new(Mutex::new(()));
        let threads = [0; 3].map(|_| {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock()))
        });
        drop(lock);
        threads.into_iter().for_each(|thread| thread.join().expect("no crash"));
    }
}

#[test]
fn a_destructor_of_a_thread_local_may_wait_for_a_lock() {
    thread_local! {
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
    }
    struct Late(Arc<Mutex<u32>>);
    impl Drop for Late {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    let _running = deadline();
    let lock = Arc::new(Mutex::new(0));
    for _ in 0..50 {
        let guard = lock.lock();
        let late = lock.clone();
        let thread = thread::spawn(move || LATE.set(Some(Late(late))));
        until(|| thread.is_finished() || Arc::strong_count(&lock) == 2);
        drop(guard);
        thread.join().expect("its destructors have run");
    }
    assert_eq!(*lock.lock(), 50);
}

static WAITED_FOR: Mutex<u32> = Mutex::new(0);
static FREE: Mutex<u32> = Mutex::new(0);
static HANDLERS: AtomicU32 = AtomicU32::new(0);

extern "C" fn try_locks(_: i32) {
    assert!(WAITED_FOR.try_lock().is_none());
    until(|| FREE.try_lock().map(|mut count| *count += 1).is_some());
    HANDLERS.fetch_add(1, Relaxed);
}

#[test]
fn signal_handler_in_a_waiting_thread_may_try_locks() {
    let _running = deadline();
    // SAFETY: the handler does what this test is about.
    unsafe { libc::signal(libc::SIGUSR1, try_locks as extern "C" fn(i32) as libc::sighandler_t) };
    thread::scope(|scope| {
        for round in 1..=20 {
            let guard = WAITED_FOR.lock();
            let (sender, receiver) = mpsc::channel();
            // The first, the second and the third in the queue.
            let waiters = [0; 3].map(|_| {
                let sender = sender.clone();
                asleep_in(scope, move || {
                    // SAFETY: a plain call.
                    sender.send(unsafe { libc::pthread_self() }).expect("the receiver is there");
                    *WAITED_FOR.lock() += 1;
                })
            });
            for thread in receiver.iter().take(3) {
                // SAFETY: the thread waits for the lock that this one holds.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            }
            until(|| HANDLERS.load(Relaxed) == 3 * round);
            drop(guard);
            waiters.into_iter().for_each(|waiter| waiter.join().expect("it has the lock"));
            assert_eq!((*WAITED_FOR.lock(), *FREE.lock()), (3 * round, 3 * round));
        }
    });
}

static BLOCKED: AtomicU32 = AtomicU32::new(0);

/// Keeps its thread from running anything else.
extern "C" fn block_thread(_: i32) {
    BLOCKED.store(1, Release);
    while BLOCKED.load(Acquire) != 2 {
        thread::yield_now();
    }
}

#[test]
fn a_free_lock_whose_head_does_not_come_is_taken_by_those_behind_it_and_by_who_comes() {
    let _running = deadline();
    // SAFETY: the handler only looks at an atomic and yields.
    unsafe { libc::signal(libc::SIGUSR2, block_thread as extern "C" fn(i32) as libc::sighandler_t) };
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGURG, ignore as extern "C" fn(i32) as libc::sighandler_t) };
    for beside in
        [Beside::Nothing { is_fair: true }, Beside::Nothing { is_fair: false }, Beside::Signals, Beside::Load]
    {
        BLOCKED.store(0, Release);
        go_past_a_blocked_head(beside);
    }
}

extern "C" fn ignore(_: i32) {}

/// What else happens while a head does not come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing {
        /// The lock is kept for it.
        is_fair: bool,
    },
    /// The next one gets signals all the time.
    Signals,
    /// Others take the lock again and again.
    Load,
}

fn go_past_a_blocked_head(beside: Beside) {
    let (lock, is_done) = (Mutex::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let guard = lock.lock();
        let (sender, receiver) = mpsc::channel();
        let (lock, is_done) = (&lock, &is_done);
        let add = || {
            let sender = sender.clone();
            move || {
                // SAFETY: a plain call.
                sender.send(unsafe { libc::pthread_self() }).expect("somebody listens");
                *lock.lock() += 1;
            }
        };
        let head = asleep_in(scope, add());
        // SAFETY: the thread waits for the lock that this one holds.
        unsafe { libc::pthread_kill(receiver.recv().expect("it has started"), libc::SIGUSR2) };
        until(|| BLOCKED.load(Acquire) == 1);
        let second = asleep_in(scope, add());
        let id = receiver.recv().expect("it has started");
        if beside == (Beside::Nothing { is_fair: true }) {
            // For the head, which does not come.
            MutexGuard::unlock_fair(guard);
        } else {
            drop(guard);
        }
        match beside {
            Beside::Nothing { .. } => {}
            Beside::Signals => until(|| {
                thread::sleep(Duration::from_millis(5));
                // SAFETY: the thread has not been joined.
                unsafe { libc::pthread_kill(id, libc::SIGURG) };
                second.is_finished()
            }),
            Beside::Load => {
                for _ in 0..2 {
                    scope.spawn(move || {
                        until(|| {
                            let _guard = lock.lock();
                            (0..64).for_each(|_| std::hint::spin_loop());
                            is_done.load(Relaxed)
                        });
                    });
                }
            }
        }
        second.join().expect("it has the lock");
        is_done.store(true, Relaxed);
        for _ in 0..3 {
            *lock.lock() += 1;
        }
        assert!(!head.is_finished());
        BLOCKED.store(2, Release);
    });
    assert_eq!(lock.into_inner(), 5);
}

/// Forks, and waits for the child to exit with 0, which it does if `child` returns.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child only locks, and ends without running anything of the parent's test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: a plain call; a child that hangs is killed.
        unsafe { libc::alarm(50) };
        child();
        // SAFETY: ends the child without the destructors of the parent's test.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child exits with 0");
}

#[test]
fn in_the_child_of_a_fork_a_lock_that_the_forking_thread_held_can_be_used() {
    // In a process of its own: a child can start no threads if another test was about to start one.
    if child::variant().is_none() {
        return child::run(
            "in_the_child_of_a_fork_a_lock_that_the_forking_thread_held_can_be_used",
            "alone",
            None,
        );
    }
    let _running = deadline();
    let lock = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..20 {
            let mut guard = Some(lock.lock());
            // They stay behind in the parent, and their places in the child's copy of the queue.
            let waiters = [0; 3].map(|_| asleep_in(scope, || *lock.lock() += 1));
            in_child(|| {
                drop(guard.take());
                *lock.lock() = 0;
                // A queue of the child's own forms behind it.
                let guard = lock.lock();
                thread::scope(|scope| {
                    let waiters = [0; 2].map(|_| asleep_in(scope, || *lock.lock() += 1));
                    drop(guard);
                    waiters.into_iter().for_each(|waiter| waiter.join().expect("it has the lock"));
                });
                assert_eq!(*lock.lock(), 2);
            });
            drop(guard);
            waiters.into_iter().for_each(|waiter| waiter.join().expect("it has the lock"));
            assert_eq!(std::mem::take(&mut *lock.lock()), 3);
        }
    });
}

#[test]
fn in_the_child_of_a_fork_nobody_comes_back_to_a_lock_that_was_made_anew() {
    if child::variant().is_none() {
        return child::run(
            "in_the_child_of_a_fork_nobody_comes_back_to_a_lock_that_was_made_anew",
            "alone",
            None,
        );
    }
    let _running = deadline();
    let mut lock = Mutex::new(());
    let place = &raw mut lock;
    // SAFETY: the lock is there to the end of the test, and replaced in the child only, where nobody else knows it.
    let lock = unsafe { &*place };
    thread::scope(|scope| {
        let guard = lock.lock();
        let waiter = asleep_in(scope, || drop(lock.lock()));
        in_child(|| {
            // Behind one that is not here. The place in the queue is left there.
            assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
            // SAFETY: as above.
            unsafe { place.write(Mutex::new(())) };
            let this = tid();
            let comes = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let guard = lock.lock();
                    until(|| comes.load(Acquire) && sleeps(this));
                    drop(guard);
                });
                until(|| lock.is_locked());
                comes.store(true, Release);
                drop(lock.lock());
            });
        });
        drop(guard);
        waiter.join().expect("it has the lock");
    });
}

#[test]
fn in_the_child_of_a_fork_a_contended_lock_is_free_or_stays_held() {
    // In a process of its own: a child can start no threads if another test was about to start one.
    if child::variant().is_none() {
        return child::run("in_the_child_of_a_fork_a_contended_lock_is_free_or_stays_held", "alone", None);
    }
    let _running = deadline();
    let lock = Mutex::new(0_u64);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    *lock.lock() += 1;
                }
            });
        }
        for _ in 0..100 {
            in_child(|| {
                // Of a lock that is kept for a head which is not there, too.
                for _ in 0..3 {
                    let Some(mut count) = lock.try_lock_for(Duration::from_millis(200)) else { return };
                    *count += 1;
                }
            });
        }
        stop.store(true, Relaxed);
    });
}
