//! Garbage of a collector: bags of deferred functions that wait for a grace period.
//!
//! Each participant has a [`Local`]: an open bag, and sealed ones, oldest first. A bag is *sealed* with a cookie when
//! it is full, when its participant collects, by a flush, and by a sweep. Sealed bags are dropped, which calls their
//! functions, when the grace period of the cookie has elapsed:
//!
//! | by | when | whose bags |
//! |---|---|---|
//! | [`collect`](Global::collect) | a participant pins after it has sealed a bag, and each 128th time | its own |
//! | [`drop_elapsed`](Global::drop_elapsed) | a participant flushes, or pins after it has flushed | all |
//! | [`sweep`](Global::sweep) | in a thread of the library, a grace period after a [`Local`] has become busy, and again while some are | the orphans, and those of participants that have not collected for some time |
//!
//! A `Local` is *busy* while it has functions: no loop visits the others. *Orphans* are a `Local` that belongs to no
//! participant, and takes over what participants leave that end.
//!
//! # Invariants
//!
//! 1. A cookie is taken after all functions of its bag were deferred, under the lock of the [`Local`]: so it may be
//!    taken by any thread.
//! 2. The thread that has claimed a [`Local`] alone takes its sealed bags, until all that it has taken have been
//!    dropped. So functions of a participant run in order.
//! 3. A [`Local`] that has functions, or is claimed, is in the list of busy ones: this changes under its lock. If the
//!    list is not empty, a sweep is pending or runs: this changes under the lock of the list, which is taken after
//!    that of a `Local`.
//! 4. No function runs under a lock.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use stillpoint::Domain;
use stillpoint::rcu::DeferOptions;

use crate::deferred::{Bag, Deferred, SealedBag};
use crate::fork;
use crate::schedule::Schedule;
use crate::state::{IDLE_SWEEPS, Local, STEPS, State, lock};

/// How long a flush waits for other threads that drop bags: several times what a thread waits for a busy CPU.
const PATIENCE: Duration = Duration::from_millis(50);

thread_local! {
    /// The thread drops a bag. Until then it drops no other: the functions would nest.
    static IS_DROPPING: Cell<bool> = const { Cell::new(false) };
    /// The thread is in [`Global::sweep`]: what it defers there must not wait until it counts as idle.
    static IS_SWEEPING: Cell<bool> = const { Cell::new(false) };
}

/// The participant's end of its [`Local`], which is made when it first defers a function.
pub(crate) struct Owned<D: Domain>(RefCell<Option<Arc<Local<D>>>>);

impl<D: Domain> Owned<D> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(None))
    }
}

/// How a sweep finds its [`Global`].
#[derive(Clone)]
pub(crate) enum This<D: Domain> {
    Static(&'static Global<D>),
    Counted(Weak<Global<D>>),
}

/// See the [module](self).
pub(crate) struct Global<D: Domain> {
    domain: D,
    this: This<D>,
    /// Null before the first use.
    state: AtomicPtr<State<D>>,
}

impl<D: Domain> Global<D> {
    pub(crate) const fn new(domain: D, this: This<D>) -> Self {
        Self { domain, this, state: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn domain(&self) -> &D {
        &self.domain
    }

    /// Returns the state of this process, if it has one.
    fn existing(&self) -> Option<&State<D>> {
        // Acquire: the state is initialized; pairs with the Release in `state`.
        // SAFETY: states are freed with this value, or not at all.
        unsafe { self.state.load(Acquire).as_ref() }.filter(|state| state.generation == fork::generation())
    }

    fn state(&self) -> &State<D> {
        #[cold]
        fn make<D: Domain>(global: &Global<D>) -> &State<D> {
            fork::register();
            // Relaxed: the comparison only.
            let before = global.state.load(Relaxed);
            let fresh = Box::into_raw(Box::new(State::new()));
            // Release: publishes the state; pairs with the Acquires here and in `existing`. What the parent of a fork
            // has deferred stays where it is: another thread may have been changing it.
            match global.state.compare_exchange(before, fresh, Release, Acquire) {
                // SAFETY: as in `existing`.
                Ok(_) => unsafe { &*fresh },
                Err(faster) => {
                    // SAFETY: no other thread has `fresh`; for `faster` as in `existing`.
                    unsafe {
                        drop(Box::from_raw(fresh));
                        &*faster
                    }
                }
            }
        }
        self.existing().unwrap_or_else(|| make(self))
    }

    /// Defers a function. The participant is pinned. Without an `owned`, the function is an
    /// orphan.
    ///
    /// # Safety
    ///
    /// The function may be called after a grace period of the domain, by any thread, however late.
    pub(crate) unsafe fn defer(&self, owned: Option<&Owned<D>>, schedule: &Schedule, function: Deferred) {
        let state = self.state();
        let must_arm = {
            let mut owned = owned.map(|owned| owned.0.borrow_mut());
            let local = match owned.as_deref_mut() {
                Some(Some(local)) if local.generation == state.generation => local,
                Some(none) => none.insert(Local::new(state.generation, 0)),
                None => &state.orphans,
            };
            let mut bags = lock(&local.bags);
            bags.open.push(function);
            if bags.open.is_full() {
                bags.seal(&self.domain);
                schedule.collect_soon();
            }
            let is_first = !bags.is_listed;
            if is_first && IS_SWEEPING.get() {
                bags.sweeps = IDLE_SWEEPS;
            }
            is_first && state.list(local, &mut bags)
        };
        if must_arm {
            self.arm();
        }
    }

    /// Has [`sweep`](Self::sweep) called after a grace period.
    #[cold]
    fn arm(&self) {
        let this = self.this.clone();
        let sweep = move || match this {
            This::Static(global) => global.sweep(),
            This::Counted(global) => _ = global.upgrade().inspect(|global| global.sweep()),
        };
        self.domain.call_with(sweep, DeferOptions::new().heap_bytes(0));
    }

    /// While functions wait: each second, has the domain look for a thread again. It may have been unable to start
    /// one.
    fn poke(&self, state: &State<D>, now: Instant) {
        let second = now.duration_since(state.start).as_secs();
        // Relaxed, both: a hint.
        if state.poked.load(Relaxed) != second && state.poked.swap(second, Relaxed) != second {
            self.domain.call_with(|| (), DeferOptions::new().heap_bytes(0));
        }
    }

    /// Drops the orphans, and the bags of participants that are idle.
    fn sweep(&self) {
        let Some(state) = self.existing() else { return };
        for local in state.locals() {
            let mut bags = lock(&local.bags);
            bags.sweeps = bags.sweeps.saturating_add(1);
            if bags.sweeps > IDLE_SWEEPS {
                bags.seal(&self.domain);
                drop(bags);
                IS_SWEEPING.set(true);
                self.drop_bags(&local, usize::MAX);
                IS_SWEEPING.set(false);
                if local.is_of_parent() {
                    return;
                }
                bags = lock(&local.bags);
            }
            if !bags.is_busy() {
                state.unlist(&local, &mut bags);
            }
        }
        let is_any_left = {
            let mut busy = lock(&state.busy);
            busy.is_swept = !busy.locals.is_empty();
            busy.is_swept
        };
        if is_any_left {
            self.arm();
        }
    }

    /// Before the participant pins: drops some of its bags, or those of all participants if it has flushed.
    #[cold]
    pub(crate) fn collect(&self, owned: &Owned<D>, schedule: &Schedule) {
        if IS_DROPPING.get() {
            return;
        }
        let pins = schedule.begin();
        let Some(state) = self.existing() else { return };
        if schedule.take_flush() && self.try_all() {
            self.drop_elapsed();
        }
        let local = owned.0.borrow().clone().filter(|local| local.generation == state.generation);
        let Some(local) = local else { return };
        let mut bags = lock(&local.bags);
        bags.sweeps = 0;
        bags.seal(&self.domain);
        let is_empty = bags.sealed.is_empty();
        let [functions, count] = mem::take(&mut bags.since);
        drop(bags);
        if is_empty {
            return;
        }
        if schedule.may_lead(pins, functions) {
            let begin = Instant::now();
            self.poke(state, begin);
            self.domain.try_synchronize();
            schedule.has_led(begin.elapsed());
        }
        // More than it has sealed, so that fewer wait.
        self.drop_bags(&local, STEPS + 2 * count);
    }

    /// Seals all bags, and tries a grace period. Returns `true` if bags wait.
    fn try_all(&self) -> bool {
        let Some(state) = self.existing() else { return false };
        let mut is_any = false;
        for local in state.locals() {
            let mut bags = lock(&local.bags);
            bags.seal(&self.domain);
            is_any |= bags.is_busy();
        }
        if is_any {
            self.poke(state, Instant::now());
            let is_elapsed =
                |local: &Arc<Local<D>>| lock(&local.bags).sealed.iter().all(SealedBag::is_elapsed);
            // A bag that was sealed while another thread's attempt failed waits for two grace periods.
            if self.domain.try_synchronize() && !state.locals().iter().all(is_elapsed) {
                self.domain.try_synchronize();
            }
        }
        is_any
    }

    /// Drops the bags of all participants that have elapsed. Waits for other threads that drop some, but not for
    /// ever: a function may wait for the caller. After a caller that has waited in vain, no other waits until a bag
    /// has been dropped.
    pub(crate) fn drop_elapsed(&self) {
        let Some(state) = self.existing().filter(|_| !IS_DROPPING.get()) else { return };
        let mut until = None;
        let mut must_wait = || {
            // Relaxed, all: a bound needs no order.
            let dropped = state.dropped.load(Relaxed);
            if state.dropped_at_impatience.load(Relaxed) == dropped {
                return false;
            }
            if Instant::now() > *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
                state.dropped_at_impatience.store(dropped, Relaxed);
                return false;
            }
            thread::yield_now();
            true
        };
        for local in state.locals() {
            while !self.drop_bags(&local, usize::MAX) && must_wait() {}
        }
    }

    /// Drops bags that have elapsed, at most `limit`, and none that are sealed from now on. Returns `false` if
    /// another thread drops some.
    fn drop_bags(&self, local: &Local<D>, limit: usize) -> bool {
        if local.is_of_parent() {
            return true;
        }
        let mut bags = lock(&local.bags);
        if bags.is_claimed {
            return false;
        }
        let limit = limit.min(bags.sealed.len());
        bags.is_claimed = true;
        for _ in 0..limit {
            if !bags.sealed.front().is_some_and(SealedBag::is_elapsed) {
                break;
            }
            let Some(sealed) = bags.sealed.pop_front() else { break };
            drop(bags);
            self.drop_bag(sealed.into_inner());
            if local.is_of_parent() {
                return true;
            }
            bags = lock(&local.bags);
        }
        bags.is_claimed = false;
        true
    }

    fn drop_bag(&self, bag: Bag) {
        // Before: a function may fork.
        let state = self.state();
        let nested = IS_DROPPING.replace(true);
        // SAFETY: the grace period of its cookie has elapsed, or there are no participants; the contract of `defer`.
        unsafe { bag.run() };
        IS_DROPPING.set(nested);
        state.dropped.fetch_add(1, Relaxed);
    }

    /// What the participant does outside of its section when it begins another one, and may call no functions.
    pub(crate) fn between_sections(&self, schedule: &Schedule) {
        if schedule.take_flush() {
            self.try_all();
        }
    }

    /// The participant ends: its functions become orphans. If another thread drops some of them, sweeps drop the
    /// rest.
    pub(crate) fn end(&self, owned: &Owned<D>) {
        let Some(local) = owned.0.take() else { return };
        let Some(state) = self.existing().filter(|state| state.generation == local.generation) else {
            return;
        };
        let mut must_arm = false;
        {
            let mut bags = lock(&local.bags);
            bags.sweeps = IDLE_SWEEPS;
            if !bags.is_claimed {
                if bags.is_busy() {
                    let mut orphans = lock(&state.orphans.bags);
                    orphans.sealed.append(&mut bags.sealed);
                    orphans.open.append(mem::take(&mut bags.open));
                    if orphans.open.is_full() {
                        orphans.seal(&self.domain);
                    }
                    must_arm = state.list(&state.orphans, &mut orphans);
                }
                // After this: a flush that does not find it finds the orphans.
                state.unlist(&local, &mut bags);
            }
        }
        if must_arm {
            self.arm();
        }
        self.poke(state, Instant::now());
    }

    /// There are no participants any more: drops all bags. Waits for the sweep, unless it is called by a function.
    pub(crate) fn finish(&self) {
        let Some(state) = self.existing() else { return };
        for local in state.locals() {
            if local.is_of_parent() {
                return;
            }
            let mut bags = lock(&local.bags);
            while bags.is_claimed && !IS_DROPPING.get() {
                drop(bags);
                thread::yield_now();
                bags = lock(&local.bags);
            }
            if bags.is_claimed {
                continue;
            }
            bags.seal(&self.domain);
            let sealed = mem::take(&mut bags.sealed);
            drop(bags);
            for bag in sealed {
                if local.is_of_parent() {
                    return;
                }
                self.drop_bag(bag.into_inner());
            }
        }
    }
}

impl<D: Domain> Drop for Global<D> {
    fn drop(&mut self) {
        // What was left to a sweep, which has ended.
        self.finish();
        if self.existing().is_some() {
            // SAFETY: it came from a box, and no thread uses it any more.
            drop(unsafe { Box::from_raw(*self.state.get_mut()) });
        }
    }
}
