//! The environments that select the modes of per-CPU data.

use crate::child;

/// Threads are registered by the C library, by the library under test, or not at all.
pub const WAYS: [&[(&str, &str)]; 3] =
    [&[], &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")], &[("STILLPOINT_PERCPU", "atomic")]];

/// Returns `true` in a child that is to run `test`. The parent returns `false` after a child has run it in each
/// environment.
pub fn in_every_way(test: &str) -> bool {
    if child::variant().is_some() {
        return true;
    }
    for environment in WAYS {
        child::with_environment(test, "", environment);
    }
    false
}
