//! The worker of E1 that computes: the neighbour that heavy fences may disturb.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::harness::timed_loop::thread_cpu_time;
use crate::harness::worker;

/// Words that the work walks over: they fit in the second-level cache of any CPU of these days, and not in the first, so
/// that a flushed cache is noticed.
const WORDS: usize = 16 << 10;

/// Runs the child: works for the requested time. Answers the nanoseconds and the CPU time of a unit of work.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut memory = vec![1_u64; WORDS];
    worker::serve(None, |time: Duration| {
        let (start, cpu) = (Instant::now(), thread_cpu_time());
        let mut units = 0_u32;
        while start.elapsed() < time || units == 0 {
            work(&mut memory);
            units += 1;
        }
        Ok([start.elapsed(), thread_cpu_time() - cpu].map(|time| time.as_nanos() as f64 / f64::from(units)))
    })
}

/// A unit of work: each word depends on the one before.
fn work(memory: &mut [u64]) {
    let mut carry = 1_u64;
    for word in memory.iter_mut() {
        carry = carry.wrapping_mul(*word | 1).rotate_left(7) ^ *word;
        *word = carry;
    }
    black_box(memory);
}
