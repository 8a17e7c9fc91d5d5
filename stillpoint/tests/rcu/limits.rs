//! Limits: which callers they block, and until when.

use std::any::type_name;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::rcu::{self, Limits};
use stillpoint::srcu;
use support::callbacks::counter;
use support::child;
use support::deadline::deadline;
use support::owner::busy;
use support::until::{until, until_quick};

const LIMIT: u64 = 1000;
const LIMITS: Limits = Limits { count: LIMIT, bytes: 1 << 30 };

#[test]
fn callback_that_defers_above_the_limit_does_not_wait() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Other; }
    static HOLDS: AtomicBool = AtomicBool::new(false);
    let _running = deadline();
    Own.set_limits(LIMITS);
    Other.set_limits(LIMITS);
    // The other domain's worker is busy, so that its backlog grows too.
    let busy = busy::<Other>();
    Own.call(|| {
        (0..4 * LIMIT).for_each(|_| {
            Own.call(|| ());
            Other.call(|| ());
        });
        let (own, other) = (Own.stats(), Other.stats());
        assert!(own.queued > LIMIT && other.queued > LIMIT, "{own}, {other}");
        assert_eq!([own.limit_waits, other.limit_waits], [0; 2]);
        HOLDS.store(true, Relaxed);
    });
    Own.barrier();
    drop(busy);
    Other.barrier();
    assert!(HOLDS.load(Relaxed), "an assertion in the callback has failed");
}

#[test]
fn raised_limit_wakes_a_throttled_caller() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    // By itself a caller continues after ten seconds.
    until(|| {
        Own.set_limits(LIMITS);
        let (busy, before) = (busy::<Own>(), Own.stats());
        let caller = thread::spawn(|| (0..2 * LIMIT).for_each(|_| Own.call(|| ())));
        until(|| Own.stats().limit_waits != before.limit_waits);
        let begin = Instant::now();
        Own.set_limits(Limits::default());
        caller.join().expect("no panic");
        let (after, time) = (Own.stats(), begin.elapsed());
        drop(busy);
        Own.barrier();
        let is_in_time = time < Duration::from_secs(8) && after.limit_overruns == before.limit_overruns;
        assert!(!is_in_time || after.limit_waits == before.limit_waits + 1, "{after}");
        is_in_time
    });
}

/// A caller that may be inside a section, or is inside one of another domain, is throttled for a moment at a time: the
/// worker may wait for it.
#[test]
fn caller_that_may_be_inside_goes_on_soon() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Other; }
    let _running = deadline();
    Own.set_limits(LIMITS);
    // By itself each of them would wait for ten seconds.
    const LIMITED: Duration = Duration::from_secs(8);
    until_quick(LIMITED, || {
        let (busy, before) = (busy::<Own>(), Own.stats().limit_overruns);
        let guard = Other::enter();
        (0..2 * LIMIT).for_each(|_| Own.call(|| ()));
        drop(guard);
        assert!(Own.stats().limit_overruns > before + 1, "{}", Own.stats());
        drop(busy);
        Own.barrier();
    });
    until_quick(LIMITED, || {
        let domain = srcu::Domain::new();
        domain.set_limits(LIMITS);
        let (end, ended) = channel::<()>();
        domain.call(move || _ = ended.recv().expect_err("the sender is dropped"));
        (0..8 * LIMIT).for_each(|_| domain.call(|| ()));
        assert!(domain.stats().limit_overruns > 1, "{}", domain.stats());
        drop(end);
        domain.barrier();
    });
}

#[test]
fn stall_hook_that_defers_above_the_limit_does_not_wait() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Stalls; }
    static HAS_DEFERRED: AtomicBool = AtomicBool::new(false);
    if !child::is_alone(stall_hook_that_defers_above_the_limit_does_not_wait) {
        return;
    }
    let _running = deadline();
    Own.set_limits(LIMITS);
    let busy = busy::<Own>();
    rcu::set_stall_timeout(Some(Duration::from_millis(1)));
    rcu::set_stall_hook(Box::new(|stall| {
        if stall.domain() == type_name::<Stalls>() && !HAS_DEFERRED.load(Acquire) {
            (0..2 * LIMIT).for_each(|_| Own.call(|| ()));
            HAS_DEFERRED.store(true, Release);
        }
    }));
    let guard = Stalls::enter();
    let writer = thread::spawn(|| Stalls.synchronize());
    until(|| HAS_DEFERRED.load(Acquire));
    assert!(Own.stats().queued > LIMIT, "{}", Own.stats());
    assert_eq!(Own.stats().limit_waits, 0);
    // The writer's thread is throttled when it exits.
    drop((guard, busy));
    writer.join().expect("no panic");
    Own.barrier();
}

#[test]
fn callers_outside_sections_are_throttled() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (calls, call) = counter();
    Own.set_limits(LIMITS);
    let (inside, stop) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = Own::enter();
            inside.wait();
            until(|| stop.load(Acquire));
            drop(guard);
        });
        inside.wait();
        let writer = scope.spawn(|| (0..5 * LIMIT).for_each(|_| Own.call(call)));
        let mut stats = Own.stats();
        until(|| {
            stats = Own.stats();
            stats.limit_waits != 0
        });
        // The writer notices after a block.
        assert!(stats.queued <= LIMIT + 64, "{stats}");
        // Inside a section it is only counted.
        let guard = Own::enter();
        (0..5 * LIMIT).for_each(|_| Own.call(call));
        assert!(Own.stats().queued >= 5 * LIMIT);
        drop(guard);
        assert_eq!(calls.load(Acquire), 0);
        stop.store(true, Release);
        writer.join().expect("no panic");
    });
    Own.barrier();
    assert_eq!(calls.load(Acquire) as u64, 10 * LIMIT);
}

#[test]
fn stalled_reader_keeps_a_writer_under_the_byte_limit() {
    stillpoint::domain! { struct Own; }
    const SIZE: usize = 10_000;
    const BYTES: u64 = 4 << 20;
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    static PEAK: AtomicUsize = AtomicUsize::new(0);
    struct Block(#[expect(dead_code, reason = "takes room")] [u8; SIZE]);
    impl Block {
        fn new() -> Box<Self> {
            PEAK.fetch_max(WAITING.fetch_add(SIZE, Relaxed) + SIZE, Relaxed);
            Box::new(Self([1; SIZE]))
        }
    }
    impl Drop for Block {
        fn drop(&mut self) {
            WAITING.fetch_sub(SIZE, Relaxed);
        }
    }
    let _running = deadline();
    Own.set_limits(Limits { bytes: BYTES, ..Limits::default() });
    // Where threads wait for a CPU for ten seconds, a writer overruns the limit.
    until(|| {
        let (stop, before) = (AtomicBool::new(false), Own.stats().limit_overruns);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Stalls until it throttles the writers, a few times.
                for _ in 0..20 {
                    let (guard, waits) = (Own::enter(), Own.stats().limit_waits);
                    // A value's bytes on the heap are unknown, and count after a long grace period.
                    until(|| {
                        let stats = Own.stats();
                        stats.queued_bytes > BYTES || stats.limit_waits != waits
                    });
                    drop(guard);
                }
                let guard = Own::enter();
                until(|| Own.stats().limit_waits != 0);
                drop(guard);
                stop.store(true, Release);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Acquire) {
                        Own.retire(Block::new());
                    }
                });
            }
        });
        Own.barrier();
        assert_eq!(WAITING.load(Relaxed), 0);
        let peak = PEAK.swap(0, Relaxed);
        let is_in_time = Own.stats().limit_overruns == before;
        // Each of the two may exceed the limit by an unreported block and one value.
        let bound = BYTES as usize + 2 * ((64 << 10) + 2 * SIZE);
        assert!(peak <= bound || !is_in_time, "{peak} bytes waited, more than {bound}");
        is_in_time
    });
}
