//! Barriers without a waiting thread: for futures.
//!
//! A *round* waits until each queue has completed what it contained when the round began. It serves the futures that were
//! there by then; later ones are served by the next round. So a future is woken once, whatever else the worker does, and
//! waits for two rounds at most. The domain's worker ends rounds when it has run callbacks: no thread waits for them.
//!
//! A waker may block, and may wait for callbacks of the domain. So no worker calls the wakers of a round: another
//! thread does ([`submit`]), or the worker when it has stopped being the worker. A waker that blocks delays those of
//! the same round only.
//!
//! # Invariants
//!
//! 1. One lock orders all decisions. The worker looks at the round after it has run callbacks, and a future after it has
//!    become one: the second of the two finds that the round has ended.
//! 2. While there is a round, the worker is urgent, and there is one, or a domain that is parked and will have one: the
//!    thread whose future finds none provides it. Where none can be provided any more, and when a grace period fails, all
//!    futures are *dismissed*: they are woken, and the threads that poll them wait as callers of `barrier` do.
//! 3. Wakers are code of the program: they are cloned, called and dropped outside the lock, and may panic.

use core::mem;
use core::task::Waker;
use std::sync::PoisonError;

use super::hazards::Hazards;
use super::poller::WaiterId;
use super::pool_state::Task;
use super::queue::Queue;
use super::running;
#[cfg(not(loom))]
use super::worker_pool;
use crate::sync::ordered::{Key, OrderedMap};
use crate::sync::{AtomicU64, ForkSafe, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct BarrierRounds {
    state: ForkSafe<Mutex<State>>,
    /// The number of the last future; the first one is 1. The child of a fork continues counting, as it may drop or poll
    /// inherited futures.
    last_id: AtomicU64,
}

/// What a poll found.
#[derive(Debug, PartialEq, Eq)]
pub enum BarrierPoll {
    /// All has run.
    Ended,
    /// The waker will be called.
    Pending,
    /// There is no worker: the caller must wait itself.
    Dismissed,
}

/// What the lock protects.
#[derive(Debug)]
struct State {
    /// Futures up to this one have been served or dismissed.
    done: WaiterId,
    round: Option<Round>,
    /// The futures that wait; without a waker those that were dismissed and have not been polled since.
    wakers: OrderedMap<Option<Waker>>,
}

/// See the [module](self).
#[derive(Debug)]
struct Round {
    /// The last future that it serves.
    last: WaiterId,
    /// How much each queue must have completed.
    marks: Vec<u64>,
    /// How often the queues must reach new marks afterwards.
    passes_left: u32,
}

/// Returns how often the queues must reach marks: what a hazard pointer protected before a barrier may be found by the first
/// pass only to be kept.
pub fn passes(hazards: Option<&Hazards>) -> u32 {
    if hazards.is_some() { 2 } else { 1 }
}

/// Has a thread of the [pool](super::worker_pool) call the wakers. Returns the call if there is none.
#[must_use]
pub fn submit(wakers: Vec<Waker>) -> Option<Task> {
    if wakers.is_empty() {
        return None;
    }
    let call = || running::wake_all(wakers);
    #[cfg(not(loom))]
    return worker_pool::try_submit(Box::new(call)).err();
    #[cfg(loom)]
    {
        call();
        None
    }
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
        self.marks = queues.map(Queue::tail).collect();
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

/// The key of a future.
fn key(id: WaiterId) -> Key {
    (0, id)
}

impl State {
    const NEW: Self = Self { done: 0, round: None, wakers: OrderedMap::new() };

    /// Returns `true` if there are futures for another round.
    fn is_awaited(&self) -> bool {
        self.wakers.first_from(key(self.done + 1)).is_some()
    }

    /// Removes the futures up to `last`. Returns their wakers.
    fn serve(&mut self, last: WaiterId) -> Vec<Waker> {
        let mut served = Vec::new();
        while let Some(first) = self.wakers.first_from(key(self.done + 1)).filter(|first| *first <= key(last))
        {
            served.extend(self.wakers.remove(first).flatten());
        }
        self.done = last;
        served
    }

    /// Dismisses all futures, up to `last`. Returns their wakers.
    fn dismiss(&mut self, last: WaiterId) -> Vec<Waker> {
        let mut dismissed = Vec::new();
        while let Some(first) = self.wakers.first_from(key(self.done + 1)) {
            dismissed.extend(self.wakers.get_mut(first).and_then(Option::take));
            self.done = first.1;
        }
        self.done = last;
        dismissed
    }
}

impl BarrierRounds {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { state: ForkSafe::new(Mutex::new(State::NEW)), last_id: AtomicU64::new(0) }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics (3).
        self.state.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a future. Returns its number.
    pub fn add(&self, waker: Waker) -> WaiterId {
        let mut state = self.lock();
        // Relaxed, here and below: under the lock.
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        state.wakers.insert(key(id), Some(waker));
        id
    }

    /// Polls a future that was added.
    pub fn poll(&self, id: &mut WaiterId, waker: &Waker) -> BarrierPoll {
        // Dropped after the lock is released, as is the waker that it replaces.
        let mut waker = waker.clone();
        let mut state = self.lock();
        match state.wakers.get_mut(key(*id)) {
            Some(Some(last)) => {
                mem::swap(last, &mut waker);
                BarrierPoll::Pending
            }
            Some(None) => {
                state.wakers.remove(key(mem::take(id)));
                BarrierPoll::Dismissed
            }
            // Also in the child of a fork, which has nothing that was deferred in the parent.
            None => {
                *id = 0;
                BarrierPoll::Ended
            }
        }
    }

    /// Removes a future that is dropped.
    pub fn remove(&self, id: WaiterId) {
        let waker = self.lock().wakers.remove(key(id));
        drop(waker);
    }

    /// Ends the round if the queues have reached its marks, and begins the next one if there are futures for it. Returns
    /// the wakers to call, and `true` if it has begun a round that has not ended: the caller makes sure that there is a
    /// worker. `urgent` counts the round.
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
        let mut state = self.lock();
        loop {
            if let Some(round) = &mut state.round {
                if !round.has_ended(&queues, hazards) {
                    break;
                }
                let last = round.last;
                state.round = None;
                // Relaxed, here and below: ordered by changes of the worker's state.
                urgent.fetch_sub(1, Relaxed);
                served.append(&mut state.serve(last));
            }
            has_begun = state.is_awaited();
            if !has_begun {
                break;
            }
            urgent.fetch_add(1, Relaxed);
            let mut round =
                Round { last: self.last_id.load(Relaxed), marks: Vec::new(), passes_left: passes(hazards) };
            round.begin_pass(queues(), hazards);
            state.round = Some(round);
        }
        (served, has_begun)
    }

    /// Dismisses all futures. Returns the wakers to call.
    pub fn dismiss(&self, urgent: &AtomicU64) -> Vec<Waker> {
        let mut state = self.lock();
        if state.round.take().is_some() {
            urgent.fetch_sub(1, Relaxed);
        }
        state.dismiss(self.last_id.load(Relaxed))
    }

    /// Forgets all futures.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract; references to the state live no longer than a call of a method.
        unsafe { self.state.overwrite(Mutex::new(State::NEW)) };
    }
}
