//! Models of one queue: the owner appends and frees, somebody else takes, a third sees that it is done.
#![cfg(loom)]

mod model;
#[path = "support/own.rs"]
mod own;

use std::mem::MaybeUninit;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use own::Own;
use stillpoint::grace_period::engine::Engine;
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::reader::ExitPath;
use stillpoint::readers::threads::{Memb, ThreadReaders};
use stillpoint::reclaim::callback::{Callback, Data};
use stillpoint::reclaim::queue::Queue;
use stillpoint::sync::model::{poll, reader as interruptible};

struct World {
    engine: Engine<ThreadReaders<Memb, Queue>>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// What an entry does: counts those of its queue, and frees a value.
struct Item {
    run: &'static Count,
    number: u64,
    value: *const UnsafeCell<u32>,
}

/// How many entries have run.
struct Count(UnsafeCell<u64>);

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for Count {}

impl Count {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self(UnsafeCell::new(0))))
    }

    fn get(&self) -> u64 {
        self.0.with(|count| unsafe { *count })
    }
}

/// # Safety
///
/// `data` points to an `Item`.
unsafe fn run(data: Data) {
    // SAFETY: the caller's contract; items and values are never given back.
    let item = unsafe { &*data.assume_init().cast::<Item>() };
    item.run.0.with_mut(|run| unsafe {
        assert_eq!(*run, item.number, "entries run in order, each once");
        *run += 1;
    });
    // SAFETY: as above.
    if let Some(value) = unsafe { item.value.as_ref() } {
        value.with_mut(|value| unsafe { *value = 0 });
    }
}

fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

/// A weight that says that the owner may run the entry.
const LOCAL: usize = 2;

/// The owner appends an entry.
fn push(own: Own, run_count: &'static Count, plain: bool, value: *const UnsafeCell<u32>) {
    let item = Box::leak(Box::new(Item { run: run_count, number: own.queue.pushed(), value }));
    let data = MaybeUninit::new((&raw mut *item).cast());
    // SAFETY: `run` is given what it wants; the reader is this thread's.
    unsafe {
        let _ = own.queue.push(Callback::from_parts(run, data, LOCAL * usize::from(plain)), false);
    }
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::<Memb, Queue>::new(), || "model"),
            published: PublishedPtr::new(boxed(7)),
        })
    }

    fn register(&self) -> Own {
        Own::claim(self.engine.readers().registry())
    }

    /// Runs what may run now.
    fn take(&self, own: Own) {
        // SAFETY: a grace period has ended, or the model fails.
        let _ = own.queue.run_batch(|due| self.engine.is_done(due), true, |entry| unsafe { entry.run() });
    }

    /// Runs what has been appended, after a grace period.
    fn collect_and_take(&self, own: Own) {
        let ask = || {
            let due = self.engine.snapshot();
            thread::yield_now();
            due
        };
        let Ok(due) = own.queue.assign_cookies(|due| self.engine.is_done(due), ask) else { return };
        // Nothing yet, unless somebody else has completed a grace period.
        self.take(own);
        if let Some(due) = due {
            self.engine.wait_for(None, due);
            self.take(own);
        }
    }

    fn free_plain(&self, own: Own) {
        // SAFETY: a grace period has ended, or the model fails.
        let run = |entry: Callback| unsafe { entry.run() };
        let _ = own.queue.run_local(u64::MAX, |due| self.engine.is_done(due), || self.engine.snapshot(), run);
    }

    fn leave(&self, reader: Own) {
        if reader.leave() == ExitPath::Slow {
            self.engine.readers().exit_slow(&reader);
        }
    }
}

/// Reads a value, which no entry may have freed.
fn look(value: *const UnsafeCell<u32>) {
    // Time may pass between loading the pointer and reading through it.
    poll();
    // SAFETY: the memory of values is never given back.
    unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}

fn spawn(world: &Arc<World>, index: usize, body: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || interruptible(index, || body(&world)))
}

#[test]
fn reader_never_sees_a_value_freed_by_a_callback() {
    check(0, 2, || {
        let world = World::new();
        let (own, reader) = (world.register(), world.register());
        let threads = [
            spawn(&world, 0, move |world| {
                let old = world.published.swap(boxed(8));
                push(own, Count::new(), false, old);
            }),
            spawn(&world, 1, move |world| {
                assert!(reader.try_enter(world.engine.readers().counter()));
                look(world.published.load());
                world.leave(reader);
            }),
        ];
        thread::yield_now();
        world.collect_and_take(own);
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn callback_waits_for_the_section_that_queued_it() {
    check(0, 2, || {
        let world = World::new();
        let own = world.register();
        let w = world.clone();
        let worker = thread::spawn(move || w.collect_and_take(own));
        interruptible(0, || {
            // A grace period that the worker must not take for that of the entry.
            world.engine.synchronize(Some(own.reader));
            assert!(own.try_enter(world.engine.readers().counter()));
            let old = world.published.swap(boxed(8));
            push(own, Count::new(), false, old);
            look(old);
            world.leave(own);
        });
        worker.join().unwrap();
    });
}

#[test]
fn later_callback_waits_for_a_later_grace_period() {
    check(0, 1, || {
        let world = World::new();
        let (own, reader) = (world.register(), world.register());
        let run = Count::new();
        push(own, run, false, std::ptr::null());
        let due = own.queue.assign_cookies(|due| world.engine.is_done(due), || world.engine.snapshot());
        let due = due.expect("no thread has claimed the queue").expect("there is an entry");
        let w = world.clone();
        let threads = [
            thread::spawn(move || w.engine.wait_for(None, due)),
            spawn(&world, 1, move |world| {
                assert!(reader.try_enter(world.engine.readers().counter()));
                look(world.published.load());
                world.leave(reader);
            }),
        ];
        interruptible(0, || {
            let old = world.published.swap(boxed(8));
            push(own, run, false, old);
        });
        world.collect_and_take(own);
        for t in threads {
            t.join().unwrap();
        }
        world.collect_and_take(own);
        assert_eq!(run.get(), 2);
    });
}

#[test]
fn completed_callback_publishes_its_effects() {
    check(0, 3, || {
        let world = World::new();
        let own = world.register();
        let run = Count::new();
        push(own, run, false, std::ptr::null());
        let w = world.clone();
        let worker = thread::spawn(move || w.collect_and_take(own));
        thread::yield_now();
        if own.queue.done() == 1 {
            assert_eq!(run.get(), 1);
        }
        worker.join().unwrap();
        assert_eq!(own.queue.done(), 1);
    });
}

#[test]
fn owner_never_frees_what_the_worker_claimed() {
    check(0, 3, || {
        let world = World::new();
        let own = world.register();
        let run = Count::new();
        // More than a worker takes at a time, in two blocks.
        for _ in 0..3 {
            push(own, run, true, std::ptr::null());
        }
        world.free_plain(own);
        world.engine.synchronize(Some(own.reader));
        let w = world.clone();
        let worker = thread::spawn(move || w.take(own));
        thread::yield_now();
        world.free_plain(own);
        push(own, run, true, std::ptr::null());
        worker.join().unwrap();
        world.collect_and_take(own);
        world.collect_and_take(own);
        assert_eq!(run.get(), 4);
    });
}

#[test]
fn queue_continues_with_its_next_owner() {
    check(0, 1, || {
        let world = World::new();
        let counts = [Count::new(), Count::new()];
        let own = world.register();
        let append = move |world: &World, own: Own| {
            push(
                own,
                counts[own.index.load(std::sync::atomic::Ordering::Relaxed) as usize],
                true,
                std::ptr::null(),
            );
            world.free_plain(own);
        };
        let t = spawn(&world, 0, move |world| {
            append(world, own);
            append(world, own);
            world.engine.readers().registry().release(own.reader);
        });
        let w = world.clone();
        let worker = thread::spawn(move || w.collect_and_take(own));
        thread::yield_now();
        // The same queue, or another.
        let next = world.register();
        append(&world, next);
        world.engine.readers().registry().release(next.reader);
        t.join().unwrap();
        worker.join().unwrap();
        let registry = world.engine.readers().registry();
        for reader in registry.readers(0, registry.len()) {
            let own = Own::of(registry, reader);
            world.collect_and_take(own);
            world.collect_and_take(own);
        }
        assert_eq!(counts[0].get() + counts[1].get(), 3);
    });
}
