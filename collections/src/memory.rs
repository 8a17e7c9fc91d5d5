//! The memory of tables: zeros, which the kernel provides page by page when they are used.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};

#[cfg_attr(any(stillpoint_portable, not(target_os = "linux")), path = "memory/not_mapped.rs")]
mod mapped;

use mapped::{LARGE, allow_huge_pages, map, unmap};

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
    /// # Errors
    ///
    /// If there is no memory.
    ///
    /// # Safety
    ///
    /// Zeros are an item.
    pub unsafe fn new(len: usize) -> Result<Self, NoMemory> {
        let layout = Self::layout(len).ok_or(NoMemory(None))?;
        let memory = if !Self::is_mapped(layout) {
            // SAFETY: there is at least one item, and it has a size.
            unsafe { alloc_zeroed(layout) }
        } else {
            map(Self::mapped_size(layout))
        };
        let items = NonNull::new(memory.cast()).ok_or(NoMemory(Some(layout)))?;
        Ok(Self { items, len })
    }

    /// Allows huge pages in large memory, which has none before: an item may then wait until one is filled with
    /// zeros.
    pub fn allow_huge_pages(&self) {
        if let Some(layout) = Self::layout(self.len).filter(|layout| Self::is_mapped(*layout)) {
            // SAFETY: mapped in `new`.
            unsafe { allow_huge_pages(self.items.as_ptr().cast(), Self::mapped_size(layout)) };
        }
    }

    /// Returns whether the memory is mapped. Miri cannot do that.
    fn is_mapped(layout: Layout) -> bool {
        layout.size() >= LARGE && !cfg!(miri)
    }

    /// Returns how many bytes are mapped: whole pages.
    fn mapped_size(layout: Layout) -> usize {
        layout.size().next_multiple_of(LARGE)
    }

    /// Returns `None` for more than the address space.
    fn layout(len: usize) -> Option<Layout> {
        assert!(len > 0 && size_of::<T>() > 0, "empty memory");
        Layout::array::<T>(len).ok()
    }
}

/// Defines a function that begins to fetch the cache line of a value: its hint on x86-64, and on AArch64.
macro_rules! prefetch {
    ($(#[$doc:meta])* $name:ident, $x86:ident, $arm:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T>(value: *const T) {
            // SAFETY: a hint, which reads nothing, whatever the address.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            unsafe {
                core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::$x86 }>(value.cast());
            }
            // SAFETY: as above.
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            unsafe {
                core::arch::asm!($arm, in(reg) value, options(nostack, readonly, preserves_flags));
            }
            // Elsewhere the loads of several lookups still overlap, as far as the processor looks ahead.
            #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
            let _ = value;
        }
    };
}

prefetch!(
    /// Begins to fetch the cache line of a value.
    prefetch, _MM_HINT_T0, "prfm pldl1keep, [{}]"
);
prefetch!(
    /// [`prefetch`] for one of many values: more lines than the first cache awaits at a time.
    prefetch_to_l2, _MM_HINT_T1, "prfm pldl2keep, [{}]"
);

/// [`Box::new`].
///
/// # Errors
///
/// If there is no memory.
pub fn try_box<T>(value: T) -> Result<Box<T>, NoMemory> {
    const { assert!(size_of::<T>() > 0) };
    let layout = Layout::new::<T>();
    // SAFETY: it has a size.
    let place = NonNull::new(unsafe { alloc(layout) }.cast::<T>()).ok_or(NoMemory(Some(layout)))?;
    // SAFETY: allocated above, with the layout of `T`.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place.as_ptr()))
    }
}

/// There is no memory of a layout, or none is that large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoMemory(Option<Layout>);

impl NoMemory {
    /// Ends the program as the standard library does, or panics if no machine has that much.
    #[cold]
    #[track_caller]
    pub fn fail(self) -> ! {
        match self.0 {
            Some(layout) => handle_alloc_error(layout),
            None => panic!("{self}"),
        }
    }
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(layout) => write!(f, "no memory for a table of {} bytes", layout.size()),
            None => f.write_str("the table does not fit into the address space"),
        }
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
        let Some(layout) = Self::layout(self.len) else { return };
        // SAFETY: allocated in `new`, and not used again.
        unsafe {
            if !Self::is_mapped(layout) {
                dealloc(self.items.as_ptr().cast(), layout);
            } else {
                unmap(self.items.as_ptr().cast(), Self::mapped_size(layout));
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
        for len in [1, 1000, 8193, HUGE / 8, HUGE / 8 + 1, HUGE / 2] {
            // SAFETY: zeros are a number.
            let mut numbers = unsafe { Zeroed::<u64>::new(len) }.expect("memory");
            assert_eq!((numbers.len(), numbers.iter().sum::<u64>()), (len, 0));
            assert!(len * 8 < HUGE.max(LARGE) || numbers.as_ptr().addr() % HUGE == 0);
            numbers[len - 1] = 1;
        }
    }

    /// A thread that is throttled may wait for the one that frees a table, and that one for each thread that can run.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "there are no CPUs")]
    fn memory_is_freed_without_yields() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        use std::{fs, thread};

        let switches = || -> u64 {
            let status = fs::read_to_string("/proc/thread-self/status").expect("a file of the kernel");
            let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
            counts.map(|(_, count)| count.trim().parse::<u64>().expect("a number")).sum()
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            let spin = || {
                while !stop.load(Relaxed) {
                    core::hint::spin_loop();
                }
            };
            (0..=cpus).for_each(|_| _ = scope.spawn(spin));
            // SAFETY: zeros are a number.
            let untouched = unsafe { Zeroed::<u64>::new(256 << 17) }.expect("memory");
            let before = switches();
            drop(untouched);
            let switches = switches() - before;
            stop.store(true, Relaxed);
            assert!(switches < 32, "{switches} switches");
        });
    }
}
