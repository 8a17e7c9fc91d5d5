//! An allocator that counts, and refuses memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// The size of a large allocation. Panics need small ones.
pub const LARGE: usize = 1024;

/// Large allocations of all threads that are not freed.
pub static LARGE_LIVE: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<usize> = const { Cell::new(0) };
    /// The thread gets no memory of this size or more.
    static REFUSED: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns how often the calling thread has allocated.
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// Returns how often the calling thread has freed memory.
pub fn freed() -> usize {
    FREED.get()
}

/// Returns the bytes that the calling thread has allocated, less those that it has freed, which may be more.
pub fn live() -> usize {
    LIVE.get()
}

/// Calls `f` while this thread gets no memory of this size or more.
pub fn without_memory<R>(size: usize, f: impl FnOnce() -> R) -> R {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            REFUSED.set(usize::MAX);
        }
    }
    let _ends = Ends;
    REFUSED.set(size);
    f()
}

/// To be declared as the global allocator.
pub struct Counting;

impl Counting {
    /// Returns `false` if the thread gets no memory.
    fn count(layout: Layout) -> bool {
        if layout.size() >= REFUSED.get() {
            return false;
        }
        LARGE_LIVE.fetch_add((layout.size() >= LARGE).into(), Relaxed);
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        true
    }
}

// SAFETY: the system's allocator, or null, which is allowed at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        if Self::count(layout) { unsafe { System.alloc(layout) } } else { ptr::null_mut() }
    }

    // Large zeroed values must cost no memory until they are written.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        if Self::count(layout) { unsafe { System.alloc_zeroed(layout) } } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LARGE_LIVE.fetch_sub((layout.size() >= LARGE).into(), Relaxed);
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        FREED.set(FREED.get() + 1);
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}
