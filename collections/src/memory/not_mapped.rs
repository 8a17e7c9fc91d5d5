//! Systems other than Linux: all memory is allocated. Their allocators take large zeroed memory from the system,
//! which provides its pages when they are used.

/// No memory is as large.
pub const LARGE: usize = 1 << (usize::BITS - 1);

/// Is not called.
pub fn map(_size: usize) -> *mut u8 {
    core::ptr::null_mut()
}

/// Is not called.
///
/// # Safety
///
/// None.
pub unsafe fn unmap(_start: *mut u8, _size: usize) {}

/// Is not called.
///
/// # Safety
///
/// None.
pub unsafe fn allow_huge_pages(_start: *mut u8, _size: usize) {}
