//! What the readers are made of: atomics of `core` and words to sleep on, or their twins for the model checker.

#[cfg(not(loom))]
mod native {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
    use std::ops::Deref;
    pub use std::sync::{Mutex, MutexGuard};

    pub use stillpoint::urcu::{ForkSafe, now};
    use stillpoint::urcu::{futex_wait_shared, futex_wake_shared};

    /// Returns `rounds`, the number of rounds to spin. In a model there are fewer.
    pub const fn budget(rounds: u32) -> u32 {
        rounds
    }

    /// A word to sleep on, which other code may wake.
    #[repr(transparent)]
    #[derive(Debug)]
    pub struct Futex32(AtomicU32);

    impl Futex32 {
        pub const fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        /// Sleeps until a [`wake_shared`](Self::wake_shared), or until [`now`] would be `until`, unless the word differs
        /// from `expected`. May return spuriously.
        pub fn wait_shared(&self, expected: u32, until: Option<u64>) {
            futex_wait_shared(self, expected, until);
        }

        /// Wakes at most `count` threads.
        pub fn wake_shared(&self, count: u32) {
            futex_wake_shared(self, count);
        }
    }

    impl Deref for Futex32 {
        type Target = AtomicU32;

        #[inline(always)]
        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }
}

pub use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub use native::*;
#[cfg(loom)]
pub use stillpoint::sync::{
    AtomicPtr, AtomicU32, AtomicU64, ForkSafe, Futex32, Mutex, MutexGuard, budget, fence, now, spin_loop,
};

/// Executes a statement, which the mutant of this name leaves out: see `stillpoint/src/sync/mod.rs`.
macro_rules! step {
    ($name:literal, $($statement:tt)+) => {
        #[cfg(any(loom, stillpoint_mutants))]
        let is_left_out = stillpoint::sync::mutant($name);
        #[cfg(not(any(loom, stillpoint_mutants)))]
        let is_left_out = false;
        if !is_left_out {
            $($statement)+;
        }
    };
}
pub(crate) use step;

/// Defines a function that is `const` on the machine; loom's atomics have no `const` constructors.
macro_rules! const_unless_loom {
    ($(#[$attr:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attr])* $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$attr])* $vis fn $($rest)*
    };
}
pub(crate) use const_unless_loom;
