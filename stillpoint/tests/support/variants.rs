//! The registration of threads for per-CPU data, in three variants.

use crate::child;

/// Environments in which threads are registered by the C library, by the library under test, or not at all.
pub const VARIANTS: [&[(&str, &str)]; 3] =
    [&[], &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")], &[("STILLPOINT_PERCPU", "atomic")]];

/// Returns `true` in a child that is to run `test`. The parent returns `false` after a child has run it in each
/// environment.
pub fn in_each_variant<T: Fn() + Copy>(test: T) -> bool {
    if child::variant().is_some() {
        return true;
    }
    for environment in VARIANTS {
        child::with_environment(test, "", environment);
    }
    false
}
