//! Models of deferred work: owners that append and free, the worker, those who wait for it. All of it is the code itself; the
//! world around it starts threads of the model. In the model no time passes, so whoever sleeps must be woken.
#![cfg(loom)]

mod model;
#[path = "support/own.rs"]
mod own;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use model::check;
use own::Own;
use stillpoint::fence::heavy;
use stillpoint::grace_period::cookie::GpCookie;
use stillpoint::grace_period::engine::{Engine, ReaderSet};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::reader::{ExitPath, Reader};
use stillpoint::readers::threads::{Memb, ThreadReaders};
use stillpoint::reclaim::backlog::{Limits, MayWait};
use stillpoint::reclaim::callback::{Callback, Data};
use stillpoint::reclaim::queue::{PushAction, Queue};
use stillpoint::reclaim::worker::{CallbackQueues, CallbackWorker, Caller, Denied, Host};
use stillpoint::sync::event_count::EventCount;
use stillpoint::sync::model::{poll, reader as interruptible};
use stillpoint::sync::{AtomicU64, Ordering::*};

/// Two owners at most; each counts in a cell how many of its entries have run.
struct World {
    engine: Engine<ThreadReaders<Memb, Queue>>,
    callbacks: CallbackWorker,
    run: [UnsafeCell<u64>; 2],
    published: PublishedPtr<UnsafeCell<u32>>,
    workers: Mutex<Vec<thread::JoinHandle<()>>>,
    /// How many workers cannot be started; or [`ABSENT`].
    refused: AtomicU64,
    /// Whether the worker's grace periods fail.
    denied: AtomicU64,
}

/// Workers are started and do nothing.
const ABSENT: u64 = u64::MAX;

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

loom::thread_local! {
    /// The reader of a thread that does its bookkeeping.
    static OWN: Cell<Option<&'static Reader>> = Cell::new(None);
}

#[derive(Clone)]
struct Here(Arc<World>);

impl Host for Here {
    fn engine(&self) -> &Engine<impl ReaderSet> {
        &self.0.engine
    }

    fn queues(&self) -> &impl CallbackQueues {
        self.0.engine.readers()
    }

    fn is_alone(&self) -> bool {
        self.0.engine.readers().no_other_readers(OWN.with(Cell::get))
    }

    fn wait_for(&self, due: GpCookie) -> Result<(), Denied> {
        if self.0.denied.load(Relaxed) != 0 {
            // The worker tries again as long as a caller is urgent, which must hear of it some time.
            thread::yield_now();
            return Err(Denied);
        }
        self.0.engine.wait_for(None, due);
        Ok(())
    }

    fn run(&self, entry: Callback) {
        // SAFETY: a grace period has ended, or the model fails.
        unsafe { entry.run() };
    }

    fn fence(&self) {
        heavy();
    }

    fn try_synchronize(&self) {
        self.0.engine.try_synchronize(OWN.with(Cell::get));
    }

    fn start_worker(&self) -> bool {
        if self.0.refused.load(Relaxed) == ABSENT {
            return true;
        }
        if self.0.refused.load(Relaxed) != 0 {
            self.0.refused.fetch_sub(1, Relaxed);
            // It takes its time, too.
            thread::yield_now();
            return false;
        }
        let here = self.clone();
        let worker = thread::spawn(move || here.0.callbacks.work(&here, || false));
        self.0.workers.lock().unwrap().push(worker);
        // The first execution that loom tries is one in which the worker goes ahead, and sleeps.
        thread::yield_now();
        true
    }
}

/// What an entry does: counts, and frees a value.
struct Item {
    run: *const UnsafeCell<u64>,
    number: u64,
    value: *const UnsafeCell<u32>,
}

/// # Safety
///
/// `data` points to an `Item`.
unsafe fn run(data: Data) {
    // SAFETY: the caller's contract; items and values are never given back, the count lives as long as the world.
    let item = unsafe { &*data.assume_init().cast::<Item>() };
    unsafe { &*item.run }.with_mut(|run| unsafe {
        assert_eq!(*run, item.number, "entries run in order, each once");
        *run += 1;
    });
    // SAFETY: as above.
    if let Some(value) = unsafe { item.value.as_ref() } {
        value.with_mut(|value| unsafe { *value = 0 });
    }
}

/// A kind of entry.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Lazy,
    Plain,
}
use Kind::*;

impl Here {
    fn new() -> Self {
        Self(Arc::new(World {
            engine: Engine::new(ThreadReaders::<Memb, Queue>::new(), || "model"),
            callbacks: CallbackWorker::new(),
            run: std::array::from_fn(|_| UnsafeCell::new(0)),
            published: PublishedPtr::new(boxed(7)),
            workers: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        }))
    }

    fn with_limit(count: u64) -> Self {
        let here = Self::new();
        here.0.callbacks.set_limits(Limits { count, ..Limits::default() });
        here
    }

    fn register(&self) -> Own {
        Own::claim(self.0.engine.readers().registry())
    }

    /// Appends an entry to the owner's queue, as `rcu::call` and `rcu::retire` do.
    fn append(&self, own: Own, kind: Kind) {
        self.append_with(own, kind, std::ptr::null());
    }

    fn append_with(&self, own: Own, kind: Kind, value: *const UnsafeCell<u32>) {
        let chores = self.push(own, kind, value);
        self.0.callbacks.notify(kind == Lazy, self);
        match chores {
            PushAction::None => {}
            PushAction::ReclaimSome => self.reclaim_some(own),
            PushAction::Flush => self.flush(own),
        }
    }

    fn push(&self, own: Own, kind: Kind, value: *const UnsafeCell<u32>) -> PushAction {
        let run_count = &raw const self.0.run[own.index.load(Relaxed) as usize];
        let item = Box::leak(Box::new(Item { run: run_count, number: own.queue.pushed(), value }));
        let data = MaybeUninit::new((&raw mut *item).cast());
        // SAFETY: `run` is given what it wants; the reader is this thread's.
        unsafe {
            let entry = Callback::from_parts(run, data, 2 * usize::from(kind == Plain));
            own.queue.push(entry, kind == Lazy)
        }
    }

    fn reclaim_some(&self, own: Own) {
        self.0.callbacks.reclaim_some(own.queue, self);
    }

    /// The owner's bookkeeping.
    fn flush(&self, own: Own) {
        let is_inside = own.in_read_section();
        let wait = if is_inside { MayWait::No } else { MayWait::Yes };
        OWN.with(|cell| cell.set(Some(own.reader)));
        self.0.callbacks.flush(own.queue, || Caller { is_owner: true, is_inside, wait }, self);
    }

    /// Replaces the published value and frees the old one after a grace period.
    fn replace(&self, own: Own) {
        let old = self.0.published.swap(boxed(8));
        self.append_with(own, Call, old);
    }

    /// One section that reads the published value.
    fn read(&self, reader: Own) {
        assert!(reader.try_enter(self.0.engine.readers().counter()));
        let value = self.0.published.load();
        poll();
        // SAFETY: the memory of values is never given back.
        unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
        self.leave(reader);
    }

    fn leave(&self, reader: Own) {
        if reader.leave() == ExitPath::Slow {
            self.0.engine.readers().exit_slow(&reader);
        }
    }

    fn barrier(&self) -> Result<(), Denied> {
        self.0.callbacks.barrier(self)
    }

    /// How many entries of the queue have run; whoever asks must have waited for them.
    fn count(&self, queue: usize) -> u64 {
        self.0.run[queue].with(|run| unsafe { *run })
    }

    /// Returns when all workers have gone.
    fn join(&self) {
        loop {
            let Some(worker) = self.0.workers.lock().unwrap().pop() else { break };
            worker.join().unwrap();
        }
    }

    fn spawn(&self, index: usize, body: impl FnOnce(&Self) + 'static) -> thread::JoinHandle<()> {
        let here = self.clone();
        thread::spawn(move || interruptible(index, || body(&here)))
    }
}

fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

#[test]
fn reader_never_sees_a_value_freed_by_the_worker() {
    check(0, 1, || {
        let here = Here::new();
        let (own, reader) = (here.register(), here.register());
        let t = here.spawn(1, move |here| here.read(reader));
        interruptible(0, || here.replace(own));
        t.join().unwrap();
        here.join();
        assert_eq!(here.count(0), 1);
    });
}

#[test]
fn callbacks_of_two_owners_all_run() {
    check(0, 1, || {
        let here = Here::new();
        let own = [here.register(), here.register()];
        let t = here.spawn(1, move |here| here.append(own[1], Call));
        interruptible(0, || here.append(own[0], Call));
        t.join().unwrap();
        here.join();
        assert_eq!([here.count(0), here.count(1)], [1, 1]);
    });
}

/// A reader's queue with two plain entries, which nobody has been told of.
fn two_plain(here: &Here) -> Own {
    let own = here.register();
    for _ in 0..2 {
        let _ = here.push(own, Plain, std::ptr::null());
    }
    own
}

#[test]
fn owner_and_worker_exclude_each_other() {
    check(0, 1, || {
        let here = Here::new();
        let own = two_plain(&here);
        // Gives the entries a grace period, which ends at once.
        here.flush(own);
        interruptible(0, || {
            here.append(own, Call);
            here.flush(own);
        });
        here.join();
        assert_eq!(here.count(0), 3);
    });
}

#[test]
fn barrier_ends_a_lazy_wait() {
    check(0, 1, || {
        let here = Here::new();
        let own = here.register();
        interruptible(0, || {
            here.append(own, Lazy);
            here.barrier().unwrap();
            assert_eq!(here.count(0), 1);
        });
        here.join();
    });
}

#[test]
fn barrier_waits_for_earlier_callbacks() {
    check(0, 1, || {
        let here = Here::new();
        let own = here.register();
        let t = here.spawn(0, move |here| here.append(own, Lazy));
        thread::yield_now();
        let seen = own.queue.pushed();
        here.barrier().unwrap();
        if seen == 1 {
            assert_eq!(here.count(0), 1);
        }
        t.join().unwrap();
        // The worker may sleep over an entry that came later.
        here.barrier().unwrap();
        here.join();
    });
}

#[test]
fn barrier_returns_when_the_owner_reclaims() {
    check(0, 1, || {
        let here = Here::new();
        let own = two_plain(&here);
        // Gives the entries a grace period, which ends at once.
        here.flush(own);
        let t = here.spawn(0, move |here| {
            here.reclaim_some(own);
            here.reclaim_some(own);
        });
        here.barrier().unwrap();
        assert_eq!(here.count(0), 2);
        t.join().unwrap();
        here.join();
    });
}

#[test]
fn throttled_caller_wakes_when_another_owner_reclaims() {
    check(0, 1, || {
        let here = Here::with_limit(2);
        let own = two_plain(&here);
        // Gives the entries a grace period, which ends at once.
        here.flush(own);
        // The worker has other things to do.
        here.0.refused.store(ABSENT, Relaxed);
        let caller = here.register();
        let t = here.spawn(0, move |here| here.flush(own));
        interruptible(1, || {
            let _ = here.push(caller, Call, std::ptr::null());
            here.flush(caller);
        });
        t.join().unwrap();
        assert_eq!(here.count(0), 2);
    });
}

#[test]
fn barrier_runs_callbacks_when_no_worker_starts() {
    check(0, 2, || {
        let here = Here::new();
        here.0.refused.store(1, Relaxed);
        let own = here.register();
        let t = here.spawn(0, move |here| here.append(own, Call));
        thread::yield_now();
        here.barrier().unwrap();
        t.join().unwrap();
        here.barrier().unwrap();
        here.join();
        assert_eq!(here.count(0), 1);
    });
}

#[test]
fn barrier_fails_while_the_fence_is_denied() {
    check(0, 1, || {
        let here = Here::new();
        let own = here.register();
        here.0.denied.store(1, Relaxed);
        here.append(own, Call);
        assert_eq!(here.barrier(), Err(Denied));
        here.0.denied.store(0, Relaxed);
        here.append(own, Lazy);
        // A round that was under way may fail still.
        while here.barrier().is_err() {}
        assert_eq!(here.count(0), 2);
        here.join();
    });
}

#[test]
fn second_barrier_goes_on_when_the_first_stops_being_the_worker() {
    check(0, 2, || {
        let here = Here::new();
        // No worker can be had.
        here.0.refused.store(100, Relaxed);
        let own = [here.register(), here.register()];
        here.append(own[0], Call);
        let t = here.spawn(1, move |here| {
            // The first has yielded, for want of a worker, and is to find nothing here.
            thread::yield_now();
            here.append(own[1], Call);
            here.barrier().unwrap();
            assert_eq!(here.count(1), 1);
        });
        here.barrier().unwrap();
        assert_eq!(here.count(0), 1);
        t.join().unwrap();
    });
}

#[test]
fn barrier_goes_on_when_a_throttled_caller_gets_no_worker() {
    check(0, 1, || {
        let here = Here::with_limit(0);
        here.0.refused.store(100, Relaxed);
        let own = [here.register(), here.register()];
        let _ = here.push(own[0], Call, std::ptr::null());
        let t = here.spawn(1, move |here| {
            let _ = here.push(own[1], Call, std::ptr::null());
            here.flush(own[1]);
        });
        here.barrier().unwrap();
        assert_eq!(here.count(0), 1);
        t.join().unwrap();
    });
}

#[test]
fn caller_inside_a_section_leads_no_grace_period() {
    check(0, 1, || {
        let here = Here::new();
        let own = here.register();
        interruptible(0, || {
            assert!(own.try_enter(here.0.engine.readers().counter()));
            let old = here.0.published.swap(boxed(8));
            let _ = here.push(own, Plain, old);
            for _ in 0..2 {
                here.flush(own);
            }
            // SAFETY: the memory of values is never given back.
            unsafe { &*old }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
            here.leave(own);
        });
    });
}

#[test]
fn throttled_caller_waits_until_the_backlog_shrinks() {
    check(0, 1, || {
        let here = Here::with_limit(1);
        let own = here.register();
        interruptible(0, || {
            here.append(own, Call);
            here.append(own, Plain);
        });
        here.join();
        assert_eq!(here.count(0), 2);
    });
}

#[test]
fn lazy_callbacks_run_above_the_flush_threshold() {
    check(0, 1, || {
        let here = Here::with_limit(4);
        let own = here.register();
        interruptible(0, || {
            here.append(own, Lazy);
            here.append(own, Lazy);
        });
        here.join();
        assert_eq!(here.count(0), 2);
    });
}

#[test]
fn waiters_with_different_conditions_are_woken() {
    check(0, 2, || {
        struct World {
            progress: EventCount,
            reached: AtomicU64,
        }
        let world = Arc::new(World { progress: EventCount::new(), reached: AtomicU64::new(0) });
        let threads = [None, Some(Duration::from_secs(1))].map(|patience| {
            let w = world.clone();
            let mark = if patience.is_none() { 1 } else { 2 };
            thread::spawn(move || {
                assert!(w.progress.wait_until(patience, || w.reached.load(Relaxed) >= mark));
            })
        });
        for reached in [1, 2] {
            world.reached.store(reached, Relaxed);
            world.progress.notify_all();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
