//! What comes between: signals whose handlers read, threads that take the CPU away, forks.

use std::cell::Cell;
use std::hint;
use std::io;
use std::mem;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::flavor::Flavor;
use super::oracle::READERS;
use super::patience;
use super::reader::interrupt;
use super::run::Scene;
use crate::harness::pin;

thread_local! {
    /// Of a reader that takes signals.
    static SEAT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// For handlers.
static SCENE: OnceLock<&'static Scene> = OnceLock::new();

/// In place of a thread's number, while a signal is sent to it.
const TAKEN: u64 = u64::MAX;

/// Who takes signals.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// The thread in each reader's seat, or 0.
    threads: [AtomicU64; READERS],
    pub(super) handled: AtomicU64,
}

/// While it lives, its thread takes signals.
#[derive(Debug)]
pub(super) struct Addressee<'a>(&'a AtomicU64);

extern "C" fn on_signal<F: Flavor>(_signal: libc::c_int) {
    if let (Some(scene), Ok(Some(seat))) = (SCENE.get(), SEAT.try_with(Cell::get)) {
        // Relaxed: a number.
        scene.signals.handled.fetch_add(1, Relaxed);
        interrupt::<F>(scene, seat);
    }
}

impl Signals {
    /// Has handlers read, if they may.
    pub(super) fn handle<F: Flavor>(scene: &'static Scene) -> anyhow::Result<()> {
        let _ = SCENE.set(scene);
        if F::HANDLES {
            // SAFETY: the handler reads, as the library promises to be possible.
            unsafe {
                let mut action: libc::sigaction = mem::zeroed();
                action.sa_sigaction = on_signal::<F> as *const () as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                let done = libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut()) == 0;
                ensure!(done, "no handler for signals can be installed");
            }
        }
        Ok(())
    }

    /// The calling thread, which is registered, takes signals in a reader's seat.
    pub(super) fn addressee(&self, seat: usize) -> Addressee<'_> {
        SEAT.set(Some(seat));
        let thread = &self.threads[seat];
        // SAFETY: takes nothing.
        thread.store(unsafe { libc::pthread_self() } as u64, Release);
        Addressee(thread)
    }

    /// Sends one to a reader.
    pub(super) fn send<F: Flavor>(&self, seat: usize) {
        if !F::HANDLES {
            return;
        }
        // Taken, so that the thread waits before it ends.
        let thread = self.threads[seat].swap(TAKEN, AcqRel);
        if thread != 0 {
            // SAFETY: the thread has not ended, as its number is taken.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1) };
        }
        self.threads[seat].store(thread, Release);
    }
}

impl Drop for Addressee<'_> {
    fn drop(&mut self) {
        // SAFETY: a set of signals for the calling thread, which ends soon: those that are late do no harm to its destructors.
        unsafe {
            let mut signals: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut signals, libc::SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        }
        // SAFETY: takes nothing.
        let thread = unsafe { libc::pthread_self() } as u64;
        // Not while it is taken: the sender brings it back.
        while self.0.compare_exchange(thread, 0, AcqRel, Relaxed).is_err() {
            thread::yield_now();
        }
    }
}

/// A thread that takes a CPU away now and then, for as long as a reader or updater may be in the middle of something.
pub(super) fn jitter(scene: &Scene) {
    while !scene.stops() {
        let _ = pin::to(scene.cpus[fastrand::usize(..scene.cpus.len())]);
        let begin = Instant::now();
        let busy = Duration::from_micros(fastrand::u64(..3000));
        while begin.elapsed() < busy {
            hint::spin_loop();
        }
        super::sleep(Duration::from_micros(fastrand::u64(..5000)));
    }
}

/// Forks, inside a section or not, and waits for the child, in which the library must work.
///
/// # Errors
///
/// Fails if it does not, or there can be no child.
pub(super) fn fork<F: Flavor>() -> anyhow::Result<()> {
    // SAFETY: the child uses this library, and ends; it starts no thread by the standard library, and prints nothing.
    let fork = || unsafe { libc::fork() };
    let mut child = -1;
    if fastrand::bool() {
        F::visit(|| child = fork());
    } else {
        child = fork();
    }
    if child == 0 {
        let works = catch_unwind(F::works_in_child).unwrap_or(false);
        // SAFETY: a plain call.
        unsafe { libc::_exit(if works { 0 } else { 1 }) };
    }
    if child < 0 {
        return Err(io::Error::last_os_error()).context("cannot fork");
    }
    let begin = Instant::now();
    let mut status = -1;
    // SAFETY: `status` outlives the call.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > patience() {
            // SAFETY: our child, which has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            bail!("the child of a fork hangs");
        }
        super::sleep(Duration::from_micros(200));
    }
    ensure!(status == 0, "in the child of a fork grace periods or callbacks do not work (status {status})");
    Ok(())
}
