//! The choice whether this process uses critical sections, and the registration of threads.
//!
//! The first use of per-CPU data makes the choice, and it never changes. It takes no lock, so a fork or a signal may
//! come at any moment: the first thread publishes its report, and others discard theirs.

use core::cell::Cell;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering::*};
use std::alloc::{GlobalAlloc, Layout, System};

use crate::sync::Requested;
use crate::sys::pin::is_pinned;
use crate::sys::{Reason, rseq};

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

/// The mode that was chosen for this process, and the reason.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    mode: Mode,
    requested: Requested<Mode>,
    reason: Reason,
    /// That of the rseq areas from the thread pointer, if the C library registers all threads; otherwise 0.
    offset: isize,
}

impl Report {
    /// Returns how per-CPU data is updated. Single threads may still use the fallback: see [the
    /// module](crate::percpu).
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the number of CPUs that per-CPU data has room for: all that this machine may ever have.
    pub fn cpus(&self) -> usize {
        rseq::possible_cpus()
    }

    /// Returns the reason to display: what was asked for, what was found, and what failed.
    pub fn why(&self) -> impl fmt::Display + '_ {
        self.requested.explain(self.reason, "STILLPOINT_PERCPU names no mode (rseq, atomic)")
    }

    /// Returns `true` if every thread finds this choice from now on.
    pub(in crate::percpu) fn is_final(&self) -> bool {
        !ptr::eq(self, &NO_MEMORY)
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

/// The report; null before the choice.
static REPORT: AtomicPtr<Report> = AtomicPtr::new(ptr::null_mut());

/// What `cpu()` needs if the C library registers all threads. Otherwise both are 0, and no CPU number is below that.
pub static FAST: Fast = Fast { offset: AtomicIsize::new(0), cpus: AtomicUsize::new(0) };

#[derive(Debug)]
#[repr(align(64))]
pub struct Fast {
    pub offset: AtomicIsize,
    pub cpus: AtomicUsize,
}

/// The report if there is no memory for one, or within the choice.
static NO_MEMORY: Report = Report {
    mode: Mode::Atomic,
    requested: Requested::Nothing,
    reason: Reason("no memory to choose in; the next use tries again", 0),
    offset: 0,
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
    unsafe { report.as_ref() }.unwrap_or_else(choose_slow)
}

/// Registers the calling thread for critical sections, if it is not registered. Returns `true` if it can run them.
///
/// Optional: the first operation of a thread does the same.
pub fn register_thread() -> bool {
    registered().is_some()
}

/// Returns the CPU number and the offset of the rseq area of a thread that can run sections.
pub fn registered() -> Option<(usize, isize)> {
    let offset = offset()?;
    // SAFETY: the thread has an rseq area at the offset.
    let cpu = unsafe { rseq::cpu_id(offset) };
    (cpu as i32 >= 0).then_some((cpu as usize, offset))
}

#[cold]
fn choose_slow() -> &'static Report {
    unless_making(|| publish(select(requested_by_environment()))).unwrap_or(&NO_MEMORY)
}

/// Publishes `found`, unless another thread was faster. Returns `None` if there is no memory.
fn publish(found: Report) -> Option<&'static Report> {
    // Not from the global allocator: a sleepable domain that it enters would be created without a choice.
    // SAFETY: the layout has a size.
    let fresh = unsafe { System.alloc(Layout::new::<Report>()) }.cast::<Report>();
    if fresh.is_null() {
        return None;
    }
    // SAFETY: fresh memory of this layout, ours alone.
    unsafe { fresh.write(found) };
    // Release: publishes the report; pairs with the Acquire in `report`. Acquire: sees the report of a faster thread.
    match REPORT.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
        Ok(_) => {
            FAST.offset.store(found.offset, Relaxed);
            if found.offset != 0 {
                // Release: publishes the offset; pairs with the Acquire in `cpu`.
                FAST.cpus.store(found.cpus(), Release);
            }
            // SAFETY: published, so never freed.
            Some(unsafe { &*fresh })
        }
        Err(faster) => {
            // SAFETY: ours alone, of this layout; the other one is as in `report`.
            unsafe {
                System.dealloc(fresh.cast(), Layout::new::<Report>());
                Some(&*faster)
            }
        }
    }
}

thread_local! {
    /// `true` while the calling thread is in [`unless_making`].
    static MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `make`, which allocates. Returns `None` within such a call, so that a global allocator which uses per-CPU
/// data re-enters only once.
pub fn unless_making<R>(make: impl FnOnce() -> Option<R>) -> Option<R> {
    if MAKING.replace(true) {
        return None;
    }
    let made = make();
    MAKING.set(false);
    made
}

fn requested_by_environment() -> Requested<Mode> {
    Requested::by_environment(c"STILLPOINT_PERCPU", &[("rseq", Mode::Rseq), ("atomic", Mode::Atomic)])
}

/// Returns the report on the mode that is asked for, or on the fallback.
fn select(requested: Requested<Mode>) -> Report {
    #[cfg(stillpoint_faults)]
    super::faults::select();
    let chosen = match requested {
        Requested::Value(Mode::Atomic) | Requested::Unknown => Err(Reason("it needs nothing", 0)),
        Requested::Value(Mode::Rseq) | Requested::Nothing => try_rseq(),
    };
    let (mode, (reason, offset)) =
        chosen.map_or_else(|reason| (Mode::Atomic, (reason, 0)), |found| (Mode::Rseq, found));
    Report { mode, requested, reason, offset }
}

/// Returns the reason that sections can be used, and the offset of the rseq areas; 0 if each thread has its own.
///
/// # Errors
///
/// Returns the reason that sections cannot be used.
fn try_rseq() -> Result<(Reason, isize), Reason> {
    if !rseq::SUPPORTED {
        return Err(Reason("there are no critical sections for this architecture", 0));
    }
    // `rseq_cs` may point into this library after its sections: invariant 7 of `super`.
    if !is_pinned() {
        return Err(Reason("the dynamic linker refuses to keep this library mapped", 0));
    }
    if cfg!(target_arch = "aarch64") && rseq::kernel_release().is_some_and(is_broken_on_arm) {
        let why = "this Linux does not interrupt critical sections on this architecture (6.19 to 7.0.13)";
        return Err(Reason(why, 0));
    }
    if let Some(offset) = rseq::library_offset() {
        // SAFETY: the rseq area of the calling thread.
        let cpu = unsafe { rseq::cpu_id(offset) } as i32;
        return if cpu < 0 {
            Err(Reason("the C library registers threads, but the kernel gives no CPU number", 0))
        } else {
            Ok((Reason("the C library registers each thread", 0), offset))
        };
    }
    match rseq::register_own() {
        Ok(_) => {
            let why = "the C library does not register threads, each is registered here at its first use";
            Ok((Reason(why, 0), 0))
        }
        // The kernel's answer to a second registration with another area.
        Err(rseq::OTHER_AREA) => {
            let why = "the C library does not register threads, and other code, such as another copy of this library, \
                       has registered the thread";
            Err(Reason(why, 0))
        }
        Err(error) => Err(Reason("the C library does not register threads, and the kernel refuses", error)),
    }
}

/// Returns `true` for Linux 6.19 to 7.0.13, which on arm64 do not abort the section of a preempted thread.
fn is_broken_on_arm(release: (u32, u32, u32)) -> bool {
    ((6, 19, 0)..=(7, 0, 13)).contains(&release)
}

/// Returns the offset of the calling thread's rseq area from the thread pointer, or `None` if the thread cannot run
/// sections. Registers it if need be.
#[inline]
pub fn offset() -> Option<isize> {
    let report = report();
    match (report.mode, report.offset) {
        (Mode::Atomic, _) => None,
        (Mode::Rseq, 0) => unless_making(|| rseq::register_own().ok()),
        (Mode::Rseq, offset) => Some(offset),
    }
}

/// Returns an index below `len` for a thread outside of sections: the index of its CPU, so that few threads share it.
pub fn nearest(len: usize) -> usize {
    rseq::getcpu() % len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm64_kernels_that_do_not_abort_are_refused() {
        for release in [(6, 19, 0), (6, 19, 12), (7, 0, 0), (7, 0, 13)] {
            assert!(is_broken_on_arm(release), "{release:?}");
        }
        for release in [(6, 18, 44), (7, 0, 14), (7, 1, 0)] {
            assert!(!is_broken_on_arm(release), "{release:?}");
        }
    }
}
