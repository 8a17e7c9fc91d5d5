//! Callers that are throttled behind callbacks that cannot run: here, as these are throttled for a short time only.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::backlog::{Limits, THROTTLE_TIMEOUT};
use super::queue::front::BLOCK;
use crate::Domain as _;
use support::deadline::deadline;

#[test]
fn throttled_caller_holding_a_callbacks_lock_times_out() {
    crate::domain! { struct Own; }
    static LOCK: Mutex<u64> = Mutex::new(0);
    const LIMIT: u64 = 2 * BLOCK;
    let _running = deadline();
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let mut deferred = 0;
    let mut defer = || {
        deferred += 1;
        Own.call(|| *LOCK.lock().unwrap_or_else(PoisonError::into_inner) += 1);
    };
    for _ in 0..3 {
        let before = Own.stats().limit_overruns;
        let held = LOCK.lock().expect("no panic");
        let start = Instant::now();
        while Own.stats().limit_overruns == before {
            defer();
        }
        assert!(start.elapsed() >= THROTTLE_TIMEOUT);
        // From now on callers are throttled for a moment only.
        let times: Vec<_> = (0..50)
            .map(|_| {
                let start = Instant::now();
                (0..BLOCK).for_each(|_| defer());
                start.elapsed()
            })
            .collect();
        // Not each, as a thread may also wait for a CPU.
        assert!(times.iter().any(|time| *time < THROTTLE_TIMEOUT), "{times:?}");
        assert!(Own.stats().limit_overruns >= before + 50);
        drop(held);
        // After progress they are throttled for longer again.
        Own.barrier();
        loop {
            let before = Own.stats();
            defer();
            let after = Own.stats();
            if after.limit_waits != before.limit_waits && after.limit_overruns == before.limit_overruns {
                break;
            }
        }
        Own.barrier();
    }
    assert_eq!(*LOCK.lock().expect("no panic"), deferred);
}
