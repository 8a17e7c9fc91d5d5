//! Tests of the reader-writer lock through its public API.

use stillpoint::lock::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use support::asleep::asleep_in;
use support::prelude::*;
#[cfg(target_os = "linux")]
use support::rseq::{allowed_cpus, pin};
#[cfg(not(stillpoint_portable))]
use support::signals::interrupt;

/// Threads that contend for a lock: more than CPUs.
const THREADS: usize = 8;
const SHORT: Duration = Duration::from_millis(1);

/// Returns a lock whose gate is open: enough reads without a write have opened it.
fn opened<T>(value: T) -> RwLock<T> {
    let lock = RwLock::new(value);
    (0..4000).for_each(|_| drop(lock.read()));
    lock
}

/// Calls `f` with a new lock, whose gate is shut, and with one whose gate is open.
fn with_each_gate<T: Clone>(value: T, f: impl Fn(RwLock<T>)) {
    f(RwLock::new(value.clone()));
    f(opened(value));
}

/// Refutes: drained-lock-counts-as-held
#[test]
fn writer_that_waits_for_readers_does_not_hold_the_lock() {
    let _running = deadline();
    with_each_gate((), |lock| {
        let read = lock.read();
        thread::scope(|scope| {
            scope.spawn(|| drop(lock.write()));
            // Now the writer keeps other readers out.
            until(|| lock.try_read().is_none());
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
            drop(read);
        });
    });
}

/// Refutes: fair-write-released-unfairly
#[test]
fn fair_releases_reserve_the_lock_for_the_waiting_writer() {
    let _running = deadline();
    with_each_gate((), |lock| {
        for round in 0..repetitions(20) {
            let (write, is_over) = (lock.write(), AtomicBool::new(false));
            thread::scope(|scope| {
                let waits = || {
                    let _guard = lock.write();
                    until(|| is_over.load(Relaxed));
                };
                asleep_in(scope, waits);
                if round % 2 == 0 {
                    RwLockWriteGuard::unlock_fair(write);
                } else {
                    RwLockUpgradableReadGuard::unlock_fair(RwLockWriteGuard::downgrade_to_upgradable(write));
                }
                // The waiter holds the lock, or it is reserved. (Later tries may find the waiter stalled.)
                let stolen = lock.try_upgradable_read().is_some();
                is_over.store(true, Relaxed);
                assert!(!stolen);
            });
        }
    });
}

#[test]
fn waits_time_out() {
    let _running = deadline();
    with_each_gate((), |lock| {
        let timed = |f: &dyn Fn() -> bool| {
            let start = Instant::now();
            assert!(!f());
            assert!(start.elapsed() >= SHORT);
        };
        // In another thread: one that waits for what it holds would wait for ever, if the limit failed.
        let beside = |f: &(dyn Fn() -> bool + Sync)| {
            thread::scope(|scope| scope.spawn(|| timed(f)).join().expect("no assertion failed"));
        };
        let write = lock.write();
        beside(&|| lock.try_read_for(SHORT).is_some());
        beside(&|| lock.try_read_until(Instant::now() + SHORT).is_some());
        beside(&|| lock.try_write_for(SHORT).is_some());
        beside(&|| lock.try_upgradable_read_for(SHORT).is_some());
        drop(write);
        let read = lock.read();
        beside(&|| lock.try_write_for(SHORT).is_some());
        beside(&|| {
            let upgradable = lock.try_upgradable_read_for(SHORT).expect("it coexists with readers");
            RwLockUpgradableReadGuard::try_upgrade_for(upgradable, SHORT).is_ok()
        });
        assert!(lock.try_read().is_some(), "a writer that has given up keeps readers out");
        drop(read);
        assert!(lock.try_write_for(Duration::ZERO).is_some());
        assert!(lock.try_read_for(Duration::ZERO).is_some());
        assert!(lock.try_write_for(Duration::MAX).is_some());
        assert!(lock.try_read_until(Instant::now()).is_some());
    });
}

#[test]
fn racing_timeouts_lose_no_waiter() {
    let _running = deadline();
    let (lock, written) = (RwLock::new(0_usize), AtomicUsize::new(0));
    in_threads(THREADS, |i| {
        for n in 0..repetitions(2_000) {
            let timeout = Duration::from_micros((n * 7 + i * 13) as u64 % 60);
            match (n + i) % 4 {
                0 => drop(lock.read()),
                1 => drop(lock.try_read_for(timeout)),
                2 => {
                    *lock.write() += 1;
                    written.fetch_add(1, Relaxed);
                }
                _ => {
                    if let Some(mut guard) = lock.try_write_for(timeout) {
                        *guard += 1;
                        written.fetch_add(1, Relaxed);
                    }
                }
            }
            if n % 64 == 0 {
                thread::yield_now();
            }
        }
    });
    assert!(!lock.is_locked());
    assert_eq!(lock.into_inner(), written.into_inner());
}

#[test]
fn reader_behind_a_waiting_writer_waits() {
    let _running = deadline();
    with_each_gate(0, |lock| {
        for _ in 0..repetitions(10) {
            *lock.write() = 0;
            let read = lock.read();
            thread::scope(|scope| {
                let writer = asleep_in(scope, || *lock.write() += 1);
                assert!(lock.try_read().is_none(), "a reader passes a waiting writer");
                let readers = [0; 3].map(|_| asleep_in(scope, || *lock.read()));
                assert_eq!(*read, 0);
                drop(read);
                writer.join().expect("it has written");
                // The readers that arrived behind the writer see its write.
                assert_eq!(readers.map(|reader| reader.join().expect("it has read")), [1; 3]);
            });
        }
    });
}

#[test]
fn waiting_readers_are_admitted_before_the_next_writer() {
    let _running = deadline();
    with_each_gate(0, |lock| {
        for _ in 0..repetitions(10) {
            let mut write = lock.write();
            *write = 0;
            thread::scope(|scope| {
                let readers = [0; 3].map(|_| asleep_in(scope, || *lock.read()));
                let writer = asleep_in(scope, || *lock.write() += 1);
                drop(write);
                // This thread does not come before them either, however fast it is.
                *lock.write() += 1;
                assert_eq!(readers.map(|reader| reader.join().expect("it has read")), [0; 3]);
                writer.join().expect("it has written");
            });
            assert_eq!(*lock.read(), 2);
        }
    });
}

#[test]
fn readers_wait_for_few_of_many_writes() {
    let _running = deadline();
    let (lock, stop) = (RwLock::new(0_u64), AtomicBool::new(false));
    let least = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    *lock.write() += 1;
                }
            });
        }
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    // A reader that is admitted at the end of a write sees few writes between two reads, unless it is
                    // not scheduled: the least of many is what the lock does.
                    let writes_between = || {
                        let before = *lock.read();
                        *lock.read() - before
                    };
                    (0..repetitions(500)).map(|_| writes_between()).min().expect("there are reads")
                })
            })
            .collect();
        let least = readers.into_iter().map(|reader| reader.join().expect("it has read")).max();
        stop.store(true, Relaxed);
        least.expect("there are readers")
    });
    assert!(least <= 2, "{least} writes between two reads");
}

#[test]
fn recursive_read_passes_a_waiting_writer() {
    let _running = deadline();
    for opens in [false, true] {
        let lock = RwLock::new(0);
        (0..if opens { 4000 } else { 0 }).for_each(|_| drop(lock.read()));
        let outer = lock.read();
        thread::scope(|scope| {
            let writer = asleep_in(scope, || *lock.write() += 1);
            for _ in 0..repetitions(10) {
                let inner = lock.read_recursive();
                assert_eq!((*inner, *lock.try_read_recursive().expect("it passes")), (0, 0));
            }
            assert!(!writer.is_finished());
            drop(outer);
            writer.join().expect("it has written");
        });
        // A writer that holds the lock is not passed.
        let write = lock.write();
        assert!(lock.try_read_recursive().is_none());
        drop(write);
        assert_eq!(*lock.read(), 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn read_may_end_on_another_cpu() {
    let _running = deadline();
    with_each_gate(0, |lock| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let cpus = allowed_cpus();
                let ends = [&cpus[..1], &cpus[cpus.len() - 1..]];
                for round in 0..100 {
                    pin(ends[round % 2]);
                    let guard = lock.read();
                    pin(ends[1 - round % 2]);
                    assert!(lock.try_write().is_none());
                    drop(guard);
                    drop(lock.try_write().expect("it is free"));
                    // Opens the gate again.
                    (0..4000).for_each(|_| drop(lock.read()));
                }
            });
        });
    });
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_handler_may_try_to_read() {
    static READ_BY_HANDLER: RwLock<u32> = RwLock::new(0);
    static READS: AtomicU32 = AtomicU32::new(0);
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    fn try_read() {
        let count = if READ_BY_HANDLER.try_read().is_some() { &READS } else { &REFUSED };
        count.fetch_add(1, Relaxed);
    }
    let _running = deadline();
    let use_lock = |round| match round % 2 {
        0 => *READ_BY_HANDLER.write() += 1,
        _ => drop(READ_BY_HANDLER.read()),
    };
    let enough = || READS.load(Relaxed) >= 10 && REFUSED.load(Relaxed) >= 10;
    interrupt(try_read, || (), use_lock, use_lock, enough);
    assert!(READ_BY_HANDLER.try_write().is_some());
}

#[cfg(not(stillpoint_portable))]
#[test]
fn signal_handler_may_try_to_read_while_the_fence_is_chosen() {
    static READ_BY_HANDLER: RwLock<u32> = RwLock::new(0);
    // The process has chosen no fence yet: the lock does when its gate first opens, and that takes milliseconds.
    alone!();
    let _running = deadline();
    let reads = AtomicU32::new(0);
    let read = |_| {
        drop(READ_BY_HANDLER.read());
        reads.fetch_add(1, Relaxed);
    };
    let idle = |_| thread::sleep(Duration::from_millis(1));
    interrupt(|| drop(READ_BY_HANDLER.try_read()), || (), read, idle, || reads.load(Relaxed) > 100_000);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn locks_of_the_forking_thread_work_in_the_child() {
    // In a process of its own: a child can start no threads if another test is starting one at the fork.
    alone!();
    with_each_gate(0, |lock| {
        for _ in 0..10 {
            // Held for reading, for writing, or not at all.
            let (mut read, mut write) = (Some(lock.read()), None);
            for held in 0..3 {
                in_child(|| {
                    drop((read.take(), write.take()));
                    *lock.write() = 10;
                    thread::scope(|scope| {
                        let guard = lock.write();
                        let readers = [0; 2].map(|_| asleep_in(scope, || *lock.read()));
                        drop(guard);
                        assert_eq!(readers.map(|reader| reader.join().expect("it has read")), [10; 2]);
                    });
                    drop(lock.write());
                });
                assert_eq!(write.as_deref().copied().unwrap_or(0), 0);
                match held {
                    0 => {
                        read = None;
                        write = Some(lock.write());
                    }
                    _ => write = None,
                }
            }
        }
    });
}

#[test]
fn tried_reads_are_as_many_as_there_are_readers() {
    let lock = RwLock::new(0);
    // More than a lock that few threads use counts in its word.
    let guards: Vec<_> = (0..3000).map(|_| lock.try_read().expect("there is no writer")).collect();
    assert!(lock.try_write().is_none());
    drop(guards);
    *lock.try_write().expect("there are no readers") += 1;
}

/// Refutes: tried-write-queues
#[test]
fn tries_succeed_unless_excluded() {
    let _running = deadline();
    with_each_gate((), |lock| {
        let reads = (lock.read(), lock.try_read().expect("readers coexist"));
        assert!(lock.is_locked() && !lock.is_locked_exclusive());
        assert!(lock.try_write().is_none());
        let upgradable = lock.try_upgradable_read().expect("it coexists with readers");
        assert!(lock.try_upgradable_read().is_none());
        assert!(lock.try_read().is_some());
        drop(reads);
        assert!(lock.is_locked() && !lock.is_locked_exclusive(), "for an upgradable read");
        let reads = lock.read();
        let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect_err("there are readers");
        drop(reads);
        let write = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect("there are none");
        assert!(lock.is_locked() && lock.is_locked_exclusive());
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.try_upgradable_read().is_none());
        drop(write);
        assert!(!lock.is_locked() && !lock.is_locked_exclusive());
        drop(lock.try_write().expect("it is free"));
        assert!(lock.try_read().is_some());
    });
}

#[test]
fn leaked_guard_of_an_exited_thread_keeps_the_lock() {
    let _running = deadline();
    with_each_gate(5, |lock| {
        thread::scope(|scope| {
            scope.spawn(|| mem::forget(lock.read())).join().expect("it exits");
        });
        assert!(lock.try_write().is_none() && lock.try_write_for(SHORT).is_none());
        assert_eq!(*lock.read(), 5);
        // SAFETY: the read of the thread that has exited is released once.
        unsafe { lock.force_unlock_read() };
        *lock.try_write().expect("it is free") = 6;
        assert_eq!(lock.into_inner(), 6);
    });
}
