//! Workers of a domain that gets no threads, and callers that are throttled there.

use core::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::backlog::Limits;
use super::domain::RawDomain;
use super::queue::Queue;
use super::worker::state::CallbackWorker;
use crate::grace_period::engine::{Denied, GpCookie};
use crate::readers::any::AnyEngine;
use crate::readers::sections::reader::Reader;
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::backlog::{MayWait, THROTTLE_TIMEOUT};
use crate::reclaim::callback::Callback;
use crate::reclaim::domain::{Core, Work};
use crate::reclaim::pool::state::Submitted;
use crate::reclaim::queue::front::BLOCK;
use support::deadline::deadline;
use support::until::until;

struct Domain<F> {
    core: Core<SrcuReaders>,
    queue: Queue,
    /// Times at which the domain is to be resumed.
    parked: Mutex<Vec<u64>>,
    /// So many of the next tasks are taken at once.
    taken: AtomicU64,
    /// There is a thread that resumes parked domains.
    parks: bool,
    /// Grace periods fail.
    is_denied: bool,
    /// Called instead of starting a worker. Returns `true` if another thread will be the worker.
    start: F,
}

impl<F: Fn() -> bool> Domain<F> {
    fn new(start: F) -> Self {
        let core = Core::new(SrcuReaders::new(Location::caller()), || "test");
        let (parked, taken) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        let queue = Queue::new();
        Self { core, queue, parked, taken, parks: true, is_denied: false, start }
    }

    fn worker(&self) -> &CallbackWorker {
        &self.core.work.callbacks
    }

    fn parked(&self) -> MutexGuard<'_, Vec<u64>> {
        self.parked.lock().expect("no thread panics")
    }
}

impl<F: Fn() -> bool> RawDomain for Domain<F> {
    fn engine(&self) -> &AnyEngine {
        &self.core.engine
    }

    fn work(&self) -> &Work {
        &self.core.work
    }

    fn queue_count(&self) -> usize {
        1
    }

    fn queue(&self, _index: usize) -> &Queue {
        &self.queue
    }

    fn current_reader(&self) -> Option<&'static Reader> {
        None
    }

    fn in_read_section(&self) -> bool {
        false
    }

    fn register_for_fork(&self) {}

    fn defer(&self, _callback: Callback) {
        unreachable!("the tests push themselves");
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        if self.is_denied {
            return Err(Denied);
        }
        self.core.engine.wait_for(None, cookie);
        Ok(())
    }

    fn submit(&self, _task: fn(&dyn RawDomain)) -> Submitted {
        if (self.start)() { Submitted::Started } else { Submitted::Failed }
    }

    fn is_resumed(&self) -> bool {
        false
    }

    fn park(&self, due: u64, _task: fn(&dyn RawDomain)) -> bool {
        if self.parks && self.taken.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
            self.parked().push(due);
        }
        self.parks
    }

    fn unpark(&self, due: u64) {
        self.parked().retain(|parked| *parked != due);
    }

    fn is_parked(&self, due: u64) -> bool {
        self.parked().contains(&due)
    }
}

#[test]
fn later_pushes_do_not_postpone_the_task_of_a_parked_domain() {
    let domain = Domain::new(|| false);
    let worker = domain.worker();
    worker.notify(&domain);
    let [due] = domain.parked()[..] else { panic!("the domain is parked") };
    for _ in 0..100 {
        worker.notify(&domain);
        assert_eq!(*domain.parked(), [due]);
    }
}

#[test]
fn domain_whose_tasks_are_taken_before_it_is_parked_gets_another() {
    let domain = Domain::new(|| false);
    domain.taken.store(5, Relaxed);
    domain.worker().notify(&domain);
    assert_eq!(domain.parked().len(), 1);
}

#[test]
fn callbacks_left_without_a_worker_run_in_the_caller_unless_the_fence_is_denied() {
    let _running = deadline();
    for is_denied in [false, true] {
        let domain = Domain { is_denied, ..Domain::new(|| false) };
        for _ in 0..2 {
            // SAFETY: no other thread pushes.
            let _ = unsafe { domain.queue.push(Callback::call(|| (), None)) };
        }
        domain.worker().run_left(&domain);
        assert_eq!(domain.queue.completed(), if is_denied { 0 } else { 2 });
        assert!(domain.worker().state.has_no_worker());
    }
}

/// Returns a worker above its limit, with callbacks in the queue of the domain.
fn above_the_limit<F: Fn() -> bool>(domain: &Domain<F>) -> &CallbackWorker {
    let worker = domain.worker();
    worker.set_limits(Limits { count: 1, bytes: u64::MAX, ..Limits::default() });
    for _ in 0..4 {
        // SAFETY: no other thread pushes.
        let _ = unsafe { domain.queue.push(Callback::call(|| (), None)) };
    }
    worker.report(&domain.queue);
    worker
}

/// Throttles the caller. Returns `true` if it returned before its time was up.
fn throttle<F: Fn() -> bool>(worker: &CallbackWorker, domain: &Domain<F>) -> bool {
    assert!(worker.throttle_above_limit(None, domain));
    // After one whose time was up, callers are paced.
    worker.backlog.begin_wait(MayWait::Yes) == THROTTLE_TIMEOUT
}

#[test]
fn throttled_caller_does_not_wait_if_no_worker_can_be_had() {
    let _running = deadline();
    let domain = Domain { parks: false, ..Domain::new(|| false) };
    assert!(throttle(above_the_limit(&domain), &domain));
}

#[test]
fn failed_grace_period_lets_a_throttled_caller_go() {
    let attempt = || {
        let (is_started, has_returned) = (AtomicBool::new(false), AtomicBool::new(false));
        let start = || {
            is_started.store(true, Release);
            true
        };
        let domain = Domain { is_denied: true, ..Domain::new(start) };
        let worker = above_the_limit(&domain);
        thread::scope(|s| {
            let throttled = s.spawn(|| {
                let is_in_time = throttle(worker, &domain);
                has_returned.store(true, Release);
                is_in_time
            });
            until(|| is_started.load(Acquire));
            worker.work(&domain, &|| has_returned.load(Acquire));
            throttled.join().expect("no panic")
        })
    };
    let _running = deadline();
    // This thread may lose its CPU for longer than the caller waits.
    until(attempt);
}

/// A unit test, as callers of these are throttled for a short time only.
#[test]
fn throttled_caller_holding_a_callbacks_lock_times_out() {
    use crate::Domain as _;
    crate::domain! { struct Own; }
    static LOCK: Mutex<u64> = Mutex::new(0);
    const LIMIT: u64 = 2 * BLOCK;
    let _running = deadline();
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let mut deferred = 0;
    let mut defer = || {
        deferred += 1;
        Own.call(|| *LOCK.lock().unwrap_or_else(PoisonError::into_inner) += 1);
    };
    for _ in 0..3 {
        let before = Own.stats().limit_overruns;
        let held = LOCK.lock().expect("no panic");
        let start = Instant::now();
        while Own.stats().limit_overruns == before {
            defer();
        }
        assert!(start.elapsed() >= THROTTLE_TIMEOUT);
        // From now on callers are throttled for a moment only.
        let times: Vec<_> = (0..50)
            .map(|_| {
                let start = Instant::now();
                (0..BLOCK).for_each(|_| defer());
                start.elapsed()
            })
            .collect();
        // Not each, as a thread may also wait for a CPU.
        assert!(times.iter().any(|time| *time < THROTTLE_TIMEOUT), "{times:?}");
        assert!(Own.stats().limit_overruns >= before + 50);
        drop(held);
        // After progress they are throttled for longer again.
        Own.barrier();
        loop {
            let before = Own.stats();
            defer();
            let after = Own.stats();
            if after.limit_waits != before.limit_waits && after.limit_overruns == before.limit_overruns {
                break;
            }
        }
        Own.barrier();
    }
    assert_eq!(*LOCK.lock().expect("no panic"), deferred);
}
