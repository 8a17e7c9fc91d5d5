//! Futures that wait for grace periods or for barriers, without a thread of their own: a future that is polled leaves
//! its waker here. A grace period can also be *started*: it ends although no thread and no future waits for it.
//!
//! # Grace periods
//!
//! While a future waits or a grace period is started, a task of the [pool](super::pool), the *poller*, waits for one
//! grace period after the other as `synchronize` does, hence shares them with all other waiters, and wakes the
//! futures that each of them serves. It does nothing else: a callback that blocks the domain's worker does not delay
//! it. It waits for the first grace period that had not ended when it looked at the futures. A later one may have
//! readers that began after a future's grace period had ended, and that wait for the task of that future.
//!
//! A waker may block, too. So before the poller calls the wakers that a grace period serves, it stops being the
//! poller: another task takes its place, if anything is left to wait for. A waker that blocks delays the wakers of
//! the same grace period only, and no thread in [`block_on`](crate::sync::block_on::block_on).
//!
//! # Barriers
//!
//! A *round* waits until each queue has completed what it contained when the round began. It serves the futures that
//! were there by then; later ones are served by the next round. So a future is woken once, whatever else the worker
//! does, and waits for two rounds at most. The domain's worker ends rounds when it has run callbacks: no thread waits
//! for them. A waker may wait for callbacks of the domain. So no worker calls the wakers of a round: another thread
//! does ([`submit`]), or the worker when it has stopped being the worker.
//!
//! # Invariants
//!
//! 1. One lock orders all decisions about grace periods, another one all about barriers.
//! 2. While `running` is set, the poller or one that takes its place takes the lock again before it stops, and it
//!    stops only if no future waits and all started grace periods have ended. A thread that leaves a waker or starts
//!    a grace period, and finds `running` clear, sets it and submits the poller.
//! 3. The worker looks at the round after it has run callbacks, an owner if it has run some that are awaited, and a
//!    future after it has become one: the last of these finds that the round has ended. While there is a round, the
//!    worker is urgent, and there is one, or a domain that is parked and will have one: the thread whose future finds
//!    none provides it.
//! 4. A waker leaves the map when what it waits for has ended, when its future is dropped, or when it is dismissed.
//!    So a future that has an id, is not in the map and whose wait has not ended, was dismissed.
//! 5. Wakers are code of the program: they are cloned, called and dropped outside the lock, and may panic.
//!
//! # When no thread can be had
//!
//! If the pool has no thread, or a grace period fails, all futures are *dismissed*: they are woken. When they are
//! polled, they wait in the polling thread, which panics if its grace period fails too.

use core::mem;
use core::task::Waker;
use std::sync::PoisonError;

use super::callback::wake_all;
use super::hazards::Hazards;
use super::pool;
use super::pool::state::Task;
use super::queue::Queue;
use crate::fence::try_heavy;
use crate::grace_period::engine::{Denied, GpCookie};
use crate::readers::any::AnyEngine;
use crate::sync::ordered::OrderedMap;
use crate::sync::{AtomicU64, ForkSafe, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom, step};

/// Identifies a future among those that wait: 0 while it is not one of them.
pub type WaiterId = u64;

/// What the poll of a future found.
#[derive(Debug, PartialEq, Eq)]
pub enum PollResult {
    /// The grace period, or the barrier, has ended.
    Ended,
    /// The waker will be called.
    Pending,
    /// No thread will call it: the caller must wait itself.
    Dismissed,
}

/// Futures that wait, and what is decided under their lock.
#[derive(Debug)]
pub(super) struct Waiters<S> {
    locked: ForkSafe<Mutex<Locked<S>>>,
    /// The last id given out. The child of a fork continues counting, so that it never repeats the id of an inherited
    /// future.
    last_id: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Locked<S> {
    /// The wakers, by the number of what they wait for, of which a smaller one ends no later, and by id.
    pub(super) wakers: OrderedMap<Waker>,
    state: S,
}

impl<S> Locked<S> {
    const fn new(state: S) -> Self {
        Self { wakers: OrderedMap::new(), state }
    }

    /// Removes the first wakers: of what has ended, at most so many.
    pub(super) fn take_served(&mut self, most: usize, has_ended: impl Fn(u64) -> bool) -> Vec<Waker> {
        let mut served = Vec::new();
        while let Some(first) =
            self.wakers.first_from((0, 0)).filter(|first| has_ended(first.0) && served.len() < most)
        {
            served.extend(self.wakers.remove(first));
        }
        served
    }

    /// Removes all wakers. Returns them.
    fn dismiss(&mut self) -> Vec<Waker> {
        mem::replace(&mut self.wakers, OrderedMap::new()).into_values()
    }
}

impl<S> Waiters<S> {
    const_unless_loom! {
        pub(super) fn new(state: S) -> Self {
            Self { locked: ForkSafe::new(Mutex::new(Locked::new(state))), last_id: AtomicU64::new(0) }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Locked<S>> {
        // Nothing under the lock panics (5).
        self.locked.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an id that no other future has.
    pub(super) fn next_id(&self) -> WaiterId {
        // Relaxed: only the numbers matter.
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Removes a future that is dropped.
    fn remove(&self, number: u64, id: WaiterId) {
        let waker = self.lock().wakers.remove((number, id));
        drop(waker);
    }

    /// Forgets all futures.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub(super) unsafe fn reset_in_child(&self, state: S) {
        // SAFETY: the caller's contract; references to the value live no longer than a call of a method.
        unsafe { self.locked.overwrite(Mutex::new(Locked::new(state))) };
    }
}

/// The futures that wait for grace periods: see the [module](self).
#[derive(Debug)]
pub struct GpPoller(Waiters<PollerState>);

#[derive(Debug)]
struct PollerState {
    /// See invariant 2.
    running: bool,
    /// The last grace period that is to end even if no future waits for it.
    started: Option<GpCookie>,
    /// The futures were dismissed because a grace period failed.
    has_failed: bool,
}

impl PollerState {
    const NEW: Self = Self { running: false, started: None, has_failed: false };
}

/// What the poller does next.
enum Step {
    /// Call these. `true`: another poller is to take the place of this one, else none is needed.
    Wake(Vec<Waker>, bool),
    /// Wait for this grace period: the first that had not ended before the look at the futures.
    WaitFor(GpCookie),
    Stop,
}

impl GpPoller {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(Waiters::new(PollerState::NEW))
        }
    }

    /// Makes sure that the grace period ends, if there is a thread for the poller. `submit` has a thread call
    /// [`run`](Self::run), or returns `false` if there is none.
    pub fn start(&self, cookie: GpCookie, submit: impl FnOnce() -> bool) {
        let mut waiters = self.0.lock();
        waiters.state.started = waiters.state.started.max(Some(cookie));
        self.ensure_running(submit, waiters);
    }

    /// Has `waker` called when the grace period has ended. `id` is the future's, as its last call left it. `submit`
    /// as for [`start`](Self::start).
    pub fn poll(
        &self,
        engine: &AnyEngine,
        cookie: GpCookie,
        id: &mut WaiterId,
        waker: &Waker,
        submit: impl FnOnce() -> bool,
    ) -> PollResult {
        // Dropped after the lock is released, as is the waker that it replaces.
        let mut waker = waker.clone();
        let mut waiters = self.0.lock();
        // Under the lock: a future that the poller has taken out finds here that its grace period has ended.
        if engine.is_done(cookie) {
            *id = 0;
            return PollResult::Ended;
        }
        if let Some(last) = waiters.wakers.get_mut((cookie.number(), *id)) {
            mem::swap(last, &mut waker);
            return PollResult::Pending;
        }
        if mem::take(id) != 0 && waiters.state.has_failed {
            return PollResult::Dismissed;
        }
        *id = self.0.next_id();
        waiters.wakers.insert((cookie.number(), *id), waker);
        if self.ensure_running(submit, waiters) {
            PollResult::Pending
        } else {
            *id = 0;
            PollResult::Dismissed
        }
    }

    /// Removes a future that is dropped.
    pub fn cancel(&self, cookie: GpCookie, id: WaiterId) {
        self.0.remove(cookie.number(), id);
    }

    /// Forgets all futures, and what was started: the child of a fork has no poller. Futures that are polled there
    /// become waiters again.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.reset_in_child(PollerState::NEW) };
    }

    /// Submits the poller if it does not run. Returns `false` if it cannot run: all futures have been dismissed.
    fn ensure_running(
        &self,
        submit: impl FnOnce() -> bool,
        mut waiters: MutexGuard<'_, Locked<PollerState>>,
    ) -> bool {
        let was_running = mem::replace(&mut waiters.state.running, true);
        drop(waiters);
        if was_running || submit() {
            return true;
        }
        self.dismiss(false);
        false
    }

    /// The poller's task. `submit` as for [`start`](Self::start). `wait_for` blocks until the grace period has
    /// ended, or returns `false` if this thread must not go on. Returns `true` if this must then be called again
    /// later. Two pollers at a time do no harm.
    pub fn run(
        &self,
        engine: &AnyEngine,
        submit: impl Fn() -> bool,
        wait_for: impl Fn(GpCookie) -> Result<bool, Denied>,
    ) -> bool {
        let mut may_go_on = true;
        loop {
            match self.next(engine) {
                Step::Wake(wakers, is_needed) => {
                    let is_replaced = !is_needed || submit();
                    wake_all(wakers);
                    if is_replaced {
                        return false;
                    }
                }
                Step::WaitFor(_) if !may_go_on => return true,
                // Whichever the futures wait for now: others may wait for this one by then.
                Step::WaitFor(cookie) => match wait_for(cookie) {
                    Ok(may) => may_go_on = may,
                    Err(Denied) => {
                        self.dismiss(true);
                        return false;
                    }
                },
                Step::Stop => return false,
            }
        }
    }

    /// The poller stops for good: wakes all futures, and forgets what was started.
    pub(super) fn dismiss(&self, has_failed: bool) {
        let mut waiters = self.0.lock();
        waiters.state = PollerState { has_failed, ..PollerState::NEW };
        let dismissed = waiters.dismiss();
        drop(waiters);
        step!("waiters-dropped-without-notify", wake_all(dismissed));
    }

    fn next(&self, engine: &AnyEngine) -> Step {
        let mut waiters = self.0.lock();
        // Before the look: if it ends after this, the wait for it returns at once.
        let next = engine.next();
        let served = waiters.take_served(usize::MAX, |number| engine.is_done(GpCookie::from_number(number)));
        let started = waiters.state.started;
        let is_needed = !waiters.wakers.is_empty() || started.is_some_and(|cookie| !engine.is_done(cookie));
        if !is_needed {
            step!("polled-forever", waiters.state.running = false);
        }
        match (served.is_empty(), is_needed) {
            (false, _) => Step::Wake(served, is_needed),
            (true, true) => Step::WaitFor(next),
            (true, false) => Step::Stop,
        }
    }
}

/// The futures that wait for barriers: see the [module](self#barriers). Each waits for its own id.
#[derive(Debug)]
pub struct BarrierRounds(Waiters<Rounds>);

#[derive(Debug)]
struct Rounds {
    /// Futures up to this one have been served, or were dismissed.
    done: WaiterId,
    round: Option<Round>,
}

#[derive(Debug)]
struct Round {
    /// The last future that it serves.
    last: WaiterId,
    /// How much each queue must have completed.
    marks: Vec<u64>,
    /// How often the queues must reach new marks afterwards.
    passes_left: u32,
    /// No thread has looked at the queues after the heavy fence that follows the marks, if one must.
    is_awaited: bool,
}

/// Returns how often the queues must reach marks: what a hazard pointer protected before a barrier may be found by
/// the first pass only to be kept.
pub fn passes(hazards: Option<&Hazards>) -> u32 {
    if hazards.is_some() { 2 } else { 1 }
}

/// Has a thread of the [pool](super::pool) call the wakers. Returns the call if there is none.
#[must_use]
pub fn submit(wakers: Vec<Waker>) -> Option<Task> {
    if wakers.is_empty() { None } else { pool::submit_or_park(Box::new(|| wake_all(wakers))).err() }
}

/// [`submit`], or calls them. The calling thread is not the domain's worker.
pub fn wake(wakers: Vec<Waker>) {
    if let Some(call) = submit(wakers) {
        call();
    }
}

impl Round {
    fn begin_pass<'a>(&mut self, queues: impl Iterator<Item = &'a Queue>, hazards: Option<&Hazards>) {
        self.passes_left -= 1;
        self.marks = queues.map(|queue| queue.await_tail(|| self.is_awaited = true)).collect();
        if let Some(hazards) = hazards {
            hazards.expedite();
        }
    }

    /// Returns `true` if all has run.
    fn has_ended<'a, Q>(&mut self, queues: impl Fn() -> Q, hazards: Option<&Hazards>) -> bool
    where
        Q: Iterator<Item = &'a Queue>,
    {
        // The order of queues does not change.
        while queues().zip(&self.marks).all(|(queue, mark)| queue.completed() >= *mark) {
            if self.passes_left == 0 {
                return true;
            }
            self.begin_pass(queues(), hazards);
        }
        false
    }
}

impl BarrierRounds {
    const_unless_loom! {
        pub fn new() -> Self {
            Self(Waiters::new(Rounds { done: 0, round: None }))
        }
    }

    /// Adds a future. Returns its id.
    pub fn add(&self, waker: Waker) -> WaiterId {
        let mut waiters = self.0.lock();
        let id = self.0.next_id();
        waiters.wakers.insert((id, 0), waker);
        id
    }

    /// Polls a future that was added.
    pub fn poll(&self, id: &mut WaiterId, waker: &Waker) -> PollResult {
        // Dropped after the lock is released, as is the waker that it replaces.
        let mut waker = waker.clone();
        let mut waiters = self.0.lock();
        if let Some(last) = waiters.wakers.get_mut((*id, 0)) {
            mem::swap(last, &mut waker);
            return PollResult::Pending;
        }
        // In the child of a fork too, which has nothing that was deferred in the parent.
        if mem::take(id) <= waiters.state.done { PollResult::Ended } else { PollResult::Dismissed }
    }

    /// Removes a future that is dropped.
    pub fn remove(&self, id: WaiterId) {
        self.0.remove(id, 0);
    }

    /// Ends the round if the queues have reached its marks, and begins the next one if there are futures for it.
    /// Returns the wakers to call, and `true` if it has begun a round that has not ended: the caller makes sure that
    /// there is a worker. `urgent` counts the round.
    pub fn advance<'a, Q>(
        &self,
        urgent: &AtomicU64,
        queues: impl Fn() -> Q,
        hazards: Option<&Hazards>,
    ) -> (Vec<Waker>, bool)
    where
        Q: Iterator<Item = &'a Queue>,
    {
        let (mut served, mut has_begun) = (Vec::new(), false);
        let mut waiters = self.0.lock();
        loop {
            if let Some(round) = &mut waiters.state.round {
                if !round.has_ended(&queues, hazards) {
                    if !mem::take(&mut round.is_awaited) {
                        break;
                    }
                    drop(waiters);
                    // Pairs with the light fence in `Queue::run_local`.
                    step!("round-without-fence", try_heavy());
                    waiters = self.0.lock();
                    continue;
                }
                let last = round.last;
                waiters.state = Rounds { done: last, round: None };
                // Relaxed, here and below: ordered by changes of the worker's state.
                urgent.fetch_sub(1, Relaxed);
                served.append(&mut waiters.take_served(usize::MAX, |id| id <= last));
            }
            has_begun = !waiters.wakers.is_empty();
            if !has_begun {
                break;
            }
            urgent.fetch_add(1, Relaxed);
            // Relaxed: ids are given out under the lock.
            let last = self.0.last_id.load(Relaxed);
            let mut round =
                Round { last, marks: Vec::new(), passes_left: passes(hazards), is_awaited: false };
            round.begin_pass(queues(), hazards);
            waiters.state.round = Some(round);
        }
        (served, has_begun)
    }

    /// Dismisses all futures. Returns the wakers to call.
    pub fn dismiss(&self, urgent: &AtomicU64) -> Vec<Waker> {
        let mut waiters = self.0.lock();
        if waiters.state.round.take().is_some() {
            urgent.fetch_sub(1, Relaxed);
        }
        waiters.dismiss()
    }

    /// Forgets all futures.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // Relaxed: the only thread.
        let state = Rounds { done: self.0.last_id.load(Relaxed), round: None };
        // SAFETY: the caller's contract.
        unsafe { self.0.reset_in_child(state) };
    }
}
