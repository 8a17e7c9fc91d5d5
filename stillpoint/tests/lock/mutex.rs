//! Tests of the queued lock through its public API.

use stillpoint::lock::{Mutex, MutexGuard};
use support::asleep::{asleep_in, sleeps, tid};
use support::prelude::*;
#[cfg(target_os = "linux")]
use support::signals::{install, send_to, this_thread};

/// Threads that contend for a lock: more than CPUs.
const THREADS: usize = 8;

#[test]
fn timed_wait_times_out_and_leaves_the_queue() {
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
                    // Rejoins the queue, if the node is still there.
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
fn racing_timeouts_and_promotions_lose_no_waiter() {
    let _running = deadline();
    let lock = Mutex::new(0_usize);
    let taken = AtomicUsize::new(0);
    in_threads(THREADS, |i| {
        for n in 0..repetitions(2_000) {
            let timeout = Duration::from_micros((n * 7 + i * 13) as u64 % 60);
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
    assert_eq!(*lock.lock(), taken.into_inner());
}

#[test]
fn unlock_fair_passes_the_lock_to_a_waiter() {
    let _running = deadline();
    let lock = Mutex::new(());
    for _ in 0..repetitions(20) {
        let (guard, is_over) = (lock.lock(), AtomicBool::new(false));
        thread::scope(|scope| {
            asleep_in(scope, || {
                let _guard = lock.lock();
                until(|| is_over.load(Relaxed));
            });
            MutexGuard::unlock_fair(guard);
            // The waiter holds the lock, or it is reserved. Later tries may find the waiter stalled, and pass it.
            let is_stolen = lock.try_lock().is_some();
            is_over.store(true, Relaxed);
            assert!(!is_stolen);
        });
    }
}

#[cfg(feature = "send_guard")]
#[test]
fn guard_may_be_dropped_by_another_thread() {
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
fn thread_local_destructor_may_lock() {
    thread_local! {
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
    }
    struct Late(Arc<Mutex<usize>>);
    impl Drop for Late {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    let _running = deadline();
    let (lock, threads) = (Arc::new(Mutex::new(0)), repetitions(50));
    for _ in 0..threads {
        let guard = lock.lock();
        let late = lock.clone();
        let thread = thread::spawn(move || LATE.set(Some(Late(late))));
        until(|| thread.is_finished() || Arc::strong_count(&lock) == 2);
        drop(guard);
        thread.join().expect("its destructors have run");
    }
    assert_eq!(*lock.lock(), threads);
}

static WAITED_FOR: Mutex<u32> = Mutex::new(0);
static FREE: Mutex<u32> = Mutex::new(0);
static HANDLERS: AtomicU32 = AtomicU32::new(0);

#[cfg(not(stillpoint_portable))]
extern "C" fn try_locks(_: i32) {
    assert!(WAITED_FOR.try_lock().is_none());
    until(|| FREE.try_lock().map(|mut count| *count += 1).is_some());
    HANDLERS.fetch_add(1, Relaxed);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_handler_in_a_waiting_thread_may_try_lock() {
    let _running = deadline();
    let signal = install(2, try_locks);
    thread::scope(|scope| {
        for round in 1..=20 {
            let guard = WAITED_FOR.lock();
            let (sender, receiver) = mpsc::channel();
            // The head and the two nodes behind it.
            let waiters = [0; 3].map(|_| {
                let sender = sender.clone();
                asleep_in(scope, move || {
                    sender.send(this_thread()).expect("the receiver is there");
                    *WAITED_FOR.lock() += 1;
                })
            });
            receiver.iter().take(3).for_each(|thread| send_to(signal, thread));
            until(|| HANDLERS.load(Relaxed) == 3 * round);
            drop(guard);
            waiters.into_iter().for_each(|waiter| waiter.join().expect("it has the lock"));
            assert_eq!((*WAITED_FOR.lock(), *FREE.lock()), (3 * round, 3 * round));
        }
    });
}

#[cfg(target_os = "linux")]
static BLOCKED: AtomicU32 = AtomicU32::new(0);

/// Blocks the interrupted thread until `BLOCKED` is 2.
#[cfg(target_os = "linux")]
extern "C" fn block_thread(_: i32) {
    BLOCKED.store(1, Release);
    until(|| BLOCKED.load(Acquire) == 2);
}

#[cfg(target_os = "linux")]
#[test]
fn stalled_head_is_bypassed_by_threads_that_arrive() {
    let _running = deadline();
    let signal = install(3, block_thread);
    for is_fair in [true, false] {
        BLOCKED.store(0, Release);
        let lock = Mutex::new(0);
        thread::scope(|scope| {
            let guard = lock.lock();
            let ((sender, receiver), lock) = (mpsc::channel(), &lock);
            let head = asleep_in(scope, move || {
                sender.send(this_thread()).expect("the receiver is there");
                *lock.lock() += 1;
            });
            send_to(signal, receiver.recv().expect("it has started"));
            until(|| BLOCKED.load(Acquire) == 1);
            if is_fair {
                // Reserved for the head, which is stalled.
                MutexGuard::unlock_fair(guard);
            } else {
                drop(guard);
            }
            // A thread that finds it reserved may queue before the head counts as stalled.
            until(|| lock.try_lock().is_some());
            for _ in 0..3 {
                *lock.lock() += 1;
            }
            assert!(!head.is_finished());
            BLOCKED.store(2, Release);
        });
        assert_eq!(lock.into_inner(), 4);
    }
}

#[cfg(not(stillpoint_portable))]
#[test]
fn lock_held_by_the_forking_thread_works_in_the_child() {
    // In a process of its own: a child can start no threads if another test is starting one at the fork.
    alone!();
    let lock = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..20 {
            let mut guard = Some(lock.lock());
            // The child inherits their nodes, but not the threads.
            let waiters = [0; 3].map(|_| asleep_in(scope, || *lock.lock() += 1));
            in_child(|| {
                drop(guard.take());
                *lock.lock() = 0;
                // The child forms a queue of its own.
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

/// Refutes: dead-nodes-not-flagged
#[cfg(not(stillpoint_portable))]
#[test]
fn fair_release_in_the_child_reserves_nothing_for_dead_waiters() {
    alone!();
    let lock = Mutex::new(());
    thread::scope(|scope| {
        let mut guard = Some(lock.lock());
        asleep_in(scope, || drop(lock.lock()));
        in_child(|| {
            MutexGuard::unlock_fair(guard.take().expect("the lock is held"));
            assert!(lock.try_lock().is_some());
        });
    });
}

#[cfg(not(stillpoint_portable))]
#[test]
fn replaced_lock_in_the_child_is_not_rejoined() {
    alone!();
    let mut lock = Mutex::new(());
    let place = &raw mut lock;
    // SAFETY: the lock exists until the end of the test, and is replaced in the child only, where no other thread
    // uses it.
    let lock = unsafe { &*place };
    let (is_held, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = lock.lock();
            is_held.store(true, Release);
            until(|| is_over.load(Acquire));
        });
        until(|| is_held.load(Acquire));
        let head = asleep_in(scope, || drop(lock.lock()));
        // Abandons the node behind the head.
        assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
        in_child(|| {
            // SAFETY: as above.
            unsafe { place.write(Mutex::new(())) };
            let this = tid();
            let waits = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let guard = lock.lock();
                    until(|| waits.load(Acquire) && sleeps(this));
                    drop(guard);
                });
                until(|| lock.is_locked());
                waits.store(true, Release);
                drop(lock.lock());
            });
        });
        is_over.store(true, Release);
        head.join().expect("it has the lock");
    });
}
