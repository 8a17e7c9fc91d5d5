//! Chooses whether this process uses critical sections, and finds the registration of a thread.
//!
//! The first use of per-CPU data makes the choice, and it is never changed. It takes no lock, so a fork or a signal may come at any
//! moment: the first thread publishes its report, and others discard theirs.

use core::cell::Cell;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering::*};
use std::alloc::{GlobalAlloc, Layout, System};

use crate::sys;
use crate::sys::pin::is_pinned;
use crate::sys::rseq::{self, Library};

/// How per-CPU data is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// By restartable sequences, without locked instructions.
    Rseq,
    /// By atomic operations on words of each CPU: correct on whatever CPU the thread runs, and mostly uncontended.
    Atomic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Rseq => "rseq",
            Mode::Atomic => "atomic",
        })
    }
}

/// The mode that the caller or the environment asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    For(Mode),
    /// The environment variable names no mode.
    Unknown,
}

/// The reason for the choice.
#[derive(Debug, Clone, Copy)]
enum Why {
    NotNeeded,
    NoArchitecture,
    NotPinned,
    Kernel((u32, u32, u32)),
    LibraryRegisters,
    /// With the number that the rseq area holds instead of that of a CPU.
    LibraryFailed(i32),
    OwnArea(Library),
    /// With the error of `rseq(2)`.
    Refused(Library, i32),
    NoMemory,
}

/// The mode that was chosen for this process, and the reason.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    mode: Mode,
    asked: Asked,
    why: Why,
    /// Of the rseq areas, from the thread pointer, if the C library registers all threads; otherwise 0.
    offset: isize,
    concurrency_ids: bool,
}

impl Report {
    /// Returns how per-CPU data is updated. Single threads may still use the fallback: see [the module](crate::percpu).
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the number of CPUs that per-CPU data has room for: all that this machine may ever have.
    pub fn cpus(&self) -> usize {
        rseq::possible_cpus()
    }

    /// Returns `true` if [`concurrency_id`](super::cpu_number::concurrency_id) has an answer.
    pub fn has_concurrency_ids(&self) -> bool {
        self.concurrency_ids
    }

    /// Returns the reason to display: what was asked for, what was found, and how it failed.
    pub fn why(&self) -> impl fmt::Display + '_ {
        Reason(self)
    }

    pub(in crate::percpu) fn library_offset(&self) -> isize {
        self.offset
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.mode, self.why())
    }
}

struct Reason<'a>(&'a Report);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.asked {
            Asked::Nothing => {}
            Asked::For(mode) => write!(f, "{mode} was asked for; ")?,
            Asked::Unknown => return f.write_str("STILLPOINT_PERCPU names no mode (rseq, atomic)"),
        }
        let library = |library| match library {
            Library::Unsupported => "the C library knows nothing of rseq",
            _ => "the C library does not register threads",
        };
        match self.0.why {
            Why::NotNeeded => f.write_str("it needs nothing"),
            Why::NoArchitecture => f.write_str("there are no critical sections for this architecture"),
            Why::NotPinned => f.write_str("the dynamic linker refuses to keep this library mapped"),
            Why::Kernel((major, minor, patch)) => write!(
                f,
                "Linux {major}.{minor}.{patch} does not interrupt critical sections on this architecture (6.19 to 7.0.13)"
            ),
            Why::LibraryRegisters => f.write_str("the C library registers each thread"),
            Why::LibraryFailed(number) => {
                write!(f, "the C library registers threads, but the kernel gives no CPU number ({number})")
            }
            Why::OwnArea(found) => write!(f, "{}, each is registered here at its first use", library(found)),
            Why::Refused(found, error) => {
                write!(
                    f,
                    "{}, and the kernel refuses: {}",
                    library(found),
                    std::io::Error::from_raw_os_error(error)
                )
            }
            Why::NoMemory => f.write_str("no memory to choose in; the next use tries again"),
        }
    }
}

/// The report; null before the choice.
static REPORT: AtomicPtr<Report> = AtomicPtr::new(ptr::null_mut());

/// What `cpu()` needs if the C library registers all threads. Otherwise 0, and no CPU number is below that.
pub static FAST: Fast = Fast { offset: AtomicIsize::new(0), cpus: AtomicUsize::new(0) };

#[derive(Debug)]
#[repr(align(64))]
pub struct Fast {
    pub offset: AtomicIsize,
    pub cpus: AtomicUsize,
}

/// For a caller without memory for a report, or within the making of one.
static NO_MEMORY: Report = Report {
    mode: Mode::Atomic,
    asked: Asked::Nothing,
    why: Why::NoMemory,
    offset: 0,
    concurrency_ids: false,
};

/// Returns the report on how per-CPU data is updated. Makes the choice if it has not been made.
///
/// ```
/// use stillpoint::percpu;
///
/// println!("{}", percpu::report()); // rseq: the C library registers each thread
/// assert!(percpu::cpu() < percpu::report().cpus());
/// ```
#[inline]
pub fn report() -> &'static Report {
    // Acquire: sees the complete report; pairs with the Release in `publish`.
    let report = REPORT.load(Acquire);
    // SAFETY: it is published once, and never freed.
    unsafe { report.as_ref() }.unwrap_or_else(|| choose_slow(asked_by_environment).0)
}

/// Chooses `mode`, or [`Mode::Atomic`] if that is not available, whatever the environment asks for.
///
/// # Errors
///
/// The mode is never changed. Returns an error, with the report, if another mode has been chosen before.
///
/// ```
/// use stillpoint::percpu::{self, Mode};
///
/// let report = percpu::choose(Mode::Atomic).expect("nothing per-CPU was used before");
/// assert_eq!(report.mode(), Mode::Atomic);
/// assert!(percpu::choose(Mode::Rseq).is_err());
/// ```
pub fn choose(mode: Mode) -> Result<&'static Report, AlreadyChosen> {
    let (report, ours) = choose_slow(|| Asked::For(mode));
    if ours || report.mode() == mode { Ok(report) } else { Err(AlreadyChosen(report)) }
}

/// The error of [`choose`] if another mode is in use.
#[derive(Debug, Clone, Copy)]
pub struct AlreadyChosen(&'static Report);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the per-CPU mode has been chosen already ({}); choose it before the first use", self.0)
    }
}

impl std::error::Error for AlreadyChosen {}

/// Registers the calling thread for critical sections, if it is not registered. Returns `true` if it can run them.
///
/// There is no need to call this: the first operation of a thread does the same.
pub fn register_thread() -> bool {
    // SAFETY: the thread has an rseq area at the offset.
    offset().is_some_and(|offset| unsafe { rseq::cpu_id(offset) }.cast_signed() >= 0)
}

/// Returns the report, after a choice of `asked` if none has been made; and whether this call made it.
#[cold]
fn choose_slow(asked: impl FnOnce() -> Asked) -> (&'static Report, bool) {
    // Acquire: as in `report`.
    let chosen = REPORT.load(Acquire);
    // SAFETY: as in `report`.
    if let Some(chosen) = unsafe { chosen.as_ref() } {
        return (chosen, false);
    }
    unless_making(|| publish(select(asked()))).unwrap_or((&NO_MEMORY, false))
}

/// Publishes `found`, unless another thread was faster. Returns `None` if there is no memory.
fn publish(found: Report) -> Option<(&'static Report, bool)> {
    // Not from the global allocator: a sleepable domain that it enters from there would be made without a choice.
    // SAFETY: the layout has a size.
    let fresh = unsafe { System.alloc(Layout::new::<Report>()) }.cast::<Report>();
    if fresh.is_null() {
        return None;
    }
    // SAFETY: fresh memory of this layout, ours alone.
    unsafe { fresh.write(found) };
    // Release: publishes the report; pairs with the Acquire in `report`. Acquire: sees that of a thread that was faster.
    Some(match REPORT.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
        Ok(_) => {
            FAST.offset.store(found.offset, Relaxed);
            if found.offset != 0 {
                // Release: publishes the offset; pairs with the Acquire in `cpu`.
                FAST.cpus.store(found.cpus(), Release);
            }
            // SAFETY: published, so never freed.
            (unsafe { &*fresh }, true)
        }
        Err(faster) => {
            // SAFETY: ours alone, of this layout; the other one is as in `report`.
            unsafe {
                System.dealloc(fresh.cast(), Layout::new::<Report>());
                (&*faster, false)
            }
        }
    })
}

thread_local! {
    /// Whether the calling thread is in [`unless_making`].
    static MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `make`, which allocates. Returns `None` within such a call, so that a global allocator may use per-CPU data: it re-enters
/// only once.
pub fn unless_making<R>(make: impl FnOnce() -> Option<R>) -> Option<R> {
    if MAKING.replace(true) {
        return None;
    }
    let made = make();
    MAKING.set(false);
    made
}

fn asked_by_environment() -> Asked {
    sys::with_variable(c"STILLPOINT_PERCPU", |asked| match asked {
        None => Asked::Nothing,
        Some(b"rseq") => Asked::For(Mode::Rseq),
        Some(b"atomic") => Asked::For(Mode::Atomic),
        Some(_) => Asked::Unknown,
    })
}

fn select(asked: Asked) -> Report {
    #[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
    super::faults::select();
    let fallback = |why| Report { mode: Mode::Atomic, asked, why, offset: 0, concurrency_ids: false };
    if matches!(asked, Asked::For(Mode::Atomic) | Asked::Unknown) {
        return fallback(Why::NotNeeded);
    }
    if !rseq::SUPPORTED {
        return fallback(Why::NoArchitecture);
    }
    // `rseq_cs` may point into this library after its sections: invariant 7 of `super`.
    if !is_pinned() {
        return fallback(Why::NotPinned);
    }
    if let Some(release) = rseq::kernel_release()
        && cfg!(target_arch = "aarch64")
        && is_broken_on_arm(release)
    {
        return fallback(Why::Kernel(release));
    }
    let (why, offset, size) = match rseq::library() {
        Library::Registers { offset, size } => {
            // SAFETY: the rseq area of the calling thread.
            let cpu = unsafe { rseq::cpu_id(offset) };
            if cpu.cast_signed() < 0 {
                return fallback(Why::LibraryFailed(cpu.cast_signed()));
            }
            (Why::LibraryRegisters, offset, size)
        }
        found => match rseq::register_own() {
            Ok(_) => (Why::OwnArea(found), 0, rseq::OWN_SIZE),
            Err(error) => return fallback(Why::Refused(found, error.raw_os_error().unwrap_or(0))),
        },
    };
    Report { mode: Mode::Rseq, asked, why, offset, concurrency_ids: rseq::has_mm_cid(size) }
}

/// Linux 6.19 to 7.0.13 on arm64 do not abort the section of a preempted thread.
fn is_broken_on_arm(release: (u32, u32, u32)) -> bool {
    ((6, 19, 0)..=(7, 0, 13)).contains(&release)
}

/// Returns the offset of the calling thread's rseq area, from the thread pointer. Registers the thread if need be. Returns `None` if it
/// cannot run sections.
pub fn offset() -> Option<isize> {
    let report = report();
    match (report.mode, report.offset) {
        (Mode::Atomic, _) => None,
        (Mode::Rseq, 0) => unless_making(|| rseq::register_own().ok()),
        (Mode::Rseq, offset) => Some(offset),
    }
}

/// Returns an index below `len` for a thread that runs no sections: that of its CPU, so that few threads share it.
pub fn nearest(len: usize) -> usize {
    rseq::getcpu() % len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm64_kernels_that_do_not_abort_are_refused() {
        for (release, broken) in [
            ((6, 18, 44), false),
            ((6, 19, 0), true),
            ((6, 19, 12), true),
            ((7, 0, 0), true),
            ((7, 0, 13), true),
            ((7, 0, 14), false),
            ((7, 1, 0), false),
        ] {
            assert_eq!(is_broken_on_arm(release), broken, "{release:?}");
        }
    }
}
