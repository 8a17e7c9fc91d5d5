//! Signal handlers of tests, and threads that are interrupted.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem, ptr};

use crate::until::until;

/// Installs an async-signal-safe handler for a low real-time signal, which the library would choose last, and returns
/// the signal.
pub fn install(offset: c_int, handler: extern "C" fn(c_int)) -> c_int {
    let signal = libc::SIGRTMIN() + offset;
    // SAFETY: a signal action is plain data, for which zero is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is initialized, and the caller's handler is async-signal-safe.
    let failed = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    signal
}

/// Sends `signal` to a thread, which may have ended.
pub fn send<T>(signal: c_int, thread: &JoinHandle<T>) {
    #[allow(clippy::unnecessary_cast, reason = "not on all systems")]
    send_to(signal, thread.as_pthread_t() as usize);
}

/// Returns the calling thread, for [`send_to`]: a number, where some C libraries have a pointer.
#[allow(clippy::unnecessary_cast, reason = "not on all systems")]
pub fn this_thread() -> usize {
    // SAFETY: a plain call.
    unsafe { libc::pthread_self() as usize }
}

/// Sends `signal` to a thread that has not been joined.
#[allow(clippy::unnecessary_cast, reason = "not on all systems")]
pub fn send_to(signal: c_int, thread: usize) {
    // The queue of all processes of the user may be full for a while.
    until(|| {
        // SAFETY: the name of the thread, which is not joined yet, is valid.
        let error = unsafe { libc::pthread_kill(thread as libc::pthread_t, signal) };
        assert!([0, libc::EAGAIN, libc::ESRCH].contains(&error), "{}", io::Error::from_raw_os_error(error));
        error != libc::EAGAIN
    });
}

/// The handlers of [`interrupt`] that have run, and what they and the readers have found wrong: handlers cannot
/// panic.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static HANDLER: Cell<fn()> = const { Cell::new(|| ()) };
}

/// As `assert`, in a handler.
pub fn expect(right: bool) {
    if !right {
        WRONG.fetch_add(1, Relaxed);
    }
}

/// Returns how many handlers have run.
pub fn handled() -> usize {
    HANDLED.load(Acquire)
}

extern "C" fn handle(_signal: c_int) {
    HANDLER.get()();
    HANDLED.fetch_add(1, Release);
}

/// For how long there are to be as many handlers.
const TIME: Duration = Duration::from_secs(10);

/// Interrupts a thread by `handler` at any moment while it repeats `read`, after `prepare`. Another thread repeats
/// `write`. Both get the number of the round. Ends after a thousand handlers, once `enough` returns `true`.
pub fn interrupt(
    handler: fn(),
    prepare: impl FnOnce() + Send,
    mut read: impl FnMut(usize) + Send,
    mut write: impl FnMut(usize) + Send,
    enough: impl Fn() -> bool,
) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let signal = install(1, handle);
    HANDLED.store(0, Relaxed);
    let (ready, stop) = (&OnceLock::new(), &AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            HANDLER.set(handler);
            // Before the first signal, as preparations may allocate.
            prepare();
            ready.set(this_thread()).expect("there is one reader");
            (0..).take_while(|_| !stop.load(Relaxed)).for_each(&mut read);
        });
        let writer = scope.spawn(move || (0..).take_while(|_| !stop.load(Relaxed)).for_each(&mut write));
        until(|| ready.get().is_some() || reader.is_finished());
        let (mut sent, begin) = (0, Instant::now());
        let has_ended = || reader.is_finished() || writer.is_finished();
        // Beside other load it takes long to yield, so there are fewer.
        let least = || if begin.elapsed() < TIME { 1000 } else { 100 };
        while !has_ended() && (handled() < least() || !enough()) {
            // At most a few pending signals, so that the reader makes progress.
            if sent < handled() + 4 {
                send_to(signal, *ready.get().expect("the reader runs"));
                sent += 1;
            }
            thread::yield_now();
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(WRONG.load(Relaxed), 0);
}
