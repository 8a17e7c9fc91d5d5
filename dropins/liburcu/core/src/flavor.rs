//! What each flavor of liburcu is made of, and its grace periods.

use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::*;
use std::time::Duration;

use stillpoint::fence::{self, Backend};
use stillpoint::urcu::Engine;

use crate::inlined::{InlinedProtocol, InlinedReader, InlinedReaders};

use crate::progress::Progress;
use crate::report::{Thread, report};

/// A flavor of liburcu.
pub trait Flavor: InlinedProtocol + Sized {
    /// The name of the library, for reports.
    const NAME: &'static str;
    /// Readers may be in signal handlers.
    const IN_HANDLERS: bool = false;

    /// Returns the grace periods of the flavor.
    fn engine() -> &'static Engine<InlinedReaders<Self>>;

    /// Returns the readers of the flavor.
    #[inline(always)]
    fn readers() -> &'static InlinedReaders<Self> {
        Self::engine().readers()
    }

    /// Returns what the threads of the flavor tell each other.
    fn progress() -> &'static Progress;

    /// Returns the reader of the calling thread, registered or not. It must not be used by other threads.
    fn own<'a>() -> &'a InlinedReader;

    /// Returns the reader of the calling thread if the thread has used it before. Needs no memory.
    fn own_if_any<'a>() -> Option<&'a InlinedReader>;

    /// Registers the calling thread.
    fn register_thread();

    /// Unregisters the calling thread.
    fn unregister_thread();

    /// Frees the readers of lost threads, in the child of a fork.
    fn reset_in_child() {}
}

/// Returns 1 if readers use compiler barriers, else 0. Chooses the fence, once for the process.
pub fn has_membarrier() -> u32 {
    (fence::report().backend() == Backend::Membarrier).into()
}

/// The environment variable with the number of the first grace period, to test what happens when numbers are used up.
const FIRST_NUMBER: &core::ffi::CStr = c"STILLPOINT_URCU_FIRST_NUMBER";

/// Numbers the next grace period as a test asks, when the flavor's library is loaded.
pub fn load<F: Flavor>() {
    // SAFETY: the name and the value are C strings; no other thread changes the environment while the library loads.
    let number = unsafe {
        let value = libc::getenv(FIRST_NUMBER.as_ptr());
        if value.is_null() { 0 } else { libc::strtoul(value, ptr::null_mut(), 0) as u32 }
    };
    if number > 1 && !F::QSBR {
        let counter = &F::readers().protocol().gp().ctr;
        counter.store(u64::from(number - 1) << 32 | 1, Relaxed);
    }
}

/// All signals are blocked until this is dropped, for a flavor with readers in signal handlers.
#[derive(Debug)]
pub struct SignalsBlocked(Option<libc::sigset_t>);

impl SignalsBlocked {
    pub fn during<F: Flavor>() -> Self {
        if F::IN_HANDLERS { Self::always() } else { Self(None) }
    }

    pub fn always() -> Self {
        // SAFETY: the sets are plain data and outlive the calls.
        unsafe {
            let mut all = mem::zeroed();
            libc::sigfillset(&mut all);
            let mut old = mem::zeroed();
            let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old) == 0;
            Self(blocked.then_some(old))
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            // SAFETY: the set outlives the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut()) };
        }
    }
}

/// Returns the calling thread's reader if it is registered.
pub fn registered<'a, F: Flavor>() -> Option<&'a InlinedReader> {
    F::own_if_any().filter(|own| F::readers().is_registered(own))
}

/// Adds the calling thread's reader to those that grace periods wait for.
pub fn register<F: Flavor>(own: &InlinedReader) {
    let _blocked = SignalsBlocked::during::<F>();
    if F::FENCED {
        fence::report();
    }
    // SAFETY: the thread unregisters before it ends, as liburcu demands, or, in bp, at its end.
    unsafe { F::readers().register(own, || Thread::current().0) };
}

/// The reverse of [`register`].
pub fn unregister<F: Flavor>(own: &InlinedReader) {
    let _blocked = SignalsBlocked::during::<F>();
    F::readers().unregister(own);
}

/// Runs `f`, which waits, while the calling thread is offline, in qsbr. `f` gets the thread's reader if it is outside
/// a section.
pub fn offline<F: Flavor>(f: impl FnOnce(Option<&InlinedReader>)) {
    let own = registered::<F>();
    let online = own.filter(|own| F::QSBR && own.ctr.load(Relaxed) != 0);
    if let Some(own) = online {
        F::readers().report(own, 0);
    }
    f(own.filter(|own| !own.in_section()));
    if let Some(own) = online {
        F::readers().online(own);
    }
}

/// Runs `f` in a section of the calling thread. Returns `None` if grace periods do not wait for the thread: it is not
/// registered, or offline.
pub fn in_section<F: Flavor, R>(f: impl FnOnce() -> R) -> Option<R> {
    let (own, readers) = (F::own(), F::readers());
    if !readers.is_registered(own) || F::QSBR && own.ctr.load(Relaxed) == 0 {
        return None;
    }
    if F::QSBR {
        return Some(f());
    }
    readers.enter(own);
    let result = f();
    readers.leave(own);
    Some(result)
}

/// Returns `true` inside a section, after a report on the caller of `function`.
pub fn is_misused<F: Flavor>(function: &str) -> bool {
    let inside = !F::QSBR && registered::<F>().is_some_and(InlinedReader::in_section);
    if inside {
        let (name, thread) = (F::NAME, Thread::current());
        report(format_args!(
            "{name}: {function} in a read-side critical section of {thread}: this is a deadlock"
        ));
    }
    inside
}

/// Reports a thread that blocks a grace period.
pub fn report_stall<F: Flavor>(thread: u32, waited: Duration) {
    let (name, thread) = (F::NAME, Thread(thread));
    report(format_args!("{name}: a grace period has waited {waited:.1?} for {thread}"));
}

/// `synchronize_rcu`.
pub fn synchronize<F: Flavor>() {
    is_misused::<F>("synchronize_rcu");
    let _blocked = SignalsBlocked::during::<F>();
    offline::<F>(|own| F::engine().synchronize(own));
}
