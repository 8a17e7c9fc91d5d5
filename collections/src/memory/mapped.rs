//! Memory that the kernel maps.

use core::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Memory from this size on is mapped, and aligned for huge pages of this size: without them, most lookups in a large
/// table wait for the address translation too.
pub const LARGE: usize = 2 << 20;

/// Maps `size` bytes, a multiple of a huge page, at such an address. Returns null if there is no memory.
pub fn map(size: usize) -> *mut u8 {
    try_map(size).unwrap_or(ptr::null_mut())
}

fn try_map(size: usize) -> rustix::io::Result<*mut u8> {
    debug_assert!(size % LARGE == 0);
    // SAFETY: new mappings, of which the ends are given back.
    unsafe {
        let all = mmap_anonymous(
            ptr::null_mut(),
            size + LARGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        let before = all.addr().next_multiple_of(LARGE) - all.addr();
        let start = all.byte_add(before);
        if before > 0 {
            munmap(all, before)?;
        }
        munmap(start.byte_add(size), LARGE - before)?;
        // Without huge pages, it is slower.
        let _ = madvise(start, size, Advice::LinuxHugepage);
        Ok(start.cast())
    }
}

/// Gives memory back.
///
/// # Safety
///
/// It comes from [`map`] with this size, and is not used any more.
pub unsafe fn unmap(start: *mut u8, size: usize) {
    // SAFETY: the caller's contract. It cannot fail: nothing is split.
    let _ = unsafe { munmap(start.cast(), size) };
}
