//! What every algorithm is built from: atomics, futex words, words of each CPU, spinning; shared rounds and
//! eventcounts.
//!
//! Algorithms take these from here and nowhere else, and the process-wide fence from [`crate::fence`], so that the same
//! source runs on the machine and, under `cfg(loom)`, in the [loom](https://docs.rs/loom) model checker. There the
//! heavy fence is modelled exactly (see `sync/model.rs`): the light fence stays what it is on the machine, nothing.
//!
//! # Mutants
//!
//! Each ordering and each step of a protocol that can be dropped has a name: [`weaken`] makes an ordering `Relaxed`,
//! [`mutant`] switches a step off. Both are constants that fold away, but under the model checker and with
//! `--cfg stillpoint_mutants`: there the environment variable `STILLPOINT_MUTANT` selects one. `ci/mutants.sh` shows
//! that a model then fails, `ci/torture.sh` that a torture run on the machine does. The tables in `docs/proof.md` have
//! rows for each name.

pub mod event_count;
mod fork_safe;
mod memory;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
mod native;
pub mod shared_seq;
#[cfg(not(loom))]
mod spin_calibration;

pub(crate) use event_count::EventCount;
pub(crate) use fork_safe::ForkSafe;
pub(crate) use memory::Block;
#[cfg(loom)]
pub use model::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Futex, Futex32, LoomAccess, Mutex, MutexGuard, UnsafeCell,
    budget, fence, now, spin_iterations, spin_loop, yield_now,
};
#[cfg(not(loom))]
pub(crate) use native::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Futex, Futex32, LoomAccess, Mutex, MutexGuard, UnsafeCell,
    budget, fence, now, spin_loop, yield_now,
};
#[cfg(not(loom))]
pub(crate) use spin_calibration::spin_iterations;

pub use core::sync::atomic::Ordering;

/// Whether the mutant `name` is selected.
#[cfg(any(loom, stillpoint_mutants))]
#[inline]
pub fn mutant(name: &str) -> bool {
    static SELECTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    SELECTED.get_or_init(|| std::env::var("STILLPOINT_MUTANT").ok()).as_deref() == Some(name)
}

/// There are no mutants otherwise.
#[cfg(not(any(loom, stillpoint_mutants)))]
#[inline(always)]
pub const fn mutant(_name: &str) -> bool {
    false
}

/// `order`, or `Relaxed` when the mutant `name` is selected.
#[inline(always)]
#[cfg_attr(loom, track_caller)]
pub fn weaken(order: Ordering, name: &str) -> Ordering {
    if mutant(name) { Ordering::Relaxed } else { order }
}

/// `AcqRel`, less the half that a mutant takes away.
#[inline(always)]
pub fn acq_rel(without_release: bool, without_acquire: bool) -> Ordering {
    match (without_release, without_acquire) {
        (true, _) => Ordering::Acquire,
        (_, true) => Ordering::Release,
        _ => Ordering::AcqRel,
    }
}

/// Defines an associated function that is `const` on the machine; loom's atomics have no `const` constructors.
macro_rules! const_unless_loom {
    ($(#[$attr:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attr])* $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$attr])* $vis fn $($rest)*
    };
}
pub(crate) use const_unless_loom;
