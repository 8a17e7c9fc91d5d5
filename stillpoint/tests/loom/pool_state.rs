//! Models of the threads of the pool where no more can be started: the timer, and other workers. There are tasks that
//! sleep for readers, if there is a spare, and never wake.

use std::cell::Cell;

use stillpoint::reclaim::pool::state::PoolState;
use support::model::*;

loom::thread_local! {
    /// The calling worker runs no task any more.
    static IS_GONE: Cell<bool> = Cell::new(false);
}

#[derive(Clone)]
struct Pool(Arc<Shared>);

struct Shared {
    state: PoolState,
    gone: AtomicU64,
    asleep: AtomicU64,
    /// How often a worker has become the timer.
    timers: AtomicU64,
}

fn gone() {
    IS_GONE.with(|gone| gone.set(true));
}

impl Pool {
    /// No thread has begun.
    fn new() -> Self {
        let [gone, asleep, timers] = std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new(Shared { state: PoolState::new(), gone, asleep, timers }))
    }

    /// As a worker that runs `first`.
    fn work(&self, first: impl FnOnce()) {
        first();
        while !IS_GONE.with(Cell::get) {
            let Some(task) = self.0.state.next() else { break };
            task();
        }
        self.0.gone.fetch_add(1, Relaxed);
    }

    /// Workers that have begun run the first tasks.
    fn start<const WORKERS: usize>(&self, first: [fn(&Self); WORKERS]) {
        for first in first {
            self.0.state.starts();
            self.0.state.begin();
            let pool = self.clone();
            thread::spawn(move || pool.work(|| first(&pool)));
        }
    }

    /// Ends workers that are idle until so many have ended.
    fn end(&self, workers: u64) {
        while self.0.gone.load(Relaxed) != workers {
            let _ = self.0.state.assign(Box::new(gone));
            thread::yield_now();
        }
    }

    /// As the task of a domain with readers.
    fn sleep_if_allowed(&self) {
        if self.0.state.has_spare() || self.0.state.start_spare(|| false) {
            self.0.asleep.fetch_add(1, Relaxed);
            gone();
        }
    }

    /// The same, and a spare can be started.
    fn sleep_beside_a_spare(&self) {
        let start = || {
            self.start([|_| ()]);
            true
        };
        if self.0.state.has_spare() || self.0.state.start_spare(start) {
            self.0.asleep.fetch_add(1, Relaxed);
            gone();
        }
    }

    /// As a timer of which nothing is asked.
    fn be_timer(&self) {
        self.0.timers.fetch_add(1, Relaxed);
        self.0.state.begin_timer();
        thread::yield_now();
        self.0.state.end_timer();
    }

    /// As a timer that resumes a domain itself.
    fn be_runner(&self) {
        self.0.timers.fetch_add(1, Relaxed);
        self.0.state.begin_timer();
        let pool = self.clone();
        self.0.state.want_timer(Box::new(move || pool.be_timer()));
        thread::yield_now();
        self.sleep_if_allowed();
    }

    /// As a push to a domain that must be parked.
    fn park(&self) -> bool {
        let pool = self.clone();
        self.0.state.ensure_timer(move || pool.be_timer(), Err)
    }
}

/// Refutes: ended-timer-counts
#[test]
fn some_worker_does_not_sleep_for_readers() {
    check(0, 2, || {
        let pool = Pool::new();
        pool.start([Pool::be_timer, |_| ()]);
        for _ in 0..2 {
            thread::yield_now();
            let p = pool.clone();
            // If no worker is idle, the domain is parked.
            let _ = pool.0.state.assign(Box::new(move || p.sleep_if_allowed()));
        }
        pool.end(2);
        assert!(pool.0.asleep.load(Relaxed) < pool.0.state.lock().count, "all workers sleep for readers");
    });
}

/// Refutes: wanted-timer-forgotten
#[test]
fn resuming_timer_is_replaced_before_all_workers_sleep() {
    check(0, 2, || {
        let pool = Pool::new();
        pool.start([Pool::be_runner, Pool::sleep_if_allowed]);
        pool.end(2);
        assert!(pool.0.asleep.load(Relaxed) < pool.0.state.lock().count, "all workers sleep for readers");
        assert_eq!(pool.0.timers.load(Relaxed), 2, "what is parked is forgotten");
    });
}

/// The worker that was to be idle finds that it is to be the timer.
/// Refutes: coming-worker-counts
#[test]
fn spare_that_becomes_the_timer_is_no_spare_for_itself() {
    check(0, 2, || {
        let pool = Pool::new();
        pool.start([Pool::sleep_beside_a_spare]);
        let p = pool.clone();
        // As a push to a domain that must be parked, whose timer resumes it.
        let timer = move || p.be_runner();
        let _ = pool.0.state.ensure_timer(timer, Err);
        pool.end(2);
        assert!(pool.0.asleep.load(Relaxed) < pool.0.state.lock().count, "all workers sleep for readers");
    });
}

/// Refutes: busy-for-ever
#[test]
fn as_many_workers_as_may_have_tasks_of_domains() {
    check(0, 2, || {
        let shared = Arc::new((PoolState::new(), AtomicU64::new(0)));
        race_all(
            &shared,
            |_| (),
            2,
            |(state, busy), _| {
                if state.reserve(1) {
                    assert_eq!(busy.fetch_add(1, Relaxed), 0, "two workers");
                    thread::yield_now();
                    busy.fetch_sub(1, Relaxed);
                    state.release();
                }
            },
        );
        assert!(shared.0.reserve(1), "no worker is busy");
    });
}

/// Another thread starts a worker meanwhile, or cannot.
/// Refutes: start-without-notify
#[test]
fn domain_is_parked_only_if_there_will_be_a_timer() {
    for succeeds in [true, false] {
        check(0, 2, move || {
            let pool = Pool::new();
            pool.0.state.starts();
            let p = pool.clone();
            let other = thread::spawn(move || {
                if succeeds {
                    p.0.state.begin();
                    p.work(|| ());
                } else {
                    p.0.state.start_failed();
                }
            });
            assert_eq!(pool.park(), succeeds);
            pool.end(u64::from(succeeds));
            other.join().unwrap();
            assert_eq!(pool.0.timers.load(Relaxed), u64::from(succeeds));
        });
    }
}

/// Two threads park domains, or try again to start a thread.
#[test]
fn timer_that_is_wanted_has_one_successor() {
    check(0, 2, || {
        let pool = Pool::new();
        pool.start([|pool| assert!(pool.park())]);
        let p = pool.clone();
        let other = thread::spawn(move || p.0.state.retry_timer(Err));
        pool.0.state.retry_timer(Err);
        other.join().unwrap();
        pool.end(1);
        assert_eq!(pool.0.timers.load(Relaxed), 1);
    });
}
