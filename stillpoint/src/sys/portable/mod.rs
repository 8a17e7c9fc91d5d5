//! What the library takes from a system other than 64-bit Linux: in the place of [`sys`](super), with the same names.
//! Linux has it too, with `--cfg stillpoint_portable`, so that its tests run there.
//!
//! | | by |
//! |---|---|
//! | heavy fence | `FlushProcessWriteBuffers` on Windows for x86, `membarrier(2)` on FreeBSD for x86-64; elsewhere there is none, and readers execute full fences |
//! | waits | queues of `parking_lot_core` by the address of the word |
//! | CPU number | a number of the thread ([`numbers`]), and so no critical sections |
//! | threads, clock | the standard library |
//! | thread exit | destructors of thread-local variables ([`tls_destructor`]) |
//!
//! There are no fork handlers: the child of a fork may only `exec` or `_exit`. A shared library with this crate must
//! not be unloaded. And `parking_lot_core` takes locks and allocates, so neither signal handlers nor global
//! allocators may wait or wake.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, park, unpark_filter};

#[path = "../boxes.rs"]
pub mod boxes;
pub mod fork;
#[path = "../fork_lock.rs"]
pub mod fork_lock;
#[cfg_attr(all(windows, any(target_arch = "x86", target_arch = "x86_64")), path = "heavy_fence/windows.rs")]
#[cfg_attr(all(target_os = "freebsd", target_arch = "x86_64"), path = "heavy_fence/freebsd.rs")]
#[cfg_attr(
    not(any(
        all(windows, any(target_arch = "x86", target_arch = "x86_64")),
        all(target_os = "freebsd", target_arch = "x86_64")
    )),
    path = "heavy_fence/missing.rs"
)]
pub mod heavy_fence;
pub mod numbers;
pub mod pin;
#[path = "../reason.rs"]
mod reason;
pub mod rseq;
pub mod scheduling;
#[cfg(feature = "statistics-page")]
pub mod shared_page;
#[cfg(unix)]
#[path = "../signal_mask.rs"]
mod signal_mask;
#[cfg(unix)]
#[path = "../stack.rs"]
mod stack;
pub mod thread;
pub mod tls_destructor;

pub use reason::Reason;

/// Nothing is called before `main`: what [`sys`](super) calls there is called again at its first use.
macro_rules! init_array {
    ($function:ident($($argument:expr)?)) => {
        const _: () = {
            #[allow(dead_code, reason = "checked, but not called")]
            fn call() {
                let _ = $function($($argument)?);
            }
        };
    };
}
pub(crate) use init_array;

/// A word that threads wait for.
pub trait Word {
    /// Returns the key of its queue.
    fn key(&self) -> usize;
    /// Returns what a waiter compares.
    fn low(&self) -> u32;
}

impl Word for &AtomicU32 {
    fn key(&self) -> usize {
        core::ptr::from_ref(*self).addr()
    }

    fn low(&self) -> u32 {
        // Relaxed, here and below: the lock of the queue orders it, which a waker takes after its store.
        self.load(Relaxed)
    }
}

/// The low half of a word of 64 bits.
#[derive(Debug, Clone, Copy)]
pub struct LowHalf<'a>(&'a AtomicU64);

impl Word for LowHalf<'_> {
    fn key(&self) -> usize {
        core::ptr::from_ref(self.0).addr()
    }

    fn low(&self) -> u32 {
        self.0.load(Relaxed) as u32
    }
}

/// Returns the half of the word that [`futex_wait`] compares.
pub fn low_half(word: &AtomicU64) -> LowHalf<'_> {
    LowHalf(word)
}

/// Sleeps until woken, or until [`now`] is `until`, unless the word differs from `expected`. Returns `true` if the
/// time is over. May return early.
pub fn futex_wait(word: impl Word, expected: u32, mask: NonZeroU32, until: Option<u64>) -> bool {
    // A time that the clock does not reach is no limit.
    let until = until.and_then(|until| base().checked_add(Duration::from_nanos(until.saturating_sub(BASE))));
    let token = ParkToken(mask.get() as usize);
    // SAFETY: the key is the address of a word of this library; the functions neither panic nor park.
    let result = unsafe { park(word.key(), || word.low() == expected, || (), |_, _| (), token, until) };
    result == ParkResult::TimedOut
}

/// Wakes at most `count` sleepers whose mask shares a bit with `mask`. Returns their number. Does not access the
/// memory of the word. If a lock of `parking_lot` is there by now, none of its waiters is woken whose token is 0; the
/// others, those of reader-writer locks, look again.
pub fn futex_wake(word: impl Word, count: u32, mask: NonZeroU32) -> usize {
    let left = Cell::new(count);
    let filter = |ParkToken(token)| {
        if left.get() == 0 {
            FilterOp::Stop
        } else if token & mask.get() as usize == 0 {
            FilterOp::Skip
        } else {
            left.set(left.get() - 1);
            FilterOp::Unpark
        }
    };
    // SAFETY: as in `futex_wait`.
    unsafe { unpark_filter(word.key(), filter, |_| DEFAULT_UNPARK_TOKEN) }.unparked_threads
}

/// What [`now`] returned at its first call: an hour, so that earlier times have numbers too.
const BASE: u64 = 3_600_000_000_000;

fn base() -> Instant {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    *FIRST.get_or_init(Instant::now)
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    BASE + base().elapsed().as_nanos() as u64
}

/// [`now`]: there is no clock that is faster.
pub use now as last_tick;

/// Writes to the standard error, as much as it takes.
pub fn write_error(text: &[u8]) {
    let _ = io::stderr().write_all(text);
}

/// Calls `f` with the value of an environment variable. Allocates nothing, unlike `std::env::var_os`.
#[cfg(unix)]
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    // SAFETY: the name is a C string. The value is a C string until a thread changes the environment, which the
    // callers of `setenv` and `std::env::set_var` promise not to do while other threads may read it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        f((!value.is_null()).then(|| CStr::from_ptr(value).to_bytes()))
    }
}

/// Calls `f` with the value of an environment variable. Allocates nothing, unlike `std::env::var_os`. Of a value of
/// 64 bytes or more, `f` gets 64 unspecified ones.
#[cfg(windows)]
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    use windows_sys::Win32::Foundation::{ERROR_ENVVAR_NOT_FOUND, GetLastError, SetLastError};
    use windows_sys::Win32::System::Environment::GetEnvironmentVariableA;

    let mut value = [0; 64];
    // SAFETY: the name is a C string, and there is room for as many bytes.
    let (len, error) = unsafe {
        // An empty value is no error, and changes none.
        SetLastError(0);
        let size = value.len() as u32;
        (GetEnvironmentVariableA(name.as_ptr().cast(), value.as_mut_ptr(), size), GetLastError())
    };
    // If the value does not fit, the length is that of the room it takes.
    f((error != ERROR_ENVVAR_NOT_FOUND).then(|| &value[..(len as usize).min(value.len())]))
}

/// Calls `f` with the value of an environment variable.
#[cfg(not(any(unix, windows)))]
pub fn with_variable<R>(name: &CStr, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let value = name.to_str().ok().and_then(|name| std::env::var(name).ok());
    f(value.as_deref().map(str::as_bytes))
}

/// Returns `true` if [`interrupt_sections`] works: there are no critical sections.
pub fn can_interrupt_sections() -> bool {
    false
}

/// Always fails.
pub fn interrupt_sections(_cpu: usize) -> Option<()> {
    None
}

/// Always fails.
pub fn interrupt_all_sections() -> Option<()> {
    None
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::SeqCst;
    use std::thread;

    use super::*;
    use support::deadline::deadline;

    const ONE: NonZeroU32 = NonZeroU32::MIN;
    const TWO: NonZeroU32 = ONE.saturating_add(1);

    #[test]
    fn wait_for_another_value_returns_at_once() {
        let _running = deadline();
        let word = AtomicU64::new((7 << 32) + 1);
        assert!(!futex_wait(low_half(&word), 2, ONE, None));
        assert!(!futex_wait(&AtomicU32::new(1), 2, ONE, None));
    }

    #[test]
    fn wait_without_a_wake_ends_with_its_time() {
        let _running = deadline();
        let (word, until) = (AtomicU32::new(1), now() + 1_000_000);
        assert!(futex_wait(&word, 1, ONE, Some(until)));
        assert!(now() >= until);
        assert!(futex_wait(&word, 1, ONE, Some(0)));
    }

    #[test]
    fn wake_reaches_as_many_as_it_counts_of_those_with_its_mask() {
        let _running = deadline();
        let word = AtomicU64::new(7 << 32);
        let awake = AtomicU32::new(0);
        let wait = |mask| {
            futex_wait(low_half(&word), 0, mask, None);
            awake.fetch_add(1, SeqCst);
        };
        thread::scope(|scope| {
            (0..2).for_each(|_| _ = scope.spawn(|| wait(ONE)));
            scope.spawn(|| wait(TWO));
            let woken = |mask, count: usize| {
                let mut woken = 0;
                while woken < count {
                    let now = futex_wake(low_half(&word), 1, mask);
                    assert!(now <= 1);
                    woken += now;
                }
            };
            woken(TWO, 1);
            assert_eq!(futex_wake(low_half(&word), u32::MAX, TWO), 0);
            woken(ONE, 2);
            assert_eq!(futex_wake(low_half(&word), u32::MAX, NonZeroU32::MAX), 0);
        });
        assert_eq!(awake.into_inner(), 3);
    }

    #[test]
    fn variable_of_the_environment_is_found() {
        assert!(with_variable(c"PATH", |value| value.is_some()));
        assert!(with_variable(c"STILLPOINT_HAS_NO_SUCH_VARIABLE", |value| value.is_none()));
    }
}
