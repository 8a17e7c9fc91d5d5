//! The memory of maps, and the longest insertion while they grow.

use std::time::{Duration, Instant};

use harness::memory::allocated;

use super::LARGE;
use crate::peers::maps::{Key as _, Map};

/// Returns the bytes of an entry, the mean of maps of several sizes (not a number without glibc), and the nanoseconds
/// of the longest insertion: a map that moves all entries at once when it grows lets one wait.
pub fn run<M: Map>() -> [f64; 2] {
    const SIZES: usize = 8;
    let mut longest = Duration::ZERO;
    let of_size = |eighth: usize| {
        let (entries, before) = (LARGE / 2 * (SIZES + eighth) / SIZES, allocated());
        let map = M::default();
        let mut last = Instant::now();
        for number in 0..entries {
            map.insert(u64::with_number(number), 0);
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        // What waits for a grace period does not belong to the map.
        stillpoint::Domain::barrier(&stillpoint::rcu::Global);
        (allocated() - before) / entries as f64
    };
    let bytes = (0..SIZES).map(of_size).sum::<f64>() / SIZES as f64;
    [bytes, longest.as_nanos() as f64]
}
