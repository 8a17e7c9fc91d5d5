//! Garbage of a collector: bags of deferred functions that wait for a grace period.
//!
//! Each participant has a [`Local`]: an open bag, and sealed ones, oldest first. A bag is *sealed* with a cookie when it is
//! full, when its participant collects, and by a flush. Sealed bags are dropped, which calls their functions, when the
//! grace period of the cookie has elapsed:
//!
//! | by | when | whose bags |
//! |---|---|---|
//! | [`collect`](Global::collect) | a participant pins after it has sealed a bag, and each 128th time | its own |
//! | [`drop_elapsed`](Global::drop_elapsed) | a participant flushes, or pins after it has flushed | all |
//! | [`sweep`](Global::sweep) | in a thread of the library, a grace period after a bag has got its first function, and again while some wait | those of participants that have ended, or have not collected for some time |
//!
//! # Invariants
//!
//! 1. A cookie is taken after all functions of its bag were deferred, under the lock of the [`Local`]: so it may be taken
//!    by any thread.
//! 2. The thread that has claimed a [`Local`] alone takes its sealed bags, until all that it has taken have been
//!    dropped. So functions of a participant run in order.
//! 3. If a [`Local`] has functions, a sweep is pending or about to run. A participant that has pushed into an empty bag looks
//!    whether one is. A sweep says first that none is pending, and looks at all locals afterwards. Of two such
//!    accesses under one lock, the later one sees what the other thread has written before.
//! 4. No function runs under a lock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use stillpoint::Domain;
use stillpoint::rcu::DeferOptions;

use crate::deferred::{Bag, Deferred, SealedBag};
use crate::fork;
use crate::limits::Backlog;
use crate::schedule::Schedule;

/// Sweeps after which a participant that has not collected counts as idle: some ten milliseconds.
const IDLE_SWEEPS: u32 = 8;
/// The fewest bags that a participant may drop when it collects.
const STEPS: usize = 8;
/// How long a flush waits for other threads that drop bags: several times what a thread waits for a busy CPU.
const PATIENCE: Duration = Duration::from_millis(50);

thread_local! {
    /// The thread drops a bag. Until then it drops no other: the functions would nest.
    static IS_DROPPING: Cell<bool> = const { Cell::new(false) };
    /// The thread is in [`Global::sweep`]: what it defers there must not wait until it counts as idle.
    static IS_SWEEPING: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a participant has deferred. Other threads seal and drop its bags too.
struct Local<D: Domain> {
    /// That of its [`State`].
    generation: u32,
    bags: Mutex<Bags<D>>,
}

struct Bags<D: Domain> {
    open: Bag,
    sealed: VecDeque<SealedBag<D>>,
    /// See (2).
    is_claimed: bool,
    /// Functions and bags that have been sealed since the participant last collected.
    since: [usize; 2],
    /// Sweeps since then.
    sweeps: u32,
    /// Nothing is pushed any more.
    has_ended: bool,
}

impl<D: Domain> Bags<D> {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }

    fn seal(&mut self, global: &Global<D>, backlog: &Backlog) {
        if !self.open.is_empty() {
            let bag = mem::take(&mut self.open);
            backlog.add(bag.len(), bag.bytes());
            self.since = [self.since[0] + bag.len(), self.since[1] + 1];
            self.sealed.push_back(SealedBag::new(bag, global.domain.clone()));
        }
    }
}

/// The participant's end of its [`Local`], which is made when it first defers a function.
pub(crate) struct Owned<D: Domain>(RefCell<Option<Arc<Local<D>>>>);

impl<D: Domain> Owned<D> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(None))
    }
}

/// What all participants share, in one process: the child of a fork begins anew.
struct State<D: Domain> {
    generation: u32,
    locals: Mutex<Vec<Arc<Local<D>>>>,
    backlog: Backlog,
    /// A sweep is pending.
    is_sweeping: AtomicBool,
    /// Functions that had run when a flush last waited in vain.
    run_at_impatience: AtomicU64,
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
            let fresh = Box::into_raw(Box::new(State {
                generation: fork::generation(),
                locals: Mutex::default(),
                backlog: Backlog::new(),
                is_sweeping: AtomicBool::new(false),
                run_at_impatience: AtomicU64::new(u64::MAX),
            }));
            // Release: publishes the state; pairs with the Acquires here and in `existing`. What the parent of a fork has
            // deferred stays where it is: another thread may have been changing it.
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

    /// Defers a function that frees `bytes`. The participant is pinned.
    ///
    /// # Safety
    ///
    /// The function may be called after a grace period of the domain, by any thread, however late.
    pub(crate) unsafe fn defer(
        &self,
        owned: &Owned<D>,
        schedule: &Schedule,
        function: Deferred,
        bytes: usize,
    ) {
        let state = self.state();
        let is_first = {
            let owned = &mut *owned.0.borrow_mut();
            let local = match owned {
                Some(local) if local.generation == state.generation => local,
                _ => owned.insert(state.add_local()),
            };
            let mut bags = lock(&local.bags);
            let is_first = bags.open.is_empty();
            if is_first && IS_SWEEPING.get() {
                bags.sweeps = IDLE_SWEEPS;
            }
            bags.open.push(function, bytes);
            if bags.open.is_full() {
                bags.seal(self, &state.backlog);
                schedule.collect_soon();
            }
            is_first
        };
        // Relaxed, here and in `sweep`: see (3).
        if is_first && !state.is_sweeping.load(Relaxed) && !state.is_sweeping.swap(true, Relaxed) {
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

    /// Drops the bags of participants that have ended or are idle.
    fn sweep(&self) {
        let state = self.state();
        state.is_sweeping.store(false, Relaxed);
        let (mut idle, mut is_any_left) = (Vec::new(), false);
        for local in &*lock(&state.locals) {
            let mut bags = lock(&local.bags);
            bags.sweeps = bags.sweeps.saturating_add(1);
            if bags.has_ended || bags.sweeps > IDLE_SWEEPS {
                bags.seal(self, &state.backlog);
                idle.push(Arc::clone(local));
            } else {
                is_any_left |= !bags.is_empty();
            }
        }
        IS_SWEEPING.set(true);
        for local in &idle {
            self.drop_bags(local, usize::MAX);
            is_any_left |= !lock(&local.bags).is_empty();
        }
        IS_SWEEPING.set(false);
        lock(&state.locals).retain(|local| {
            let bags = lock(&local.bags);
            !bags.has_ended || !bags.is_empty()
        });
        if is_any_left && !state.is_sweeping.swap(true, Relaxed) {
            self.arm();
        }
    }

    /// Before the participant pins: drops some of its bags, or those of all participants if it has flushed. It is
    /// throttled if too much waits.
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
        if let Some(local) = local {
            let mut bags = lock(&local.bags);
            bags.sweeps = 0;
            bags.seal(self, &state.backlog);
            let is_empty = bags.sealed.is_empty();
            let [functions, count] = mem::take(&mut bags.since);
            drop(bags);
            if !is_empty {
                if schedule.may_lead(pins, functions) {
                    let begin = Instant::now();
                    self.domain.try_synchronize();
                    schedule.has_led(begin.elapsed());
                }
                // More than it has sealed, so that fewer wait.
                self.drop_bags(&local, STEPS + 2 * count);
            }
        }
        if state.backlog.is_above_limit() {
            self.throttle(true);
        }
    }

    /// Seals all bags, and tries a grace period. Returns `true` if bags wait.
    fn try_all(&self) -> bool {
        let Some(state) = self.existing() else { return false };
        let mut is_any = false;
        for local in &*lock(&state.locals) {
            let mut bags = lock(&local.bags);
            bags.seal(self, &state.backlog);
            is_any |= !bags.sealed.is_empty() || bags.is_claimed;
        }
        if is_any {
            self.domain.try_synchronize();
        }
        is_any
    }

    /// Drops the bags of all participants that have elapsed. Waits for other threads that drop some, but not for ever: a
    /// function may wait for the caller. After a caller that has waited in vain, no other waits until a function has
    /// run.
    pub(crate) fn drop_elapsed(&self) {
        let Some(state) = self.existing().filter(|_| !IS_DROPPING.get()) else { return };
        let mut until = None;
        let mut must_wait = || {
            let run = state.backlog.run();
            // Relaxed, both: a bound needs no order.
            if state.run_at_impatience.load(Relaxed) == run {
                return false;
            }
            if Instant::now() > *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
                state.run_at_impatience.store(run, Relaxed);
                return false;
            }
            thread::yield_now();
            true
        };
        for local in state.locals() {
            while !self.drop_bags(&local, usize::MAX) && must_wait() {}
        }
    }

    /// Drops bags that have elapsed, at most `limit`, and none that are sealed from now on. Returns `false` if another
    /// thread drops some.
    fn drop_bags(&self, local: &Local<D>, limit: usize) -> bool {
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
            bags = lock(&local.bags);
        }
        bags.is_claimed = false;
        true
    }

    fn drop_bag(&self, bag: Bag) {
        let (count, bytes) = (bag.len(), bag.bytes());
        let nested = IS_DROPPING.replace(true);
        // SAFETY: the grace period of its cookie has elapsed, or there are no participants; the contract of `defer`.
        unsafe { bag.run() };
        IS_DROPPING.set(nested);
        self.state().backlog.remove(count, bytes);
    }

    /// Returns `true` if the participant must leave its section where it could do without: it has flushed, or too much
    /// waits.
    pub(crate) fn must_leave(&self, schedule: &Schedule) -> bool {
        schedule.has_flushed() || self.existing().is_some_and(|state| state.backlog.is_above_limit())
    }

    /// What the participant does outside of its section when it begins another one, and may call no functions.
    pub(crate) fn between_sections(&self, schedule: &Schedule) {
        if schedule.take_flush() {
            self.try_all();
        }
        self.throttle(false);
    }

    /// Blocks until less waits, but not for long: see [`crate::limits`]. The participant is not pinned. If it may not `drop_some`, it waits for
    /// other threads to do that.
    #[cold]
    fn throttle(&self, drop_some: bool) {
        let Some(state) = self.existing().filter(|_| !IS_DROPPING.get()) else { return };
        if !state.backlog.is_above_limit() {
            return;
        }
        let end = Instant::now() + state.backlog.timeout();
        let mut pause = Duration::from_micros(20);
        loop {
            self.try_all();
            if drop_some {
                for local in state.locals() {
                    self.drop_bags(&local, usize::MAX);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if !state.backlog.is_above_limit() {
                return;
            }
            if left.is_zero() {
                return state.backlog.timed_out();
            }
            thread::sleep(pause.min(left));
            pause = (2 * pause).min(Duration::from_millis(4));
        }
    }

    /// The participant ends: other threads drop its bags.
    pub(crate) fn end(&self, owned: &Owned<D>) {
        let Some(local) = owned.0.take() else { return };
        let Some(state) = self.existing().filter(|state| state.generation == local.generation) else {
            return;
        };
        let is_empty = {
            let mut bags = lock(&local.bags);
            bags.seal(self, &state.backlog);
            bags.has_ended = true;
            bags.is_empty()
        };
        if is_empty {
            lock(&state.locals).retain(|other| !Arc::ptr_eq(other, &local));
        }
    }
}

impl<D: Domain> State<D> {
    fn add_local(&self) -> Arc<Local<D>> {
        let bags = Bags {
            open: Bag::default(),
            sealed: VecDeque::new(),
            is_claimed: false,
            since: [0; 2],
            sweeps: 0,
            has_ended: false,
        };
        let local = Arc::new(Local { generation: self.generation, bags: Mutex::new(bags) });
        lock(&self.locals).push(Arc::clone(&local));
        local
    }

    fn locals(&self) -> Vec<Arc<Local<D>>> {
        lock(&self.locals).clone()
    }
}

impl<D: Domain> Drop for Global<D> {
    /// There are no participants any more: drops all bags.
    fn drop(&mut self) {
        let Some(state) = self.existing() else { return };
        for local in state.locals() {
            let (sealed, open) = {
                let mut bags = lock(&local.bags);
                (mem::take(&mut bags.sealed), mem::take(&mut bags.open))
            };
            sealed.into_iter().map(SealedBag::into_inner).chain([open]).for_each(|bag| self.drop_bag(bag));
        }
        // SAFETY: it came from a box, and no thread uses it any more.
        drop(unsafe { Box::from_raw(*self.state.get_mut()) });
    }
}
