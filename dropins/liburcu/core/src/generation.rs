//! The generation of this process: locks, threads and hooks of another one are not this process's.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many forks lie between the first process and this one, plus one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Returns a number that is another one in each generation of processes.
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// The child of a fork begins its generation.
pub(crate) fn begin_next() {
    GENERATION.fetch_add(1, Relaxed);
}
