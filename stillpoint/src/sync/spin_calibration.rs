//! How long an iteration of a spin loop takes: from a few cycles to more than a hundred, depending on the CPU model.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::now;

const ITERATIONS: u32 = 32;
const MEASUREMENTS: u32 = 4;

/// 256ths of a nanosecond that an iteration takes; 0 before the first measurement.
static COST: AtomicU32 = AtomicU32::new(0);

/// Returns the number of [`spin_loop`] iterations that take about `ns` nanoseconds. The first call takes
/// microseconds.
#[inline]
pub fn spin_iterations(ns: u32) -> u32 {
    if ns == 0 {
        return 0;
    }
    // Relaxed: the measurement of any thread is good enough.
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
        (0..ITERATIONS).for_each(|_| spin_loop());
        now() - start
    };
    // The minimum, as interruptions only add. At least a cycle an iteration: a coarse clock may show no time at all.
    let least = (0..MEASUREMENTS).map(|_| time()).min().unwrap_or(0);
    let cost = (least * 256 / u64::from(ITERATIONS)).clamp(64, 1 << 20) as u32;
    COST.store(cost, Relaxed);
    cost
}
