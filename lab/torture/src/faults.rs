//! Faults: signals, threads that occupy a CPU, forks. With the portable code neither handlers nor children of forks
//! may use the library, so there are none.

use std::hint;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::canary::wait_limit;
use super::common::{Broken, Kind, check, sleep};
use harness::pin;

/// Threads that get signals.
#[derive(Debug)]
pub(super) struct Signals {
    /// The thread in each slot, or 0, or [`SENDING`].
    threads: Box<[AtomicU64]>,
}

/// The body of the signal handler, and the number of its runs.
static HANDLER: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Relaxed);
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}

/// Installs the signal handler, which must be async-signal-safe.
pub(super) fn handle_signals(handler: impl Fn() + Send + Sync + 'static) -> anyhow::Result<()> {
    ensure!(HANDLER.set(Box::new(handler)).is_ok(), "there is a signal handler already");
    // SAFETY: `action` is valid; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        let installed = libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut()) == 0;
        ensure!(installed, "cannot install a signal handler");
    }
    Ok(())
}

/// Returns how many signals have been handled.
pub(super) fn handled() -> u64 {
    HANDLED.load(Relaxed)
}

/// In place of a thread, while a signal is sent to it.
const SENDING: u64 = u64::MAX;

/// While it lives, its thread gets signals.
#[derive(Debug)]
pub(super) struct Receiver<'a>(&'a AtomicU64);

fn this_thread() -> u64 {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() as u64 }
}

impl Signals {
    pub(super) fn new(slots: usize) -> Self {
        Self { threads: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Lets the calling thread get signals in this slot.
    pub(super) fn receiver(&self, slot: usize) -> Receiver<'_> {
        let thread = &self.threads[slot];
        // Not while the slot is reserved: the sender puts back that there is no thread.
        while thread.compare_exchange(0, this_thread(), AcqRel, Relaxed).is_err() {
            thread::yield_now();
        }
        Receiver(thread)
    }

    /// Sends a signal to the thread in a random slot, if there is one. One thread sends.
    pub(super) fn send(&self) {
        if cfg!(stillpoint_portable) {
            return;
        }
        let slot = &self.threads[fastrand::usize(..self.threads.len())];
        // Reserved, so that the thread does not end before the signal arrives.
        let thread = slot.swap(SENDING, AcqRel);
        if thread != 0 {
            // SAFETY: the thread has not ended, as its slot is reserved.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
        }
        slot.store(thread, Release);
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        // SAFETY: a set of signals for the calling thread, which ends soon: late ones do not interrupt its
        // destructors.
        unsafe {
            let mut signals: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut signals, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        }
        // Not while the slot is reserved: the sender puts the thread back.
        while self.0.compare_exchange(this_thread(), 0, AcqRel, Relaxed).is_err() {
            thread::yield_now();
        }
    }
}

/// Occupies a random CPU now and then, so that threads are preempted in the middle of operations.
pub(super) fn jitter(cpus: &[usize], stops: impl Fn() -> bool) {
    while !stops() {
        let _ = pin::to(cpus[fastrand::usize(..cpus.len())]);
        let begin = Instant::now();
        let busy = Duration::from_micros(fastrand::u64(..3000));
        while begin.elapsed() < busy {
            hint::spin_loop();
        }
        sleep(Duration::from_micros(fastrand::u64(..5000)));
    }
}

/// Forks. Parent and child must both call [`finish`].
pub(super) fn fork() -> Option<libc::pid_t> {
    // SAFETY: the child calls `finish`: it uses this library, and ends; it starts no thread by the standard library,
    // and prints nothing.
    (!cfg!(stillpoint_portable)).then(|| unsafe { libc::fork() })
}

/// In the child, runs `works` and exits. In the parent, waits for the child. Returns how many children there were.
pub(super) fn finish(child: Option<libc::pid_t>, works: impl FnOnce() -> bool) -> anyhow::Result<u64> {
    let Some(child) = child else { return Ok(0) };
    if child < 0 {
        return Err(io::Error::last_os_error()).context("cannot fork");
    }
    if child == 0 {
        let works = catch_unwind(AssertUnwindSafe(works)).unwrap_or(false);
        // SAFETY: a plain call.
        unsafe { libc::_exit(if works { 0 } else { 1 }) };
    }
    let begin = Instant::now();
    let mut status = -1;
    // SAFETY: `status` outlives the call.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > wait_limit() {
            // SAFETY: our child, which has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            bail!(Broken(Kind::Child, "the child of a fork hangs".to_owned()));
        }
        sleep(Duration::from_micros(200));
    }
    check(status == 0, Kind::Child, || {
        format!("the library does not work in the child of a fork (status {status})")
    })?;
    Ok(1)
}

/// Gives the calling thread the lowest priority, if it may have it.
pub(super) fn set_idle_priority() {
    // SAFETY: a plain call, for this thread only, with priority 0. Some C libraries have more fields.
    unsafe {
        let parameter: libc::sched_param = mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter);
    }
}

/// Gives the calling thread a CPU, and the highest priority below real time, as far as it may have them: for threads
/// that must run at the same time as each other.
pub(super) fn have_cpu(cpu: usize) {
    let _ = pin::to(cpu);
    // SAFETY: plain calls, for this thread only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, -20) };
}
