//! Memory for state that a global allocator may be the first to use.
//!
//! A global allocator may use this library, for example to count its calls. Then the library's first allocation calls
//! the allocator, which calls the library, which has no memory yet and allocates again. This second allocation is
//! served by the C library, which calls neither.

use core::alloc::Layout;
use core::cell::Cell;
#[cfg(not(any(loom, stillpoint_portable)))]
use core::ptr;
use core::ptr::NonNull;
use std::alloc::{GlobalAlloc, System, alloc_zeroed, dealloc};

#[cfg(not(any(loom, stillpoint_portable)))]
use crate::sys;

thread_local! {
    /// The calling thread is in the global allocator, called by [`Memory::zeroed`].
    static ALLOCATING: Cell<bool> = const { Cell::new(false) };
}

/// [`Memory::sparse`] maps memory from this size on.
#[cfg(not(any(loom, stillpoint_portable)))]
const MAPPED: usize = 16 << 10;

/// Allocated memory.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    source: Source,
}

/// Where memory comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    Global,
    CLibrary,
    #[cfg(not(any(loom, stillpoint_portable)))]
    Mapped,
}

impl Memory {
    /// Allocates zeroed memory. Returns `None` if there is none. The layout's size is not zero.
    pub fn zeroed(layout: Layout) -> Option<Self> {
        debug_assert_ne!(layout.size(), 0);
        let is_system = ALLOCATING.replace(true);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { if is_system { System.alloc_zeroed(layout) } else { alloc_zeroed(layout) } };
        ALLOCATING.set(is_system);
        let source = if is_system { Source::CLibrary } else { Source::Global };
        NonNull::new(start).map(|start| Self { start, layout, source })
    }

    /// [`zeroed`](Self::zeroed) memory, aligned to a page at most. If it is large, it takes only the pages that are
    /// written to.
    #[cfg(not(any(loom, stillpoint_portable)))]
    pub fn sparse(layout: Layout) -> Option<Self> {
        // Miri cannot map memory.
        if layout.size() < MAPPED || cfg!(miri) {
            return Self::zeroed(layout);
        }
        let size = layout.size();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping.
        let map = || unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
        let (start, _) = sys::keep_errno(map);
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: as above. Without the advice, a write may take a huge page.
        sys::keep_errno(|| unsafe { libc::madvise(start, size, libc::MADV_NOHUGEPAGE) });
        NonNull::new(start.cast()).map(|start| Self { start, layout, source: Source::Mapped })
    }

    /// [`zeroed`](Self::zeroed) memory, for as many CPUs as there are.
    #[cfg(any(loom, stillpoint_portable))]
    pub fn sparse(layout: Layout) -> Option<Self> {
        Self::zeroed(layout)
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
        unsafe { self.source.free(self.start.as_ptr(), self.layout) };
    }

    /// Returns what a caller that has the start and the layout needs to free the memory.
    #[cfg(not(loom))]
    pub fn source(self) -> Source {
        self.source
    }
}

impl Source {
    /// Frees memory.
    ///
    /// # Safety
    ///
    /// It begins at `start`, has this layout and source, and no thread uses it any more.
    pub unsafe fn free(self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Global => dealloc(start, layout),
                Self::CLibrary => System.dealloc(start, layout),
                // It cannot fail: the mapping is there, and nothing is split.
                #[cfg(not(any(loom, stillpoint_portable)))]
                Self::Mapped => _ = libc::munmap(start.cast(), layout.size()),
            }
        }
    }
}

#[cfg(all(test, not(any(miri, stillpoint_portable))))]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the memory of the process in pages.
    fn resident() -> usize {
        let statm = fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
        statm.split(' ').nth(1).expect("the second number").parse().expect("a number")
    }

    #[test]
    fn sparse_memory_takes_the_pages_that_are_written_to() {
        const SIZE: usize = 1 << 30;
        let layout = Layout::from_size_align(SIZE, 128).expect("a valid layout");
        let before = resident();
        let memory = Memory::sparse(layout).expect("there is memory");
        let bytes = memory.start::<u8>().as_ptr();
        for at in (0..SIZE).step_by(1 << 20) {
            // SAFETY: within the memory.
            unsafe {
                assert_eq!(bytes.add(at).read(), 0);
                if at % (1 << 24) == 0 {
                    bytes.add(at).write(1);
                }
            }
        }
        // 64 pages, and what other tests take.
        assert!(resident() < before + SIZE / 4096 / 16, "{} pages", resident() - before);
        // SAFETY: not used any more.
        unsafe { memory.free() };
    }
}
