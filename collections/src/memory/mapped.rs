//! Memory that the kernel maps.

use core::ptr;

use libc::{MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MAP_FAILED, madvise, mmap, munmap};

/// Memory from this size on is mapped.
pub const LARGE: usize = 64 << 10;

/// What is unmapped at a time: the kernel needs less than a millisecond for it.
const PIECE: usize = 4 << 20;

/// The size of a huge page, on most machines.
const HUGE: usize = 2 << 20;

/// Maps `size` bytes, without huge pages: at such an address that it can have them. Returns null if there is no
/// memory.
pub fn map(size: usize) -> *mut u8 {
    debug_assert!(size % LARGE == 0);
    // As much more as the address may need to be aligned.
    let more = if size < HUGE { 0 } else { HUGE };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new mappings, of which the ends are given back. If that fails, only addresses are lost.
    unsafe {
        let all = mmap(ptr::null_mut(), size + more, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if all == MAP_FAILED {
            return ptr::null_mut();
        }
        if more == 0 {
            return all.cast();
        }
        let before = all.addr().next_multiple_of(HUGE) - all.addr();
        let start = all.byte_add(before);
        if before > 0 {
            munmap(all, before);
        }
        munmap(start.byte_add(size), more - before);
        // Without the advice, some systems have huge pages everywhere.
        madvise(start, size, MADV_NOHUGEPAGE);
        start.cast()
    }
}

/// Allows huge pages. Without them, most lookups in a large table wait for the address translation too. A page that
/// is used already stays as it is, until the kernel comes to it.
///
/// # Safety
///
/// The memory comes from [`map`] with this size.
pub unsafe fn allow_huge_pages(start: *mut u8, size: usize) {
    if size >= HUGE {
        // SAFETY: the caller's contract; changes no contents. An error: it is slower.
        unsafe { madvise(start.cast(), size, MADV_HUGEPAGE) };
    }
}

/// Gives memory back, its pages in pieces: the kernel lets no other thread change mappings while it removes one.
///
/// Without yields in between: a thread that is throttled may wait for this one, which would wait for every thread
/// that can run.
///
/// # Safety
///
/// It comes from [`map`] with this size, and is not used any more.
pub unsafe fn unmap(start: *mut u8, size: usize) {
    for offset in (0..size).step_by(PIECE) {
        // SAFETY: the caller's contract. An error: the pages go with the mapping.
        unsafe { madvise(start.byte_add(offset).cast(), PIECE.min(size - offset), MADV_DONTNEED) };
    }
    // SAFETY: the caller's contract. It may fail if it would split a mapping: only addresses are lost then.
    unsafe { munmap(start.cast(), size) };
}
