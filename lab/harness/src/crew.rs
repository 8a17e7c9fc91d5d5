//! The threads of a measurement: started, released together, and joined.
//!
//! Threads wait at a [`Gate`], and each measurement opens its gates on every path. So no thread blocks for ever if
//! another one could not be started.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context as _, anyhow};

/// Enough for any measured loop, and a thousand of them fit in small machines.
const STACK: usize = 256 << 10;

/// Blocks threads until it is opened for good.
#[derive(Debug, Default)]
pub struct Gate(OnceLock<()>);

impl Gate {
    /// Returns once the gate is open.
    pub fn wait(&self) {
        self.0.wait();
    }

    /// Releases all threads, from now on.
    pub fn open(&self) {
        let _ = self.0.set(());
    }
}

/// Counts the threads that are ready.
#[derive(Debug, Default)]
pub struct Arrivals {
    count: Mutex<usize>,
    more: Condvar,
}

impl Arrivals {
    /// Counts the calling thread as ready.
    pub fn arrive(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_one();
    }

    /// Returns once `threads` threads are ready. Only one thread may wait.
    pub fn wait_for(&self, threads: usize) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.more.wait_while(count, |count| *count < threads));
    }
}

/// Starts a thread of the measurement in `scope`.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> anyhow::Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body).context(
        "cannot start another thread: raise the limits on threads (ulimit -u, pids.max of the cgroup) or memory",
    )
}

/// Returns the result of a thread.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a measuring thread panicked; its message is above"))
}
