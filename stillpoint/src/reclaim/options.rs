//! What a caller of deferred work may ask for.

/// What a caller says of deferred work, beyond what it is.
///
/// ```
/// use stillpoint::rcu::{self, DeferOptions, Rcu};
///
/// let pages = Rcu::new(vec![0_u8; 1 << 20]);
/// let old = pages.replace(vec![1; 1 << 20]);
/// // The megabyte counts towards the limits, and may wait for company.
/// let hints = DeferOptions::new().heap_bytes(old.len()).lazy();
/// old.retire_with(hints);
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
    /// None: to be done soon, and nothing owned but the value itself.
    pub const fn new() -> Self {
        Self { lazy: false, local: false, bytes: 0 }
    }

    /// It may wait until there is more to do: for other entries, for a few thousand of its kind or a quarter of the
    /// [`Limits`](crate::rcu::Limits), for [`barrier`](crate::rcu::barrier), or for ten seconds. Saves grace periods,
    /// and wake-ups of an idle process.
    pub const fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// The destructor of this value takes no locks and does nothing else that could harm the thread which retires it:
    /// so that thread may run it, in a later call of [`retire`](crate::rcu::retire) or the like, when the grace period
    /// is over.
    ///
    /// As memory is then given back by the thread that took it, several times faster with most allocators: for nodes of
    /// lists, trees and tables whose values only own memory. Values without destructors are treated so anyway.
    /// Callbacks are not affected.
    ///
    /// What the thread has deferred afterwards waits for the destructor to return; what other threads have does not.
    pub const fn run_on_retiring_thread(self) -> Self {
        Self { local: true, ..self }
    }

    /// It holds `bytes` of memory besides the value itself, which count towards the [`Limits`](crate::rcu::Limits).
    pub const fn heap_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}
