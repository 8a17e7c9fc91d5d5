//! A process-wide memory barrier: the frequent side pays nothing, the rare side pays one system call.
//!
//! Two threads that each write one location and then read the other's need a full fence on *both* sides, or each may
//! miss the other's write. That is a bad bargain if one side runs a million times more often than the other. Here the
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
//! | [`Signal`](Backend::Signal) | compiler fence in a registered thread ([`register_thread`]), else a full one | a real-time signal to each registered thread, and its answer | on request only, with the feature `signal-fence` |
//!
//! The backend is chosen once, by the first of [`init`], [`set_backend`], [`heavy`] and the first reader of
//! [`crate::rcu`], and never changes. Before that, `light()` is a full fence. The environment variable
//! `STILLPOINT_FENCE` (`membarrier`, `seqcst`, `signal`) asks for one. If the backend asked for is not available,
//! `SeqCst` is used, and [`report`] says why.
//!
//! So where the kernel lacks or denies `membarrier`, readers execute a full fence on entering and leaving a section.
//! The signal backend spares them that, at the price of slow and disturbing heavy fences: see below.
//!
//! Call [`init`] at the start of `main`: the kernel registers a process in half a microsecond while it has one thread,
//! and in about ten milliseconds afterwards.
//!
//! # Trade-offs
//!
//! - `heavy()` interrupts other CPUs that run this process. Kernels from 6.8 on serialize the calls of the whole
//!   system. Concurrent callers here share one call: see [`stats`].
//! - `membarrier` must stay allowed. If a seccomp filter installed *after* the choice denies it, `heavy()` panics, as
//!   nothing could order the readers any more: install filters first, or set `SeqCst`.
//! - With the signal backend, `heavy()` takes milliseconds if registered threads are not running. A thread must not
//!   block the signal ([`Report::signal`]) for long, and system calls that `SA_RESTART` does not cover (`nanosleep`,
//!   `epoll_wait`, ...) may return `EINTR` in registered threads.
//! - `heavy()` may wait for another caller's, so it must not be called in signal handlers. `light()` may; with the
//!   signal backend, in a library that was loaded by `dlopen(3)`, only in threads that have called it, or
//!   [`register_thread`], before: at its first use in a thread the C library allocates a thread-local variable.
//! - The child of a `fork` may use this module, whatever other threads were doing. Like all of the library it relies on
//!   `pthread_atfork(3)`: a system call that does not go through `fork` is not noticed. The backend stays.
//!
//! # Example
//!
//! A worker that can be asked to stop looks at a flag in every round, without a fence:
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
//! fence::init();
//! assert!(enter());
//! assert!(close());
//! ```

use core::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

use crossbeam_utils::CachePadded;

mod backend;
mod membarrier;
mod shared;
#[cfg_attr(not(feature = "signal-fence"), path = "no_signal.rs")]
mod signal;
mod why;

pub use backend::{Backend, BackendAlreadySet, Report, backend, init, report, set_backend};
use shared::SharedFence;

/// Executes the frequent side of the fence: a compiler fence, or what the backend needs. Never blocks.
///
/// Orders nothing against other `light()` calls: see the [module](self).
#[inline(always)]
pub fn light() {
    if backend::is_chosen(Backend::Membarrier) {
        compiler_fence(SeqCst);
    } else {
        light_slow();
    }
}

#[cold]
fn light_slow() {
    if backend::is_chosen(Backend::Signal) && signal::is_registered() {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// [`light`] in code that runs on [`Backend::Membarrier`] only, or calls [`light`] too.
#[inline(always)]
pub(crate) fn light_compiler_only() {
    compiler_fence(SeqCst);
}

/// Registers the calling thread with the backend, until it ends; chooses the backend if that has not been done. Returns
/// `true` if [`light`] is a compiler fence in this thread from now on: always with `membarrier`, never with `SeqCst`.
///
/// Optional: with the signal backend, a thread that is not registered executes real fences in [`light`]. Readers of
/// [`crate::rcu`] register themselves.
///
/// ```
/// use stillpoint::fence::{self, Backend};
///
/// assert_eq!(fence::register_thread(), fence::backend() != Backend::SeqCst);
/// ```
pub fn register_thread() -> bool {
    match backend() {
        Backend::Membarrier => true,
        Backend::Signal => signal::register(),
        Backend::SeqCst => false,
    }
}

/// Heavy fences, which callers share.
static SHARED: CachePadded<SharedFence> = CachePadded::new(SharedFence::new());

/// Executes the rare side of the fence: orders what this thread did before against what it does afterwards, for every
/// thread that executes a [`light`] or `heavy` fence.
///
/// Costs one system call, and an interrupt to each CPU that runs this process. Concurrent callers share one.
///
/// # Panics
///
/// If the kernel denies `membarrier`, or the signal, although it allowed it when the backend was chosen.
pub fn heavy() {
    match backend() {
        Backend::Membarrier => SHARED.call(membarrier::fence),
        Backend::Signal => SHARED.call(signal::fence),
        Backend::SeqCst => {
            SHARED.count_call();
            fence(SeqCst);
        }
    }
}

/// Counters of heavy fences since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls of [`heavy`].
    pub calls: u64,
    /// Process-wide fences executed for them: fewer, if callers shared one.
    pub issued: u64,
}

/// Returns how many heavy fences were called for, and how many were executed.
///
/// ```
/// use stillpoint::fence;
///
/// let before = fence::stats();
/// fence::heavy();
/// assert!(fence::stats().calls > before.calls);
/// ```
pub fn stats() -> Stats {
    let (calls, issued) = SHARED.stats();
    Stats { calls, issued: if backend() == Backend::SeqCst { calls } else { issued } }
}
