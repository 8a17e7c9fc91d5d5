//! A shared library with per-CPU data, which `tests/percpu_unload.rs` loads, uses and unloads.

use stillpoint::percpu::{Counter, Pool};

static COUNTER: Counter = Counter::new();

/// Adds 1 so many times.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_add(times: u64) {
    for _ in 0..times {
        COUNTER.add(1);
    }
    let pool = Pool::new(4);
    for value in 0..20 {
        let _ = pool.push(Box::new(value));
        drop(pool.pop());
    }
}

/// The sum.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_sum() -> u64 {
    COUNTER.sum()
}
