//! The shim on the machine: `core`'s atomics, the kernel's futex, the fences of [`crate::fence`].

pub use core::hint::spin_loop;
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::num::NonZeroU32;
use std::ops::Deref;
pub use std::thread::yield_now;

pub(crate) use crate::fence::{heavy, light_by_compiler as light};
use crate::sys;

/// No mutants outside the model checker.
#[inline(always)]
pub const fn mutant(_name: &str) -> bool {
    false
}

/// Rounds to spin: tuned on the machine, tiny in a model.
#[inline(always)]
pub const fn budget(rounds: u32) -> u32 {
    rounds
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
        sys::futex_wait(&self.0, expected, mask);
    }

    /// Wakes at most `count` threads whose mask shares a bit with `mask`.
    pub fn wake(&self, count: u32, mask: NonZeroU32) {
        sys::futex_wake(&self.0, count, mask);
    }
}

impl Deref for Futex {
    type Target = AtomicU64;

    #[inline(always)]
    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}
