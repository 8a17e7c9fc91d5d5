//! Memory for what a global allocator may be the first to use.
//!
//! A global allocator may count what it does, or read in a section: then the library's first allocation calls the allocator, which
//! calls the library, which has nothing yet and allocates. The thread that comes back so gets memory of the C library, which
//! calls neither.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;
use std::alloc::{GlobalAlloc, System, alloc_zeroed, dealloc};

thread_local! {
    /// The calling thread is in the global allocator, on behalf of [`Block::zeroed`].
    static ALLOCATING: Cell<bool> = const { Cell::new(false) };
}

/// Memory of a layout.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    /// It comes from the C library.
    is_system: bool,
}

impl Block {
    /// Zeroed memory; nothing if there is none. The layout has a size.
    pub fn zeroed(layout: Layout) -> Option<Self> {
        debug_assert_ne!(layout.size(), 0);
        let is_system = ALLOCATING.replace(true);
        // SAFETY: the layout has a size.
        let start = unsafe { if is_system { System.alloc_zeroed(layout) } else { alloc_zeroed(layout) } };
        ALLOCATING.set(is_system);
        NonNull::new(start).map(|start| Self { start, layout, is_system })
    }

    /// Where it begins.
    pub fn start<T>(&self) -> NonNull<T> {
        self.start.cast()
    }

    /// Gives the memory back.
    ///
    /// # Safety
    ///
    /// Nobody uses it any more.
    pub unsafe fn free(self) {
        // SAFETY: it comes from there, with this layout; the rest is the caller's contract.
        unsafe {
            if self.is_system {
                System.dealloc(self.start.as_ptr(), self.layout);
            } else {
                dealloc(self.start.as_ptr(), self.layout);
            }
        }
    }
}
