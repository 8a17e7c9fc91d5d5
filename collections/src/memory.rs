//! The memory of tables: zeros, which the kernel provides page by page when they are used.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

#[cfg_attr(any(stillpoint_portable, not(target_os = "linux")), path = "memory/not_mapped.rs")]
mod mapped;

use mapped::{LARGE, map, unmap};

/// A slice that begins as zeros. Dropping it drops no items.
#[derive(Debug)]
pub struct Zeroed<T> {
    items: NonNull<T>,
    len: usize,
}

// SAFETY: owns its items.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// Allocates `len` items.
    ///
    /// # Safety
    ///
    /// Zeros are an item.
    #[track_caller]
    pub unsafe fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        let memory = if !Self::is_mapped(layout) {
            // SAFETY: there is at least one item, and it has a size.
            unsafe { alloc_zeroed(layout) }
        } else {
            map(layout.size())
        };
        let Some(items) = NonNull::new(memory.cast()) else { handle_alloc_error(layout) };
        Self { items, len }
    }

    /// Returns whether the memory is mapped. Miri cannot do that.
    fn is_mapped(layout: Layout) -> bool {
        layout.size() >= LARGE && !cfg!(miri)
    }

    #[track_caller]
    fn layout(len: usize) -> Layout {
        assert!(len > 0 && size_of::<T>() > 0, "empty memory");
        Layout::array::<T>(len).expect("the table fits into the address space")
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: owns as many items.
        unsafe { slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        // SAFETY: allocated in `new`, and not used again.
        unsafe {
            if !Self::is_mapped(layout) {
                dealloc(self.items.as_ptr().cast(), layout);
            } else {
                unmap(self.items.as_ptr().cast(), layout.size());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: usize = 2 << 20;

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn memory_is_zero_and_aligned() {
        for len in [1, 1000, HUGE / 8, HUGE / 2] {
            // SAFETY: zeros are a number.
            let mut numbers = unsafe { Zeroed::<u64>::new(len) };
            assert_eq!((numbers.len(), numbers.iter().sum::<u64>()), (len, 0));
            assert!(len * 8 < LARGE || numbers.as_ptr().addr() % HUGE == 0);
            numbers[len - 1] = 1;
        }
    }
}
