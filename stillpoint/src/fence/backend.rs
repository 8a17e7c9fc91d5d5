//! The choice of the backend, made once in a process, with the report on it, and the heavy fence, which follows from
//! it.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*, fence};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::sync::{CachePadded, ForkSafe, Requested};
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::{Reason, heavy_fence, init_array};

/// How the two sides of the fence are made. See the [module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Backend {
    /// `membarrier(2)`: `light()` is a compiler fence.
    Membarrier = 3,
    /// Both sides execute a `SeqCst` fence.
    SeqCst = 1,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Membarrier => "membarrier",
            Backend::SeqCst => "seqcst",
        })
    }
}

/// The backend in use, as a number; 0 before the choice.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Returns `true` if `backend` has been chosen. Does not make the choice.
#[inline(always)]
pub(super) fn is_chosen(backend: Backend) -> bool {
    // Relaxed: a thread that sees the choice late executes a real fence, which every backend allows.
    CHOSEN.load(Relaxed) == backend as u8
}

/// The choice and its reasons.
static REPORT: ForkSafe<OnceLock<Report>> = ForkSafe::new(OnceLock::new());

/// What was chosen, and why.
///
/// It contains no string: a global allocator may contain the first reader, so the choice must not allocate.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    backend: Backend,
    requested: Requested<Backend>,
    reason: Reason,
}

impl Report {
    /// Returns the backend in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the reason to display: what was asked for, what was tried, and what failed.
    pub fn why(&self) -> impl fmt::Display + '_ {
        self.requested.explain(self.reason, "STILLPOINT_FENCE names no backend (membarrier, seqcst)")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.why())
    }
}

/// Chooses the backend, if that has not been done. Returns what was chosen and why.
///
/// Takes half a microsecond while the process has one thread, and about ten milliseconds later.
pub fn report() -> &'static Report {
    if let Some(report) = REPORT.get().get() {
        return report;
    }
    // The choice does not allocate: a global allocator that contains a reader would re-enter it, and wait for itself.
    REPORT.get().get_or_init(|| {
        let requested = requested_by_environment();
        // The hook may not have been registered before `main`. `SeqCst` has no state that a fork could break.
        let (backend, reason) = if register_for_fork(&FORK) {
            select(requested)
        } else {
            (Backend::SeqCst, Reason("no memory to prepare for a fork", 0))
        };
        // Relaxed: see `is_chosen`.
        CHOSEN.store(backend as u8, Relaxed);
        Report { backend, requested, reason }
    })
}

fn requested_by_environment() -> Requested<Backend> {
    use Backend::*;
    let backends = [("membarrier", Membarrier), ("seqcst", SeqCst)];
    Requested::by_environment(c"STILLPOINT_FENCE", &backends)
}

fn select(requested: Requested<Backend>) -> (Backend, Reason) {
    match requested {
        Requested::Nothing | Requested::Value(Backend::Membarrier) => match heavy_fence::register() {
            Ok(reason) => (Backend::Membarrier, reason),
            Err(reason) => (Backend::SeqCst, reason),
        },
        Requested::Value(Backend::SeqCst) | Requested::Unknown => {
            (Backend::SeqCst, Reason("it needs nothing", 0))
        }
    }
}

static FORK: ForkHook = ForkHook::in_child(0, in_child);

init_array!(register_for_fork(&FORK));

/// Resets what other threads may have been changing at the fork.
///
/// # Safety
///
/// The hook for the child of a fork (`ForkHook::child`).
pub unsafe fn in_child() {
    match REPORT.get().get() {
        Some(report) if report.backend == Backend::Membarrier => {
            // The kernel copies the registration before memory, and another thread may have made the choice in
            // between. If this returns an error, the next fence panics.
            let _ = heavy_fence::register();
        }
        Some(_) => {}
        None => {
            // Another thread may have been making the choice.
            CHOSEN.store(0, Relaxed);
            // SAFETY: the only thread, which did not fork within the choice and has no reference to a report.
            unsafe { REPORT.overwrite(OnceLock::new()) };
        }
    }
}

/// Returns what was chosen and why, if that has been done.
#[cfg(feature = "statistics-page")]
pub(crate) fn chosen() -> Option<&'static Report> {
    REPORT.get().get()
}

/// Calls of [`heavy`] and [`heavy_quiet`].
static CALLS: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));

/// Executes the rare side of the fence: orders what this thread did before against what it does afterwards, for every
/// thread that executes a [`light`](super::light) or `heavy` fence.
///
/// Costs one system call, and an interrupt to each CPU that runs this process.
///
/// # Panics
///
/// If the kernel denies `membarrier`, although it allowed it when the backend was chosen.
#[doc(alias("membarrier", "asymmetric_fence"))]
pub fn heavy() {
    match report().backend {
        Backend::Membarrier => heavy_fence::execute(),
        Backend::SeqCst => fence(SeqCst),
    }
    // Relaxed: statistics only.
    CALLS.fetch_add(1, Relaxed);
}

/// [`heavy`], or nothing if the kernel denies it: for a look at what other threads have done, where the next look
/// finds what this one misses.
pub(crate) fn try_heavy() {
    _ = catch_unwind(heavy);
}

/// Orders the same as [`heavy`], and interrupts no CPU: waits until each CPU has switched threads, been idle or had a
/// tick in the program, which takes tens of milliseconds.
///
/// For threads that are in no hurry, beside others that must not be disturbed. Returns `true` if no CPU was
/// interrupted. Returns `false` if the kernel denies such a fence, as where CPUs run without a tick (`nohz_full`), or
/// the system has none: then this has called [`heavy`].
///
/// # Panics
///
/// As [`heavy`], if it returned `false`.
///
/// ```
/// use stillpoint::fence;
///
/// if !fence::heavy_quiet() {
///     eprintln!("CPUs were interrupted: {}", fence::report());
/// }
/// ```
#[doc(alias("MEMBARRIER_CMD_GLOBAL", "synchronize_rcu"))]
pub fn heavy_quiet() -> bool {
    let is_quiet = match report().backend {
        Backend::Membarrier => heavy_fence::execute_quietly(),
        Backend::SeqCst => {
            fence(SeqCst);
            true
        }
    };
    if is_quiet {
        // Relaxed: statistics only.
        CALLS.fetch_add(1, Relaxed);
    } else {
        heavy();
    }
    is_quiet
}

/// Returns how many calls of [`heavy`] and [`heavy_quiet`] have returned since the start of the process.
///
/// ```
/// use stillpoint::fence;
///
/// let before = fence::calls();
/// fence::heavy();
/// assert!(fence::calls() > before);
/// ```
pub fn calls() -> u64 {
    // Relaxed: statistics only.
    CALLS.load(Relaxed)
}
