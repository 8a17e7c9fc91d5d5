//! What the readers are made of: atomics of `core` and words to sleep on, or their twins for the model checker.

pub use core::sync::atomic::Ordering;

#[cfg(loom)]
use stillpoint::sync as shim;
#[cfg(not(loom))]
use stillpoint::urcu as shim;

pub use shim::{
    AtomicPtr, AtomicU32, AtomicU64, ForkSafe, Futex32, Mutex, MutexGuard, budget, fence, has_normal_policy,
    now, outnumber_cpus, spin_loop, yield_now,
};
pub(crate) use stillpoint::{const_unless_loom, step};
