//! System calls and C library calls, behind safe functions. Nothing else in the crate makes any.

use core::sync::atomic::{AtomicU32, AtomicU64};
use std::num::NonZeroU32;

use rustix::io::Errno;
use rustix::thread::futex;
pub use rustix::thread::{MembarrierCommand, MembarrierQuery};

pub mod at_exit;
pub mod signal;

/// The half of the word that the kernel's futex compares: the low one.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = core::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: the pointer stays inside the eight bytes of `word`, which are aligned and live as long as the reference.
    // The reference is handed to the kernel only; no code here accesses the half.
    unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
}

/// `futex(FUTEX_WAIT_BITSET)`: sleeps until woken, unless the low half of `word` differs from that of `expected`.
/// Returns early on signals.
pub fn futex_wait(word: &AtomicU64, expected: u64, mask: NonZeroU32) {
    // Every failure (the word changed, a signal) means the same to the caller: look again.
    let _ = futex::wait_bitset(low_half(word), futex::Flags::PRIVATE, expected as u32, None, mask);
}

/// `futex(FUTEX_WAKE_BITSET)`: wakes at most `count` sleepers whose mask shares a bit with `mask`.
pub fn futex_wake(word: &AtomicU64, count: u32, mask: NonZeroU32) {
    // The kernel reads the count as an int.
    let count = count.min(i32::MAX as u32);
    let _ = futex::wake_bitset(low_half(word), futex::Flags::PRIVATE, count, mask);
}

/// `membarrier(2)` commands of this kernel; empty where the call is missing or denied.
pub fn membarrier_query() -> MembarrierQuery {
    rustix::thread::membarrier_query()
}

/// `membarrier(2)`.
pub fn membarrier(command: MembarrierCommand) -> Result<(), Errno> {
    rustix::thread::membarrier(command)
}
