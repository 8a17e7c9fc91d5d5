//! What sections work on and return: the rows, where they lie, and results. See [`super`] for what each word means.

use core::sync::atomic::AtomicU64;

use crate::sys::rseq::possible_cpus;

/// Words of a kind in a row.
pub const WIDTH: usize = 8;

/// What a CPU has for itself: two cache lines, as processors fetch them in pairs, so that no two CPUs write to the same.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Row {
    /// Changed by critical sections on this CPU; how else, says who owns the row.
    pub plain: [AtomicU64; WIDTH],
    /// Changed by atomic operations of anybody.
    pub atomic: [AtomicU64; WIDTH],
}

/// The sections count on it.
const _: () = assert!(size_of::<Row>() == 128);

impl Row {
    /// A row for each CPU.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn for_each_cpu() -> Box<[Self]> {
        boxed(possible_cpus(), |_| Self::default())
    }
}

/// `len` values.
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

/// What pops and batches return when the section failed: it was interrupted, the thread is not registered, or the row is
/// stopped.
pub const FAILED: u64 = u64::MAX;

/// What `pop` returns when there is nothing, and `compare_and_store` when the word is another.
pub const NOTHING: u64 = 0;

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is there.
    Done,
    /// There is no room.
    Full,
    /// As [`FAILED`].
    Failed,
}

/// Where a section that takes or gives something works.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Of the calling thread's area, from the thread pointer.
    pub offset: isize,
    /// The row of CPU 0.
    pub rows: *const Row,
}

impl Place {
    /// That of `rows`, of which there is one for each possible CPU.
    #[inline(always)]
    pub fn of(rows: &[Row], offset: isize) -> Self {
        debug_assert!(rows.len() >= possible_cpus());
        Self { offset, rows: rows.as_ptr() }
    }
}

/// Where `add` works.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// As that of a place.
    pub offset: isize,
    /// The word in the row of CPU 0, behind which are the rows of the others.
    pub word: *const u64,
}

/// The area of the calling thread.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn area(offset: isize) -> *const u8 {
    crate::sys::rseq::thread_pointer().wrapping_offset(offset)
}
