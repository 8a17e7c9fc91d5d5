//! Grace periods without a waiting thread: for futures, and for cookies that were started.
//!
//! A future that is polled leaves its waker here. [`crate::rcu::GracePeriod`] may also start a grace period for which
//! no thread waits. While there is either, a task of the [worker pool](super::worker_pool), the *poller*, waits for one
//! grace period after the other as `synchronize` does, hence shares them with all other waiters, and wakes the futures
//! that each of them serves. It does nothing else: a callback that blocks the domain's worker does not delay it.
//!
//! A waker may block, too. So before the poller calls the wakers that a grace period serves, it stops being the poller:
//! another task takes its place, if anything is left to wait for. A waker that blocks delays the wakers of the same grace
//! period only, and no thread in [`block_on`](crate::sync::block_on::block_on).
//!
//! # Invariants
//!
//! 1. One lock orders all decisions. While `running` is set, the poller or one that takes its place takes the lock again
//!    before it stops, and it stops only if no future waits and all started grace periods have ended. A thread that leaves
//!    a waker or starts a grace period, and finds `running` clear, sets it and submits the poller.
//! 2. A waker leaves the map when its grace period has ended, when its future is dropped, or when no poller can run. So
//!    a future that has an id, is not in the map and whose grace period has not ended, was dismissed.
//! 3. Wakers are code of the program: they are cloned, called and dropped outside the lock, and may panic.
//!
//! # When no poller can run
//!
//! If the pool has no thread, or a grace period fails, all futures are dismissed: they are woken. When they are
//! polled, they wait in the polling thread, which panics if its grace period fails too.

use core::mem;
use core::task::Waker;
use std::sync::PoisonError;

use super::running::wake_all;
use crate::grace_period::engine::{Denied, GpCookie};
use crate::readers::any::AnyEngine;
use crate::sync::ordered::OrderedMap;
use crate::sync::{AtomicU64, ForkSafe, Mutex, MutexGuard, Ordering::Relaxed, const_unless_loom, step};

/// See the [module](self).
#[derive(Debug)]
pub struct GpPoller {
    waiters: ForkSafe<Mutex<Waiters>>,
    /// The last id given out. The child of a fork continues counting, so that it never repeats the id of an inherited
    /// future.
    last_id: AtomicU64,
}

/// What [`GpPoller::poll`] found.
#[derive(Debug)]
pub enum PollResult {
    /// The grace period has ended.
    Elapsed,
    /// The waker will be called.
    Pending,
    /// There is no poller: the caller must wait itself.
    NoPoller,
}

/// Identifies a future among the waiters: 0 while it is not one of them.
pub type WaiterId = u64;

#[derive(Debug)]
struct Waiters {
    /// See invariant 1.
    running: bool,
    /// The last grace period that is to end even if no future waits for it.
    started: Option<GpCookie>,
    /// The wakers, by the numbers of the grace periods that they wait for. A smaller one ends no later.
    wakers: OrderedMap<Waker>,
    /// The futures were dismissed because a grace period failed.
    has_failed: bool,
}

/// What the poller does next.
enum Step {
    /// Call these. `true`: another poller is to take the place of this one, else none is needed.
    Wake(Vec<Waker>, bool),
    WaitForNext,
    Stop,
}

impl GpPoller {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { waiters: ForkSafe::new(Mutex::new(Waiters::new())), last_id: AtomicU64::new(0) }
        }
    }

    /// Makes sure that the grace period ends, if there is a thread for the poller. `submit` has a thread call
    /// [`run`](Self::run), or returns `false` if there is none.
    pub fn start(&self, cookie: GpCookie, submit: impl FnOnce() -> bool) {
        let mut waiters = self.lock();
        waiters.started = waiters.started.max(Some(cookie));
        self.ensure_running(submit, waiters);
    }

    /// Has `waker` called when the grace period has ended. `id` is the future's, as its last call left it. `submit` as
    /// for [`start`](Self::start).
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
        let mut waiters = self.lock();
        // Under the lock: a future that the poller has taken out finds here that its grace period has ended.
        if engine.is_done(cookie) {
            *id = 0;
            return PollResult::Elapsed;
        }
        if let Some(last) = waiters.wakers.get_mut((cookie.number(), *id)) {
            mem::swap(last, &mut waker);
            return PollResult::Pending;
        }
        if mem::take(id) != 0 && waiters.has_failed {
            return PollResult::NoPoller;
        }
        // Relaxed: only the numbers matter.
        *id = self.last_id.fetch_add(1, Relaxed) + 1;
        waiters.wakers.insert((cookie.number(), *id), waker);
        if self.ensure_running(submit, waiters) {
            PollResult::Pending
        } else {
            *id = 0;
            PollResult::NoPoller
        }
    }

    /// Removes a future that is dropped.
    pub fn cancel(&self, cookie: GpCookie, id: WaiterId) {
        let mut waiters = self.lock();
        let waker = waiters.wakers.remove((cookie.number(), id));
        drop(waiters);
        drop(waker);
    }

    /// Forgets all futures, and what was started: the child of a fork has no poller. Futures that are polled there
    /// become waiters again.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, and was not in the middle of another method when it forked.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract; references to the waiters live no longer than a call of a method.
        unsafe { self.waiters.overwrite(Mutex::new(Waiters::new())) };
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // Nothing under the lock panics (invariant 3).
        self.waiters.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits the poller if it does not run. Returns `false` if it cannot run: all futures have been dismissed.
    fn ensure_running(&self, submit: impl FnOnce() -> bool, mut waiters: MutexGuard<'_, Waiters>) -> bool {
        let was_running = mem::replace(&mut waiters.running, true);
        drop(waiters);
        if was_running || submit() {
            return true;
        }
        self.dismiss(false);
        false
    }

    /// The poller's task. `submit` as for [`start`](Self::start). `wait_for_next` blocks until the next grace period has
    /// ended, or returns `false` if this thread must not go on. Returns `true` if this must then be called again
    /// later. Two pollers at a time do no harm.
    pub fn run(
        &self,
        engine: &AnyEngine,
        submit: impl Fn() -> bool,
        wait_for_next: impl Fn() -> Result<bool, Denied>,
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
                Step::WaitForNext if !may_go_on => return true,
                // The next grace period, whichever the futures wait for now: others may wait for it by then.
                Step::WaitForNext => match wait_for_next() {
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
        let old = mem::replace(&mut *self.lock(), Waiters { has_failed, ..Waiters::new() });
        step!("waiters-dropped-without-notify", wake_all(old.wakers.into_values().collect()));
    }

    fn next(&self, engine: &AnyEngine) -> Step {
        let mut waiters = self.lock();
        let Waiters { running, started, wakers, .. } = &mut *waiters;
        let mut done = Vec::new();
        let is_done = |number| engine.is_done(GpCookie::from_number(number));
        while let Some(first) = wakers.first_from((0, 0)).filter(|first| is_done(first.0)) {
            done.extend(wakers.remove(first));
        }
        let is_needed = !wakers.is_empty() || started.is_some_and(|cookie| !engine.is_done(cookie));
        if !is_needed {
            step!("polled-forever", *running = false);
        }
        match (done.is_empty(), is_needed) {
            (false, _) => Step::Wake(done, is_needed),
            (true, true) => Step::WaitForNext,
            (true, false) => Step::Stop,
        }
    }
}

impl Waiters {
    const fn new() -> Self {
        Self { running: false, started: None, wakers: OrderedMap::new(), has_failed: false }
    }
}
