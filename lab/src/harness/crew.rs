//! The threads of a measurement: started, let go together, and released whatever happens.
//!
//! No thread blocks for ever on one that could not be started: threads wait at a [`Gate`], and each measurement opens its gates
//! on every path.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context as _, anyhow};

/// Enough for any measured loop, and a thousand of them fit in small machines.
const STACK: usize = 256 << 10;

/// Threads wait here, without a timer, until it is opened for good.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Returns once the gate is open.
    pub(crate) fn wait(&self) {
        let mut open = lock(&self.open);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all threads through, from now on.
    pub(crate) fn open(&self) {
        *lock(&self.open) = true;
        self.opened.notify_all();
    }
}

/// Counts the threads that are ready.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    count: Mutex<usize>,
    more: Condvar,
}

impl Arrivals {
    /// The calling thread is ready.
    pub(crate) fn arrive(&self) {
        *lock(&self.count) += 1;
        self.more.notify_one();
    }

    /// Returns once `threads` threads are ready. Only one thread may wait.
    pub(crate) fn wait_for(&self, threads: usize) {
        let mut count = lock(&self.count);
        while *count < threads {
            count = self.more.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of the measurement in `scope`.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> anyhow::Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body).context(
        "cannot start another thread: raise the limits on threads (ulimit -u, pids.max of the cgroup) or memory",
    )
}

/// The result of a thread.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a measuring thread panicked; its message is above"))
}
