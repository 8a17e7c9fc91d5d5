//! A process-wide memory barrier: the frequent side pays nothing, the rare side pays one system call.
//!
//! Two threads that each write one location and then read the other's need a full fence on *both* sides, or each may miss
//! the other's write. Where one side runs a million times more often than the other, that is a bad bargain. Here the
//! frequent side calls [`light`], which only stops the compiler, and the rare side calls [`heavy`], which makes every
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
//! | [`Backend`] | `light()` | `heavy()` | chosen |
//! |---|---|---|---|
//! | [`Membarrier`](Backend::Membarrier) | compiler fence | `membarrier(PRIVATE_EXPEDITED)`, one inter-processor interrupt per CPU that runs this process | by default, if it works |
//! | [`Signal`](Backend::Signal) | compiler fence in a known thread ([`register_thread`]), else a real one | a real-time signal to each known thread, and its answer | on request only, with the feature `signal-fence` |
//! | [`SeqCst`](Backend::SeqCst) | a real fence | a real fence | otherwise |
//!
//! The backend is chosen once, by the first of [`init`], [`heavy`] and the first reader of [`crate::rcu`], and never
//! changes. Before that, `light()` is a real fence. The environment variable `STILLPOINT_FENCE` (`membarrier`, `signal`,
//! `seqcst`) asks for one; whatever cannot be had falls back to `SeqCst`, and [`report`] says why.
//!
//! Call [`init`] at the start of `main`: the kernel registers a process in half a microsecond while it has one thread, and
//! in about ten milliseconds afterwards.
//!
//! # Trade-offs
//!
//! - `heavy()` interrupts other CPUs that run this process. Kernels from 6.8 on serialize the calls of the whole system.
//!   Concurrent callers here share one call: see [`stats`].
//! - `membarrier` must stay allowed. If a seccomp filter installed *after* the choice denies it, `heavy()` panics, as
//!   nothing could order the readers any more: install filters first, or choose `SeqCst`.
//! - With the signal backend a thread must not block the signal ([`Report::signal`] says which) for long, and system calls
//!   that `SA_RESTART` does not cover (`nanosleep`, `epoll_wait`, ...) may return `EINTR` in such threads.
//! - `heavy()` may wait for another caller's, so it is not for signal handlers. `light()` is; with the signal backend,
//!   in a library that was loaded by `dlopen(3)`, only in threads that have called it, or [`register_thread`], before: at its first use in a
//!   thread the C library allocates a thread-local variable.
//! - The child of a `fork` may use this module, whatever other threads were doing. Like all of the library it learns of the
//!   fork from `pthread_atfork(3)`: a system call that does not go through `fork` leaves it in the dark. The backend stays.
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

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*, compiler_fence, fence};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::sync::ForkSafe;
use crate::sys::signal::{at_fork_once, before_main};
use crate::sys::{self, Errno, MembarrierCommand};

mod membarrier;
mod shared;
#[cfg_attr(not(feature = "signal-fence"), path = "no_signal.rs")]
mod signal;

use shared::SharedFence;

/// How the two sides of the fence are made. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Backend {
    /// `membarrier(2)`: `light()` is a compiler fence.
    Membarrier = 3,
    /// Signals to known threads: `light()` is a compiler fence and a look at a thread-local. Needs the feature `signal-fence`.
    Signal = 2,
    /// Both sides execute a `SeqCst` fence.
    SeqCst = 1,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Membarrier => "membarrier",
            Backend::Signal => "signal",
            Backend::SeqCst => "seqcst",
        })
    }
}

/// The [`Backend`] chosen, as a number; 0 before the choice.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The choice and its reasons.
static REPORT: ForkSafe<OnceLock<Report>> = ForkSafe::new(OnceLock::new());

/// What was chosen, and why.
///
/// Without a string: a global allocator may be the first to enter a section, and choosing must not call it.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    backend: Backend,
    asked: Asked,
    why: Why,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    For(Backend),
    /// The environment has a word that names no backend.
    Unknown,
}

/// Why it came to that.
#[derive(Debug, Clone, Copy)]
enum Why {
    NotNeeded,
    NoMemory,
    MembarrierWorks,
    MembarrierMissing,
    NoBarrierInSwitch,
    /// With the command that failed.
    MembarrierFailed(MembarrierCommand, Errno),
    /// With its number.
    SignalFree(i32),
    #[cfg_attr(not(feature = "signal-fence"), expect(dead_code))]
    NoSignalFree,
    #[cfg_attr(feature = "signal-fence", expect(dead_code))]
    SignalNotBuilt,
}

impl Report {
    /// The backend in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The real-time signal of the signal backend.
    pub fn signal(&self) -> Option<i32> {
        match self.why {
            Why::SignalFree(signal) => Some(signal),
            _ => None,
        }
    }

    /// Why this backend: what was asked for, what was tried, and how it failed.
    pub fn why(&self) -> impl fmt::Display + '_ {
        Reason(self)
    }
}

struct Reason<'a>(&'a Report);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.asked {
            Asked::Nothing => {}
            Asked::For(backend) => write!(f, "{backend} was asked for; ")?,
            Asked::Unknown => {
                return f.write_str("STILLPOINT_FENCE names no backend (membarrier, signal, seqcst)");
            }
        }
        match self.0.why {
            Why::NotNeeded => f.write_str("it needs nothing"),
            Why::NoMemory => f.write_str("no memory to prepare for a fork"),
            Why::MembarrierWorks => f.write_str("membarrier(PRIVATE_EXPEDITED) works"),
            Why::MembarrierMissing => {
                f.write_str("membarrier has no PRIVATE_EXPEDITED command here (old kernel, or denied)")
            }
            Why::NoBarrierInSwitch => f.write_str(
                "membarrier needs a barrier in context switches, which riscv has from Linux 6.9 on, and in 6.6 from 6.6.51 on",
            ),
            Why::MembarrierFailed(command, error) => write!(f, "membarrier({command:?}) failed: {error}"),
            Why::SignalFree(signal) => write!(f, "signal {signal} was free"),
            Why::SignalNotBuilt => f.write_str("the library is built without the feature signal-fence"),
            Why::NoSignalFree => {
                f.write_str("no signal could be installed: every real-time signal has a handler already")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.why())
    }
}

/// Chooses the backend, if that has not been done, and says what was chosen.
///
/// Takes half a microsecond while the process has one thread, about ten milliseconds later.
pub fn init() -> &'static Report {
    init_with(asked_by_environment)
}

fn asked_by_environment() -> Asked {
    sys::with_variable(c"STILLPOINT_FENCE", |asked| match asked {
        None => Asked::Nothing,
        Some(b"membarrier") => Asked::For(Backend::Membarrier),
        Some(b"signal") => Asked::For(Backend::Signal),
        Some(b"seqcst") => Asked::For(Backend::SeqCst),
        Some(_) => Asked::Unknown,
    })
}

/// Chooses `backend`, or, where it cannot be had, [`Backend::SeqCst`]. The environment is not asked.
///
/// # Errors
///
/// The backend is never changed: if another one has been chosen before, the error says which and why.
///
/// ```
/// use stillpoint::fence::{self, Backend};
///
/// let report = fence::choose(Backend::SeqCst).expect("nothing used a fence before");
/// assert_eq!(report.backend(), Backend::SeqCst);
/// assert!(fence::choose(Backend::Membarrier).is_err());
/// ```
pub fn choose(backend: Backend) -> Result<&'static Report, AlreadyChosen> {
    let mut ours = false;
    let report = init_with(|| {
        ours = true;
        Asked::For(backend)
    });
    if ours || report.backend == backend { Ok(report) } else { Err(AlreadyChosen(report)) }
}

/// [`choose`] came too late: another backend is in use.
#[derive(Debug, Clone, Copy)]
pub struct AlreadyChosen(&'static Report);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fence backend has been chosen already ({}); choose it before the first reader", self.0)
    }
}

impl std::error::Error for AlreadyChosen {}

fn init_with(asked: impl FnOnce() -> Asked) -> &'static Report {
    if let Some(report) = REPORT.get().get() {
        return report;
    }
    // If it has not been called: see `before_main!`.
    arm();
    // Nothing in it allocates: a global allocator that enters a section would come back, and wait for itself.
    REPORT.get().get_or_init(|| {
        let asked = asked();
        let (backend, why) = if IS_ARMED.load(Relaxed) {
            select(asked)
        } else {
            // Which has no state that a fork could break.
            (Backend::SeqCst, Why::NoMemory)
        };
        // Relaxed: `light` that sees the choice late executes a real fence, which every backend allows.
        CHOSEN.store(backend as u8, Relaxed);
        Report { backend, asked, why }
    })
}

fn select(asked: Asked) -> (Backend, Why) {
    match asked {
        Asked::Nothing | Asked::For(Backend::Membarrier) => match membarrier::register() {
            Ok(()) => (Backend::Membarrier, Why::MembarrierWorks),
            Err(why) => (Backend::SeqCst, why),
        },
        Asked::For(Backend::Signal) => match signal::install() {
            Ok(signal) => (Backend::Signal, Why::SignalFree(signal)),
            Err(why) => (Backend::SeqCst, why),
        },
        Asked::For(Backend::SeqCst) | Asked::Unknown => (Backend::SeqCst, Why::NotNeeded),
    }
}

/// Forks are known.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

before_main!(arm);

extern "C" fn arm() {
    at_fork_once(&IS_ARMED, in_child);
}

/// The child of a fork, which has one thread: others may have been at work on what is here.
unsafe extern "C" fn in_child() {
    match REPORT.get().get() {
        Some(report) if report.backend == Backend::Membarrier => {
            // The kernel copies the registration before memory, and another thread may have made the choice in between. If it
            // fails, so does the next fence.
            let _ = membarrier::register();
        }
        Some(_) => {}
        None => {
            // Perhaps another thread was about to choose, and got as far as this.
            CHOSEN.store(0, Relaxed);
            // SAFETY: the only thread, which did not fork while it chose; and it has no reference to a report.
            unsafe { REPORT.overwrite(OnceLock::new()) };
        }
    }
    SHARED.reset_in_child();
    // SAFETY: the only thread, which did not fork in the middle of a fence.
    unsafe { signal::reset_in_child() };
}

/// The backend in use; chooses it if that has not been done.
pub fn backend() -> Backend {
    report().backend
}

/// What was chosen and why; chooses the backend if that has not been done.
pub fn report() -> &'static Report {
    init()
}

/// The frequent side of the fence. A compiler fence, or whatever the backend needs; never blocks.
///
/// Orders nothing against other `light()` calls: see the [module](self).
#[inline(always)]
pub fn light() {
    if CHOSEN.load(Relaxed) == Backend::Membarrier as u8 {
        compiler_fence(SeqCst);
    } else {
        light_slow();
    }
}

#[cold]
fn light_slow() {
    if CHOSEN.load(Relaxed) == Backend::Signal as u8 && signal::is_known() {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The light fence of code that runs with [`Backend::Membarrier`] only, or calls [`light`] as well.
#[inline(always)]
pub(crate) fn light_by_compiler() {
    compiler_fence(SeqCst);
}

/// Makes the calling thread known to the backend, until it ends; chooses the backend if that has not been done. True if a
/// compiler fence is now a light fence in this thread: always with `membarrier`, never with `SeqCst`.
///
/// Nobody need call it: with the signal backend a thread that is not known executes real fences in [`light`]. Readers of
/// [`crate::rcu`] are known.
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

/// The heavy fences, which callers share.
static SHARED: CachePadded<SharedFence> = CachePadded::new(SharedFence::new());

/// The rare side of the fence: orders what this thread did before against what it does afterwards, for every thread that
/// passes a [`light`] or `heavy` fence.
///
/// Costs one system call and an interrupt to each CPU that runs this process; callers at the same time share one.
///
/// # Panics
///
/// If the kernel denies `membarrier`, or the signal, now though it was allowed when the backend was chosen.
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
    /// Process-wide fences executed for them: fewer, when callers shared one.
    pub issued: u64,
}

/// How many heavy fences were asked for, and how many were executed.
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
