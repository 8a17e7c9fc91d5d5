//! A shared library that uses all parts of the crate. `tests/percpu/unload.rs` loads, uses and closes it.

use stillpoint::lock::Mutex;
use stillpoint::percpu::{Counter, Pool};
use stillpoint::{qsbr, rcu};

static COUNTER: Counter = Counter::new();
static LOCK: Mutex<u64> = Mutex::new(0);

/// Adds 1 to the counter `times` times, and uses a lock and a pool.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_add(times: u64) {
    for _ in 0..times {
        COUNTER.add(1);
    }
    // Long enough for some threads to queue for it: these have a node to free when they exit.
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

/// Registers the calling thread with `rcu`, `qsbr` and the fence, and defers a callback, for which a worker starts.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_read() {
    drop(rcu::enter());
    drop(qsbr::register());
    stillpoint::fence::heavy();
    rcu::retire(Box::new([0_u64; 4]));
    rcu::call(|| COUNTER.add(1));
    rcu::barrier();
}

/// Returns the sum of the counter.
#[unsafe(no_mangle)]
pub extern "C" fn unloaded_sum() -> u64 {
    COUNTER.get()
}
