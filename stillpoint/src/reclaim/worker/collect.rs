//! Collecting without the worker: a thread has what all threads have deferred go through a grace period, and runs it.
//!
//! For the domains of `compat/crossbeam-epoch`, whose users expect that: a program flushes a few times and then
//! relies on it that what was deferred has run.
//!
//! Neither step waits for a reader. They wait for other threads that do the same work, above all for the worker, which
//! may have just claimed a queue or begun a grace period: for [`PATIENCE`] at most, as a callback that runs may wait for
//! the caller. After a caller that has waited for nothing, no other waits until a callback has run.

use std::time::Duration;

use crate::reclaim::backlog::Amount;
use crate::reclaim::domain::{CallbackWorker, RawDomain, try_synchronize};
use crate::reclaim::queue::visit::Visit;
use crate::reclaim::queue::{Pending, Queue};
use crate::reclaim::running;
use crate::slots::protected::Protected;
use crate::sync::{Ordering::*, now, spin_loop, step, yield_now};

/// How long a caller waits for other threads: several times what a thread waits for a busy CPU.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often a caller spins before it yields: what the others do takes some microseconds, if they run.
const SPINS: u32 = 100;

/// What is left of a caller's [`PATIENCE`].
struct Patience<'a> {
    worker: &'a CallbackWorker,
    spins: u32,
    /// None before the first pause.
    until: Option<u64>,
    may_wait: bool,
}

impl Patience<'_> {
    /// Lets other threads run. Returns `false` if the caller must not wait any more.
    fn pause(&mut self) -> bool {
        // Relaxed, all: a bound needs no order.
        let run = self.worker.backlog.counters.run.load(Relaxed);
        if !self.may_wait || self.worker.run_at_impatience.load(Relaxed) == run {
            return false;
        }
        let until = *self.until.get_or_insert_with(|| now() + PATIENCE.as_nanos() as u64);
        if now() > until {
            self.may_wait = false;
            self.worker.run_at_impatience.store(run, Relaxed);
            return false;
        }
        if self.spins == 0 {
            yield_now();
        } else {
            self.spins -= 1;
            spin_loop();
        }
        true
    }
}

impl CallbackWorker {
    fn patience(&self) -> Patience<'_> {
        Patience { worker: self, spins: SPINS, until: None, may_wait: !cfg!(loom) && !running::is_any() }
    }

    /// The owner runs some of its ready callbacks, at most `limit`.
    #[cfg(not(loom))]
    pub fn reclaim_up_to(&self, limit: u64, queue: &Queue, domain: &impl RawDomain) {
        if limit != 0 {
            self.run_own(queue, domain, limit);
        }
        if queue.has_freed_much() {
            self.report(queue);
        }
    }

    /// After the push of a block: reports it to the backlog, and wakes the worker if the backlog requires it. Runs
    /// nothing.
    #[cfg(not(loom))]
    pub fn report_pushed(&self, queue: &Queue, domain: &impl RawDomain) {
        self.report(queue);
        if self.backlog.above_low_mark() && self.state.is_sleeping() {
            self.provide(false, domain);
        }
    }

    /// Has all callbacks that were pushed before go through a grace period, unless a reader blocks it. The caller is
    /// outside; `own` is its queue. Returns `true` if there are callbacks.
    #[cold]
    pub fn collect(&self, own: Option<&Queue>, domain: &impl RawDomain) -> bool {
        if self.pending(domain) == Pending::None {
            return false;
        }
        let engine = &domain.core().engine;
        let mut patience = self.patience();
        loop {
            // A grace period that serves only what was deferred before it began, and keeps this thread from leading.
            while Self::another_leads(domain) && patience.pause() {}
            let mut leaves_some = false;
            for (index, queue) in domain.queues().enumerate() {
                if queue.pending() == Pending::None {
                    continue;
                }
                loop {
                    let visit = self.wake_for(queue.expect_grace_period(engine), domain);
                    let is_needed = Self::must_wait_for(visit, index, queue, own, domain);
                    if !(visit.is_claimed && is_needed && patience.pause()) {
                        leaves_some |= visit.leaves_some && is_needed;
                        break;
                    }
                }
            }
            let completed = engine.completed();
            let needed = engine.snapshot();
            let is_served = || engine.is_done(needed);
            if !try_synchronize(domain) {
                // Another thread was faster, and serves this one too, or a reader blocks the grace period.
                while !is_served() && Self::another_leads(domain) && patience.pause() {}
            }
            // Again, if a grace period that had begun kept some from this one, or kept this thread from leading.
            let is_blocked = !is_served() && !Self::another_leads(domain) && engine.completed() == completed;
            let is_done = is_served() && !leaves_some;
            if is_blocked || is_done || !patience.pause() {
                return true;
            }
        }
    }

    /// Runs all callbacks that are ready, of all queues but those that other threads are about to run. `own` is the
    /// caller's queue. Does nothing in a callback: the next one would run inside it, and so on.
    #[cold]
    pub fn run_all_ready(&self, own: Option<&Queue>, domain: &impl RawDomain) {
        if running::is_any() {
            return;
        }
        let mut patience = self.patience();
        for (index, queue) in domain.queues().enumerate() {
            // Not those that are pushed from now on.
            let tail = queue.tail();
            while queue.completed() < tail {
                let count = |amount| self.count([Amount::default(), amount]);
                let run = |callback, protected: &mut Option<Protected>| {
                    self.run_unless_protected(callback, protected, domain);
                };
                let visit = queue.run_ready(&domain.core().engine, run, count);
                let visit = self.wake_for(visit, domain);
                let is_needed = || Self::must_wait_for(visit, index, queue, own, domain);
                let goes_on = visit.has_run || visit.is_claimed && is_needed() && patience.pause();
                if !goes_on {
                    break;
                }
            }
        }
    }

    /// Returns `true` if another thread leads a grace period, and no reader holds it up.
    fn another_leads(domain: &impl RawDomain) -> bool {
        let engine = &domain.core().engine;
        engine.in_progress().is_some() && (cfg!(loom) || !engine.is_held_up())
    }

    /// Returns `true` if the worker has claimed the queue, or no other thread will run what is in it.
    fn must_wait_for(
        visit: Visit,
        index: usize,
        queue: &Queue,
        own: Option<&Queue>,
        domain: &impl RawDomain,
    ) -> bool {
        visit.by_worker || own.is_some_and(|own| core::ptr::eq(own, queue)) || !domain.has_active_owner(index)
    }

    /// Wakes the worker if it sleeps for this claim.
    fn wake_for(&self, visit: Visit, domain: &impl RawDomain) -> Visit {
        if visit.is_wanted {
            step!("visitor-does-not-wake-worker", _ = self.provide(false, domain));
        }
        visit
    }
}
