//! Memory that the kernel maps.

use core::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Memory from this size on is mapped.
pub const LARGE: usize = 64 << 10;

/// What is unmapped at a time: the kernel needs less than a millisecond for it.
const PIECE: usize = 4 << 20;

/// The size of a huge page, on most machines.
const HUGE: usize = 2 << 20;

/// Maps `size` bytes, without huge pages: at such an address that it can have them. Returns null if there is no memory.
pub fn map(size: usize) -> *mut u8 {
    try_map(size).unwrap_or(ptr::null_mut())
}

fn try_map(size: usize) -> rustix::io::Result<*mut u8> {
    debug_assert!(size % LARGE == 0);
    // As much more as the address may need to be aligned.
    let more = if size < HUGE { 0 } else { HUGE };
    // SAFETY: new mappings, of which the ends are given back.
    unsafe {
        let all = mmap_anonymous(
            ptr::null_mut(),
            size + more,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        if more == 0 {
            return Ok(all.cast());
        }
        let before = all.addr().next_multiple_of(HUGE) - all.addr();
        let start = all.byte_add(before);
        if before > 0 {
            munmap(all, before)?;
        }
        munmap(start.byte_add(size), more - before)?;
        // Without the advice, some systems have huge pages everywhere.
        let _ = madvise(start, size, Advice::LinuxNoHugepage);
        Ok(start.cast())
    }
}

/// Allows huge pages. Without them, most lookups in a large table wait for the address translation too. A page that is
/// used already stays as it is, until the kernel comes to it.
///
/// # Safety
///
/// The memory comes from [`map`] with this size.
pub unsafe fn allow_huge_pages(start: *mut u8, size: usize) {
    if size >= HUGE {
        // SAFETY: the caller's contract; changes no contents. An error: it is slower.
        let _ = unsafe { madvise(start.cast(), size, Advice::LinuxHugepage) };
    }
}

/// Gives memory back, its pages in pieces: the kernel lets no other thread change mappings while it removes one.
///
/// Without yields in between: a thread that is throttled may wait for this one, which would wait for every thread that can
/// run.
///
/// # Safety
///
/// It comes from [`map`] with this size, and is not used any more.
pub unsafe fn unmap(start: *mut u8, size: usize) {
    for offset in (0..size).step_by(PIECE) {
        // SAFETY: the caller's contract. An error: the pages go with the mapping.
        let _ = unsafe {
            madvise(start.byte_add(offset).cast(), PIECE.min(size - offset), Advice::LinuxDontNeed)
        };
    }
    // SAFETY: the caller's contract. It may fail if it would split a mapping: only addresses are lost then.
    let _ = unsafe { munmap(start.cast(), size) };
}
