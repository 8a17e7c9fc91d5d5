//! A domain of the models: its queues, and the threads that are its workers and the timer.

use std::cell::Cell;
use std::ptr::null;

use crate::own::{Count, Own, State};
use stillpoint::grace_period::engine::{Denied, GpCookie};
use stillpoint::readers::any::AnyEngine;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::Reader;
use stillpoint::reclaim::backlog::Limits;
use stillpoint::reclaim::callback::Callback;
use stillpoint::reclaim::domain::{RawDomain, Work};
use stillpoint::reclaim::hazards::Hazards;
use stillpoint::reclaim::pool::state::Submitted;
use stillpoint::reclaim::queue::{PushAction, Queue};
use stillpoint::reclaim::worker::state::CallbackWorker;
use stillpoint::slots::record::Records;
use support::model::*;

/// Two owners at most; each has a count of its callbacks that have run.
pub struct Shared {
    pub state: State,
    hazards: Option<Hazards>,
    counts: [&'static Count; 2],
    pub workers: Mutex<Vec<thread::JoinHandle<()>>>,
    /// How many workers cannot be started; or [`ABSENT`].
    pub refused: AtomicU64,
    /// Whether the worker's grace periods fail.
    pub denied: AtomicU64,
    /// The domain can be parked.
    parks: bool,
    /// Workers are refused as others are busy.
    is_resumed: bool,
    /// No thread can be started now.
    must_wait: bool,
    /// The task of the parked domain, if it is parked.
    pub parked: Mutex<Option<u64>>,
    /// So often, a thread resumes the domain some time after it is asked to.
    pub is_timed: AtomicU64,
}

/// Workers are started and do nothing.
pub const ABSENT: u64 = u64::MAX;

loom::thread_local! {
    /// The reader of a thread that flushes.
    static OWN: Cell<Option<&'static Reader>> = Cell::new(None);
}

#[derive(Clone)]
pub struct Domain(pub Arc<Shared>);

impl RawDomain for Domain {
    fn engine(&self) -> &AnyEngine {
        &self.0.state.core.engine
    }

    fn work(&self) -> &Work {
        &self.0.state.core.work
    }

    fn queue_count(&self) -> usize {
        self.0.state.core.engine.readers().registry().len()
    }

    fn queue(&self, index: usize) -> &Queue {
        self.0.state.core.engine.readers().registry().attached(index)
    }

    fn hazards(&self) -> Option<&Hazards> {
        self.0.hazards.as_ref()
    }

    fn current_reader(&self) -> Option<&'static Reader> {
        OWN.with(Cell::get)
    }

    fn in_read_section(&self) -> bool {
        self.current_reader().is_some_and(Reader::in_read_section)
    }

    fn register_for_fork(&self) {}

    fn defer(&self, _callback: Callback) {
        unreachable!("the models push themselves");
    }

    fn wait_for(&self, cookie: GpCookie) -> Result<(), Denied> {
        if self.0.denied.load(Relaxed) != 0 {
            // The worker tries again as long as a caller is urgent, and that caller must be notified some time.
            thread::yield_now();
            return Err(Denied);
        }
        self.0.state.core.engine.wait_for(None, cookie);
        Ok(())
    }

    fn submit(&self, task: fn(&dyn RawDomain)) -> Submitted {
        if self.0.refused.load(Relaxed) == ABSENT {
            return Submitted::Started;
        }
        if self.0.refused.load(Relaxed) != 0 {
            self.0.refused.fetch_sub(1, Relaxed);
            // Other threads may run here.
            thread::yield_now();
            return if self.0.is_resumed { Submitted::Full } else { Submitted::Failed };
        }
        let domain = self.clone();
        let worker = thread::spawn(move || task(&domain));
        self.0.workers.lock().unwrap().push(worker);
        // In the first execution that loom tries the worker goes ahead, and sleeps. Where it could find no hazard
        // pointer yet, the caller goes ahead.
        if self.0.hazards.is_none() {
            thread::yield_now();
        }
        Submitted::Started
    }

    fn is_resumed(&self) -> bool {
        self.0.is_resumed
    }

    fn must_wait(&self) -> bool {
        self.0.must_wait
    }

    fn park(&self, due: u64, _task: fn(&dyn RawDomain)) -> bool {
        if !self.0.parks {
            return false;
        }
        *self.0.parked.lock().unwrap() = Some(due);
        if self.0.is_timed.load(Relaxed) != 0 {
            self.0.is_timed.fetch_sub(1, Relaxed);
            let domain = self.clone();
            let timer = thread::spawn(move || domain.time_is_up());
            self.0.workers.lock().unwrap().push(timer);
        }
        true
    }

    fn unpark(&self, due: u64) {
        self.0.parked.lock().unwrap().take_if(|parked| *parked == due);
    }

    fn is_parked(&self, due: u64) -> bool {
        *self.0.parked.lock().unwrap() == Some(due)
    }
}

/// A kind of callback.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Call,
    Free,
}
pub use Kind::*;

impl Domain {
    pub fn new() -> Self {
        Self::of(ReaderProtocol::Sections, None, false, false)
    }

    fn of(protocol: ReaderProtocol, hazards: Option<Hazards>, parks: bool, is_resumed: bool) -> Self {
        Self(Arc::new(Shared {
            state: State::new(protocol),
            hazards,
            counts: [Count::new(), Count::new()],
            workers: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            parks,
            is_resumed,
            must_wait: false,
            parked: Mutex::new(None),
            is_timed: AtomicU64::new(0),
        }))
    }

    /// A domain that can be parked, and for which the first worker cannot be started.
    pub fn that_parks() -> Self {
        let domain = Self::of(ReaderProtocol::Sections, None, true, false);
        domain.0.refused.store(1, Relaxed);
        domain
    }

    /// The same, but a push leaves the domain parked.
    pub fn that_stays_parked() -> Self {
        let mut domain = Self::that_parks();
        Arc::get_mut(&mut domain.0).expect("the only handle").must_wait = true;
        domain
    }

    /// A domain that gets no worker until it is resumed, some time after it is parked.
    pub fn that_waits_its_turn() -> Self {
        let domain = Self::of(ReaderProtocol::Sections, None, true, true);
        domain.0.refused.store(100, Relaxed);
        // The first two may come before the domain is parked.
        domain.0.is_timed.store(3, Relaxed);
        domain
    }

    /// A domain with hazard pointers, whose slots are these. It can be parked.
    pub fn with_hazards(records: &'static Records) -> Self {
        Self::of(ReaderProtocol::Hazards, Some(Hazards::new(records)), true, false)
    }

    /// The timer takes the task of the parked domain.
    pub fn time_is_up(&self) {
        let task = self.0.parked.lock().unwrap().take();
        if task.is_some() {
            self.callbacks().resume(self);
        }
    }

    /// A domain for which so many workers cannot be started.
    pub fn that_refuses(workers: u64) -> Self {
        let domain = Self::new();
        domain.0.refused.store(workers, Relaxed);
        domain
    }

    pub fn with_limit(count: u64) -> Self {
        let domain = Self::new();
        domain.callbacks().set_limits(Limits { count, ..Limits::default() });
        domain
    }

    pub fn register(&self) -> Own {
        self.0.state.register()
    }

    /// Defers to the owner's queue, as `rcu::call` and `rcu::retire` do.
    pub fn defer(&self, own: Own, kind: Kind) {
        self.defer_free(own, kind, null());
    }

    fn defer_free(&self, own: Own, kind: Kind, value: *const Value) {
        let action = self.push(own, kind, value);
        self.callbacks().notify(self);
        match action {
            PushAction::None | PushAction::Report => {}
            PushAction::ReclaimSome => self.reclaim_some(own),
            PushAction::Flush => self.flush(own),
        }
    }

    pub fn push(&self, own: Own, kind: Kind, value: *const Value) -> PushAction {
        let count = self.0.counts[own.index.load(Relaxed) as usize];
        own.push(count, kind == Free, value)
    }

    pub fn reclaim_some(&self, own: Own) {
        self.callbacks().reclaim_some(own.queue, self);
    }

    pub fn flush(&self, own: Own) {
        OWN.with(|cell| cell.set(Some(own.reader)));
        self.callbacks().flush(own.queue, self);
    }

    /// Replaces the published value and frees the old one after a grace period.
    pub fn replace(&self, own: Own) {
        let old = self.0.state.published.swap(boxed(8));
        self.defer_free(own, Call, old);
    }

    /// How many callbacks of the queue have run; the caller must have waited for them.
    pub fn count(&self, queue: usize) -> u64 {
        self.0.counts[queue].get()
    }

    pub fn callbacks(&self) -> &CallbackWorker {
        &self.0.state.core.work.callbacks
    }

    /// Returns when all workers have ended.
    pub fn join(&self) {
        loop {
            let Some(worker) = self.0.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
    }

    /// Runs `own` beside `other`, which heavy fences interrupt.
    pub fn race(&self, own: impl FnOnce(&Self), other: impl FnOnce(&Self) + 'static) {
        let theirs = self.clone();
        let other = thread::spawn(move || interruptible(1, || other(&theirs)));
        own(self);
        other.join().unwrap();
    }

    /// Runs `own`, which heavy fences interrupt, and then waits until all workers have ended.
    pub fn run(&self, own: impl FnOnce(&Self)) {
        interruptible(0, || own(self));
        self.join();
    }

    /// [`race`](Self::race) where heavy fences interrupt both. Then waits until all workers have ended.
    pub fn race_owners(&self, own: impl FnOnce(&Self), other: impl FnOnce(&Self) + 'static) {
        self.race(|domain| interruptible(0, || own(domain)), other);
        self.join();
    }
}
