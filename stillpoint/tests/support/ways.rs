//! The environments in which per-CPU data works differently.

use crate::child;

/// Registered by the C library, by ourselves, not at all.
pub const WAYS: [&[(&str, &str)]; 3] =
    [&[], &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")], &[("STILLPOINT_PERCPU", "atomic")]];

/// True in a child that is to run `test`; the parent has run it in every environment.
pub fn in_every_way(test: &str) -> bool {
    if child::variant().is_some() {
        return true;
    }
    for environment in WAYS {
        child::with_environment(test, "", environment);
    }
    false
}
