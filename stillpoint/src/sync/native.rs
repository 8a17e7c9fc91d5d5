//! The shim on the machine: `core`'s atomics, the kernel's futex.

pub use core::hint::spin_loop;
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::cell;
use std::num::NonZeroU32;
use std::ops::Deref;
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::yield_now;
use std::time::Duration;

use crate::sys;

/// Rounds to spin: tuned on the machine, tiny in a model.
#[inline(always)]
pub const fn budget(rounds: u32) -> u32 {
    rounds
}

/// The monotonic clock, in nanoseconds. In a model it stands still.
pub fn now() -> u64 {
    sys::now()
}

/// `core`'s cell, with loom's way to use it.
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

/// A 64-bit atomic word that threads can sleep on. The kernel compares its low half.
#[derive(Debug)]
pub struct Futex(AtomicU64);

impl Futex {
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Sleeps until a [`wake`](Self::wake) whose mask shares a bit with `mask`, unless the low half of the word differs
    /// from that of `expected`. May return for no reason.
    pub fn wait(&self, expected: u64, mask: NonZeroU32) {
        sys::futex_wait(sys::low_half(&self.0), expected as u32, mask, None);
    }

    /// [`wait`](Self::wait), but no longer than `timeout`.
    pub fn wait_timeout(&self, expected: u64, mask: NonZeroU32, timeout: Duration) {
        // A time that no clock reaches is no limit.
        let until = u64::try_from(timeout.as_nanos()).ok().and_then(|ns| now().checked_add(ns));
        sys::futex_wait(sys::low_half(&self.0), expected as u32, mask, until);
    }

    /// Wakes at most `count` threads whose mask shares a bit with `mask`.
    pub fn wake(&self, count: u32, mask: NonZeroU32) {
        sys::futex_wake(sys::low_half(&self.0), count, mask);
    }
}

impl Deref for Futex {
    type Target = AtomicU64;

    #[inline(always)]
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// A 32-bit atomic word that threads can sleep on.
#[derive(Debug)]
pub struct Futex32(AtomicU32);

impl Futex32 {
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Sleeps until a [`wake`](Self::wake), or until [`now`] would be `until`, unless the word differs from `expected`.
    /// Whether the time is over. May return for no reason.
    pub fn wait(&self, expected: u32, until: Option<u64>) -> bool {
        sys::futex_wait(&self.0, expected, NonZeroU32::MAX, until)
    }

    /// Wakes at most `count` threads. How many it has woken.
    pub fn wake(&self, count: u32) -> usize {
        sys::futex_wake(&self.0, count, NonZeroU32::MAX)
    }
}

impl Deref for Futex32 {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Nothing. In a model, loom checks the accesses that it stands for.
#[derive(Debug)]
pub struct LoomAccess;

impl LoomAccess {
    pub const fn new() -> Self {
        Self
    }

    /// The calling thread accesses the memory, as others may.
    #[inline(always)]
    pub fn shared(&self) {}

    /// The calling thread accesses the memory exclusively.
    #[inline(always)]
    pub fn exclusive(&self) {}
}
