//! The state that all handles and guards of a domain share, and its link in the list of [`super::fork`].

use core::cell::Cell;
use core::ptr;

use super::handles::Handles;
use super::queues::StripedQueues;
use crate::grace_period::engine::Engine;
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::domain::Work;
use crate::sync::{LazyBox, MemorySource};

/// The name of all domains, for reports.
pub(super) const NAME: fn() -> &'static str = || "srcu::Domain";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SrcuState {
    pub(super) engine: Engine<SrcuReaders>,
    /// Most of many domains are only read and waited for.
    pub(super) work: LazyBox<Work>,
    pub(super) queues: StripedQueues,
    pub(super) handles: Handles,
    /// That of this value.
    pub(super) memory: MemorySource,
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
    /// The state of a domain with one handle, for memory from this source.
    pub(super) fn new(readers: SrcuReaders, memory: MemorySource) -> Self {
        Self {
            engine: Engine::new(readers, NAME),
            work: LazyBox::new(),
            queues: StripedQueues::new(),
            handles: Handles::new(),
            memory,
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            sections_before_fork: Cell::new([0; 2]),
        }
    }

    #[inline(always)]
    pub(super) fn readers(&self) -> &SrcuReaders {
        self.engine.readers()
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
            self.engine.reset_in_child();
            if let Some(work) = self.work.get() {
                work.reset_in_child();
            }
        }
    }
}
