//! Models of deferred callbacks: owners that push and reclaim, the worker, and callers that wait for it. All of it is
//! the library's code; the model starts its threads. No time passes in a model, so a thread that sleeps must be
//! woken.

mod barriers;
mod limited;

use std::cell::Cell;
use std::ptr::null;
use std::time::Duration;

use crate::own::{Count, Own, State};
use stillpoint::grace_period::engine::{Denied, GpCookie};
use stillpoint::readers::any::AnyEngine;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::Reader;
use stillpoint::reclaim::backlog::Limits;
use stillpoint::reclaim::callback::Callback;
use stillpoint::reclaim::domain::{RawDomain, Work};
use stillpoint::reclaim::hazards::Hazards;
use stillpoint::reclaim::pool::state::Submitted;
use stillpoint::reclaim::queue::{PushAction, Queue};
use stillpoint::reclaim::worker::state::CallbackWorker;
use stillpoint::slots::record::Records;
use stillpoint::sync::event_count::EventCount;
use stillpoint::sync::model::set_now;

/// Two owners at most; each has a count of its callbacks that have run.
pub struct Shared {
    pub state: State,
    hazards: Option<Hazards>,
    counts: [&'static Count; 2],
    pub workers: Mutex<Vec<thread::JoinHandle<()>>>,
    /// How many workers cannot be started; or [`ABSENT`].
    refused: AtomicU64,
    /// Whether the worker's grace periods fail.
    denied: AtomicU64,
    /// The domain can be parked.
    parks: bool,
    /// Workers are refused as others are busy.
    is_resumed: bool,
    /// The task of the parked domain, if it is parked.
    pub parked: Mutex<Option<u64>>,
    /// So often, a thread resumes the domain some time after it is asked to.
    is_timed: AtomicU64,
}

/// Workers are started and do nothing.
const ABSENT: u64 = u64::MAX;

loom::thread_local! {
    /// The reader of a thread that flushes.
    static OWN: Cell<Option<&'static Reader>> = Cell::new(None);
}

#[derive(Clone)]
pub struct Domain(pub Arc<Shared>);

impl RawDomain for Domain {
    fn engine(&self) -> &AnyEngine {
        &self.0.state.core.engine
    }

    fn work(&self) -> &Work {
        &self.0.state.core.work
    }

    fn queue_count(&self) -> usize {
        self.0.state.core.engine.readers().registry().len()
    }

    fn queue(&self, index: usize) -> &Queue {
        self.0.state.core.engine.readers().registry().attached(index)
    }

    fn hazards(&self) -> Option<&Hazards> {
        self.0.hazards.as_ref()
    }

    fn current_reader(&self) -> Option<&'static Reader> {
        OWN.with(Cell::get)
    }

    fn in_read_section(&self) -> bool {
        self.current_reader().is_some_and(Reader::in_read_section)
    }

    fn register_for_fork(&self) {}

    fn defer(&self, _callback: Callback) {
        unreachable!("the models push themselves");
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        if self.0.denied.load(Relaxed) != 0 {
            // The worker tries again as long as a caller is urgent, and that caller must be notified some time.
            thread::yield_now();
            return Err(Denied);
        }
        self.0.state.core.engine.wait_for(None, cookie);
        Ok(())
    }

    fn submit(&self, task: fn(&dyn RawDomain)) -> Submitted {
        if self.0.refused.load(Relaxed) == ABSENT {
            return Submitted::Started;
        }
        if self.0.refused.load(Relaxed) != 0 {
            self.0.refused.fetch_sub(1, Relaxed);
            // Other threads may run here.
            thread::yield_now();
            return if self.0.is_resumed { Submitted::Full } else { Submitted::Failed };
        }
        let domain = self.clone();
        let worker = thread::spawn(move || task(&domain));
        self.0.workers.lock().unwrap().push(worker);
        // In the first execution that loom tries the worker goes ahead, and sleeps. Where it could find no hazard
        // pointer yet, the caller goes ahead.
        if self.0.hazards.is_none() {
            thread::yield_now();
        }
        Submitted::Started
    }

    fn is_resumed(&self) -> bool {
        self.0.is_resumed
    }

    fn park(&self, due: u64, _task: fn(&dyn RawDomain)) -> bool {
        if !self.0.parks {
            return false;
        }
        *self.0.parked.lock().unwrap() = Some(due);
        if self.0.is_timed.load(Relaxed) != 0 {
            self.0.is_timed.fetch_sub(1, Relaxed);
            let domain = self.clone();
            let timer = thread::spawn(move || domain.time_is_up());
            self.0.workers.lock().unwrap().push(timer);
        }
        true
    }

    fn unpark(&self, due: u64) {
        self.0.parked.lock().unwrap().take_if(|parked| *parked == due);
    }

    fn is_parked(&self, due: u64) -> bool {
        *self.0.parked.lock().unwrap() == Some(due)
    }
}

/// A kind of callback.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Free,
}
use Kind::*;
use support::model::*;

impl Domain {
    fn new() -> Self {
        Self::of(ReaderProtocol::Sections, None, false, false)
    }

    fn of(protocol: ReaderProtocol, hazards: Option<Hazards>, parks: bool, is_resumed: bool) -> Self {
        Self(Arc::new(Shared {
            state: State::new(protocol),
            hazards,
            counts: [Count::new(), Count::new()],
            workers: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            parks,
            is_resumed,
            parked: Mutex::new(None),
            is_timed: AtomicU64::new(0),
        }))
    }

    /// A domain that can be parked, and for which the first worker cannot be started.
    fn that_parks() -> Self {
        let domain = Self::of(ReaderProtocol::Sections, None, true, false);
        domain.0.refused.store(1, Relaxed);
        domain
    }

    /// A domain that gets no worker until it is resumed, some time after it is parked.
    fn that_waits_its_turn() -> Self {
        let domain = Self::of(ReaderProtocol::Sections, None, true, true);
        domain.0.refused.store(100, Relaxed);
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        domain
    }

    /// A domain with hazard pointers, whose slots are these. It can be parked.
    pub fn with_hazards(records: &'static Records) -> Self {
        Self::of(ReaderProtocol::Hazards, Some(Hazards::new(records)), true, false)
    }

    /// The timer takes the task of the parked domain.
    fn time_is_up(&self) {
        let task = self.0.parked.lock().unwrap().take();
        if task.is_some() {
            self.callbacks().resume(self);
        }
    }

    /// A domain for which so many workers cannot be started.
    fn that_refuses(workers: u64) -> Self {
        let domain = Self::new();
        domain.0.refused.store(workers, Relaxed);
        domain
    }

    fn with_limit(count: u64) -> Self {
        let domain = Self::new();
        domain.callbacks().set_limits(Limits { count, ..Limits::default() });
        domain
    }

    pub fn register(&self) -> Own {
        self.0.state.register()
    }

    /// Defers to the owner's queue, as `rcu::call` and `rcu::retire` do.
    fn defer(&self, own: Own, kind: Kind) {
        self.defer_free(own, kind, null());
    }

    fn defer_free(&self, own: Own, kind: Kind, value: *const Value) {
        let action = self.push(own, kind, value);
        self.callbacks().notify(self);
        match action {
            PushAction::None => {}
            PushAction::ReclaimSome => self.reclaim_some(own),
            PushAction::Flush => self.flush(own),
        }
    }

    fn push(&self, own: Own, kind: Kind, value: *const Value) -> PushAction {
        let count = self.0.counts[own.index.load(Relaxed) as usize];
        own.push(count, kind == Free, value)
    }

    pub fn reclaim_some(&self, own: Own) {
        self.callbacks().reclaim_some(own.queue, self);
    }

    fn flush(&self, own: Own) {
        OWN.with(|cell| cell.set(Some(own.reader)));
        self.callbacks().flush(own.queue, self);
    }

    /// Replaces the published value and frees the old one after a grace period.
    fn replace(&self, own: Own) {
        let old = self.0.state.published.swap(boxed(8));
        self.defer_free(own, Call, old);
    }

    /// How many callbacks of the queue have run; the caller must have waited for them.
    fn count(&self, queue: usize) -> u64 {
        self.0.counts[queue].get()
    }

    fn callbacks(&self) -> &CallbackWorker {
        &self.0.state.core.work.callbacks
    }

    /// Returns when all workers have ended.
    pub fn join(&self) {
        loop {
            let Some(worker) = self.0.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
    }

    /// Runs `own` beside `other`, which heavy fences interrupt.
    fn race(&self, own: impl FnOnce(&Self), other: impl FnOnce(&Self) + 'static) {
        let theirs = self.clone();
        let other = thread::spawn(move || interruptible(1, || other(&theirs)));
        own(self);
        other.join().unwrap();
    }

    /// Runs `own`, which heavy fences interrupt, and then waits until all workers have ended.
    pub fn run(&self, own: impl FnOnce(&Self)) {
        interruptible(0, || own(self));
        self.join();
    }

    /// [`race`](Self::race) where heavy fences interrupt both. Then waits until all workers have ended.
    pub fn race_owners(&self, own: impl FnOnce(&Self), other: impl FnOnce(&Self) + 'static) {
        self.race(|domain| interruptible(0, || own(domain)), other);
        self.join();
    }
}

#[test]
fn reader_never_sees_a_value_freed_by_the_worker() {
    check(0, 1, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        domain.race_owners(move |domain| domain.replace(own), move |domain| domain.0.state.read(reader));
        assert_eq!(domain.count(0), 1);
    });
}

/// Two owners defer a callback each. Returns the domain when all workers have ended.
fn two_owners(domain: Domain, kinds: [Kind; 2]) -> Domain {
    let own = kinds.map(|kind| (domain.register(), kind));
    let defer = |(own, kind)| move |domain: &Domain| domain.defer(own, kind);
    domain.race_owners(defer(own[0]), defer(own[1]));
    domain
}

#[test]
fn callbacks_of_two_owners_all_run() {
    check(0, 1, || {
        let domain = two_owners(Domain::new(), [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1]);
    });
}

/// An owner whose queue has two callbacks that it may run, and that are not reported. Their grace period is over.
fn two_free(domain: &Domain) -> Own {
    let own = domain.register();
    for _ in 0..2 {
        let _ = domain.push(own, Free, null());
    }
    // Assigns a cookie to the callbacks; their grace period ends at once.
    domain.flush(own);
    own
}

#[test]
fn owner_and_worker_exclude_each_other() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        domain.run(|domain| {
            domain.defer(own, Call);
            domain.flush(own);
        });
        assert_eq!(domain.count(0), 3);
    });
}

/// Refutes: parked-after-time
#[test]
fn domain_parked_for_want_of_a_thread_is_resumed() {
    check(0, 1, move || {
        let domain = Domain::that_parks();
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        let own = domain.register();
        domain.run(|domain| domain.defer(own, Call));
        assert_eq!(domain.count(0), 1, "a callback was forgotten");
    });
}

/// Nothing but time ends it.
/// Refutes: parked-domain-not-resumed
#[test]
fn callbacks_of_a_domain_that_waits_its_turn_run_when_it_is_resumed() {
    check(0, 1, || {
        let domain = two_owners(Domain::that_waits_its_turn(), [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1], "a callback was forgotten");
    });
}

/// Refutes: parked-domain-counts-as-worker
#[test]
fn barrier_leaves_a_domain_that_waits_its_turn_to_be_resumed() {
    check(0, 1, || {
        let domain = Domain::that_waits_its_turn();
        domain.0.is_timed.store(0, Relaxed);
        let own = domain.register();
        let resume = move |domain: &Domain| {
            while own.queue.completed() == 0 {
                domain.time_is_up();
                thread::yield_now();
            }
        };
        domain.race(resume, move |domain| {
            domain.defer(own, Call);
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        });
    });
}

/// Refutes: parked-domain-not-woken
#[test]
fn second_callback_gets_a_worker_for_a_parked_domain() {
    check(0, 1, || {
        let domain = Domain::that_parks();
        let own = domain.register();
        domain.run(|domain| (0..2).for_each(|_| domain.defer(own, Call)));
        assert_eq!(domain.count(0), 2, "a callback was forgotten");
    });
}

#[test]
fn callback_is_found_whenever_the_domain_is_parked() {
    check(0, 1, || {
        let domain = Domain::that_parks();
        // The callback may come while the domain is being parked, and is found when it is resumed.
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        let domain = two_owners(domain, [Call, Call]);
        assert_eq!([domain.count(0), domain.count(1)], [1, 1], "a callback was forgotten");
    });
}

#[test]
fn later_pushes_do_not_postpone_the_task_of_a_parked_domain() {
    check(0, 0, || {
        let domain = Domain::that_parks();
        domain.0.refused.store(100, Relaxed);
        set_now(0);
        domain.callbacks().notify(&domain);
        let due = *domain.0.parked.lock().unwrap();
        assert!(due.is_some(), "the domain is parked");
        set_now(1000);
        domain.callbacks().notify(&domain);
        assert_eq!(*domain.0.parked.lock().unwrap(), due);
    });
}

#[test]
fn callbacks_left_without_a_worker_run_in_the_caller_unless_the_fence_is_denied() {
    for is_denied in [0, 1] {
        check(0, 0, move || {
            let domain = Domain::that_refuses(100);
            domain.0.denied.store(is_denied, Relaxed);
            let own = domain.register();
            (0..2).for_each(|_| _ = domain.push(own, Call, null()));
            domain.callbacks().run_left(&domain);
            assert_eq!(own.queue.completed(), if is_denied == 0 { 2 } else { 0 });
            assert!(domain.callbacks().state.has_no_worker());
        });
    }
}

/// Refutes: freed-without-notify
#[test]
fn throttled_caller_wakes_when_another_owner_reclaims() {
    check(0, 1, || {
        let domain = Domain::with_limit(2);
        let own = two_free(&domain);
        // The worker has other things to do.
        domain.0.refused.store(ABSENT, Relaxed);
        let caller = domain.register();
        let call = |domain: &Domain| {
            let _ = domain.push(caller, Call, null());
            domain.flush(caller);
        };
        domain.race_owners(call, move |domain| domain.flush(own));
        assert_eq!(domain.count(0), 2);
    });
}

/// Refutes: grace-period-inside-section
#[test]
fn caller_inside_a_section_leads_no_grace_period() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        interruptible(0, || {
            domain.0.state.enter(own);
            let old = domain.0.state.published.swap(boxed(8));
            let _ = domain.push(own, Free, old);
            for _ in 0..2 {
                domain.flush(own);
            }
            look_later(old);
            domain.0.state.leave(own);
        });
    });
}

#[test]
fn throttled_caller_waits_until_the_backlog_shrinks() {
    check(0, 1, || {
        let domain = Domain::with_limit(1);
        let own = domain.register();
        domain.run(|domain| [Call, Free].into_iter().for_each(|kind| domain.defer(own, kind)));
        assert_eq!(domain.count(0), 2);
    });
}

#[test]
fn failed_grace_period_lets_a_throttled_caller_go() {
    check(0, 1, || {
        let domain = Domain::with_limit(0);
        let own = domain.register();
        domain.0.denied.store(1, Relaxed);
        let _ = domain.push(own, Call, null());
        domain.callbacks().report(own.queue);
        assert!(domain.callbacks().throttle_above_limit(None, &domain));
        domain.0.denied.store(0, Relaxed);
        // A round that was under way may fail still.
        while domain.barrier().is_err() {}
        domain.join();
    });
}

/// Refutes: announced-by-store, count-not-raised, notified-by-store, one-waiter-woken, sleep-without-comparing,
/// waiter-not-announced
#[test]
fn waiters_with_different_conditions_are_woken() {
    check(0, 2, || {
        let shared = Arc::new((EventCount::new(), AtomicU64::new(0)));
        let notify = |(events, reached): &(EventCount, AtomicU64)| {
            for mark in [1, 2] {
                reached.store(mark, Relaxed);
                events.notify_all();
            }
        };
        race_all(&shared, notify, 2, |(events, reached), index| {
            let (mark, timeout) = [(1, None), (2, Some(Duration::from_secs(1)))][index];
            assert!(events.wait_until(timeout, || reached.load(Relaxed) >= mark));
        });
    });
}
