//! A grace period that one can ask after.

use core::cmp::Ordering;
use core::error::Error;
use core::fmt;
use core::future::{Future, IntoFuture};
use core::hash::{Hash, Hasher};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::time::Duration;

use super::block_on::block_on;
use super::guard::Global;
use crate::Domain;
use crate::domain::raw::{address, reader_outside};
use crate::domain::static_domain::StaticDomain;
use crate::grace_period::cookie::GpCookie;
use crate::reclaim::poller::{PollResult, WaiterId};
use crate::sync::now;

/// A grace period: the one after which every section that was open when this value was made has ended.
///
/// What was unpublished before [`now`](Self::now) has no readers once [`is_elapsed`](Self::is_elapsed) says so. It is a
/// number, to be copied, stored beside what it protects, and compared: of one domain, a smaller one elapses no later. It is not always
/// greater for being taken later, as an attempt at a grace period that came to nothing may have been under way when the other
/// one was taken. Every grace period of the domain counts, whoever waited for it; [`start`](Self::start) makes sure that there
/// is one.
///
/// ```
/// use stillpoint::rcu::{self, GracePeriod, Rcu};
///
/// /// Numbers that readers may still use, until then.
/// let mut leaving: Vec<(GracePeriod, u32)> = Vec::new();
/// let current = Rcu::new(1);
///
/// let old = current.replace(2);
/// leaving.push((GracePeriod::start(), *old));
///
/// // Later, and without waiting:
/// leaving.retain(|(readers, _)| !readers.is_elapsed());
/// // Or with:
/// leaving.drain(..).for_each(|(readers, _)| readers.wait());
/// ```
///
/// # Async
///
/// It is awaited on any executor, and needs none in particular. Grace periods are then driven by a thread of the library,
/// which is started if need be; where none can be started, the task waits as [`wait`](Self::wait) does.
///
/// ```
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// use stillpoint::rcu::{GracePeriod, Rcu};
///
/// async fn change(limit: &Rcu<u32>) {
///     limit.replace(20);
///     GracePeriod::now().await;
///     // From here on nobody goes by the old limit.
/// }
/// # let limit = Rcu::new(10);
/// # let mut change = pin!(change(&limit));
/// # while change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
/// ```
///
/// # Panics
///
/// Waiting in any form, polling too, panics as [`synchronize`](super::synchronize) does: inside a section of the same
/// domain, elapsed or not. A task that holds a guard over an `.await` makes the tasks panic that wait for a grace period on the
/// same thread.
pub struct GracePeriod<D: Domain = Global> {
    due: GpCookie,
    domain: D,
}

impl GracePeriod {
    /// The grace period of the [`Global`] domain that ends all sections which are open now.
    ///
    /// Nothing is started: if nobody waits for a grace period, it does not elapse. Takes one atomic operation.
    pub fn now() -> Self {
        Self::now_in(Global)
    }

    /// [`now`](Self::now), and has it elapse without anybody waiting.
    ///
    /// Does not wait, but may start a thread. If none can be started, it is the same as `now`.
    ///
    /// ```
    /// use stillpoint::rcu::GracePeriod;
    ///
    /// let readers = GracePeriod::start();
    /// while !readers.is_elapsed() {
    ///     std::thread::yield_now();
    /// }
    /// ```
    pub fn start() -> Self {
        Self::start_in(Global)
    }
}

impl<D: Domain> GracePeriod<D> {
    /// [`now`](Self::now) of `domain`.
    pub fn now_in(domain: D) -> Self {
        Self { due: domain.core().engine.snapshot(), domain }
    }

    /// [`start`](Self::start) of `domain`.
    pub fn start_in(domain: D) -> Self {
        let this = Self::now_in(domain);
        this.domain.enlist();
        this.domain.core().poller.start(&this.domain, this.due);
        this
    }

    /// Whether it is over. Once true, it stays so. Takes one load, and may be called anywhere.
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        self.domain.core().engine.is_done(self.due)
    }

    /// Waits until it is over, sharing grace periods with everybody who waits.
    ///
    /// # Panics
    ///
    /// See the [type](Self#panics).
    pub fn wait(&self) {
        let own = reader_outside(&self.domain);
        if !self.is_elapsed() {
            self.domain.core().engine.wait_for(own, self.due);
        }
    }

    /// Waits until it is over, but no longer than `timeout`.
    ///
    /// Grace periods are driven as for a future, by a thread of the library; where none can be started, this takes as long
    /// as [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// When the time is up. The grace period goes on.
    ///
    /// # Panics
    ///
    /// See the [type](Self#panics).
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use stillpoint::rcu::{self, GracePeriod};
    ///
    /// let guard = rcu::enter();
    /// let readers = GracePeriod::now();
    /// thread::scope(|s| {
    ///     s.spawn(|| assert!(readers.wait_timeout(Duration::from_millis(10)).is_err()));
    /// });
    /// drop(guard);
    /// assert!(readers.wait_timeout(Duration::from_secs(10)).is_ok());
    /// ```
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitTimeoutError> {
        // A moment that no clock reaches is never.
        let until = u64::try_from(timeout.as_nanos()).ok().and_then(|timeout| now().checked_add(timeout));
        let mut future = self.clone().into_future();
        let is_ready = |waker: &Waker| Pin::new(&mut future).poll(&mut Context::from_waker(waker)).is_ready();
        if block_on(until, is_ready) { Ok(()) } else { Err(WaitTimeoutError(())) }
    }
}

/// The time was up before the grace period: see [`GracePeriod::wait_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutError(());

impl fmt::Display for WaitTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("timed out waiting for a grace period")
    }
}

impl Error for WaitTimeoutError {}

impl<D: Domain> IntoFuture for GracePeriod<D> {
    type Output = ();
    type IntoFuture = Elapse<D>;

    fn into_future(self) -> Elapse<D> {
        Elapse { period: self, id: 0 }
    }
}

/// The future of a [`GracePeriod`]. It starts to do something when it is polled.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Elapse<D: Domain = Global> {
    period: GracePeriod<D>,
    id: WaiterId,
}

impl<D: Domain> Future for Elapse<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { period, id } = &mut *self;
        let _ = reader_outside(&period.domain);
        if period.is_elapsed() {
            return Poll::Ready(());
        }
        match period.domain.core().poller.poll(&period.domain, period.due, id, context.waker()) {
            PollResult::Elapsed => Poll::Ready(()),
            PollResult::Pending => Poll::Pending,
            PollResult::Failed(why) => panic!("{why}"),
            PollResult::NoThread => {
                period.wait();
                Poll::Ready(())
            }
        }
    }
}

impl<D: Domain> Drop for Elapse<D> {
    fn drop(&mut self) {
        // Of one that has elapsed the poller lets go by itself.
        if self.id != 0 && !self.period.is_elapsed() {
            self.period.domain.core().poller.cancel(self.period.due, self.id);
        }
    }
}

// By hand, as derived ones would ask the same of the domain.

impl<D: Domain> Clone for GracePeriod<D> {
    fn clone(&self) -> Self {
        Self { due: self.due, domain: self.domain.clone() }
    }
}

impl<D: Domain + Copy> Copy for GracePeriod<D> {}

/// Cookies of two domains are not equal. (They can only be compared where both domains are an [`srcu::Domain`](crate::srcu::Domain).)
impl<D: Domain> PartialEq for GracePeriod<D> {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due && address(&self.domain) == address(&other.domain)
    }
}

impl<D: Domain> Eq for GracePeriod<D> {}

/// Cookies of two domains are not ordered.
impl<D: Domain> PartialOrd for GracePeriod<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (address(&self.domain) == address(&other.domain)).then(|| self.due.cmp(&other.due))
    }
}

/// For domains that are types: all cookies of one type are of one domain.
impl<D: StaticDomain> Ord for GracePeriod<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl<D: Domain> Hash for GracePeriod<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.due.hash(state);
        address(&self.domain).hash(state);
    }
}

impl<D: Domain> fmt::Debug for GracePeriod<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GracePeriod").field(&self.due).finish()
    }
}
