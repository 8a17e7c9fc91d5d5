//! The bound on memory behind a stalled reader counts what keys and values own.

use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::Limits;
use stillpoint_collections::HashMap;
use support::deadline::deadline;
use support::until::until;

#[test]
fn replaced_strings_count_with_what_they_own() {
    stillpoint::domain! { struct Own; }
    const MOST: u64 = 300;
    const LIMIT: u64 = 8 << 20;
    let _running = deadline();
    Own.set_limits(Limits { bytes: LIMIT, ..Limits::default() });
    let map = HashMap::new_in(Own);
    let is_throttled = || Own.stats().limit_waits != 0;
    let waiting = thread::scope(|scope| {
        let guard = Own::enter();
        // The thread itself counts, up to the value with which it is throttled: it goes on after some time.
        let writer = scope.spawn(|| {
            let inserted = (1..MOST).find(|_| {
                map.insert(1_u64, String::with_capacity(1 << 20), &Own::enter());
                is_throttled()
            });
            inserted.unwrap_or(MOST)
        });
        until(|| is_throttled() || writer.is_finished());
        drop(guard);
        writer.join().expect("no panic")
    });
    // The first replaces none.
    assert!(waiting <= (LIMIT >> 20) + 2, "{waiting} strings of a mebibyte were inserted");
}
