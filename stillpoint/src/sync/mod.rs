//! What every algorithm is built from: atomics, futex words, spinning; shared rounds and eventcounts.
//!
//! Algorithms take these from here only, and the process-wide fence from [`crate::fence`]. So the same source runs on
//! the machine and, under `cfg(loom)`, in the [loom](https://docs.rs/loom) model checker. There the heavy fence is
//! modelled exactly (see `sync/model.rs`), and the light fence is what it is on the machine: nothing.
//!
//! # Mutants
//!
//! A step without which a model must fail is a statement in [`step!`], with a name. Under the model checker and with
//! `--cfg stillpoint_mutants` the environment variable `STILLPOINT_MUTANT` selects a step, which is then left out;
//! `NAME/N` leaves it out once in `N` times. Otherwise none of this is compiled. Orderings need no names: under the
//! model checker the atomics know their call sites (`sync/orderings.rs`). `ci/mutants.sh` shows that a model fails
//! without each step and ordering, and `ci/torture.sh` that a torture run on the machine notices some.

pub mod block_on;
mod cache_padded;
mod complain;
pub mod event_count;
mod fork_safe;
mod free_stack;
#[cfg(not(loom))]
mod lazy_box;
pub mod loom_access;
mod memory;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
pub(crate) mod native;
pub mod ordered;
#[cfg(loom)]
mod orderings;
#[cfg(not(loom))]
mod requested;
pub mod shared_seq;
#[cfg(not(loom))]
mod spin_calibration;
#[cfg(any(loom, feature = "statistics-page"))]
pub mod two_slots;

use core::cell::Cell;
pub use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use crate::sys::boxes::try_box;
pub use cache_padded::CachePadded;
pub(crate) use complain::complain;
pub(crate) use event_count::EventCount;
pub use fork_safe::ForkSafe;
pub(crate) use free_stack::FreeStack;
#[cfg(not(loom))]
pub(crate) use lazy_box::LazyBox;
pub(crate) use loom_access::LoomAccess;
pub(crate) use memory::Memory;
#[cfg(not(loom))]
pub(crate) use memory::Source as MemorySource;
#[cfg(loom)]
pub use model::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Condvar, Futex, Futex32, Mutex, MutexGuard, UnsafeCell,
    budget, fence, has_normal_policy, is_bound, last_tick, now, outnumber_cpus, process_cpus,
    spin_iterations, spin_loop, thread_name, write_error, yield_now,
};
#[cfg(not(loom))]
pub(crate) use native::fence_after_atomic;
#[cfg(not(loom))]
pub(crate) use native::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Condvar, Futex, Futex32, Mutex, MutexGuard, UnsafeCell,
    after, budget, fence, has_normal_policy, is_bound, last_tick, now, outnumber_cpus, process_cpus,
    spin_loop, thread_name, write_error, yield_now,
};
#[cfg(not(loom))]
pub(crate) use requested::Requested;
#[cfg(not(loom))]
pub(crate) use spin_calibration::spin_iterations;

/// Returns `true` if the mutant `name` is selected: always, or once in `N` times, at random, if `name/N` is.
#[cfg(any(loom, stillpoint_mutants, stillpoint_faults))]
pub fn mutant(name: &str) -> bool {
    static SELECTED: std::sync::LazyLock<Option<(&str, u64)>> = std::sync::LazyLock::new(|| {
        // Not `std::env::var`, which allocates: mutants are asked for where there is no memory.
        // SAFETY: the name is a C string. The value stays: programs with mutants set it when they start, if at all.
        let selected = unsafe {
            let value = libc::getenv(c"STILLPOINT_MUTANT".as_ptr());
            (!value.is_null()).then(|| core::ffi::CStr::from_ptr(value))?
        };
        let selected = selected.to_str().expect("the name of a mutant");
        let (name, n) = selected.split_once('/').unwrap_or((selected, "1"));
        Some((name, n.parse().expect("a number after the name of the mutant")))
    });
    SELECTED.is_some_and(|(selected, n)| selected == name && one_in(n))
}

/// Returns `true` once in `n` calls of a thread, at random; never if `n` is 0. Orders nothing.
pub fn one_in(n: u64) -> bool {
    std::thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    if n <= 1 {
        return n == 1;
    }
    STATE.with(|state| {
        // By the clock, so that threads with few calls do not all get the same.
        let mut x = if state.get() == 0 { now() | 1 } else { state.get() };
        // Xorshift (Marsaglia, 2003), with Vigna's multiplication.
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11 < (1 << 53) / n
    })
}

/// There are no mutants otherwise.
#[cfg(not(any(loom, stillpoint_mutants, stillpoint_faults)))]
#[inline(always)]
pub const fn mutant(_name: &str) -> bool {
    false
}

/// Executes a statement, which the mutant of this name leaves out. For the packages of the repository.
#[doc(hidden)]
#[macro_export]
macro_rules! step {
    ($name:literal, $($statement:tt)+) => {
        if !$crate::mutant($name) {
            $($statement)+;
        }
    };
}
pub(crate) use step;

/// Defines a function that is `const` on the machine; loom's atomics have no `const` constructors. For the packages
/// of the repository.
#[doc(hidden)]
#[macro_export]
macro_rules! const_unless_loom {
    ($(#[$attr:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attr])* $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$attr])* $vis fn $($rest)*
    };
    ($(#[$attr:meta])* $vis:vis unsafe fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attr])* $vis const unsafe fn $($rest)*
        #[cfg(loom)]
        $(#[$attr])* $vis unsafe fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

/// Defines a trait that is private on the machine, and public for models.
macro_rules! private_unless_loom {
    ($(#[$attr:meta])* trait $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attr])* pub(crate) trait $($rest)*
        #[cfg(loom)]
        $(#[$attr])* pub trait $($rest)*
    };
}
pub(crate) use private_unless_loom;
