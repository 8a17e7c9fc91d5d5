//! Models of deferred callbacks: owners that push and reclaim, the worker, and callers that wait for it. All of it is the library's
//! code; the model starts its threads. No time passes in a model, so a thread that sleeps must be woken.

mod futures;

use std::cell::Cell;
use std::ptr::null;
use std::time::Duration;

use crate::own::{Count, Own, Readers, State, Value, boxed, read};
use loom::sync::{Arc, Mutex};
use loom::thread;
use stillpoint::grace_period::engine::{Denied, GpCookie};
use stillpoint::readers::sections::reader::Reader;
use stillpoint::reclaim::backlog::Limits;
use stillpoint::reclaim::callback::Callback;
use stillpoint::reclaim::domain::{Core, RawDomain};
use stillpoint::reclaim::queue::{PushAction, Queue};
use stillpoint::sync::event_count::EventCount;
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::check;

/// Two owners at most; each has a count of its callbacks that have run.
struct Shared {
    state: State,
    counts: [&'static Count; 2],
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
    /// How many workers cannot be started; or [`ABSENT`].
    refused: AtomicU64,
    /// Whether the worker's grace periods fail.
    denied: AtomicU64,
    /// The domain cannot be parked so often; or [`NEVER`].
    not_parked: AtomicU64,
    /// The task of the parked domain, if it is parked.
    parked: Mutex<Option<u64>>,
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
struct Domain(Arc<Shared>);

impl RawDomain for Domain {
    type Readers = Readers;

    fn core(&self) -> &Core<Readers> {
        &self.0.state.core
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        let registry = self.0.state.core.engine.readers().registry();
        (0..registry.len()).map(|index| registry.attached(index))
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

    fn submit(&self, task: fn(&Self)) -> bool {
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
        // In the first execution that loom tries the worker goes ahead, and sleeps.
        thread::yield_now();
        true
    }

    fn park(&self, due: u64, _task: fn(&Self)) -> bool {
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
        Self(Arc::new(Shared {
            state: State::new(),
            counts: [Count::new(), Count::new()],
            workers: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            not_parked: AtomicU64::new(NEVER),
            parked: Mutex::new(None),
            is_timed: AtomicU64::new(0),
        }))
    }

    /// A domain that can be parked, but not the first `not_parked` times.
    fn that_parks(not_parked: u64) -> Self {
        let domain = Self::new();
        domain.0.not_parked.store(not_parked, Relaxed);
        domain
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

    fn register(&self) -> Own {
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

    fn reclaim_some(&self, own: Own) {
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

    fn barrier(&self) -> Result<(), Denied> {
        self.0.state.core.callbacks.barrier(self)
    }

    /// How many callbacks of the queue have run; the caller must have waited for them.
    fn count(&self, queue: usize) -> u64 {
        self.0.counts[queue].get()
    }

    /// Returns when all workers have ended.
    fn join(&self) {
        loop {
            let Some(worker) = self.0.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
    }

    fn spawn(&self, index: usize, body: impl FnOnce(&Self) + 'static) -> thread::JoinHandle<()> {
        let domain = self.clone();
        thread::spawn(move || interruptible(index, || body(&domain)))
    }
}

#[test]
fn reader_never_sees_a_value_freed_by_the_worker() {
    check(0, 1, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        let t = domain.spawn(1, move |domain| domain.0.state.read(reader));
        interruptible(0, || domain.replace(own));
        t.join().unwrap();
        domain.join();
        assert_eq!(domain.count(0), 1);
    });
}

#[test]
fn callbacks_of_two_owners_all_run() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = [domain.register(), domain.register()];
        let t = domain.spawn(1, move |domain| domain.defer(own[1], Call));
        interruptible(0, || domain.defer(own[0], Call));
        t.join().unwrap();
        domain.join();
        assert_eq!([domain.count(0), domain.count(1)], [1, 1]);
    });
}

/// An owner whose queue has two callbacks that it may run, and that are not reported.
fn two_free(domain: &Domain) -> Own {
    let own = domain.register();
    for _ in 0..2 {
        let _ = domain.push(own, Free, null());
    }
    own
}

#[test]
fn owner_and_worker_exclude_each_other() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        // Assigns a cookie to the callbacks; their grace period ends at once.
        domain.flush(own);
        interruptible(0, || {
            domain.defer(own, Call);
            domain.flush(own);
        });
        domain.join();
        assert_eq!(domain.count(0), 3);
    });
}

/// Refutes: barrier-does-not-wait, barrier-does-not-wake-worker, run-without-notify, sleepers-not-woken,
/// urgency-ignored
#[test]
fn barrier_ends_a_lazy_wait() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Lazy);
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        });
        domain.join();
    });
}

/// Refutes: flush-without-expedite
#[test]
fn flush_ends_a_lazy_wait() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Lazy);
            domain.hand_over(own);
        });
        domain.join();
        assert_eq!(domain.count(0), 1);
    });
}

/// Of an owner's first callback: the domain is parked at once, or by a worker.
fn parked_and_resumed(not_parked: u64) {
    check(0, 1, move || {
        let domain = Domain::that_parks(not_parked);
        domain.0.is_timed.store(1, Relaxed);
        let own = domain.register();
        interruptible(0, || domain.defer(own, Lazy));
        domain.join();
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
        let domain = Domain::that_parks(0);
        let own = [domain.register(), domain.register()];
        let t = domain.spawn(1, move |domain| domain.defer(own[1], Lazy));
        interruptible(0, || domain.defer(own[0], Call));
        t.join().unwrap();
        domain.join();
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
        let own = [domain.register(), domain.register()];
        let t = domain.spawn(1, move |domain| domain.defer(own[1], Call));
        interruptible(0, || domain.defer(own[0], Lazy));
        t.join().unwrap();
        domain.join();
        assert_eq!(domain.count(1), 1, "a callback was forgotten");
    });
}

#[test]
fn barrier_gets_a_worker_for_a_parked_domain() {
    check(0, 1, || {
        let domain = Domain::that_parks(0);
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Lazy);
            domain.barrier().unwrap();
            assert_eq!(domain.count(0), 1);
        });
        domain.join();
    });
}

/// The timer is busy, and no thread can be started.
/// Refutes: parked-without-notify
#[test]
fn barrier_acts_as_the_worker_of_a_domain_that_is_parked_meanwhile() {
    check(0, 1, || {
        let domain = Domain::that_parks(0);
        domain.0.refused.store(100, Relaxed);
        let own = domain.register();
        let t = domain.spawn(0, move |domain| domain.defer(own, Call));
        thread::yield_now();
        domain.barrier().unwrap();
        t.join().unwrap();
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: check-before-bit, counted-before-run, urgent-after-wake
#[test]
fn barrier_waits_for_earlier_callbacks() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        let t = domain.spawn(0, move |domain| domain.defer(own, Lazy));
        thread::yield_now();
        let seen = own.queue.tail();
        domain.barrier().unwrap();
        if seen == 1 {
            assert_eq!(domain.count(0), 1);
        }
        t.join().unwrap();
        // The worker may sleep over a callback that came later.
        domain.barrier().unwrap();
        domain.join();
    });
}

/// Refutes: claim-released-without-notify, idle-without-notify
#[test]
fn barrier_returns_when_the_owner_reclaims() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = two_free(&domain);
        // Assigns a cookie to the callbacks; their grace period ends at once.
        domain.flush(own);
        let t = domain.spawn(0, move |domain| {
            domain.reclaim_some(own);
            domain.reclaim_some(own);
        });
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 2);
        t.join().unwrap();
        domain.join();
    });
}

/// Refutes: freed-without-notify
#[test]
fn throttled_caller_wakes_when_another_owner_reclaims() {
    check(0, 1, || {
        let domain = Domain::with_limit(2);
        let own = two_free(&domain);
        // Assigns a cookie to the callbacks; their grace period ends at once.
        domain.flush(own);
        // The worker has other things to do.
        domain.0.refused.store(ABSENT, Relaxed);
        let caller = domain.register();
        let t = domain.spawn(0, move |domain| domain.flush(own));
        interruptible(1, || {
            let _ = domain.push(caller, Call, null());
            domain.flush(caller);
        });
        t.join().unwrap();
        assert_eq!(domain.count(0), 2);
    });
}

/// Refutes: no-caller-continues, notified-before-giving-up, start-failure-without-notify,
/// EventCount::notify_all:Release, EventCount::prepare_wait:Acquire
#[test]
fn barrier_runs_callbacks_when_no_worker_starts() {
    check(0, 2, || {
        let domain = Domain::new();
        domain.0.refused.store(1, Relaxed);
        let own = domain.register();
        let t = domain.spawn(0, move |domain| domain.defer(own, Call));
        thread::yield_now();
        domain.barrier().unwrap();
        t.join().unwrap();
        domain.barrier().unwrap();
        domain.join();
        assert_eq!(domain.count(0), 1);
    });
}

/// Refutes: failed-round-without-notify
#[test]
fn barrier_fails_while_the_fence_is_denied() {
    check(0, 1, || {
        let domain = Domain::new();
        let own = domain.register();
        domain.0.denied.store(1, Relaxed);
        domain.defer(own, Call);
        assert_eq!(domain.barrier(), Err(Denied));
        domain.0.denied.store(0, Relaxed);
        domain.defer(own, Lazy);
        // A round that was under way may fail still.
        while domain.barrier().is_err() {}
        assert_eq!(domain.count(0), 2);
        domain.join();
    });
}

/// Refutes: worker-stops-without-notify
#[test]
fn second_barrier_goes_on_when_the_first_stops_being_the_worker() {
    check(0, 2, || {
        let domain = Domain::new();
        // No worker can be started.
        domain.0.refused.store(100, Relaxed);
        let own = [domain.register(), domain.register()];
        domain.defer(own[0], Call);
        let t = domain.spawn(1, move |domain| {
            // The first has yielded, for want of a worker, and is to find nothing domain.
            thread::yield_now();
            domain.defer(own[1], Call);
            domain.barrier().unwrap();
            assert_eq!(domain.count(1), 1);
        });
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 1);
        t.join().unwrap();
    });
}

/// Refutes: start-failure-without-notify
#[test]
fn barrier_goes_on_when_a_throttled_caller_gets_no_worker() {
    check(0, 1, || {
        let domain = Domain::with_limit(0);
        domain.0.refused.store(100, Relaxed);
        let own = [domain.register(), domain.register()];
        let _ = domain.push(own[0], Call, null());
        let t = domain.spawn(1, move |domain| {
            let _ = domain.push(own[1], Call, null());
            domain.flush(own[1]);
        });
        domain.barrier().unwrap();
        assert_eq!(domain.count(0), 1);
        t.join().unwrap();
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
            read(old);
            domain.0.state.leave(own);
        });
    });
}

#[test]
fn throttled_caller_waits_until_the_backlog_shrinks() {
    check(0, 1, || {
        let domain = Domain::with_limit(1);
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Call);
            domain.defer(own, Free);
        });
        domain.join();
        assert_eq!(domain.count(0), 2);
    });
}

/// Refutes: flush-threshold-does-not-wake-worker
#[test]
fn lazy_callbacks_run_above_the_flush_threshold() {
    check(0, 1, || {
        let domain = Domain::with_limit(4);
        let own = domain.register();
        interruptible(0, || {
            domain.defer(own, Lazy);
            domain.defer(own, Lazy);
        });
        domain.join();
        assert_eq!(domain.count(0), 2);
    });
}

/// Refutes: announced-by-store, count-not-raised, notified-by-store, one-waiter-woken, sleep-without-comparing,
/// waiter-not-announced
#[test]
fn waiters_with_different_conditions_are_woken() {
    check(0, 2, || {
        let shared = Arc::new((EventCount::new(), AtomicU64::new(0)));
        let threads = [(1, None), (2, Some(Duration::from_secs(1)))].map(|(mark, timeout)| {
            let s = shared.clone();
            thread::spawn(move || assert!(s.0.wait_until(timeout, || s.1.load(Relaxed) >= mark)))
        });
        for reached in [1, 2] {
            shared.1.store(reached, Relaxed);
            shared.0.notify_all();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
