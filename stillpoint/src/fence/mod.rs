//! A process-wide memory barrier: the frequent side pays nothing, the rare side pays one system call.
//!
//! Two threads that each write one location and then read the other's need a full fence on *both* sides, or each may
//! miss the other's write. That is expensive if one side runs a million times more often than the other. Here the
//! frequent side calls [`light`], which only stops the compiler. The rare side calls [`heavy`], which makes every
//! running thread of the process execute a full fence. The idea is Mathieu Desnoyers' `sys_membarrier` (2010), today
//! `membarrier(2)`.
//!
//! # What is ordered
//!
//! | one side | other side | ordered, as if by two `SeqCst` fences |
//! |---|---|---|
//! | `heavy()` | `heavy()` | yes |
//! | `heavy()` | `light()` | yes |
//! | `light()` | `light()` | **no** |
//! | `light()` | an ordinary atomic access, or nothing | **no** |
//!
//! # Backends
//!
//! | [`Backend`] | `light()` | `heavy()` | in use |
//! |---|---|---|---|
//! | [`Membarrier`](Backend::Membarrier) | compiler fence | `membarrier(PRIVATE_EXPEDITED)`, one inter-processor interrupt per CPU that runs this process | by default, if it works |
//! | [`SeqCst`](Backend::SeqCst) | full fence | full fence | otherwise |
//!
//! The first call of [`report`] or [`heavy`], or the first reader of [`crate::rcu`], chooses the
//! backend, which then never changes. Before that, `light()` is a full fence. The environment variable
//! `STILLPOINT_FENCE` (`membarrier`, `seqcst`) asks for a backend. If that is not available, `SeqCst` is
//! used, and [`report`] returns the reason.
//!
//! [`heavy_quiet`] orders the same as `heavy()` and interrupts no CPU; it takes tens of milliseconds.
//!
//! So where the kernel lacks or denies `membarrier`, readers of [`crate::rcu`] execute a full fence on entering a
//! section, and those of [`crate::srcu`] and [`RwLock`](crate::lock::RwLock) another on leaving it.
//!
//! Call [`report`] at the start of `main`: the kernel registers a process in half a microsecond while it has one
//! thread, and in about ten milliseconds afterwards.
//!
//! # Trade-offs
//!
//! - `heavy()` interrupts other CPUs that run this process. Kernels from 6.8 on, and older ones with the fix of
//!   CVE-2024-26602, serialize the calls of the whole system.
//! - `membarrier` must stay allowed. If a seccomp filter that was installed *after* the choice denies it, `heavy()`
//!   panics, as nothing could order the readers any more. Install filters first, or set `SeqCst`.
//! - Without `membarrier`, a reader of [`crate::rcu`] that leaves a section may miss that a grace period sleeps for
//!   it, since it executes no fence there. The grace period then ends when its timer next expires: 50 us after it has
//!   begun to sleep, with the timer's slack some 100 us, and later at intervals that grow to 1 ms. So a reader that
//!   stays in a section for long costs a timer interrupt per millisecond.
//! - Signal handlers may call `light()` and, once [`report`] has returned, `heavy()`: it is one system call, or one
//!   instruction, and waits for no thread of this process.
//! - The child of a `fork` may use this module, whatever other threads were doing, and keeps the backend. Like all of
//!   the library, this relies on `pthread_atfork(3)`: it does not notice a system call that does not go through
//!   `fork`.
//!
//! # Example
//!
//! A worker that can be asked to stop checks a flag in every round, without a fence:
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
//! use stillpoint::fence;
//!
//! static BUSY: AtomicBool = AtomicBool::new(false);
//! static CLOSED: AtomicBool = AtomicBool::new(false);
//!
//! /// Frequent: enters unless closed.
//! fn enter() -> bool {
//!     BUSY.store(true, Relaxed);
//!     fence::light();
//!     !CLOSED.load(Relaxed)
//! }
//!
//! /// Rare: after this, either the worker saw `CLOSED`, or we see `BUSY`.
//! fn close() -> bool {
//!     CLOSED.store(true, Relaxed);
//!     fence::heavy();
//!     BUSY.load(Relaxed)
//! }
//!
//! fence::report();
//! assert!(enter());
//! assert!(close());
//! ```

use core::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

pub(crate) mod backend;
#[cfg(all(test, target_arch = "x86_64", not(any(miri, stillpoint_portable))))]
mod tests;

use crate::sys::heavy_fence;
pub(crate) use backend::try_heavy;
pub use backend::{Backend, Report, calls, heavy, heavy_quiet, report};

/// Executes the frequent side of the fence: a compiler fence, or a full one if the backend needs that. Never blocks.
///
/// Orders nothing against other `light()` calls: see the [module](self).
#[inline(always)]
pub fn light() {
    if FAST_PATH_IS_FENCED {
        fence(SeqCst);
    } else if light_is_compiler_fence() {
        compiler_fence(SeqCst);
    } else {
        light_slow();
    }
}

#[cold]
fn light_slow() {
    fence(SeqCst);
}

/// Returns `true` if [`light`] is a compiler fence. Does not choose the backend.
#[inline(always)]
pub(crate) fn light_is_compiler_fence() -> bool {
    backend::is_chosen(Backend::Membarrier)
}

/// Returns `true` if [`light`] is a full fence now. Does not choose the backend.
#[inline(always)]
pub(crate) fn light_is_full_fence() -> bool {
    FAST_PATH_IS_FENCED || !light_is_compiler_fence()
}

/// The fast path of [`crate::rcu`] executes the light fence of any backend, and so all threads enter by it: there are
/// full fences only.
pub(crate) const FAST_PATH_IS_FENCED: bool = !heavy_fence::EXISTS;

/// Returns `true` if the fast path of [`crate::rcu`] executes a fence that suffices.
pub(crate) fn fast_path_suffices() -> bool {
    FAST_PATH_IS_FENCED || light_is_compiler_fence()
}

/// [`light`] where that is a full fence: see [`light_is_full_fence`].
#[inline(always)]
pub(crate) fn light_full() {
    fence(SeqCst);
}

/// [`light`] in code that runs on [`Backend::Membarrier`] only, or calls [`light`] too, and where [`light`] is not a
/// full fence.
#[inline(always)]
pub(crate) fn light_compiler_only() {
    compiler_fence(SeqCst);
}
