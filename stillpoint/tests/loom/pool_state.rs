//! A model of the threads of the pool where no more can be started: the timer, and a worker. There are tasks that sleep
//! for readers, if there is a spare, and never wake.

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;
use stillpoint::reclaim::pool_state::{PoolState, Role};
use stillpoint::sync::{AtomicU64, Ordering::Relaxed};
use support::model::check;

loom::thread_local! {
    /// The calling worker runs no task any more.
    static IS_GONE: Cell<bool> = Cell::new(false);
}

struct Pool {
    state: PoolState,
    gone: AtomicU64,
    asleep: AtomicU64,
}

impl Pool {
    /// As a worker that has finished its first task.
    fn work(&self) {
        while let Some(task) = self.state.next() {
            task();
            if IS_GONE.with(Cell::get) {
                break;
            }
        }
        self.gone.fetch_add(1, Relaxed);
    }

    /// As the task of a domain with readers.
    fn sleep_if_allowed(&self) {
        if self.state.has_spare(Role::Worker) || self.state.start_spare(|| false) {
            self.asleep.fetch_add(1, Relaxed);
            IS_GONE.with(|gone| gone.set(true));
        }
    }
}

/// Refutes: ended-timer-counts
#[test]
fn some_worker_does_not_sleep_for_readers() {
    const WORKERS: u64 = 2;
    check(0, 2, || {
        let (state, gone, asleep) = (PoolState::new(), AtomicU64::new(0), AtomicU64::new(0));
        state.lock().count = WORKERS;
        let pool = Arc::new(Pool { state, gone, asleep });
        for is_timer in [true, false] {
            let pool = pool.clone();
            thread::spawn(move || {
                if is_timer {
                    pool.state.as_timer(thread::yield_now);
                }
                pool.work();
            });
        }
        for _ in 0..2 {
            thread::yield_now();
            let p = pool.clone();
            // If no worker is idle, the domain is parked.
            let _ = pool.state.assign(Box::new(move || p.sleep_if_allowed()));
        }
        while pool.gone.load(Relaxed) != WORKERS {
            let _ = pool.state.assign(Box::new(|| IS_GONE.with(|gone| gone.set(true))));
            thread::yield_now();
        }
        assert!(pool.asleep.load(Relaxed) < pool.state.lock().count, "all workers sleep for readers");
    });
}
