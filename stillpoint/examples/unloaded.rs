//! A shared library that uses all parts of the crate, which `tests/percpu_unload.rs` loads, uses and closes.

use stillpoint::lock::Mutex;
use stillpoint::percpu::{Counter, Pool};
use stillpoint::{qsbr, rcu};

static COUNTER: Counter = Counter::new();
static LOCK: Mutex<u64> = Mutex::new(0);

/// Adds 1 so many times.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_add(times: u64) {
    for _ in 0..times {
        COUNTER.add(1);
    }
    // Long enough for some to wait for it, who then have something to do when they end.
    for _ in 0..4 {
        let mut total = LOCK.lock();
        *total += times;
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let pool = Pool::new(4);
    for value in 0..20 {
        let _ = pool.push(Box::new(value));
        drop(pool.pop());
    }
}

/// Registers the calling thread as a reader of both kinds, and with the fence; leaves a callback, for which there is a worker.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_read() {
    drop(rcu::enter());
    drop(qsbr::register());
    stillpoint::fence::heavy();
    rcu::retire(Box::new([0_u64; 4]));
    rcu::call(|| COUNTER.add(1));
    rcu::barrier();
}

/// The sum.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_sum() -> u64 {
    COUNTER.sum()
}
