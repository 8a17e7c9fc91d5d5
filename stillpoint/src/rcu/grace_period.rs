//! Grace periods as values.

use core::cmp::Ordering;
use core::fmt;
use core::future::{Future, IntoFuture};
use core::hash::{Hash, Hasher};
use core::mem;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::time::Duration;

use super::guard::Global;
use crate::Domain;
use crate::domain::static_domain::StaticDomain;
use crate::grace_period::engine::GpCookie;
use crate::reclaim::callback::is_any_running;
use crate::reclaim::domain::{
    Await, address, assert_may_wait, must_do_without, reader_outside, submit_poller, try_synchronize,
    try_until,
};
use crate::reclaim::poller::{PollResult, WaiterId};
use crate::reclaim::pool;
use crate::sync::block_on::block_on;
use crate::sync::{after, now};

/// Nanoseconds between two polls of a thread in [`GracePeriod::wait_timeout`].
const POLL_INTERVAL: u64 = 1_000_000_000;

/// A cookie: the grace period that ends after every section that was open when the cookie was taken.
///
/// What was unpublished before [`now`](Self::now) has no readers once [`is_elapsed`](Self::is_elapsed) returns
/// `true`. Any grace period of the domain that begins later counts, whichever caller waits for it;
/// [`start`](Self::start) makes sure that there is one.
///
/// A cookie is the number of a grace period, to be stored beside what it protects. Of two cookies of a domain, the
/// smaller one elapses no later. A cookie that is taken while a grace period is in progress is that of the next one.
///
/// An attempt at a grace period may fail ([`try_synchronize`](Domain::try_synchronize), which the library's threads
/// call too). The next attempt then has the same number. So a cookie that was taken during the one that failed stands
/// for the second grace period from then on, although one would do: it may not have elapsed after a
/// [`synchronize`](Domain::synchronize), and a cookie that is taken after the failure may be smaller.
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
/// // Later, without blocking:
/// leaving.retain(|(readers, _)| !readers.is_elapsed());
/// // Or blocking:
/// leaving.drain(..).for_each(|(readers, _)| readers.wait());
/// ```
///
/// # Async
///
/// A cookie can be awaited on any executor. A thread of the library then waits for the grace periods. If the library
/// has none, and none can be started, polling blocks as [`wait`](Self::wait) does. If it has some, but one could not
/// be started that may be needed, each poll tries a grace period, without blocking.
///
/// ```
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// use stillpoint::rcu::{GracePeriod, Rcu};
///
/// async fn change(limit: &Rcu<u32>) {
///     limit.replace(20);
///     GracePeriod::now().await;
///     // From here on no reader uses the old limit.
/// }
/// # let limit = Rcu::new(10);
/// # let mut change = pin!(change(&limit));
/// # while change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
/// ```
///
/// A waker that blocks delays the futures of the same grace period, and no others.
///
/// # Panics
///
/// Waiting in any form, polling included, panics inside a section of the same domain, as
/// [`synchronize`](super::synchronize) does, even if the grace period has elapsed. A task that holds a guard over an
/// `.await` makes other tasks panic that wait on the same thread.
#[doc(alias("cookie", "start_poll_synchronize_rcu"))]
pub struct GracePeriod<D: Domain = Global> {
    pub(super) cookie: GpCookie,
    pub(super) domain: D,
}

impl GracePeriod {
    /// Takes a cookie of the [`Global`] domain: for all sections that are open now.
    ///
    /// Starts nothing: the grace period elapses only if some thread waits for one. Takes one atomic operation.
    pub fn now() -> Self {
        Self::now_in(Global)
    }

    /// [`now`](Self::now), and starts a grace period that elapses without a waiter.
    ///
    /// Does not block, but may start a thread. If none can be started, this is the same as `now`.
    pub fn start() -> Self {
        Self::start_in(Global)
    }
}

impl<D: Domain> GracePeriod<D> {
    /// [`now`](Self::now) in `domain`.
    pub fn now_in(domain: D) -> Self {
        Self { cookie: domain.engine().snapshot(), domain }
    }

    /// [`start`](Self::start) in `domain`.
    pub fn start_in(domain: D) -> Self {
        let this = Self::now_in(domain);
        this.domain.register_for_fork();
        this.domain.work().poller.start(this.cookie, || submit_poller(&this.domain));
        this
    }

    /// Returns `true` once the grace period has ended. Takes one load, and may be called anywhere.
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        self.domain.is_done(self.cookie)
    }

    /// Blocks until the grace period has ended. Shares grace periods with all other waiters.
    ///
    /// # Panics
    ///
    /// See the [type](Self#panics).
    #[track_caller]
    pub fn wait(&self) {
        let own = reader_outside(&self.domain, "GracePeriod::wait()");
        if !self.is_elapsed() {
            self.domain.engine().wait_for(own, self.cookie);
        }
    }

    /// Blocks until the grace period has ended, for at most `timeout`. Returns `true` if it has ended.
    ///
    /// A thread of the library waits for the grace period, as for a future. If the library has none, and none can be
    /// started, this may exceed `timeout` and block as long as [`wait`](Self::wait). After
    /// [`start_no_threads`](super::start_no_threads) it tries the grace period each millisecond instead.
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
    ///     s.spawn(|| assert!(!readers.wait_timeout(Duration::from_millis(10))));
    /// });
    /// drop(guard);
    /// assert!(readers.wait_timeout(Duration::from_secs(10)));
    /// ```
    #[must_use = "the grace period may not have ended"]
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        assert_may_wait(&self.domain, "GracePeriod::wait_timeout()");
        let until = after(timeout);
        if pool::starts_none() {
            self.domain.register_for_fork();
            return try_until(&self.domain, self.cookie, until);
        }
        let mut future = self.clone().into_future();
        let mut is_ready =
            |waker: &Waker| Pin::new(&mut future).poll(&mut Context::from_waker(waker)).is_ready();
        // `block_on` is to return after the first poll, which may fail to start a thread: then polls are repeated.
        let mut next_poll = Some(now());
        loop {
            if block_on(until.into_iter().chain(next_poll).min(), &mut is_ready) {
                return true;
            }
            if until.is_some_and(|until| now() >= until) {
                return self.is_elapsed();
            }
            // Each poll tries to start a thread again, which perhaps no other thread does. All threads may come to wait
            // for a callback that waits here.
            next_poll = (pool::may_want_timer() || is_any_running()).then(|| now() + POLL_INTERVAL);
        }
    }

    /// What comparisons and hashes go by.
    fn key(&self) -> (*const (), GpCookie) {
        (address(&self.domain), self.cookie)
    }
}

impl<D: Domain> IntoFuture for GracePeriod<D> {
    type Output = ();
    type IntoFuture = Elapse<D>;

    #[track_caller]
    fn into_future(self) -> Elapse<D> {
        Elapse { period: self, id: 0, site: Location::caller() }
    }
}

/// The future of a [`GracePeriod`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Elapse<D: Domain = Global> {
    pub(super) period: GracePeriod<D>,
    id: WaiterId,
    /// Where the program awaits it, or called the function that made it.
    pub(super) site: &'static Location<'static>,
}

impl<D: Domain> Elapse<D> {
    /// Polls on behalf of the `.await` of `what`.
    pub(super) fn poll_for(&mut self, what: &'static str, context: &mut Context<'_>) -> Poll<()> {
        let Self { period, id, site } = self;
        let own = reader_outside(&period.domain, Await(what, site));
        if period.is_elapsed() {
            return Poll::Ready(());
        }
        let (engine, poller) = (period.domain.engine(), &period.domain.work().poller);
        let submit = || submit_poller(&period.domain);
        match poller.poll(engine, period.cookie, id, context.waker(), submit) {
            PollResult::Ended => Poll::Ready(()),
            PollResult::Pending => {
                // No thread may be there that will wait on behalf of this future: then this one tries.
                if !must_do_without() {
                    return Poll::Pending;
                }
                _ = try_synchronize(&period.domain);
                if !period.is_elapsed() {
                    return Poll::Pending;
                }
                // No poller may come soon, which would remove the waiter.
                poller.cancel(period.cookie, mem::take(id));
                Poll::Ready(())
            }
            // There is no poller, or its grace period has failed: as `wait`, which panics if a fence is denied.
            PollResult::Dismissed => {
                engine.wait_for(own, period.cookie);
                Poll::Ready(())
            }
        }
    }
}

impl<D: Domain> Future for Elapse<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_for("a GracePeriod", context)
    }
}

impl<D: Domain> Drop for Elapse<D> {
    fn drop(&mut self) {
        // The poller itself removes the waiters of a grace period that has elapsed. If it has removed this one
        // already, `cancel` does nothing.
        if self.id != 0 && !self.period.is_elapsed() {
            self.period.domain.work().poller.cancel(self.period.cookie, self.id);
        }
    }
}

// Not derived: derived impls would ask the same of the domain.

impl<D: Domain> Clone for GracePeriod<D> {
    fn clone(&self) -> Self {
        Self { cookie: self.cookie, domain: self.domain.clone() }
    }
}

impl<D: Domain + Copy> Copy for GracePeriod<D> {}

/// Cookies of two domains are not equal. (Only those of [`srcu::Domain`](crate::srcu::Domain)s can be compared.)
impl<D: Domain> PartialEq for GracePeriod<D> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<D: Domain> Eq for GracePeriod<D> {}

/// Cookies of two domains are not ordered.
impl<D: Domain> PartialOrd for GracePeriod<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (address(&self.domain) == address(&other.domain)).then(|| self.cookie.cmp(&other.cookie))
    }
}

/// For domains that are types: all cookies of one type are of one domain.
impl<D: StaticDomain> Ord for GracePeriod<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cookie.cmp(&other.cookie)
    }
}

impl<D: Domain> Hash for GracePeriod<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl<D: Domain> fmt::Debug for GracePeriod<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GracePeriod").field(&self.cookie).finish()
    }
}
