//! System calls and C library calls of 64-bit Linux, behind safe functions. Elsewhere, `portable/` takes its place.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::num::NonZeroU32;
use std::time::Duration;

pub use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, MembarrierQuery, futex, membarrier, membarrier_query};
use rustix::time::Timespec;

pub mod fork;
pub mod fork_lock;
pub mod heavy_fence;
pub mod pin;
pub mod rseq;
pub mod scheduling;
#[cfg(feature = "statistics-page")]
pub mod shared_page;
mod signal_mask;
#[cfg(not(miri))]
mod stack;
pub mod thread;
pub mod tls_destructor;

/// Calls a function before `main`, or when a shared library with this crate is loaded. Not in Miri, which lacks the
/// system calls, so that programs run there until they use them.
macro_rules! init_array {
    ($function:ident($($argument:expr)?)) => {
        const _: () = {
            extern "C" fn call() {
                let _ = $function($($argument)?);
            }
            #[used]
            // SAFETY: the section is an array of such functions, which the C library calls.
            #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
            static CALLED: extern "C" fn() = call;
        };
    };
}
pub(crate) use init_array;

/// Returns the half of the word that the kernel's futex compares: the low one.
pub fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = core::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: the pointer stays inside the eight bytes of `word`, which are aligned and live as long as the reference.
    // Only the kernel gets the reference; no code here accesses the half.
    unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
}

/// `futex(FUTEX_WAIT_BITSET)`: sleeps until woken, or until the monotonic clock shows `until` nanoseconds, unless the
/// word differs from `expected`. Returns `true` if the time is over. Returns early on signals.
pub fn futex_wait(word: &AtomicU32, expected: u32, mask: NonZeroU32, until: Option<u64>) -> bool {
    if cfg!(miri) {
        // A spurious return: Miri does not allow half of an atomic word to be read.
        std::thread::yield_now();
        return until.is_some_and(|until| now() >= until);
    }
    let until = until.and_then(|until| Timespec::try_from(Duration::from_nanos(until)).ok());
    let result = futex::wait_bitset(word, futex::Flags::PRIVATE, expected, until.as_ref(), mask);
    result == Err(Errno::TIMEDOUT)
}

/// `futex(FUTEX_WAKE_BITSET)`: wakes at most `count` sleepers whose mask shares a bit with `mask`. Returns their
/// number. Does not access the memory of the word.
pub fn futex_wake(word: &AtomicU32, count: u32, mask: NonZeroU32) -> usize {
    if cfg!(miri) {
        return 0;
    }
    // The kernel reads the count as an int.
    futex::wake_bitset(word, futex::Flags::PRIVATE, count.min(i32::MAX as u32), mask).unwrap_or(0)
}

/// [`futex_wait`] for a word that other code wakes without the flag `PRIVATE`.
#[cfg(feature = "_urcu")]
pub fn futex_wait_shared(word: &AtomicU32, expected: u32, until: Option<u64>) {
    let until = until.and_then(|until| Timespec::try_from(Duration::from_nanos(until)).ok());
    let _ = futex::wait_bitset(word, futex::Flags::empty(), expected, until.as_ref(), NonZeroU32::MAX);
}

/// [`futex_wake`] for a word on which threads sleep without the flag `PRIVATE`.
#[cfg(feature = "_urcu")]
pub fn futex_wake_shared(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, futex::Flags::empty(), count);
}

/// Returns the time of the monotonic clock, in nanoseconds.
///
/// The C library's `clock_gettime` finds the vdso without a system call. rustix looks for it itself, and finds under
/// valgrind what is not mapped there.
pub fn now() -> u64 {
    time(libc::CLOCK_MONOTONIC)
}

/// Returns [`now`] of the last tick, some milliseconds ago at most: takes a quarter as long.
pub fn last_tick() -> u64 {
    time(if cfg!(miri) { libc::CLOCK_MONOTONIC } else { libc::CLOCK_MONOTONIC_COARSE })
}

#[inline]
fn time(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Calls `f` with the value of an environment variable. Allocates nothing, unlike `std::env::var_os`.
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    // SAFETY: the name is a C string. The value is a C string until a thread changes the environment, which the callers
    // of `setenv` and `std::env::set_var` promise not to do while other threads may read it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        f((!value.is_null()).then(|| CStr::from_ptr(value).to_bytes()))
    }
}

/// Returns `true` if a thread passes a full barrier when the kernel switches to it. `membarrier` requires that, as it
/// interrupts only CPUs that run the process already. On riscv the barrier came with Linux 6.9 and 6.6.51.
fn has_barrier_in_switch() -> bool {
    let is_riscv = cfg!(any(target_arch = "riscv32", target_arch = "riscv64"));
    !is_riscv || rseq::kernel_release().is_some_and(has_barrier_on_riscv)
}

/// Returns `true` if the release has the commit "membarrier: riscv: Add full memory barrier in switch_mm()".
fn has_barrier_on_riscv(release: (u32, u32, u32)) -> bool {
    release >= (6, 9, 0) || ((6, 6, 51)..(6, 7, 0)).contains(&release)
}

/// Registers the process for [`interrupt_sections`], which takes milliseconds if it has several threads. Returns `true` if
/// that works (`membarrier(PRIVATE_EXPEDITED_RSEQ)` for a CPU, Linux 5.10), and a section that the kernel switches to sees
/// what the caller stored before.
pub fn can_interrupt_sections() -> bool {
    has_barrier_in_switch()
        && membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED_RSEQ)
        && membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
        && interrupt_sections(0).is_ok()
}

/// `membarrier(PRIVATE_EXPEDITED_RSEQ, CPU)`: aborts the critical section in which a thread of this process may be on
/// `cpu`.
pub fn interrupt_sections(cpu: usize) -> Result<(), Errno> {
    let cpu = u32::try_from(cpu).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel checks the number, and does nothing if there is no such CPU.
    let cpu = unsafe { rustix::thread::Cpuid::from_raw(cpu) };
    rustix::thread::membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu)
}

/// `membarrier(PRIVATE_EXPEDITED_RSEQ)`: aborts the critical sections in which threads of this process may be, on all
/// CPUs. A full fence of the caller and of all running threads.
pub fn interrupt_all_sections() -> Result<(), Errno> {
    membarrier(MembarrierCommand::PrivateExpeditedRseq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riscv_kernels_without_the_barrier_are_known() {
        for release in [(5, 15, 170), (6, 6, 50), (6, 7, 0), (6, 8, 12)] {
            assert!(!has_barrier_on_riscv(release), "{release:?}");
        }
        for release in [(6, 6, 51), (6, 9, 0), (7, 0, 0)] {
            assert!(has_barrier_on_riscv(release), "{release:?}");
        }
    }
}
