//! Models of the worker's sleep: no entry is forgotten, no two workers, and naps end. Entries and urgency are words that are
//! read and written relaxed, so that all order comes from the alarm and the fences.
#![cfg(loom)]

mod model;

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use model::check;
use stillpoint::fence::heavy;
use stillpoint::reclaim::worker_state::{GoIdle, LAZY_WAIT, RATE_LIMITED, WorkerState};
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};

const NEVER: Duration = Duration::MAX;

/// Entries of two owners: 0 none, 1 lazy, 2 eager.
struct World {
    alarm: WorkerState,
    entries: [AtomicU64; 2],
    urgent: AtomicU64,
    /// Which have run.
    run: [AtomicU64; 2],
    /// Only the worker touches this.
    worker: UnsafeCell<()>,
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
}

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            alarm: WorkerState::new(),
            entries: std::array::from_fn(|_| AtomicU64::new(0)),
            urgent: AtomicU64::new(0),
            run: std::array::from_fn(|_| AtomicU64::new(0)),
            worker: UnsafeCell::new(()),
            workers: Mutex::new(Vec::new()),
        })
    }

    /// The most pressing entry that has not run.
    fn holds(&self) -> u64 {
        let left = self.entries.iter().zip(&self.run).filter(|(_, run)| run.load(Relaxed) == 0);
        left.map(|(entry, _)| entry.load(Relaxed)).max().unwrap_or(0)
    }

    fn is_urgent(&self) -> bool {
        self.urgent.load(Relaxed) != 0
    }

    /// A worker that lets lazy entries wait for ever unless somebody is urgent.
    fn work(&self) {
        loop {
            self.worker.with_mut(|_| ());
            match self.holds() {
                0 => {
                    if self.alarm.try_go_idle(heavy, || self.holds() != 0) == GoIdle::Idle {
                        return;
                    }
                }
                1 if !self.is_urgent() => {
                    self.alarm
                        .sleep_timeout(LAZY_WAIT, NEVER, heavy, || self.holds() == 2 || self.is_urgent());
                }
                _ => self.entries.iter().zip(&self.run).for_each(|(entry, run)| {
                    if entry.load(Relaxed) != 0 {
                        run.store(1, Relaxed);
                    }
                }),
            }
        }
    }

    /// The last worker has gone; what it has run.
    fn join(&self) -> [u64; 2] {
        loop {
            let Some(worker) = self.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
        self.run.each_ref().map(|run| run.load(Relaxed))
    }
}

fn start(world: &Arc<World>) {
    let w = world.clone();
    let worker = thread::spawn(move || w.work());
    world.workers.lock().unwrap().push(worker);
    thread::yield_now();
}

/// Owner `i` appends its entry.
fn append(world: &Arc<World>, i: usize, lazy: bool) {
    world.entries[i].store(if lazy { 1 } else { 2 }, Relaxed);
    if world.alarm.needs_wake(lazy) && if lazy { world.alarm.wake_if_idle() } else { world.alarm.wake() } {
        start(world);
    }
}

fn hurry(world: &Arc<World>) {
    world.urgent.store(1, Relaxed);
    if world.alarm.wake() {
        start(world);
    }
}

fn owners(lazy: [bool; 2]) {
    let world = World::new();
    let w = world.clone();
    let other = thread::spawn(move || interruptible(1, || append(&w, 1, lazy[1])));
    interruptible(0, || append(&world, 0, lazy[0]));
    other.join().unwrap();
    for i in (0..2).filter(|&i| !lazy[i]) {
        while world.run[i].load(Relaxed) == 0 {
            thread::yield_now();
        }
    }
    if lazy.contains(&true) {
        // Nobody else ends the nap.
        hurry(&world);
    }
    assert_eq!(world.join(), [1; 2], "an entry was forgotten");
}

#[test]
fn urgent_callback_ends_a_lazy_wait() {
    check(0, 1, || owners([true, false]));
}

#[test]
fn lazy_callbacks_get_one_sleeping_worker() {
    check(0, 2, || owners([true; 2]));
}

fn succession(lazy: bool) {
    let world = World::new();
    assert!(world.alarm.wake());
    start(&world);
    interruptible(0, || append(&world, 0, lazy));
    if lazy {
        hurry(&world);
    }
    assert_eq!(world.join()[0], 1, "an entry was forgotten");
}

#[test]
fn worker_starts_after_the_last_one_went_idle() {
    check(0, 1, || succession(false));
}

#[test]
fn worker_for_a_lazy_callback_follows_the_last_one() {
    check(0, 1, || succession(true));
}

#[test]
fn worker_that_stays_follows_the_one_in_between() {
    check(0, 1, || {
        let world = World::new();
        assert!(world.alarm.wake());
        let w = world.clone();
        let first = thread::spawn(move || w.work());
        interruptible(0, || append(&world, 0, false));
        let second = world.workers.lock().unwrap().pop();
        second.map(|second| second.join().unwrap());
        // Found by the first worker, or by nobody yet.
        world.entries[1].store(2, Relaxed);
        first.join().unwrap();
        append(&world, 1, false);
        assert_eq!(world.join(), [1; 2], "an entry was forgotten");
    });
}

#[test]
fn urgent_caller_ends_the_rate_limit() {
    check(0, 3, || {
        let world = World::new();
        assert!(world.alarm.wake());
        let w = world.clone();
        let worker = thread::spawn(move || {
            while !w.is_urgent() {
                w.alarm.sleep_timeout(RATE_LIMITED, NEVER, || (), || w.is_urgent());
            }
        });
        hurry(&world);
        worker.join().unwrap();
    });
}
