//! The second count of grace periods, which runs along in debug builds and with the feature `check`.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::thread;

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::rcu::Rcu;

/// Whether this build checks.
const CHECKS: bool = cfg!(any(debug_assertions, feature = "check"));

#[test]
fn every_wait_is_checked_in_debug_builds_and_with_the_feature_and_none_elsewhere() {
    stillpoint::domain! { struct Own; }
    const CALLERS: u64 = 8;
    const ROUNDS: u64 = 100;
    let _running = deadline();
    let value = Rcu::new_in(0, Own);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let value = &value;
            scope.spawn(move || {
                for _ in 0..ROUNDS / 2 {
                    assert!(*value.load(&Own::enter()) < CALLERS);
                    Own.synchronize();
                    value.replace(caller).wait();
                }
            });
        }
    });
    let stats = Own.stats();
    assert_eq!(stats.callers, CALLERS * ROUNDS);
    assert_eq!(stats.checked, if CHECKS { CALLERS * ROUNDS } else { 0 });
}
