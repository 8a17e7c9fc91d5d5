//! System calls and C library calls of 64-bit Linux, behind safe functions. Elsewhere, `portable/` takes its place.

use core::ffi::{CStr, c_int, c_long};
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::{mem, ptr};
use std::num::NonZeroU32;

pub mod boxes;
pub mod fork;
pub mod fork_lock;
pub mod heavy_fence;
pub mod pin;
mod reason;
pub mod rseq;
pub mod scheduling;
#[cfg(feature = "statistics-page")]
pub mod shared_page;
mod signal_mask;
#[cfg(not(miri))]
mod stack;
pub mod thread;
pub mod tls_destructor;

pub use reason::Reason;

/// Calls a function before `main`, or when a shared library with this crate is loaded: before the constructors of the
/// same program or library, as these may register handlers of forks (see [`fork`]). Not in Miri, which lacks the system
/// calls, so that programs run there until they use them.
macro_rules! init_array {
    ($function:ident($($argument:expr)?)) => {
        const _: () = {
            extern "C" fn call() {
                let _ = $function($($argument)?);
            }
            #[used]
            // SAFETY: the section is an array of such functions, which the C library calls. Constructors of programs
            // have numbers above 100, or none, and come later.
            #[cfg_attr(not(miri), unsafe(link_section = ".init_array.00099"))]
            static CALLED: extern "C" fn() = call;
        };
    };
}
pub(crate) use init_array;

/// The number of an error.
type Errno = c_int;

/// Calls a function of the C library, and keeps `errno`. Returns what the function made of it too. Waits, fences and
/// per-CPU data are used by signal handlers, whose program may not have read its `errno` yet, and in the place of
/// functions that do not change it.
pub fn keep_errno<T>(call: impl FnOnce() -> T) -> (T, Errno) {
    // SAFETY: the place is the thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = call();
        (result, mem::replace(&mut *errno, before))
    }
}

/// [`keep_errno`], for a function that returns -1 on errors.
fn checked(call: impl FnOnce() -> c_long) -> Result<c_long, Errno> {
    match keep_errno(call) {
        (-1, error) => Err(error),
        (result, _) => Ok(result),
    }
}

/// Returns the half of the word that the kernel's futex compares: the low one.
pub fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = core::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: the pointer stays inside the eight bytes of `word`, which are aligned and live as long as the
    // reference. Only the kernel gets the reference; no code here accesses the half.
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
    let result = futex(word, libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG, expected, until, mask);
    result == Err(libc::ETIMEDOUT)
}

/// `futex(FUTEX_WAKE_BITSET)`: wakes at most `count` sleepers whose mask shares a bit with `mask`. Returns their
/// number. Does not access the memory of the word.
pub fn futex_wake(word: &AtomicU32, count: u32, mask: NonZeroU32) -> usize {
    if cfg!(miri) {
        return 0;
    }
    // The kernel reads the count as an int.
    let count = count.min(i32::MAX as u32);
    futex(word, libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG, count, None, mask).unwrap_or(0) as usize
}

/// [`futex_wait`] for a word that other code wakes without the flag `PRIVATE`.
#[cfg(feature = "_urcu")]
pub fn futex_wait_shared(word: &AtomicU32, expected: u32, until: Option<u64>) {
    let _ = futex(word, libc::FUTEX_WAIT_BITSET, expected, until, NonZeroU32::MAX);
}

/// [`futex_wake`] for a word on which threads sleep without the flag `PRIVATE`.
#[cfg(feature = "_urcu")]
pub fn futex_wake_shared(word: &AtomicU32, count: u32) {
    let _ = futex(word, libc::FUTEX_WAKE_BITSET, count.min(i32::MAX as u32), None, NonZeroU32::MAX);
}

fn futex(
    word: &AtomicU32,
    op: c_int,
    value: u32,
    until: Option<u64>,
    mask: NonZeroU32,
) -> Result<c_long, Errno> {
    let until = until.map(|until| libc::timespec {
        tv_sec: (until / NANOS_PER_SEC) as _,
        tv_nsec: (until % NANOS_PER_SEC) as _,
    });
    let until = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (word, unused) = (word.as_ptr(), ptr::null_mut::<u32>());
    // SAFETY: the kernel reads the word, if at all, and the time. Both outlive the call.
    checked(|| unsafe { libc::syscall(libc::SYS_futex, word, op, value, until, unused, mask.get()) })
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Returns the time of the monotonic clock, in nanoseconds.
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
    now.tv_sec as u64 * NANOS_PER_SEC + now.tv_nsec as u64
}

/// Calls `f` with the value of an environment variable. Allocates nothing, unlike `std::env::var_os`.
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    // SAFETY: the name is a C string. The value is a C string until a thread changes the environment, which the
    // callers of `setenv` and `std::env::set_var` promise not to do while other threads may read it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        f((!value.is_null()).then(|| CStr::from_ptr(value).to_bytes()))
    }
}

/// Writes to the standard error, as much as it takes.
pub fn write_error(mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: the kernel reads the text, which outlives the call.
        let written = checked(|| unsafe { libc::write(2, text.as_ptr().cast(), text.len()) as c_long });
        match written {
            Ok(written @ 1..) => text = &text[written as usize..],
            // A signal handler without `SA_RESTART` has run.
            Err(libc::EINTR) => {}
            _ => return,
        }
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

/// `membarrier(2)`: on the CPU of this number only, or on all.
fn membarrier(command: c_int, cpu: Option<c_int>) -> Result<c_long, Errno> {
    const FLAG_CPU: c_int = 1;
    let (flags, cpu) = cpu.map_or((0, 0), |cpu| (FLAG_CPU, cpu));
    // SAFETY: no pointers.
    checked(|| unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) })
}

/// Returns `true` if the kernel has the command. Filters of system calls may deny it nevertheless.
fn has_membarrier(command: c_int) -> bool {
    // Miri lacks the system call.
    let commands = if cfg!(miri) { Ok(0) } else { membarrier(libc::MEMBARRIER_CMD_QUERY, None) };
    commands.is_ok_and(|commands| commands & c_long::from(command) != 0)
}

/// Registers the process for [`interrupt_sections`], which takes milliseconds if it has several threads. Returns
/// `true` if that works (`membarrier(PRIVATE_EXPEDITED_RSEQ)` for a CPU, Linux 5.10), and a section that the kernel
/// switches to sees what the caller stored before.
pub fn can_interrupt_sections() -> bool {
    has_barrier_in_switch()
        && has_membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
        && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, None).is_ok()
        && interrupt_sections(0).is_some()
}

/// `membarrier(PRIVATE_EXPEDITED_RSEQ, CPU)`: aborts the critical section in which a thread of this process may be on
/// `cpu`. The kernel does nothing if there is no such CPU. Returns `None` if it denies the call.
pub fn interrupt_sections(cpu: usize) -> Option<()> {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, Some(cpu as c_int)).ok().map(drop)
}

/// `membarrier(PRIVATE_EXPEDITED_RSEQ)`: aborts the critical sections in which threads of this process may be, on all
/// CPUs. A full fence of the caller and of all running threads. Returns `None` if the kernel denies the call.
pub fn interrupt_all_sections() -> Option<()> {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, None).ok().map(drop)
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
    /// A signal handler that waits must not change what the interrupted code is about to read.
    #[test]
    #[cfg_attr(miri, ignore = "no system calls")]
    fn call_that_fails_returns_its_error_and_keeps_errno() {
        // SAFETY: the place is the thread's own, here and below.
        unsafe { *libc::__errno_location() = 77 };
        assert!(!futex_wait(&AtomicU32::new(1), 2, NonZeroU32::MIN, None));
        assert!(futex_wait(&AtomicU32::new(1), 1, NonZeroU32::MIN, Some(0)));
        let error = membarrier(-1, None).expect_err("no such command");
        assert!([libc::EINVAL, libc::ENOSYS, libc::EPERM].contains(&error));
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }
}
