//! What the worker does, in a thread of the program, for a moment.

use super::state::{CallbackWorker, GoIdle};
use crate::reclaim::domain::{RawDomain, try_lead};
use crate::reclaim::poller;
use crate::reclaim::queue::Pending;
use crate::sync::step;

impl CallbackWorker {
    /// If there is no worker, tries the grace period that callbacks wait for, and runs a slice of ready ones. Returns
    /// `true` if callbacks are left.
    pub fn poll(&self, domain: &dyn RawDomain) -> bool {
        if self.pending(domain) != Pending::None && self.state.resume() {
            self.unpark(domain);
            if self.assign_cookies(domain).cookie.is_some_and(|cookie| !domain.engine().is_done(cookie)) {
                // If the fence is denied, callbacks stay.
                _ = try_lead(domain, None);
            }
            self.run_slice(domain);
            self.backlog.end_gp_wait();
            step!("run-without-notify", self.progress.notify_all());
            let served = self.advance_rounds(domain);
            step!("poll-without-end", while self.stop(domain) == GoIdle::WorkFound {});
            poller::wake(served);
        }
        self.pending(domain) != Pending::None
    }
}
