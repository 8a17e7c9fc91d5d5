//! Barriers, and the futures of a domain: of a barrier, and of the limits.

use core::future::Future;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::reclaim::domain::{Await, RawDomain, assert_may_wait_for_callbacks, must_do_without};
use crate::reclaim::poller::{PollResult, WaiterId, passes};

/// See [`Domain::barrier`](crate::Domain::barrier).
#[track_caller]
pub fn barrier(domain: &dyn RawDomain) {
    assert_may_wait_for_callbacks(domain, "barrier()");
    domain.register_for_fork();
    if (0..passes(domain.hazards())).any(|_| domain.work().callbacks.barrier(domain).is_err()) {
        panic!("barrier() would wait for ever: the kernel denies the heavy fence, which worked before");
    }
}

/// The future of [`Domain::barrier_async`](crate::Domain::barrier_async).
pub struct Barrier<D: RawDomain> {
    domain: D,
    id: WaiterId,
    /// Where it was made.
    site: &'static Location<'static>,
    has_run: bool,
}

impl<D: RawDomain> Barrier<D> {
    pub fn new(domain: D, site: &'static Location<'static>) -> Self {
        Self { domain, id: 0, site, has_run: false }
    }
}

impl<D: RawDomain + Unpin> Future for Barrier<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { domain, id, site, has_run } = &mut *self;
        assert_may_wait_for_callbacks(domain, Await("a barrier", site));
        if !*has_run {
            domain.register_for_fork();
            match domain.work().callbacks.poll_barrier(id, context.waker(), domain) {
                PollResult::Pending => {
                    _ = must_do_without();
                    return Poll::Pending;
                }
                PollResult::Ended => {}
                PollResult::Dismissed => barrier(domain),
            }
            *has_run = true;
        }
        Poll::Ready(())
    }
}

impl<D: RawDomain> Drop for Barrier<D> {
    fn drop(&mut self) {
        if self.id != 0 {
            self.domain.work().callbacks.rounds.remove(self.id);
        }
    }
}

/// The future of [`Domain::below_limit`](crate::Domain::below_limit).
pub struct BelowLimit<D: RawDomain> {
    domain: D,
    id: WaiterId,
    /// The worker's failures at its first poll above the limit.
    failures: Option<u64>,
    /// Where it was made.
    site: &'static Location<'static>,
}

impl<D: RawDomain> BelowLimit<D> {
    pub fn new(domain: D, site: &'static Location<'static>) -> Self {
        Self { domain, id: 0, failures: None, site }
    }
}

impl<D: RawDomain + Unpin> Future for BelowLimit<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { domain, id, failures, site } = &mut *self;
        assert_may_wait_for_callbacks(domain, Await("the limit", site));
        domain.register_for_fork();
        if domain.work().callbacks.poll_limited(id, failures, context.waker(), domain) {
            return Poll::Ready(());
        }
        _ = must_do_without();
        Poll::Pending
    }
}

impl<D: RawDomain> Drop for BelowLimit<D> {
    fn drop(&mut self) {
        self.domain.seen_work().callbacks.leave_limited(&mut self.id);
    }
}
