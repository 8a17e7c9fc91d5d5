//! Per-CPU areas, references to them, and results of sections. The meaning of each word is in [`super`].

use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::AtomicU64;
use std::alloc::alloc_zeroed;

use crate::sys::rseq::{possible_cpus, thread_pointer};

/// The number of plain words in an area, and of atomic ones.
pub const WIDTH: usize = 8;

/// The data of one CPU: two cache lines, because processors prefetch lines in pairs, and no two CPUs should write to
/// one pair.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CpuArea {
    /// Written by the sections of this CPU. A container names further writers.
    pub plain: [AtomicU64; WIDTH],
    /// Written by atomic operations of any thread.
    pub atomic: [AtomicU64; WIDTH],
}

/// Sections scale the CPU number by a shift of 7.
const _: () = assert!(size_of::<CpuArea>() == 128);

impl CpuArea {
    /// Returns an area for each possible CPU.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn for_each_cpu() -> Box<[Self]> {
        boxed(possible_cpus(), |_| Self::default())
    }
}

/// Returns `len` values.
///
/// # Panics
///
/// If there is no memory.
pub fn boxed<T>(len: usize, make: impl FnMut(usize) -> T) -> Box<[T]> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).expect("there is memory for per-CPU data");
    values.extend((0..len).map(make));
    values.into_boxed_slice()
}

/// Returns `len` words of zero. If they are many, the kernel provides memory only for pages that are written to.
///
/// # Panics
///
/// If there is no memory.
pub fn zeroed(len: usize) -> Box<[AtomicU64]> {
    let layout = Layout::array::<AtomicU64>(len).expect("there is memory for per-CPU data");
    if len == 0 {
        return Box::default();
    }
    // SAFETY: the size is not zero.
    let words = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    assert!(!words.is_null(), "there is memory for per-CPU data");
    // SAFETY: allocated with this layout; zero is a value of each word.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(words, len)) }
}

/// Result of a section that failed: it was interrupted, the thread is not registered, or the area is stopped.
pub const FAILED: u64 = u64::MAX;

/// Result of `pop` if the stack is empty.
pub const NOTHING: u64 = 0;

/// Result of `push`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The value is stored.
    Done,
    /// There is no room.
    Full,
    /// As [`FAILED`].
    Failed,
}

/// The areas of a section that takes or gives something.
#[derive(Debug, Clone, Copy)]
pub struct AreaRef {
    /// The offset of the calling thread's rseq area from the thread pointer.
    pub offset: isize,
    /// The area of CPU 0.
    pub areas: *const CpuArea,
}

impl AreaRef {
    /// Returns a reference to `areas`, one for each possible CPU.
    #[inline(always)]
    pub fn of(areas: &[CpuArea], offset: isize) -> Self {
        debug_assert!(areas.len() >= possible_cpus());
        Self { offset, areas: areas.as_ptr() }
    }
}

/// The word of a counter.
#[derive(Debug, Clone, Copy)]
pub struct CounterRef {
    /// As in [`AreaRef`].
    pub offset: isize,
    /// The word in the area of CPU 0. The areas of the other CPUs follow that area.
    pub word: *const u64,
}

/// Returns the operand that locates the calling thread's rseq area: its address, or its offset where instructions add
/// the thread pointer.
#[inline(always)]
pub fn rseq(offset: isize) -> *const u8 {
    let base = if cfg!(target_arch = "x86_64") { ptr::null() } else { thread_pointer() };
    base.wrapping_offset(offset)
}
