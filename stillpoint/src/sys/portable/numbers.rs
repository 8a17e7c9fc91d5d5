//! Numbers of threads, in the order in which they ask for one, and of CPUs.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

thread_local! {
    /// 0 before the first call of [`own`].
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of the calling thread, from 1 on. After four billion threads, numbers repeat.
#[inline]
pub fn own() -> u32 {
    match OWN.get() {
        0 => choose(),
        own => own,
    }
}

#[cold]
fn choose() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: only the numbers matter.
    let own = NEXT.fetch_add(1, Relaxed).max(1);
    OWN.set(own);
    own
}

/// Returns how many CPUs there were at the first call. Does not allocate.
pub fn cpus() -> usize {
    /// 0 before the first call.
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed, both: the number publishes nothing, and the first one stays.
    let known = CPUS.load(Relaxed);
    if known != 0 {
        return known;
    }
    #[cfg(unix)]
    // SAFETY: a plain call.
    let found = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1);
    // On Unix this allocates.
    #[cfg(not(unix))]
    let found = std::thread::available_parallelism().map_or(1, usize::from);
    CPUS.compare_exchange(0, found, Relaxed, Relaxed).map_or_else(|first| first, |_| found)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let other = thread::spawn(|| [own(), own()]).join().expect("no panic");
        assert!(other[0] == other[1] && other[0] != own() && own() != 0);
    }
}
