//! Grace periods for those who do not wait in a thread of their own: futures, and cookies that were started.
//!
//! [`super::cookie`] leaves here what it wants: a waker with each future that was polled, or just the number of a grace
//! period. While there is such a wish, a job of the [pool](super::pool) drives grace periods: it waits for them as
//! `synchronize` does, hence shares them with all who wait, and wakes the futures that each of them serves. It is a track
//! of its own, on which nothing else is done.
//!
//! # Invariants
//!
//! 1. Everything is decided under one lock. While `driven` is set, the job will take the lock again before it stops, and it
//!    stops only when there is no wish left. Who leaves a wish and finds `driven` not set, sets it and submits the job.
//! 2. A member leaves its cohort when its grace period has ended, when its future is dropped, or because nobody can drive.
//!    So a future that has a ticket, is no member and whose grace period has not ended, was dismissed.
//! 3. Wakers are foreign code: they are cloned, called and dropped outside the lock, and may panic.
//!
//! # When nobody can drive
//!
//! If the pool has no thread for the job, or a grace period fails (a thread ended inside a section, the fence is denied),
//! all futures are dismissed: woken, to find out. Without a thread each waits where it is polled; a failure they pass on.

use core::mem;
use core::task::Waker;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use super::engine::{Due, Engine, Readers};
use crate::sync::{AtomicU64, ForkSafe, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom, step};

/// Why a grace period failed: the message for those who waited for it.
pub type Failure = Cow<'static, str>;

/// What the driver needs of the domain around it.
pub trait Host {
    type Readers: Readers;

    fn engine(&self) -> &Engine<Self::Readers>;

    fn driver(&self) -> &Driver;

    /// Has a thread call [`drive`]. False if there is none.
    fn submit(&self) -> bool;

    /// Waits until the next grace period has ended.
    fn wait_for_next(&self) -> Result<(), Failure>;
}

/// See the [module](self).
#[derive(Debug)]
pub struct Driver {
    wishes: ForkSafe<Mutex<Wishes>>,
    /// The last ticket given out. The child of a fork goes on counting: a future from before has none that is given again.
    tickets: AtomicU64,
}

/// What a future is told that was polled.
#[derive(Debug)]
pub enum Answer {
    /// Its grace period has ended.
    Elapsed,
    /// Its waker will be called.
    Waits,
    /// A grace period failed.
    Failed(Failure),
    /// There is no thread that could drive grace periods.
    Alone,
}

/// A future's place: 0 while it has none.
pub type Ticket = u64;

#[derive(Debug)]
struct Wishes {
    /// See invariant 1.
    driven: bool,
    /// The last grace period that is to end though nobody waits for it.
    started: Option<Due>,
    /// The futures, by the grace period they wait for.
    cohorts: Vec<Cohort>,
    /// Why the futures were dismissed the last time.
    failure: Option<Failure>,
}

/// Futures that wait for the same grace period.
#[derive(Debug)]
struct Cohort {
    due: Due,
    /// By ticket. Those without a waker have gone.
    members: Vec<(Ticket, Option<Waker>)>,
    gone: usize,
}

/// What the job does next.
enum Step {
    Wake(Cohort),
    Drive,
    Stop,
}

impl Driver {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { wishes: ForkSafe::new(Mutex::new(Wishes::new())), tickets: AtomicU64::new(0) }
        }
    }

    /// Sees to it that the grace period ends, if there is a thread for that.
    pub fn start(&self, host: &impl Host, due: Due) {
        let mut wishes = self.lock();
        wishes.started = wishes.started.max(Some(due));
        self.kick(host, wishes);
    }

    /// Has `waker` called when the grace period has ended. `ticket` is the future's, from its last call.
    pub fn poll(&self, host: &impl Host, due: Due, ticket: &mut Ticket, waker: &Waker) -> Answer {
        // Dropped after the lock is released, as is an old one that it is exchanged for.
        let mut own = Some(waker.clone());
        let mut wishes = self.lock();
        // Under the lock: who has been taken out by the job sees here that the grace period has ended.
        if host.engine().is_done(due) {
            *ticket = 0;
            return Answer::Elapsed;
        }
        if let Some(member) = wishes.member(due, *ticket) {
            mem::swap(member, &mut own);
            return Answer::Waits;
        }
        if mem::take(ticket) != 0
            && let Some(failure) = &wishes.failure
        {
            return Answer::Failed(failure.clone());
        }
        // Relaxed, under the lock: ascending in each cohort.
        let next = self.tickets.fetch_add(1, Relaxed) + 1;
        match wishes.add(due, next, &mut own) {
            Ok(()) => *ticket = next,
            // No memory: the future is polled again at once, until the grace period has ended.
            Err(_) => wishes.started = wishes.started.max(Some(due)),
        }
        if !self.kick(host, wishes) {
            *ticket = 0;
            return Answer::Alone;
        }
        if *ticket == 0 {
            waker.wake_by_ref();
        }
        Answer::Waits
    }

    /// The future with this ticket has gone.
    pub fn cancel(&self, due: Due, ticket: Ticket) {
        let mut wishes = self.lock();
        let waker = wishes.remove(due, ticket);
        drop(wishes);
        drop(waker);
    }

    /// Forgets all futures and what was started: in the child of a fork nobody drives. Futures that are polled there are
    /// taken in again.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract; references to the wishes live no longer than a call of a method.
        unsafe { self.wishes.overwrite(Mutex::new(Wishes::new())) };
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        // Nothing under the lock panics (invariant 3).
        self.wishes.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the job run, which there is a wish for. False if it cannot: everybody has been dismissed.
    fn kick(&self, host: &impl Host, mut wishes: MutexGuard<'_, Wishes>) -> bool {
        let driven = mem::replace(&mut wishes.driven, true);
        drop(wishes);
        if driven {
            return true;
        }
        if host.submit() {
            return true;
        }
        self.dismiss(None);
        false
    }

    /// Nobody drives from now on: wakes all futures, and forgets what was started.
    fn dismiss(&self, failure: Option<Failure>) {
        let mut wishes = self.lock();
        wishes.driven = false;
        wishes.started = None;
        let old = mem::replace(&mut wishes.failure, failure);
        let cohorts = mem::take(&mut wishes.cohorts);
        drop(wishes);
        drop(old);
        step!("dismissed-silently", cohorts.into_iter().for_each(Cohort::wake));
    }

    fn next<R>(&self, engine: &Engine<R>) -> Step {
        let mut wishes = self.lock();
        match wishes.cohorts.first() {
            Some(first) if engine.is_done(first.due) => Step::Wake(wishes.cohorts.remove(0)),
            Some(_) => Step::Drive,
            None if wishes.started.is_some_and(|due| !engine.is_done(due)) => Step::Drive,
            None => {
                step!("driven-for-good", wishes.driven = false);
                Step::Stop
            }
        }
    }
}

/// The job. Two at a time, as in the child of a fork that a waker made, do no harm.
pub fn drive(host: &impl Host) {
    let driver = host.driver();
    loop {
        match driver.next(host.engine()) {
            Step::Wake(cohort) => cohort.wake(),
            // The next grace period, as futures may be waiting for it by then, whatever is wanted now.
            Step::Drive => {
                if let Err(failure) = host.wait_for_next() {
                    return driver.dismiss(Some(failure));
                }
            }
            Step::Stop => return,
        }
    }
}

impl Wishes {
    const fn new() -> Self {
        Self { driven: false, started: None, cohorts: Vec::new(), failure: None }
    }

    /// Index of the cohort, or where it would be.
    fn cohort(&self, due: Due) -> Result<usize, usize> {
        self.cohorts.binary_search_by_key(&due, |cohort| cohort.due)
    }

    /// The waker of a member.
    fn member(&mut self, due: Due, ticket: Ticket) -> Option<&mut Option<Waker>> {
        let cohort = self.cohort(due).ok()?;
        self.cohorts[cohort].member(ticket)
    }

    /// Takes the waker for a new member, whose ticket is larger than those before. On error there is no memory, and the
    /// waker is left.
    fn add(&mut self, due: Due, ticket: Ticket, waker: &mut Option<Waker>) -> Result<(), TryReserveError> {
        let cohort = match self.cohort(due) {
            Ok(cohort) => &mut self.cohorts[cohort],
            Err(place) => {
                let mut members = Vec::new();
                members.try_reserve(1)?;
                self.cohorts.try_reserve(1)?;
                self.cohorts.insert(place, Cohort { due, members, gone: 0 });
                &mut self.cohorts[place]
            }
        };
        cohort.members.try_reserve(1)?;
        cohort.members.push((ticket, waker.take()));
        Ok(())
    }

    /// The waker of a member, which leaves.
    fn remove(&mut self, due: Due, ticket: Ticket) -> Option<Waker> {
        let place = self.cohort(due).ok()?;
        let cohort = &mut self.cohorts[place];
        let waker = cohort.member(ticket)?.take();
        cohort.gone += 1;
        // Now and then, so that it costs little for each, and those who come and go take no memory.
        if 2 * cohort.gone > cohort.members.len() {
            cohort.members.retain(|(_, waker)| waker.is_some());
            cohort.gone = 0;
        }
        if cohort.members.is_empty() {
            self.cohorts.remove(place);
        }
        waker
    }
}

impl Cohort {
    fn member(&mut self, ticket: Ticket) -> Option<&mut Option<Waker>> {
        let place = self.members.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
        Some(&mut self.members[place].1)
    }

    /// Calls the wakers, outside the lock.
    fn wake(self) {
        for waker in self.members.into_iter().filter_map(|(_, waker)| waker) {
            // A waker that panics has reported itself; the others are still called.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                // Its destructor could panic too.
                mem::forget(payload);
            }
        }
    }
}
