//! What cannot be tested from outside in a short time: here callers above the limits lose their patience early.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::*;
use crate::deadline::deadline;
use crate::fence;
use crate::readers::reader::Reader;
use crate::readers::threads::{Memb, ThreadReaders};
use crate::reclaim::backlog::THROTTLE_TIMEOUT;
use crate::reclaim::queue::PushAction;

/// A domain without the threads of the library.
struct TestDomain {
    callbacks: &'static CallbackWorker,
    engine: &'static Engine<ThreadReaders<Memb, Queue>>,
}

impl TestDomain {
    fn new() -> &'static Self {
        let callbacks = Box::leak(Box::new(CallbackWorker::new()));
        Box::leak(Box::new(Self {
            callbacks,
            engine: Box::leak(Box::new(Engine::new(ThreadReaders::<Memb, Queue>::new(), || "TestDomain"))),
        }))
    }

    fn queue(&self, own: &Reader) -> &'static Queue {
        self.engine.readers().registry().attached_to(own)
    }

    fn defer(&'static self, own: &Reader, f: impl FnOnce() + Send + 'static) {
        // SAFETY: the calling thread has claimed the reader.
        let chores = unsafe { self.queue(own).push(Callback::call(f, 0), false) };
        self.callbacks.notify(false, &self);
        if chores == PushAction::Flush {
            self.callbacks.flush(
                self.queue(own),
                || Caller { is_owner: true, is_inside: false, wait: MayWait::Yes },
                &self,
            );
        }
    }
}

impl Host for &'static TestDomain {
    fn engine(&self) -> &Engine<impl ReaderSet> {
        self.engine
    }

    fn queues(&self) -> &impl CallbackQueues {
        self.engine.readers()
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn wait_for(&self, due: GpCookie) -> Result<(), Denied> {
        self.engine.wait_for(None, due);
        Ok(())
    }

    fn run(&self, entry: Callback) {
        // SAFETY: the callbacks give us entries whose grace period is over.
        unsafe { entry.run() };
    }

    fn fence(&self) {
        fence::heavy();
    }

    fn try_synchronize(&self) {}

    fn start_worker(&self) -> bool {
        let world = *self;
        thread::Builder::new().spawn(move || world.callbacks.work(&world, || false)).is_ok()
    }
}

#[test]
fn throttled_caller_holding_a_callbacks_lock_times_out() {
    static LOCK: Mutex<u64> = Mutex::new(0);
    const LIMIT: u64 = 2 * BLOCK;
    let _running = deadline();
    let world = TestDomain::new();
    let own = world.engine.readers().registry().claim().expect("there is memory");
    world.callbacks.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let count = || *LOCK.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    let tally = || world.callbacks.tally(world.engine.readers());
    let mut deferred = 0;
    let mut defer = || {
        deferred += 1;
        world.defer(own, count);
    };
    for _ in 0..3 {
        let before = tally().overruns;
        let held = LOCK.lock().expect("no panic");
        let start = Instant::now();
        while tally().overruns == before {
            defer();
        }
        assert!(start.elapsed() >= THROTTLE_TIMEOUT);
        // From now on it waits for a moment only.
        for _ in 0..LIMIT {
            defer();
        }
        assert!(tally().overruns >= before + LIMIT / BLOCK);
        drop(held);
        // The backlog gets small again, and with it the patience long.
        world.callbacks.barrier(&world).expect("the fence is not denied");
        loop {
            let before = tally();
            defer();
            let after = tally();
            if after.waits != before.waits && after.overruns == before.overruns {
                break;
            }
        }
        world.callbacks.barrier(&world).expect("the fence is not denied");
    }
    assert_eq!(*LOCK.lock().expect("no panic"), deferred);
}
