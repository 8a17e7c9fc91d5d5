//! System calls and C library calls, behind safe functions. Nothing else in the crate makes any.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::num::NonZeroU32;
use std::time::Duration;

pub use rustix::io::Errno;
use rustix::thread::futex;
pub use rustix::thread::{MembarrierCommand, MembarrierQuery};
use rustix::time::Timespec;

pub mod fork;
pub mod pin;
pub mod rseq;
#[cfg(feature = "signal-fence")]
pub mod rt_signal;
pub mod signal;
pub mod thread;
pub mod tls_destructor;

/// The half of the word that the kernel's futex compares: the low one.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = core::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: the pointer stays inside the eight bytes of `word`, which are aligned and live as long as the reference.
    // The reference is handed to the kernel only; no code here accesses the half.
    unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
}

/// `futex(FUTEX_WAIT_BITSET)`: sleeps until woken, but no longer than `timeout`, unless the low half of `word` differs from
/// that of `expected`. Returns early on signals.
pub fn futex_wait(word: &AtomicU64, expected: u64, mask: NonZeroU32, timeout: Option<Duration>) {
    // The call wants a moment, not a length. One that no clock reaches is for ever.
    let until = timeout.and_then(|timeout| {
        let length = Timespec::try_from(timeout).ok()?;
        clock().checked_add(length)
    });
    // Every failure (the word changed, a signal, the time is over) means the same to the caller: look again.
    let _ = futex::wait_bitset(low_half(word), futex::Flags::PRIVATE, expected as u32, until.as_ref(), mask);
}

/// `futex(FUTEX_WAKE_BITSET)`: wakes at most `count` sleepers whose mask shares a bit with `mask`.
pub fn futex_wake(word: &AtomicU64, count: u32, mask: NonZeroU32) {
    // The kernel reads the count as an int.
    let count = count.min(i32::MAX as u32);
    let _ = futex::wake_bitset(low_half(word), futex::Flags::PRIVATE, count, mask);
}

/// `futex(FUTEX_WAIT_BITSET)` on a word of 32 bits: sleeps until woken, or until the monotonic clock shows `until`
/// nanoseconds, unless the word differs from `expected`. Whether the time is over. Returns early on signals.
pub fn futex32_wait(word: &AtomicU32, expected: u32, until: Option<u64>) -> bool {
    let until = until.and_then(|until| Timespec::try_from(Duration::from_nanos(until)).ok());
    let flags = futex::Flags::PRIVATE;
    futex::wait_bitset(word, flags, expected, until.as_ref(), NonZeroU32::MAX) == Err(Errno::TIMEDOUT)
}

/// `futex(FUTEX_WAKE)` on a word of 32 bits: wakes at most `count` sleepers. How many there were. The memory of the word is
/// not touched.
pub fn futex32_wake(word: &AtomicU32, count: u32) -> usize {
    // The kernel reads the count as an int.
    futex::wake(word, futex::Flags::PRIVATE, count.min(i32::MAX as u32)).unwrap_or(0)
}

/// `clock_gettime(CLOCK_MONOTONIC)`: the C library's, which knows where to find it without a system call. rustix looks for itself
/// and finds, under valgrind, what is not mapped there.
fn clock() -> Timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call, which cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec }
}

/// The monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    let now = clock();
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The name of a thread of this process, as the kernel keeps it; nothing if it cannot be read.
pub fn thread_name(tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// Calls `f` with the value of an environment variable. Allocates nothing, unlike `std::env::var_os`.
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    // SAFETY: the name is a C string. The value is one too, for as long as no thread changes the environment, as the
    // callers of `setenv`, and of `std::env::set_var`, promise while other threads may read it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        f((!value.is_null()).then(|| CStr::from_ptr(value).to_bytes()))
    }
}

/// `membarrier(2)` commands of this kernel; empty where the call is missing or denied.
pub fn membarrier_query() -> MembarrierQuery {
    rustix::thread::membarrier_query()
}

/// `membarrier(2)`.
pub fn membarrier(command: MembarrierCommand) -> Result<(), Errno> {
    rustix::thread::membarrier(command)
}

/// Whether a thread passes a full barrier when the kernel switches to it, which `membarrier` takes for granted: it interrupts
/// only CPUs that run the process already. On riscv that came with Linux 6.9, and with 6.6.51.
pub fn has_barrier_in_switch() -> bool {
    let is_riscv = cfg!(any(target_arch = "riscv32", target_arch = "riscv64"));
    !is_riscv || rseq::kernel_release().is_some_and(has_barrier_on_riscv)
}

/// Those with "membarrier: riscv: Add full memory barrier in switch_mm()".
fn has_barrier_on_riscv(release: (u32, u32, u32)) -> bool {
    release >= (6, 9, 0) || ((6, 6, 51)..(6, 7, 0)).contains(&release)
}

/// `membarrier(PRIVATE_EXPEDITED_RSEQ, CPU)`: interrupts the critical section that a thread of this process may be in on `cpu`.
pub fn membarrier_rseq(cpu: usize) -> Result<(), Errno> {
    let cpu = u32::try_from(cpu).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel checks the number, and does nothing if there is no such CPU.
    let cpu = unsafe { rustix::thread::Cpuid::from_raw(cpu) };
    rustix::thread::membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riscv_kernels_without_the_barrier_are_known() {
        for (release, has_barrier) in [
            ((5, 15, 170), false),
            ((6, 6, 50), false),
            ((6, 6, 51), true),
            ((6, 7, 0), false),
            ((6, 8, 12), false),
            ((6, 9, 0), true),
            ((7, 0, 0), true),
        ] {
            assert_eq!(has_barrier_on_riscv(release), has_barrier, "{release:?}");
        }
    }
}
