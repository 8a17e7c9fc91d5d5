//! What participants have deferred, and which of them are busy: the data of [`crate::global`].

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stillpoint::Domain;

use crate::deferred::{Bag, SealedBag};
use crate::fork;

/// Sweeps after which a participant that has not collected counts as idle: some ten milliseconds.
pub(crate) const IDLE_SWEEPS: u32 = 8;
/// The fewest bags that a participant may drop when it collects.
pub(crate) const STEPS: usize = 8;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a participant has deferred. Other threads seal and drop its bags too.
pub(crate) struct Local<D: Domain> {
    /// That of its [`State`].
    pub(crate) generation: u32,
    pub(crate) bags: Mutex<Bags<D>>,
}

impl<D: Domain> Local<D> {
    pub(crate) fn new(generation: u32, sweeps: u32) -> Arc<Self> {
        let bags = Bags {
            open: Bag::default(),
            sealed: VecDeque::new(),
            is_claimed: false,
            is_listed: false,
            since: [0; 2],
            sweeps,
        };
        Arc::new(Self { generation, bags: Mutex::new(bags) })
    }

    /// Returns `true` after a fork, in the child. Another thread of the parent may have held the lock.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.generation != fork::generation()
    }
}

pub(crate) struct Bags<D: Domain> {
    pub(crate) open: Bag,
    pub(crate) sealed: VecDeque<SealedBag<D>>,
    /// See (2) in [`crate::global`].
    pub(crate) is_claimed: bool,
    /// It is among those of [`Busy`]: see (3).
    pub(crate) is_listed: bool,
    /// Functions and bags that have been sealed since the participant last collected.
    pub(crate) since: [usize; 2],
    /// Sweeps since then.
    pub(crate) sweeps: u32,
}

impl<D: Domain> Bags<D> {
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.sealed.is_empty() || self.is_claimed
    }

    pub(crate) fn seal(&mut self, domain: &D) {
        if !self.open.is_empty() {
            let bag = mem::take(&mut self.open);
            self.since = [self.since[0] + bag.len(), self.since[1] + 1];
            self.sealed.push_back(SealedBag::new(bag, domain.clone()));
        }
    }
}

/// What all participants share, in one process: the child of a fork begins anew.
pub(crate) struct State<D: Domain> {
    pub(crate) generation: u32,
    /// Locked after the bags of a `Local`.
    pub(crate) busy: Mutex<Busy<D>>,
    pub(crate) orphans: Arc<Local<D>>,
    /// Bags that have been dropped, and how many had been when a flush last waited in vain.
    pub(crate) dropped: AtomicU64,
    pub(crate) dropped_at_impatience: AtomicU64,
    pub(crate) start: Instant,
    /// The second since then of the last [`poke`](crate::global::Global::poke).
    pub(crate) poked: AtomicU64,
}

pub(crate) struct Busy<D: Domain> {
    /// By address.
    pub(crate) locals: BTreeMap<usize, Arc<Local<D>>>,
    /// A sweep is pending or runs.
    pub(crate) is_swept: bool,
}

impl<D: Domain> State<D> {
    pub(crate) fn new() -> Self {
        let generation = fork::generation();
        Self {
            generation,
            busy: Mutex::new(Busy { locals: BTreeMap::new(), is_swept: false }),
            orphans: Local::new(generation, IDLE_SWEEPS),
            dropped: AtomicU64::new(0),
            dropped_at_impatience: AtomicU64::new(u64::MAX),
            start: Instant::now(),
            poked: AtomicU64::new(0),
        }
    }

    /// Enters a `Local` in the list. Returns `true` if the caller must [`arm`](crate::global::Global::arm) when it
    /// has unlocked the bags.
    pub(crate) fn list(&self, local: &Arc<Local<D>>, bags: &mut Bags<D>) -> bool {
        if mem::replace(&mut bags.is_listed, true) {
            return false;
        }
        let mut busy = lock(&self.busy);
        busy.locals.insert(Arc::as_ptr(local).addr(), Arc::clone(local));
        !mem::replace(&mut busy.is_swept, true)
    }

    pub(crate) fn unlist(&self, local: &Arc<Local<D>>, bags: &mut Bags<D>) {
        if mem::take(&mut bags.is_listed) {
            lock(&self.busy).locals.remove(&Arc::as_ptr(local).addr());
        }
    }

    /// Returns the busy ones, and last the orphans: what moves there meanwhile is not missed.
    pub(crate) fn locals(&self) -> Vec<Arc<Local<D>>> {
        lock(&self.busy).locals.values().chain([&self.orphans]).map(Arc::clone).collect()
    }
}
