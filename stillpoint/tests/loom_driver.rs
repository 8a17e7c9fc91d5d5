//! Models of grace periods that are waited for by futures: the job that drives them, the threads that poll, and their sleep.
//! There are no readers, so grace periods end as soon as a thread leads them.
#![cfg(loom)]

mod model;

use loom::sync::{Arc, Mutex};
use loom::thread;
use model::check;
use stillpoint::grace_period::{cookie::Due, engine::Engine};
use stillpoint::rcu::block_on::block_on;
use stillpoint::rcu::driver::{Answer, Driver, Failure, Host, drive};
use stillpoint::readers::threads::{Sections, Threads};

struct Domain {
    engine: Engine<Threads<Sections, ()>>,
    driver: Driver,
    jobs: Mutex<Vec<thread::JoinHandle<()>>>,
    pool: Pool,
}

#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Works,
    /// There is no thread.
    Empty,
    /// Grace periods fail.
    Fails,
}

#[derive(Clone)]
struct Here(Arc<Domain>);

/// How a wait came to its end.
#[derive(Debug, PartialEq)]
enum End {
    Elapsed,
    Failed,
    /// The thread has waited by itself.
    Alone,
}

impl Host for Here {
    type Readers = Threads<Sections, ()>;

    fn engine(&self) -> &Engine<Threads<Sections, ()>> {
        &self.0.engine
    }

    fn driver(&self) -> &Driver {
        &self.0.driver
    }

    fn submit(&self) -> bool {
        if self.0.pool == Pool::Empty {
            return false;
        }
        let here = self.clone();
        let job = thread::spawn(move || drive(&here));
        self.0.jobs.lock().unwrap().push(job);
        true
    }

    fn wait_for_next(&self) -> Result<(), Failure> {
        if self.0.pool == Pool::Fails {
            return Err("there are none".into());
        }
        self.0.engine.drive(None);
        Ok(())
    }
}

impl Here {
    fn new(pool: Pool) -> Self {
        let engine = Engine::new(Threads::new(), || "Domain");
        Self(Arc::new(Domain { engine, driver: Driver::new(), jobs: Mutex::new(Vec::new()), pool }))
    }

    /// `GracePeriod::wait_timeout` without an end, and `Elapse::poll`.
    fn wait(&self, due: Due) -> End {
        let mut ticket = 0;
        let mut end = None;
        block_on(None, |waker| {
            end = if self.0.engine.is_done(due) {
                Some(End::Elapsed)
            } else {
                match self.0.driver.poll(self, due, &mut ticket, waker) {
                    Answer::Elapsed => Some(End::Elapsed),
                    Answer::Waits => None,
                    Answer::Failed(_) => Some(End::Failed),
                    Answer::Alone => {
                        self.0.engine.wait_for(None, due);
                        Some(End::Alone)
                    }
                }
            };
            end.is_some()
        });
        let end = end.unwrap();
        assert_eq!(self.0.engine.is_done(due), end != End::Failed);
        end
    }

    /// All jobs have ended: the last has stopped by itself.
    fn join(&self) {
        loop {
            let Some(job) = self.0.jobs.lock().unwrap().pop() else { return };
            job.join().unwrap();
        }
    }
}

#[test]
fn futures_are_woken_when_their_grace_periods_end() {
    check(0, 2, || {
        let here = Here::new(Pool::Works);
        let h = here.clone();
        let t = thread::spawn(move || assert_eq!(h.wait(h.0.engine.ask()), End::Elapsed));
        assert_eq!(here.wait(here.0.engine.ask()), End::Elapsed);
        t.join().unwrap();
        here.join();
    });
}

#[test]
fn job_is_submitted_for_each_wish_that_finds_none() {
    check(0, 3, || {
        let here = Here::new(Pool::Works);
        for _ in 0..2 {
            let due = here.0.engine.ask();
            here.0.driver.start(&here, due);
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
        let t = thread::spawn(move || assert_eq!(h.wait(h.0.engine.ask()), End::Failed));
        assert_eq!(here.wait(here.0.engine.ask()), End::Failed);
        t.join().unwrap();
        here.join();
    });
}

#[test]
fn futures_wait_by_themselves_without_a_thread_for_the_job() {
    check(0, 3, || {
        let here = Here::new(Pool::Empty);
        let h = here.clone();
        let t = thread::spawn(move || _ = h.wait(h.0.engine.ask()));
        here.wait(here.0.engine.ask());
        t.join().unwrap();
    });
}
