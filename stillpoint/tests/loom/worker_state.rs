//! Models of the worker's sleep: no callback is forgotten, there are no two workers, and sleeps end. Callbacks and urgency are
//! words that are read and written relaxed, so that all order comes from the worker's state and the fences.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use stillpoint::fence::heavy;
use stillpoint::reclaim::worker_state::{GoIdle, IDLE, LAZY_WAIT, RATE_LIMITED, WorkerState};
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::{check, race};

const NEVER: Duration = Duration::MAX;

/// A domain with a callback for each of two owners: 0 none, 1 lazy, 2 urgent.
struct Domain {
    state: WorkerState,
    callbacks: [AtomicU64; 2],
    urgent: AtomicU64,
    /// Which have run.
    run: [AtomicU64; 2],
    /// Only the worker accesses this.
    worker: UnsafeCell<()>,
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: WorkerState::new(),
            callbacks: std::array::from_fn(|_| AtomicU64::new(0)),
            urgent: AtomicU64::new(0),
            run: std::array::from_fn(|_| AtomicU64::new(0)),
            worker: UnsafeCell::new(()),
            workers: Mutex::new(Vec::new()),
        })
    }

    /// The most urgent callback that has not run.
    fn pending(&self) -> u64 {
        let left = self.callbacks.iter().zip(&self.run).filter(|(_, run)| run.load(Relaxed) == 0);
        left.map(|(callback, _)| callback.load(Relaxed)).max().unwrap_or(0)
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// A worker that lets lazy callbacks wait for ever, unless a caller is urgent.
    fn work(&self) {
        loop {
            self.worker.with_mut(|_| ());
            match self.pending() {
                0 => {
                    if self.state.leave_running(IDLE, heavy, || self.pending() != 0) == GoIdle::Idle {
                        return;
                    }
                }
                1 if !self.is_urgent() => {
                    self.state
                        .sleep_timeout(LAZY_WAIT, NEVER, heavy, || self.pending() == 2 || self.is_urgent());
                }
                _ => self.callbacks.iter().zip(&self.run).for_each(|(callback, run)| {
                    if callback.load(Relaxed) != 0 {
                        run.store(1, Relaxed);
                    }
                }),
            }
        }
    }

    /// Waits until the last worker has ended. Returns what has run.
    fn join(&self) -> [u64; 2] {
        loop {
            let Some(worker) = self.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
        self.run.each_ref().map(|run| run.load(Relaxed))
    }
}

fn start(domain: &Arc<Domain>) {
    let d = domain.clone();
    let worker = thread::spawn(move || d.work());
    domain.workers.lock().unwrap().push(worker);
    thread::yield_now();
}

/// Owner `i` pushes its callback.
fn push(domain: &Arc<Domain>, i: usize, lazy: bool) {
    domain.callbacks[i].store(if lazy { 1 } else { 2 }, Relaxed);
    if domain.state.needs_wake(lazy) && if lazy { domain.state.wake_if_idle() } else { domain.state.wake() } {
        start(domain);
    }
}

fn expedite(domain: &Arc<Domain>) {
    domain.urgent.store(1, Relaxed);
    if domain.state.wake() {
        start(domain);
    }
}

fn owners(lazy: [bool; 2]) {
    let domain = Domain::new();
    let theirs = domain.clone();
    let push_first = |_: &Domain| interruptible(0, || push(&domain, 0, lazy[0]));
    race(&domain, push_first, move |_| interruptible(1, || push(&theirs, 1, lazy[1])));
    for i in (0..2).filter(|&i| !lazy[i]) {
        while domain.run[i].load(Relaxed) == 0 {
            thread::yield_now();
        }
    }
    if lazy.contains(&true) {
        assert!(lazy != [true; 2] || !domain.state.is_idle(), "no worker will see the lazy callbacks");
        // No other thread ends the sleep.
        expedite(&domain);
    }
    assert_eq!(domain.join(), [1; 2], "a callback was forgotten");
}

/// Refutes: sleeping-worker-not-woken
#[test]
fn urgent_callback_ends_a_lazy_wait() {
    check(0, 1, || owners([true, false]));
}

/// Refutes: lazy-push-starts-no-worker, wake-if-idle-by-swap, WorkerState::leave_running:Acquire#2
#[test]
fn lazy_callbacks_get_one_sleeping_worker() {
    check(0, 2, || owners([true; 2]));
}

fn succession(lazy: bool) {
    let domain = Domain::new();
    assert!(domain.state.wake());
    start(&domain);
    interruptible(0, || push(&domain, 0, lazy));
    if lazy {
        expedite(&domain);
    }
    assert_eq!(domain.join()[0], 1, "a callback was forgotten");
}

/// Refutes: no-fence-before-check, two-workers
#[test]
fn worker_starts_after_the_last_one_went_idle() {
    check(0, 1, || succession(false));
}

/// Refutes: WorkerState::leave_running:Release, WorkerState::wake:Acquire
#[test]
fn worker_for_a_lazy_callback_follows_the_last_one() {
    check(0, 1, || succession(true));
}

#[test]
fn worker_that_stays_follows_the_one_in_between() {
    check(0, 1, || {
        let domain = Domain::new();
        assert!(domain.state.wake());
        let d = domain.clone();
        let first = thread::spawn(move || d.work());
        interruptible(0, || push(&domain, 0, false));
        let second = domain.workers.lock().unwrap().pop();
        second.map(|second| second.join().unwrap());
        // The first worker finds it, or no worker yet.
        domain.callbacks[1].store(2, Relaxed);
        first.join().unwrap();
        push(&domain, 1, false);
        assert_eq!(domain.join(), [1; 2], "a callback was forgotten");
    });
}

/// Refutes: check-before-idle, sleep-not-ended, sleep-without-comparing, wake-by-store,
/// WorkerState::leave_running:Acquire, WorkerState::wake:Release
#[test]
fn urgent_caller_ends_the_rate_limit() {
    check(0, 3, || {
        let domain = Domain::new();
        assert!(domain.state.wake());
        race(
            &domain,
            |_| expedite(&domain),
            |domain| {
                while !domain.is_urgent() {
                    domain.state.sleep_timeout(RATE_LIMITED, NEVER, || (), || domain.is_urgent());
                }
            },
        );
    });
}
