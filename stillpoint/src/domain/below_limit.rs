//! The future that is ready while the backlog of a domain is below its limits.

use core::future::Future;
use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::reclaim::domain::{Await, RawDomain, assert_may_wait_for_callbacks, must_do_without};
use crate::reclaim::poller::WaiterId;

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
