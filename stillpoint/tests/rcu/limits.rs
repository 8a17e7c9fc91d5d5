//! Limits: which callers they block, and until when.

use std::any::type_name;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::rcu::{self, Limits};
use stillpoint::srcu;
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
