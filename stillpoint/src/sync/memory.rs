//! Memory for state that a global allocator may be the first to use.
//!
//! A global allocator may use this library, for example to count its calls. Then the library's first allocation calls
//! the allocator, which calls the library, which has no memory yet and allocates again. This second allocation is
//! served by the C library, which calls neither.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc::{GlobalAlloc, System, alloc_zeroed, dealloc};

thread_local! {
    /// The calling thread is in the global allocator, called by [`Block::zeroed`].
    static ALLOCATING: Cell<bool> = const { Cell::new(false) };
}

/// Allocated memory.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    /// The memory comes from the C library.
    is_system: bool,
}

impl Block {
    /// Allocates zeroed memory. Returns `None` if there is none. The layout's size is not zero.
    pub fn zeroed(layout: Layout) -> Option<Self> {
        debug_assert_ne!(layout.size(), 0);
        let is_system = ALLOCATING.replace(true);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { if is_system { System.alloc_zeroed(layout) } else { alloc_zeroed(layout) } };
        ALLOCATING.set(is_system);
        NonNull::new(start).map(|start| Self { start, layout, is_system })
    }

    pub fn start<T>(&self) -> NonNull<T> {
        self.start.cast()
    }

    /// Frees the memory.
    ///
    /// # Safety
    ///
    /// No thread uses it any more.
    pub unsafe fn free(self) {
        // SAFETY: allocated there, with this layout; the rest is the caller's contract.
        unsafe {
            if self.is_system {
                System.dealloc(self.start.as_ptr(), self.layout);
            } else {
                dealloc(self.start.as_ptr(), self.layout);
            }
        }
    }
}
