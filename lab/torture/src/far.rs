//! Memory far from the processor. Stores to it wait in the store buffer, and so do those that follow, while later
//! loads do not wait: a missing fence has an effect more often.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More than most caches hold. Children of forks have none, so that it is not copied.
#[derive(Debug)]
pub(super) struct Far(Box<[AtomicU64]>);

impl Far {
    pub(super) fn new() -> Self {
        const PAGE: usize = 4096;
        let far: Box<[AtomicU64]> = (0..1 << 22).map(|_| AtomicU64::new(0)).collect();
        let begin = far.as_ptr().addr().next_multiple_of(PAGE);
        let end = far.as_ptr_range().end.addr() / PAGE * PAGE;
        // SAFETY: whole pages of ours; nothing that a child does is in them. On an error, forks are slower.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTFORK) };
        Self(far)
    }

    /// Fills the store buffer.
    #[inline]
    pub(super) fn store(&self, stores: u8) {
        for _ in 0..stores {
            self.0[fastrand::usize(..self.0.len())].store(1, Relaxed);
        }
    }
}
