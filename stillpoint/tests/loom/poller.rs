//! Models of grace periods that futures wait for: the poller, the threads that poll, and their sleep. There are no
//! readers, so a grace period ends as soon as a thread leads it.

use stillpoint::grace_period::engine::{Denied, Engine, GpCookie};
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::scan::ThreadReaders;
use stillpoint::reclaim::poller::{GpPoller, PollResult};
use stillpoint::sync::block_on::block_on;
use support::model::*;

struct Shared {
    engine: Engine<ThreadReaders<()>>,
    poller: GpPoller,
    pollers: Mutex<Vec<thread::JoinHandle<()>>>,
    pool: Pool,
    /// The last grace period that any future waits for, if the model knows it.
    last: Mutex<Option<GpCookie>>,
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
struct Domain(Arc<Shared>);

/// How a wait ended.
#[derive(Debug, PartialEq)]
enum End {
    Elapsed,
    /// The thread has waited for the grace period itself.
    InPlace,
}

impl Domain {
    fn new(pool: Pool) -> Self {
        let engine = Engine::new(ThreadReaders::new(ReaderProtocol::Sections), || "Domain");
        Self(Arc::new(Shared {
            engine,
            poller: GpPoller::new(),
            pollers: Mutex::new(Vec::new()),
            pool,
            last: Mutex::new(None),
        }))
    }

    /// Has a thread run the poller.
    fn submit(&self) -> bool {
        if self.0.pool == Pool::Empty {
            return false;
        }
        let domain = self.clone();
        let wait_for = move |cookie| {
            if domain.0.pool == Pool::Fails {
                return Err(Denied);
            }
            let last = *domain.0.last.lock().unwrap();
            assert!(last.is_none_or(|last| cookie <= last), "it would wait for readers that began later");
            domain.0.engine.wait_for(None, cookie);
            Ok(true)
        };
        let domain = self.clone();
        let poller = thread::spawn(move || {
            assert!(!domain.0.poller.run(&domain.0.engine, || domain.submit(), wait_for));
        });
        self.0.pollers.lock().unwrap().push(poller);
        true
    }

    /// As `GracePeriod::wait_timeout` without a limit, and `Elapse::poll`.
    fn wait(&self, cookie: GpCookie) -> End {
        let mut id = 0;
        let mut end = None;
        block_on(None, |waker| {
            end = if self.0.engine.is_done(cookie) {
                Some(End::Elapsed)
            } else {
                match self.0.poller.poll(&self.0.engine, cookie, &mut id, waker, || self.submit()) {
                    PollResult::Ended => Some(End::Elapsed),
                    PollResult::Pending => None,
                    PollResult::Dismissed => {
                        self.0.engine.wait_for(None, cookie);
                        Some(End::InPlace)
                    }
                }
            };
            end.is_some()
        });
        let end = end.unwrap();
        assert!(self.0.engine.is_done(cookie));
        end
    }

    /// Two threads wait for grace periods. Returns how, once all pollers have ended: the last stops by itself.
    fn wait_twice(&self) -> (End, End) {
        let own = |domain: &Self| domain.wait(domain.0.engine.snapshot());
        let ends = race(&Arc::new(self.clone()), own, own);
        self.join();
        ends
    }

    /// Joins all pollers.
    fn join(&self) {
        loop {
            let Some(poller) = self.0.pollers.lock().unwrap().pop() else { return };
            poller.join().unwrap();
        }
    }
}

/// Refutes: notification-not-published, notification-taken-late, polled-forever
#[test]
fn grace_period_end_wakes_its_futures() {
    check(0, 2, || {
        assert_eq!(Domain::new(Pool::Works).wait_twice(), (End::Elapsed, End::Elapsed));
    });
}

/// Another thread completes the grace period that a future waits for. Readers that begin then may wait for the task of
/// the future.
/// Refutes: poller-waits-for-later-readers, next-after-look
#[test]
fn poller_waits_for_no_later_grace_period_than_futures() {
    check(0, 2, || {
        let domain = Domain::new(Pool::Works);
        let cookie = domain.0.engine.snapshot();
        *domain.0.last.lock().unwrap() = Some(cookie);
        let wait = move |domain: &Domain| assert_eq!(domain.wait(cookie), End::Elapsed);
        race(&Arc::new(domain.clone()), wait, |domain| domain.0.engine.synchronize(None));
        domain.join();
    });
}

#[test]
fn start_without_a_running_poller_submits_one() {
    check(0, 3, || {
        let domain = Domain::new(Pool::Works);
        for _ in 0..2 {
            let cookie = domain.0.engine.snapshot();
            domain.0.poller.start(cookie, || domain.submit());
            assert_eq!(domain.wait(cookie), End::Elapsed);
        }
        domain.join();
    });
}

/// A thread may be slow between taking its cookie and starting it. By then, others have waited for the cookie and
/// started a later one.
/// Refutes: older-start-counts
#[test]
fn grace_period_elapses_although_an_older_one_is_started_later() {
    check(0, 3, || {
        let domain = Domain::new(Pool::Works);
        let engine = &domain.0.engine;
        let older = engine.snapshot();
        engine.synchronize(None);
        let later = engine.snapshot();
        for cookie in [later, older] {
            domain.0.poller.start(cookie, || domain.submit());
        }
        domain.join();
        assert!(engine.is_done(later));
    });
}

/// Refutes: waiters-dropped-without-notify
#[test]
fn failed_grace_period_wakes_all_futures() {
    check(0, 2, || {
        Domain::new(Pool::Fails).wait_twice();
    });
}

/// Refutes: waiters-dropped-without-notify
#[test]
fn futures_wait_in_place_without_a_poller_thread() {
    check(0, 3, || {
        Domain::new(Pool::Empty).wait_twice();
    });
}
