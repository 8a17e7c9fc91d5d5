//! How long a round of spinning takes: from a few cycles to more than a hundred, by the processor's make.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::now;

/// Rounds that are timed, and how often.
const ROUNDS: u32 = 32;
const TIMES: u32 = 4;

/// 256ths of a nanosecond that a round takes; 0 until somebody has looked.
static COST: AtomicU32 = AtomicU32::new(0);

/// Rounds of [`spin_loop`] that take about `ns` nanoseconds. The first call takes some microseconds.
#[inline]
pub fn spins(ns: u32) -> u32 {
    if ns == 0 {
        return 0;
    }
    // Relaxed: any thread's measurement will do.
    let cost = match COST.load(Relaxed) {
        0 => measure(),
        cost => cost,
    };
    (u64::from(ns) * 256 / u64::from(cost)).clamp(1, u64::from(u32::MAX)) as u32
}

#[cold]
fn measure() -> u32 {
    let time = || {
        let start = now();
        (0..ROUNDS).for_each(|_| spin_loop());
        now() - start
    };
    // The least: an interruption only adds. A clock with long steps may tell of none: no round takes less than a cycle.
    let least = (0..TIMES).map(|_| time()).min().unwrap_or(0);
    let cost = (least * 256 / u64::from(ROUNDS)).clamp(64, 1 << 20) as u32;
    COST.store(cost, Relaxed);
    cost
}
