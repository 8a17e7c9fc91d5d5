//! A process that computes and tells how fast: the neighbour that heavy fences may disturb.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::harness::clock::thread_cpu_time;
use crate::harness::worker as lane;

/// Words that the work walks over: fits in the second-level cache of any CPU of these days, and not in the first, so
/// that who empties caches is noticed.
const WORDS: usize = 16 << 10;

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Work {
    units: u64,
    wall: Duration,
    cpu: Duration,
}

impl Work {
    /// Nanoseconds of a unit of work.
    pub(super) fn wall_ns(&self) -> f64 {
        self.wall.as_nanos() as f64 / self.units as f64
    }

    /// Nanoseconds of CPU time of a unit of work.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.units as f64
    }
}

/// The child: works for the time asked for.
///
/// # Errors
///
/// Fails if the parent is gone.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut memory = vec![1_u64; WORDS];
    lane::serve(None, |time: Duration| {
        let (start, cpu) = (Instant::now(), thread_cpu_time());
        let mut units = 0;
        while start.elapsed() < time || units == 0 {
            unit(&mut memory);
            units += 1;
        }
        Ok(Work { units, wall: start.elapsed(), cpu: thread_cpu_time() - cpu })
    })
}

/// A unit of work: each word depends on the one before.
fn unit(memory: &mut [u64]) {
    let mut carry = 1_u64;
    for word in memory.iter_mut() {
        carry = carry.wrapping_mul(*word | 1).rotate_left(7) ^ *word;
        *word = carry;
    }
    black_box(memory);
}
