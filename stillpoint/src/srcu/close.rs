//! Closing a domain: waiting until it has no handle, and all that was deferred has run.
//!
//! 1. *No handle.* The last one wakes the waiters ([`HandleCounts`](super::handle_counts::HandleCounts)). From then on no section is open,
//!    none can begin, and nothing can be deferred: all of these take a handle.
//! 2. *All has run.* A barrier that begins when there are no handles: what was deferred through a handle was deferred
//!    before that handle was dropped.
//!
//! A callback may own a handle, and defer or close. So there is a barrier before 1 too.

use core::fmt;
use core::future::Future;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::Duration;

use super::close_waiters::CloseWaiterId;
use super::domain::{Domain, WorkerRef};
use super::state::NAME;
use crate::grace_period::engine::ReaderSet as _;
use crate::grace_period::stall::{StallDetector, StalledReaders};
use crate::reclaim::domain::{Await, RawDomain as _, address, assert_may_wait};
use crate::reclaim::running;

impl Domain {
    /// Drops this handle. The result waits until the domain is *closed*: there is no other handle either, so no section
    /// is open, none can begin and nothing can be deferred; and everything that was deferred has run.
    ///
    /// For what must be gone before the program continues: deferred work that borrows, files, a library to be unloaded.
    /// Pointers, cookies, retired values and owned guards hold handles, so drop these first, or elsewhere. **A wait in
    /// the thread or task that has another handle itself never returns.** Nor does one for a `static` domain, or for a
    /// handle in a leaked value. Such waits [are reported](crate::rcu::set_stall_hook).
    ///
    /// A leaked [`Guard`](super::Guard), which borrowed a handle, is not waited for, as no thread can use it any more.
    /// In the child of a fork, handles of threads that it does not have are never dropped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use stillpoint::Domain as _;
    /// use stillpoint::rcu::DeferOptions;
    /// use stillpoint::srcu::Domain;
    ///
    /// let sum = AtomicU32::new(0);
    /// let domain = Domain::new();
    /// for n in 1..=4 {
    ///     let add = {
    ///         let sum = &sum;
    ///         move || _ = sum.fetch_add(n, Relaxed)
    ///     };
    ///     // SAFETY: `sum` exists until the domain is closed, and threads may share it.
    ///     unsafe { domain.call_unchecked(add, DeferOptions::new()) };
    /// }
    /// domain.close().wait();
    /// assert_eq!(sum.into_inner(), 10);
    /// ```
    ///
    /// Async code awaits it:
    ///
    /// ```
    /// use stillpoint::srcu::Domain;
    ///
    /// async fn shut_down(requests: Domain) {
    ///     requests.close().await;
    ///     // The last request has dropped its `OwnedGuard`.
    /// }
    /// # let domain = Domain::new();
    /// # let request = domain.enter_owned();
    /// # std::thread::spawn(move || drop(request));
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(shut_down(domain));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no memory for the first use.
    #[track_caller]
    pub fn close(self) -> Close {
        let domain = self.worker_ref();
        drop(self);
        Close { domain, id: 0, site: Location::caller() }
    }
}

/// Waits until a domain is closed: see [`Domain::close`]. It is a future too, for any executor: a thread of the library
/// then waits; if none can be started, polling blocks as [`wait`](Self::wait) does.
///
/// Dropping it stops waiting, and does not keep the domain open.
///
/// # Panics
///
/// Waiting, polling included, panics in a callback of the same domain, which would wait for itself, and in a stall
/// hook.
#[must_use = "does nothing unless waited for"]
pub struct Close {
    domain: WorkerRef,
    id: CloseWaiterId,
    /// Where it was made.
    site: &'static Location<'static>,
}

impl Close {
    /// Blocks until the domain is closed.
    ///
    /// # Panics
    ///
    /// See the [type](Self#panics).
    #[track_caller]
    pub fn wait(&self) {
        assert_may_close(&self.domain, "Close::wait()");
        wait(&self.domain, || true);
    }

    /// Returns `true` if the domain is closed.
    ///
    /// ```
    /// use stillpoint::srcu::Domain;
    ///
    /// let domain = Domain::new();
    /// let guard = domain.enter_owned();
    /// let close = domain.close();
    /// assert!(!close.is_closed());
    /// drop(guard);
    /// close.wait();
    /// assert!(close.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        // In this order: without handles, nothing is deferred any more.
        self.domain.counts().handles() == 0 && !has_callbacks(&self.domain)
    }
}

#[track_caller]
fn assert_may_close(domain: &Domain, operation: impl fmt::Display + Copy) {
    assert_may_wait(domain, operation);
    assert!(
        !running::is_of(address(domain)),
        "{operation} inside a callback of the same domain would wait for itself"
    );
}

/// How long a waiter sleeps at most. A callback that has no worker may own the last handle, and wakes no waiter; neither
/// does a future that is dropped.
const RECHECK: Duration = Duration::from_millis(100);

/// Blocks until the domain is closed. Reports a long wait for handles as a stall. Returns `false` if `is_wanted` does,
/// which is called from time to time.
fn wait(domain: &Domain, is_wanted: impl Fn() -> bool) -> bool {
    let (core, counts) = (domain.core(), domain.counts());
    let readers = core.engine.readers();
    let mut detector = StallDetector::new(readers.counters(), core.engine.id(), NAME, 0);
    loop {
        let is_unused = counts.handles() == 0;
        // Also while there are handles: callbacks may own them, be lazy, or have no worker. An error means a grace
        // period that was denied its fence; without handles, none needs a fence.
        let has_run = core.callbacks.barrier(domain).is_ok();
        if is_unused && has_run {
            return true;
        }
        if !is_wanted() {
            return false;
        }
        // Callbacks may have deferred others.
        if has_run && has_callbacks(domain) {
            continue;
        }
        if !counts.wait_for_no_handles(Some(detector.next_report_in().min(RECHECK))) {
            detector.report_if_due(detector.waited(), |_| {
                let (handles, sections) = (counts.handles(), readers.count());
                let site = domain.made_at()?;
                (handles != 0).then(|| {
                    let begun_at = readers.begun_at();
                    StalledReaders::Handles { handles, sections, begun_at, site }
                })
            });
        }
    }
}

fn has_callbacks(domain: &Domain) -> bool {
    domain.queues().any(|queue| queue.completed() < queue.tail())
}

impl Future for Close {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert_may_close(&self.domain, Await("a Close", self.site));
        if self.is_closed() {
            return Poll::Ready(());
        }
        let Self { domain, id, .. } = &mut *self;
        let submit = || {
            domain.submit(|domain| {
                let waiters = &domain.shared().close_waiters;
                if wait(domain, || waiters.has_waiters()) {
                    waiters.wake_all();
                }
            })
        };
        if domain.shared().close_waiters.add(id, context.waker(), submit) {
            return Poll::Pending;
        }
        wait(domain, || true);
        Poll::Ready(())
    }
}

impl Drop for Close {
    fn drop(&mut self) {
        if self.id != 0 {
            self.domain.shared().close_waiters.remove(self.id);
        }
    }
}

impl fmt::Debug for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Close").field("domain", &*self.domain).finish_non_exhaustive()
    }
}
