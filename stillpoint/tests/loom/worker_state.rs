//! Models of the worker's sleep: no callback is forgotten, there are no two workers, and sleeps end. Callbacks and
//! urgency are words that are read and written relaxed, so that all order comes from the worker's state and the
//! fences.

use std::time::Duration;

use stillpoint::fence::heavy;
use stillpoint::reclaim::worker::state::{GoIdle, IDLE, WorkerState};
use support::model::*;

const NEVER: Duration = Duration::MAX;

/// A domain with a callback for each of two owners: 0 none, 1 one.
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

    /// Returns `true` if a callback has not run.
    fn has_pending(&self) -> bool {
        let mut all = self.callbacks.iter().zip(&self.run);
        all.any(|(callback, run)| run.load(Relaxed) == 0 && callback.load(Relaxed) != 0)
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// A worker.
    fn work(&self) {
        loop {
            self.worker.with_mut(|_| ());
            if self.has_pending() {
                self.callbacks.iter().zip(&self.run).for_each(|(callback, run)| {
                    if callback.load(Relaxed) != 0 {
                        run.store(1, Relaxed);
                    }
                });
            } else if self.state.leave_running(IDLE, heavy, &|| self.has_pending()) == GoIdle::Idle {
                return;
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
fn push(domain: &Arc<Domain>, i: usize) {
    domain.callbacks[i].store(1, Relaxed);
    if domain.state.needs_wake() && domain.state.wake() {
        start(domain);
    }
}

fn expedite(domain: &Arc<Domain>) {
    domain.urgent.store(1, Relaxed);
    if domain.state.wake() {
        start(domain);
    }
}

/// Refutes: no-fence-before-check, two-workers
#[test]
fn worker_starts_after_the_last_one_went_idle() {
    check(0, 1, || {
        let domain = Domain::new();
        assert!(domain.state.wake());
        start(&domain);
        interruptible(0, || push(&domain, 0));
        assert_eq!(domain.join()[0], 1, "a callback was forgotten");
    });
}

/// No fence orders the two.
/// Refutes: WorkerState::leave_running:Release, WorkerState::wake:Acquire
#[test]
fn worker_for_an_urgent_caller_follows_the_last_one() {
    check(0, 1, || {
        let domain = Domain::new();
        assert!(domain.state.wake());
        start(&domain);
        expedite(&domain);
        domain.join();
    });
}

#[test]
fn worker_that_stays_follows_the_one_in_between() {
    check(0, 1, || {
        let domain = Domain::new();
        assert!(domain.state.wake());
        let d = domain.clone();
        let first = thread::spawn(move || d.work());
        expedite(&domain);
        let second = domain.workers.lock().unwrap().pop();
        second.map(|second| second.join().unwrap());
        // The first worker finds it, or no worker yet.
        domain.callbacks[1].store(1, Relaxed);
        first.join().unwrap();
        push(&domain, 1);
        assert_eq!(domain.join()[1], 1, "a callback was forgotten");
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
                    domain.state.sleep_timeout(NEVER, &|| domain.is_urgent());
                }
            },
        );
    });
}
