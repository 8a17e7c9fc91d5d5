//! Models of grace periods that futures wait for: the poller, the threads that poll, and their sleep. There are no
//! readers, so a grace period ends as soon as a thread leads it.
#![cfg(loom)]

mod model;

use loom::sync::{Arc, Mutex};
use loom::thread;
use model::check;
use stillpoint::grace_period::{cookie::GpCookie, engine::Engine};
use stillpoint::rcu::block_on::block_on;
use stillpoint::readers::threads::{Memb, ThreadReaders};
use stillpoint::reclaim::poller::{Failure, GpPoller, Host, PollResult, run};

struct Domain {
    engine: Engine<ThreadReaders<Memb, ()>>,
    poller: GpPoller,
    pollers: Mutex<Vec<thread::JoinHandle<()>>>,
    pool: Pool,
}

#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Works,
    /// There is no thread for the poller.
    Empty,
    /// Grace periods fail.
    Fails,
}

#[derive(Clone)]
struct Here(Arc<Domain>);

/// How a wait ended.
#[derive(Debug, PartialEq)]
enum End {
    Elapsed,
    Failed,
    /// The thread has waited for the grace period itself.
    InPlace,
}

impl Host for Here {
    type Readers = ThreadReaders<Memb, ()>;

    fn engine(&self) -> &Engine<ThreadReaders<Memb, ()>> {
        &self.0.engine
    }

    fn poller(&self) -> &GpPoller {
        &self.0.poller
    }

    fn submit(&self) -> bool {
        if self.0.pool == Pool::Empty {
            return false;
        }
        let here = self.clone();
        let poller = thread::spawn(move || run(&here));
        self.0.pollers.lock().unwrap().push(poller);
        true
    }

    fn wait_for_next(&self) -> Result<(), Failure> {
        if self.0.pool == Pool::Fails {
            return Err("there are none".into());
        }
        self.0.engine.wait_for_next(None);
        Ok(())
    }
}

impl Here {
    fn new(pool: Pool) -> Self {
        let engine = Engine::new(ThreadReaders::new(), || "Domain");
        Self(Arc::new(Domain { engine, poller: GpPoller::new(), pollers: Mutex::new(Vec::new()), pool }))
    }

    /// As `GracePeriod::wait_timeout` without a limit, and `Elapse::poll`.
    fn wait(&self, due: GpCookie) -> End {
        let mut id = 0;
        let mut end = None;
        block_on(None, |waker| {
            end = if self.0.engine.is_done(due) {
                Some(End::Elapsed)
            } else {
                match self.0.poller.poll(self, due, &mut id, waker) {
                    PollResult::Elapsed => Some(End::Elapsed),
                    PollResult::Pending => None,
                    PollResult::Failed(_) => Some(End::Failed),
                    PollResult::NoThread => {
                        self.0.engine.wait_for(None, due);
                        Some(End::InPlace)
                    }
                }
            };
            end.is_some()
        });
        let end = end.unwrap();
        assert_eq!(self.0.engine.is_done(due), end != End::Failed);
        end
    }

    /// Joins all pollers: the last stops by itself.
    fn join(&self) {
        loop {
            let Some(poller) = self.0.pollers.lock().unwrap().pop() else { return };
            poller.join().unwrap();
        }
    }
}

#[test]
fn grace_period_end_wakes_its_futures() {
    check(0, 2, || {
        let here = Here::new(Pool::Works);
        let h = here.clone();
        let t = thread::spawn(move || assert_eq!(h.wait(h.0.engine.snapshot()), End::Elapsed));
        assert_eq!(here.wait(here.0.engine.snapshot()), End::Elapsed);
        t.join().unwrap();
        here.join();
    });
}

#[test]
fn start_without_a_running_poller_submits_one() {
    check(0, 3, || {
        let here = Here::new(Pool::Works);
        for _ in 0..2 {
            let due = here.0.engine.snapshot();
            here.0.poller.start(&here, due);
            assert_eq!(here.wait(due), End::Elapsed);
        }
        here.join();
    });
}

#[test]
fn failed_grace_period_wakes_all_futures() {
    check(0, 2, || {
        let here = Here::new(Pool::Fails);
        let h = here.clone();
        let t = thread::spawn(move || assert_eq!(h.wait(h.0.engine.snapshot()), End::Failed));
        assert_eq!(here.wait(here.0.engine.snapshot()), End::Failed);
        t.join().unwrap();
        here.join();
    });
}

#[test]
fn futures_wait_in_place_without_a_poller_thread() {
    check(0, 3, || {
        let here = Here::new(Pool::Empty);
        let h = here.clone();
        let t = thread::spawn(move || _ = h.wait(h.0.engine.snapshot()));
        here.wait(here.0.engine.snapshot());
        t.join().unwrap();
    });
}
