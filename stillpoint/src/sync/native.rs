//! The shim on the machine: `core`'s atomics, the kernel's futex.

pub use core::hint::spin_loop;
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
use std::cell;
use std::num::NonZeroU32;
use std::ops::Deref;
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::yield_now;
use std::time::Duration;

use crate::sys;
pub use crate::sys::thread::{
    has_normal_policy, is_bound, name as thread_name, outnumber_cpus, process_cpus,
};
pub use crate::sys::{last_tick, now, write_error};

/// Returns `rounds`, the number of rounds to spin. In a model there are fewer.
#[inline(always)]
pub const fn budget(rounds: u32) -> u32 {
    rounds
}

/// Returns the reading of the clock after `timeout`; `None` if the clock does not reach it.
pub fn after(timeout: Duration) -> Option<u64> {
    u64::try_from(timeout.as_nanos()).ok()?.checked_add(now())
}

/// A full fence right after a read-modify-write of the thread, which is one on x86-64. The kernel's
/// `smp_mb__after_atomic`.
#[inline(always)]
pub fn fence_after_atomic() {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// `core`'s cell with the interface of loom's.
#[derive(Debug)]
pub struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// An atomic word that threads can sleep on.
#[repr(transparent)]
#[derive(Debug)]
pub struct FutexWord<A>(A);

/// A word of 64 bits. The kernel compares its low half.
pub type Futex = FutexWord<AtomicU64>;
/// A word of 32 bits.
pub type Futex32 = FutexWord<AtomicU32>;

impl<A> Deref for FutexWord<A> {
    type Target = A;

    #[inline(always)]
    fn deref(&self) -> &A {
        &self.0
    }
}

impl Futex {
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Sleeps until a [`wake`](Self::wake) whose mask shares a bit with `mask`, unless the low half of the word
    /// differs from the low half of `expected`. May return spuriously.
    pub fn wait(&self, expected: u64, mask: NonZeroU32) {
        sys::futex_wait(sys::low_half(self), expected as u32, mask, None);
    }

    /// [`wait`](Self::wait), but no longer than `timeout`.
    pub fn wait_timeout(&self, expected: u64, mask: NonZeroU32, timeout: Duration) {
        sys::futex_wait(sys::low_half(self), expected as u32, mask, after(timeout));
    }

    /// Sleeps until a [`wake`](Self::wake), or until [`now`] would be `until`, unless the low half of the word
    /// differs from the low half of `expected`. Returns `true` if the time is over. May return spuriously.
    pub fn wait_until(&self, expected: u64, until: Option<u64>) -> bool {
        sys::futex_wait(sys::low_half(self), expected as u32, NonZeroU32::MAX, until)
    }

    /// Wakes at most `count` threads whose mask shares a bit with `mask`.
    pub fn wake(&self, count: u32, mask: NonZeroU32) {
        sys::futex_wake(sys::low_half(self), count, mask);
    }
}

impl Futex32 {
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Sleeps until a [`wake`](Self::wake), or until [`now`] would be `until`, unless the word differs from
    /// `expected`. Returns `true` if the time is over. May return spuriously.
    pub fn wait(&self, expected: u32, until: Option<u64>) -> bool {
        sys::futex_wait(&self.0, expected, NonZeroU32::MAX, until)
    }

    /// Wakes at most `count` threads. Returns their number.
    pub fn wake(&self, count: u32) -> usize {
        sys::futex_wake(&self.0, count, NonZeroU32::MAX)
    }

    /// [`wait`](Self::wait) for a word that code of other packages wakes.
    #[cfg(all(feature = "_urcu", not(stillpoint_portable)))]
    pub fn wait_shared(&self, expected: u32, until: Option<u64>) {
        sys::futex_wait_shared(&self.0, expected, until);
    }

    /// [`wake`](Self::wake) for a word on which code of other packages sleeps.
    #[cfg(all(feature = "_urcu", not(stillpoint_portable)))]
    pub fn wake_shared(&self, count: u32) {
        sys::futex_wake_shared(&self.0, count);
    }
}
