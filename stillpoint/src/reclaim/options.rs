//! Options of a deferred call or a retired value.

/// Options of a deferred call or a retired value.
///
/// ```
/// use stillpoint::rcu::{self, DeferOptions, Rcu};
///
/// struct Pages {
///     bytes: Box<[u8]>,
/// }
///
/// let pages = Rcu::new(Pages { bytes: vec![0; 1 << 20].into() });
/// let old = pages.replace(Pages { bytes: vec![1; 1 << 20].into() });
/// // The megabyte counts towards the limits, and is not urgent.
/// let options = DeferOptions::new().heap_bytes(old.bytes.len()).lazy();
/// old.retire_with(options);
/// rcu::barrier();
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct DeferOptions {
    pub(crate) lazy: bool,
    pub(crate) local: bool,
    pub(crate) heap: Heap,
}

/// What the value owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Heap {
    /// What the library knows of the type.
    #[default]
    ByType,
    Bytes(usize),
    Unknown,
}

impl DeferOptions {
    /// No options: to be done soon; what the value owns depends on its [type](crate::rcu::Limits#what-a-value-counts-for).
    pub const fn new() -> Self {
        Self { lazy: false, local: false, heap: Heap::ByType }
    }

    /// Allows it to wait: for callbacks that are not lazy, for a few thousand lazy ones or a quarter of the
    /// [`Limits`](crate::rcu::Limits), for as many values of
    /// [unknown size](crate::rcu::Limits#what-a-value-counts-for) as may wait behind a stalled reader, for
    /// [`barrier`](crate::rcu::barrier), or for ten seconds. Saves grace periods, and wake-ups of an idle process.
    pub const fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Allows the thread that retires the value to run its destructor, in a later call of
    /// [`retire`](crate::rcu::retire) or the like, when the grace period has ended. The destructor must not take locks,
    /// or do anything else that could harm that thread.
    ///
    /// The thread that allocated the memory then frees it, which is several times faster with most allocators: for
    /// nodes of lists, trees and tables whose values only own memory. This is the default for values without
    /// destructors. No callback is affected.
    ///
    /// What the thread defers afterwards waits until the destructor returns; what other threads defer does not.
    pub const fn run_on_retiring_thread(self) -> Self {
        Self { local: true, ..self }
    }

    /// Adds `bytes` to the size of the value itself, for the [`Limits`](crate::rcu::Limits).
    pub const fn heap_bytes(self, bytes: usize) -> Self {
        Self { heap: Heap::Bytes(bytes), ..self }
    }

    /// Says that it may own any amount of memory: it counts as
    /// [a value that the library does not know](crate::rcu::Limits#what-a-value-counts-for).
    ///
    /// For what is freed by raw pointers ([`retire_raw_with`](crate::Domain::retire_raw_with)).
    pub const fn unknown_heap_bytes(self) -> Self {
        Self { heap: Heap::Unknown, ..self }
    }

    /// Returns the heap bytes, or `None` if they are unknown. `by_type`: what is known of the type.
    #[inline(always)]
    pub(crate) fn heap(self, by_type: impl FnOnce() -> Option<usize>) -> Option<usize> {
        match self.heap {
            Heap::ByType => by_type(),
            Heap::Bytes(bytes) => Some(bytes),
            Heap::Unknown => None,
        }
    }
}
