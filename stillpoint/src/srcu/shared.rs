//! What all handles and guards of a domain share, and its place in the list that [`super::fork`] keeps.

use core::cell::Cell;
use core::ptr;

use crate::domain::raw::Core;
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::striped::StripedQueues;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) core: Core<SrcuReaders>,
    pub(super) queues: StripedQueues,
    pub(super) fork: Link,
}

// SAFETY: the links are used under the lock of the list only; everything else is shared by threads.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub(super) fn new(phases: SrcuReaders) -> Self {
        Self { core: Core::new(phases, || "srcu::Domain"), queues: StripedQueues::new(), fork: Link::new() }
    }

    #[inline(always)]
    pub(super) fn phases(&self) -> &SrcuReaders {
        self.core.engine.readers()
    }

    /// Makes the domain one of a process that was forked when `sections` were open.
    ///
    /// # Safety
    ///
    /// As for [`ForkHook::child`](crate::sys::fork::ForkHook::child).
    pub(super) unsafe fn reset_in_child(&self, sections: [u64; 2]) {
        // SAFETY: the caller's contract.
        unsafe {
            self.phases().reset_in_child(sections);
            self.queues.reset_in_child();
            self.core.reset_in_child();
        }
    }
}

/// A domain's place in the list; used under its lock.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) next: Cell<*const Shared>,
    pub(super) previous: Cell<*const Shared>,
    /// Open when the process was about to fork, by phase.
    pub(super) sections: Cell<[u64; 2]>,
}

impl Link {
    const fn new() -> Self {
        Self { next: Cell::new(ptr::null()), previous: Cell::new(ptr::null()), sections: Cell::new([0; 2]) }
    }
}
