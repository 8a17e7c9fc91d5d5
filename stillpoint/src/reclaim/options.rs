//! Options of a deferred call or a retired value.

/// Options of a deferred call or a retired value.
///
/// ```
/// use stillpoint::rcu::{self, DeferOptions, Rcu};
///
/// let pages = Rcu::new(vec![0_u8; 1 << 20]);
/// let old = pages.replace(vec![1; 1 << 20]);
/// // The megabyte counts towards the limits, and is not urgent.
/// let options = DeferOptions::new().heap_bytes(old.len()).lazy();
/// old.retire_with(options);
/// rcu::barrier();
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct DeferOptions {
    pub(crate) lazy: bool,
    pub(crate) local: bool,
    pub(crate) bytes: usize,
}

impl DeferOptions {
    /// No options: to be done soon, and nothing owned but the value itself.
    pub const fn new() -> Self {
        Self { lazy: false, local: false, bytes: 0 }
    }

    /// Allows it to wait: for callbacks that are not lazy, for a few thousand lazy ones or a quarter of the
    /// [`Limits`](crate::rcu::Limits), for [`barrier`](crate::rcu::barrier), or for ten seconds. Saves grace periods,
    /// and wake-ups of an idle process.
    pub const fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Allows the thread that retires the value to run its destructor, in a later call of
    /// [`retire`](crate::rcu::retire) or the like, when the grace period has ended. The destructor must not take locks,
    /// or do anything else that could harm that thread.
    ///
    /// The thread that allocated the memory then frees it, which is several times faster with most allocators: for
    /// nodes of lists, trees and tables whose values only own memory. This is the default for values without
    /// destructors. Of callbacks, it affects those of [`call_unchecked`](crate::rcu::call_unchecked) only.
    ///
    /// What the thread defers afterwards waits until the destructor returns; what other threads defer does not.
    pub const fn run_on_retiring_thread(self) -> Self {
        Self { local: true, ..self }
    }

    /// Adds `bytes` to the size of the value itself, for the [`Limits`](crate::rcu::Limits).
    pub const fn heap_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}
