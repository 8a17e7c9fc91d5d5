//! The memory of maps.

use super::LARGE;
use crate::peers::maps::{Key as _, Map};

/// Returns the bytes of an entry: the mean of maps of several sizes; not a number without glibc.
pub(super) fn bytes<M: Map>() -> f64 {
    const SIZES: usize = 8;
    let of_size = |eighth: usize| {
        let (entries, before) = (LARGE / 2 * (SIZES + eighth) / SIZES, allocated());
        let _thread = M::register();
        let map = M::default();
        (0..entries).for_each(|number| map.insert(u64::with_number(number), 0));
        // What waits for a grace period does not belong to the map.
        stillpoint::Domain::barrier(&stillpoint::rcu::Global);
        (allocated() - before) / entries as f64
    };
    (0..SIZES).map(of_size).sum::<f64>() / SIZES as f64
}

/// Returns how many bytes are allocated: what the C library has given, and what was mapped without it.
#[cfg(all(target_env = "gnu", not(feature = "mimalloc")))]
fn allocated() -> f64 {
    // SAFETY: takes nothing.
    let all = unsafe { libc::mallinfo2() };
    let mapped = harness::memory::status("VmData").map_or(f64::NAN, |bytes| bytes as f64);
    mapped + all.uordblks as f64 - all.arena as f64
}

#[cfg(not(all(target_env = "gnu", not(feature = "mimalloc"))))]
fn allocated() -> f64 {
    f64::NAN
}
