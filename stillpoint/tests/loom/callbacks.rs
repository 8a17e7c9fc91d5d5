//! Models of deferred callbacks: owners that push and reclaim, the worker, and callers that wait for it. All of it is the library's
//! code; the model starts its threads. No time passes in a model, so a thread that sleeps must be woken.

mod barriers;

use std::cell::Cell;
use std::ptr::null;
use std::time::Duration;

use crate::own::{Count, Own, State};
use loom::sync::{Arc, Mutex};
use loom::thread;
use stillpoint::grace_period::engine::{Denied, GpCookie};
use stillpoint::readers::sections::reader::Reader;
use stillpoint::readers::sections::scan::ReaderProtocol;
use stillpoint::reclaim::backlog::Limits;
use stillpoint::reclaim::callback::Callback;
use stillpoint::reclaim::domain::{Core, RawDomain};
use stillpoint::reclaim::hazards::Hazards;
use stillpoint::reclaim::queue::{PushAction, Queue};
use stillpoint::slots::record::Records;
use stillpoint::sync::event_count::EventCount;
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::{Value, boxed, check, look_later, race_all};

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
    /// The domain cannot be parked so often; or [`NEVER`].
    not_parked: AtomicU64,
    /// The task of the parked domain, if it is parked.
    pub parked: Mutex<Option<u64>>,
    /// A thread resumes the domain, once, some time.
    is_timed: AtomicU64,
}

const NEVER: u64 = u64::MAX;

/// Workers are started and do nothing.
const ABSENT: u64 = u64::MAX;

loom::thread_local! {
    /// The reader of a thread that flushes.
    static OWN: Cell<Option<&'static Reader>> = Cell::new(None);
}

#[derive(Clone)]
pub struct Domain(pub Arc<Shared>);

impl RawDomain for Domain {
    fn core(&self) -> &Core {
        &self.0.state.core
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

    fn defer(&self, _callback: Callback, _lazy: bool) {
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

    fn submit(&self, task: fn(&dyn RawDomain)) -> bool {
        if self.0.refused.load(Relaxed) == ABSENT {
            return true;
        }
        if self.0.refused.load(Relaxed) != 0 {
            self.0.refused.fetch_sub(1, Relaxed);
            // Other threads may run here.
            thread::yield_now();
            return false;
        }
        let domain = self.clone();
        let worker = thread::spawn(move || task(&domain));
        self.0.workers.lock().unwrap().push(worker);
        // In the first execution that loom tries the worker goes ahead, and sleeps. Where it could find no hazard pointer
        // yet, the caller goes ahead.
        if self.0.hazards.is_none() {
            thread::yield_now();
        }
        true
    }

    fn park(&self, due: u64, _task: fn(&dyn RawDomain)) -> bool {
        match self.0.not_parked.load(Relaxed) {
            0 => {}
            NEVER => return false,
            left => {
                self.0.not_parked.store(left - 1, Relaxed);
                return false;
            }
        }
        *self.0.parked.lock().unwrap() = Some(due);
        if self.0.is_timed.load(Relaxed) != 0 {
            self.0.is_timed.store(0, Relaxed);
            let domain = self.clone();
            let timer = thread::spawn(move || domain.time_is_up());
            self.0.workers.lock().unwrap().push(timer);
            thread::yield_now();
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
    Lazy,
    Free,
}
use Kind::*;

impl Domain {
    fn new() -> Self {
        Self::of(ReaderProtocol::Sections, None, NEVER)
    }

    fn of(protocol: ReaderProtocol, hazards: Option<Hazards>, not_parked: u64) -> Self {
        Self(Arc::new(Shared {
            state: State::new(protocol),
            hazards,
            counts: [Count::new(), Count::new()],
            workers: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            not_parked: AtomicU64::new(not_parked),
            parked: Mutex::new(None),
            is_timed: AtomicU64::new(0),
        }))
    }

    /// A domain that can be parked, but not the first `not_parked` times.
    fn that_parks(not_parked: u64) -> Self {
        Self::of(ReaderProtocol::Sections, None, not_parked)
    }

    /// A domain with hazard pointers, whose slots are these. It can be parked.
    pub fn with_hazards(records: &'static Records) -> Self {
        Self::of(ReaderProtocol::Hazards, Some(Hazards::new(records)), 0)
    }

    /// The timer takes the task of the parked domain. Callbacks are not lazy any more.
    fn time_is_up(&self) {
        let mut parked = self.0.parked.lock().unwrap();
        if parked.is_some() {
            self.0.state.core.callbacks.set_limits(Limits { count: 0, ..Limits::default() });
        }
        let task = parked.take();
        drop(parked);
        if task.is_some() {
            self.0.state.core.callbacks.resume(self);
        }
    }

    fn with_limit(count: u64) -> Self {
        let domain = Self::new();
        domain.0.state.core.callbacks.set_limits(Limits { count, ..Limits::default() });
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
        self.0.state.core.callbacks.notify(kind == Lazy, self);
        match action {
            PushAction::None => {}
            PushAction::ReclaimSome => self.reclaim_some(own),
            PushAction::Flush => self.flush(own),
        }
    }

    fn push(&self, own: Own, kind: Kind, value: *const Value) -> PushAction {
        let count = self.0.counts[own.index.load(Relaxed) as usize];
        own.push(count, kind == Free, kind == Lazy, value)
    }

    pub fn reclaim_some(&self, own: Own) {
        self.0.state.core.callbacks.reclaim_some(own.queue, self);
    }

    fn flush(&self, own: Own) {
        OWN.with(|cell| cell.set(Some(own.reader)));
        self.0.state.core.callbacks.flush(own.queue, self);
    }

    /// As `rcu::flush` does.
    fn hand_over(&self, own: Own) -> bool {
        OWN.with(|cell| cell.set(Some(own.reader)));
        self.0.state.core.callbacks.hand_over(own.queue, self)
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

/// Two owners defer a callback each, of a domain that is parked if all are lazy. Returns it when all workers have ended.
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

/// Refutes: flush-without-expedite
#[test]
fn flush_ends_a_lazy_wait() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        domain.run(|domain| {
            domain.defer(own, Lazy);
            domain.hand_over(own);
        });
        assert_eq!(domain.count(0), 1);
    });
}

/// Of an owner's first callback: the domain is parked at once, or by a worker.
fn parked_and_resumed(not_parked: u64) {
    check(0, 1, move || {
        let domain = Domain::that_parks(not_parked);
        domain.0.is_timed.store(1, Relaxed);
        let own = domain.register();
        domain.run(|domain| domain.defer(own, Lazy));
        assert_eq!(domain.count(0), 1, "a callback was forgotten");
    });
}

/// Refutes: parked-after-time
#[test]
fn domain_parked_at_once_is_resumed() {
    parked_and_resumed(0);
}

#[test]
fn domain_parked_by_a_worker_is_resumed() {
    parked_and_resumed(1);
}

/// Refutes: lazy-not-checked
#[test]
fn lazy_callback_is_found_by_a_worker_that_becomes_idle() {
    check(0, 1, || {
        let domain = two_owners(Domain::that_parks(0), [Call, Lazy]);
        assert_eq!(domain.count(0), 1, "a callback was forgotten");
        let is_parked = domain.0.parked.lock().unwrap().is_some();
        assert!(is_parked || domain.count(1) == 1, "no worker will see the lazy callback");
    });
}

#[test]
fn urgent_callback_finds_a_parked_domain() {
    check(0, 0, || {
        let domain = Domain::that_parks(0);
        // The callback may come while the domain is being parked, and is found when it is resumed.
        domain.0.is_timed.store(1, Relaxed);
        let domain = two_owners(domain, [Lazy, Call]);
        assert_eq!(domain.count(1), 1, "a callback was forgotten");
    });
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

/// An owner defers two callbacks of a domain with this limit; both run.
fn deferred_at_the_limit(limit: u64, kinds: [Kind; 2]) {
    check(0, 1, move || {
        let domain = Domain::with_limit(limit);
        let own = domain.register();
        domain.run(|domain| kinds.iter().for_each(|&kind| domain.defer(own, kind)));
        assert_eq!(domain.count(0), 2);
    });
}

#[test]
fn throttled_caller_waits_until_the_backlog_shrinks() {
    deferred_at_the_limit(1, [Call, Free]);
}

/// Refutes: flush-threshold-does-not-wake-worker
#[test]
fn lazy_callbacks_run_above_the_flush_threshold() {
    deferred_at_the_limit(4, [Lazy, Lazy]);
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
