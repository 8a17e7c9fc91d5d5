//! There are no restartable sequences. Threads have a number instead of that of their CPU: so each has a word of its
//! own, as long as there are no more threads than CPUs.

use super::numbers;

pub const SUPPORTED: bool = false;

/// Returns `None`: no thread is registered.
pub fn library_offset() -> Option<isize> {
    None
}

/// Returns a negative number: no thread is registered.
///
/// # Safety
///
/// None: it is unsafe as on Linux.
#[inline(always)]
pub unsafe fn cpu_id(_offset: isize) -> u32 {
    u32::MAX
}

/// Returns an error.
pub fn register_own() -> Result<isize, i32> {
    Err(0)
}

/// The error of Linux if another area is registered.
pub const OTHER_AREA: i32 = 22;

/// Returns `None`.
pub fn kernel_release() -> Option<(u32, u32, u32)> {
    None
}

/// Returns what stands for the number of the current CPU: that of the thread, modulo [`possible_cpus`].
pub fn getcpu() -> usize {
    numbers::own() as usize % possible_cpus()
}

/// Returns the number of CPUs. Every call returns the same.
pub fn possible_cpus() -> usize {
    numbers::cpus()
}
