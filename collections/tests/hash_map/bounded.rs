//! The bound on memory behind a stalled reader counts what keys and values own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;

use stillpoint::Domain as _;
use stillpoint::rcu::Limits;
use stillpoint_collections::HashMap;

#[test]
fn replaced_strings_count_with_what_they_own() {
    stillpoint::domain! { struct Own; }
    const MOST: u64 = 300;
    const LIMIT: u64 = 8 << 20;
    Own.set_limits(Limits { bytes: LIMIT, ..Limits::default() });
    let map = HashMap::new_in(Own);
    let (retired, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let waiting = thread::scope(|scope| {
        let guard = Own::enter();
        scope.spawn(|| {
            while !stop.load(Relaxed) && retired.fetch_add(1, Relaxed) < MOST {
                map.insert(1_u64, String::with_capacity(1 << 20), &Own::enter());
            }
        });
        while Own.stats().limit_waits == 0 && retired.load(Relaxed) < MOST {
            thread::yield_now();
        }
        stop.store(true, Relaxed);
        drop(guard);
        retired.load(Relaxed)
    });
    // The first replaces none.
    assert!(waiting <= (LIMIT >> 20) + 2, "{waiting} strings of a mebibyte were inserted");
}
