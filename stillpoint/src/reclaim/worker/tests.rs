//! Workers of a domain that gets no threads.

use core::panic::Location;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use super::*;
use crate::deadline::deadline;
use crate::grace_period::engine::{Engine, ReaderSet};
use crate::readers::srcu::SrcuReaders;
use crate::reclaim::callback::Callback;
use crate::sys::thread::tid;

struct Domain<F> {
    engine: Engine<SrcuReaders>,
    queue: Queue,
    /// Times at which the domain is to be resumed.
    parked: Mutex<Vec<u64>>,
    /// The next task is taken at once.
    is_taken: AtomicBool,
    /// Called instead of starting a worker.
    before_failure: F,
}

impl<F: Fn()> Domain<F> {
    fn new(before_failure: F) -> Self {
        let engine = Engine::new(SrcuReaders::new(Location::caller()), || "test");
        let (parked, is_taken) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        Self { engine, queue: Queue::new(), parked, is_taken, before_failure }
    }

    fn parked(&self) -> MutexGuard<'_, Vec<u64>> {
        self.parked.lock().expect("no thread panics")
    }
}

impl<F: Fn()> Host for Domain<F> {
    fn engine(&self) -> &Engine<impl ReaderSet> {
        &self.engine
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        [&self.queue].into_iter()
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn try_synchronize(&self) -> bool {
        false
    }

    #[cfg(feature = "epoch")]
    fn has_active_owner(&self, _index: usize) -> bool {
        false
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        self.engine.wait_for(None, cookie);
        Ok(())
    }

    fn run(&self, callback: Callback) {
        // SAFETY: the contract of `Host::run`: the grace period has ended.
        assert!(unsafe { callback.run() }.is_none());
    }

    fn start_worker(&self) -> bool {
        (self.before_failure)();
        false
    }

    fn park(&self, due: u64) -> bool {
        if !self.is_taken.swap(false, Relaxed) {
            self.parked().push(due);
        }
        true
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
    let domain = Domain::new(|| ());
    let worker = CallbackWorker::new();
    worker.notify(false, &domain);
    let [due] = domain.parked()[..] else { panic!("the domain is parked") };
    for _ in 0..100 {
        worker.notify(false, &domain);
        assert_eq!(*domain.parked(), [due]);
    }
}

#[test]
fn domain_whose_task_is_taken_before_it_is_parked_gets_another() {
    for lazy in [false, true] {
        let domain = Domain::new(|| ());
        let worker = CallbackWorker::new();
        domain.is_taken.store(true, Relaxed);
        worker.notify(lazy, &domain);
        assert_eq!(domain.parked().len(), 1, "lazy: {lazy}");
    }
}

#[test]
fn barrier_goes_on_when_the_last_handle_is_dropped_in_a_stall_hook_and_no_worker_starts() {
    let _running = deadline();
    let (waiter, dropper) = (AtomicI32::new(0), tid());
    let (begin, begins) = channel();
    let begins = Mutex::new(begins);
    // Another thread calls `barrier` when there is to be a worker.
    let domain = Domain::new(|| {
        if tid() != dropper {
            return;
        }
        begin.send(()).expect("the waiter exists");
        let is_asleep = || {
            let path = format!("/proc/self/task/{}/stat", waiter.load(Relaxed));
            fs::read_to_string(path).is_ok_and(|stat| stat.contains(") S "))
        };
        while !is_asleep() {
            thread::yield_now();
        }
    });
    let worker = CallbackWorker::new();
    // SAFETY: no other thread pushes.
    let _ = unsafe { domain.queue.push(Callback::call(|| (), None), false) };
    thread::scope(|s| {
        let waits = || {
            begins.lock().expect("no thread panics").recv().expect("it begins");
            // From here on it sleeps in `barrier` only.
            waiter.store(tid(), Relaxed);
            worker.barrier(&domain)
        };
        let waiting = s.spawn(waits);
        stall::while_reporting(|| worker.close(&domain));
        assert_eq!(waiting.join().expect("it returns"), Ok(()));
    });
    assert_eq!(domain.queue.completed(), 1);
}
