//! The state that all handles and guards of a domain share, and its link in the list of [`super::fork`].

use core::cell::Cell;
use core::ptr;

use crate::readers::srcu::SrcuReaders;
use crate::reclaim::domain::Core;
use crate::reclaim::striped::StripedQueues;

/// The name of all domains, for reports.
pub(super) const NAME: fn() -> &'static str = || "srcu::Domain";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SrcuState {
    pub(super) core: Core<SrcuReaders>,
    pub(super) queues: StripedQueues,
    /// The neighbours in the list; used under its lock, like `sections_before_fork`.
    pub(super) next: Cell<*const SrcuState>,
    pub(super) previous: Cell<*const SrcuState>,
    pub(super) sections_before_fork: Cell<[u64; 2]>,
}

// SAFETY: the cells are used under the lock of the list only; everything else is `Sync`.
unsafe impl Sync for SrcuState {}
// SAFETY: as above.
unsafe impl Send for SrcuState {}

impl SrcuState {
    pub(super) fn new(readers: SrcuReaders) -> Self {
        Self {
            core: Core::new(readers, NAME),
            queues: StripedQueues::new(),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            sections_before_fork: Cell::new([0; 2]),
        }
    }

    #[inline(always)]
    pub(super) fn readers(&self) -> &SrcuReaders {
        self.core.engine.readers()
    }

    /// Resets the domain in the child of a fork, at which `sections` were open.
    ///
    /// # Safety
    ///
    /// That of [`ForkHook::child`](crate::sys::fork::ForkHook::child).
    pub(super) unsafe fn reset_in_child(&self, sections: [u64; 2]) {
        // SAFETY: the caller's contract.
        unsafe {
            self.readers().reset_in_child(sections);
            self.queues.reset_in_child();
            self.core.reset_in_child();
        }
    }
}
