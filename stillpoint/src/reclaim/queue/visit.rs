//! What any thread may do with a queue: neither the owner nor the worker as such, a *visitor* that collects what all
//! threads have deferred ([`CallbackWorker::run_all_ready`](super::super::worker::CallbackWorker::run_all_ready)).
//!
//! A visitor is a consumer as others are: it claims the front, and proceeds to the next queue if another thread has claimed it.

use super::{BATCH, BY_WORKER, CLAIMED, Claim, Consumer, Queue, WANTED};
use crate::grace_period::engine::Engine;
use crate::reclaim::backlog::Amount;
use crate::reclaim::blocks::Block;
use crate::reclaim::callback::Callback;
use crate::slots::protected::Protected;
use crate::sync::{Ordering::*, now};

/// What a visitor has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Visit {
    /// Another thread is the consumer. Nothing has been done.
    pub is_claimed: bool,
    /// That thread is the worker.
    pub by_worker: bool,
    /// The caller must wake the worker, which has found the queue claimed.
    pub is_wanted: bool,
    /// A callback has run.
    pub has_run: bool,
    /// Callbacks are left without a cookie.
    pub leaves_some: bool,
}

impl Queue {
    /// Claims the front for the time of `f`.
    fn visit(&self, f: impl FnOnce(&Claim<'_>) -> Visit) -> Visit {
        match self.try_claim(CLAIMED) {
            Ok(claim) => {
                let visit = f(&claim);
                Visit { is_wanted: claim.release() == WANTED, ..visit }
            }
            Err(by) => {
                Visit { is_claimed: true, by_worker: by == BY_WORKER, leaves_some: true, ..Visit::default() }
            }
        }
    }

    /// Assigns a cookie to all callbacks, unless some wait for an earlier grace period than the others can have.
    pub fn expect_grace_period<R>(&self, engine: &Engine<R>) -> Visit {
        self.visit(|claim| {
            let leaves_some = !claim.with(|consumer| consumer.accelerate_all(self, engine));
            Visit { leaves_some, ..Visit::default() }
        })
    }

    /// Runs a batch of callbacks that are ready by `run`, also those that the worker is to run. Then calls `count` with
    /// how much that was.
    pub fn run_ready<R>(
        &self,
        engine: &Engine<R>,
        run: impl Fn(Callback, &mut Option<Protected>),
        count: impl FnOnce(Amount),
    ) -> Visit {
        self.visit(|claim| {
            claim.with(|consumer| consumer.advance(self, engine));
            let has_run = claim.run(engine.id(), BATCH, |_| false, Block::free, run, count);
            Visit { has_run, ..Visit::default() }
        })
    }
}

impl Consumer {
    /// [`accelerate`](Self::accelerate), also of callbacks behind some that wait, if all can have one grace period.
    /// Otherwise returns `false`.
    fn accelerate_all<R>(&mut self, queue: &Queue, engine: &Engine<R>) -> bool {
        self.advance(queue, engine);
        let front = &queue.front;
        let tail = queue.tail();
        // Relaxed: only the consumer writes it.
        if tail == front.waiting_end.load(Relaxed) {
            return true;
        }
        // Taken after the callbacks were seen (2).
        let next = engine.snapshot();
        match self.cookie {
            // The grace period in progress will serve those that wait, but not the others.
            Some(cookie) if cookie < next => return false,
            Some(_) => {}
            None => front.waiting_since.store(now(), Relaxed),
        }
        front.waiting_end.store(tail, Relaxed);
        self.cookie = Some(next);
        true
    }
}
