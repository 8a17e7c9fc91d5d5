//! Models of the grace period: readers, the scan, the sleep, readers that come and go. See `sync/model.rs` for how the
//! process-wide fence is modelled.
#![cfg(loom)]

mod model;

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::grace_period::engine::Engine;
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::reader::{ExitPath, Owner, Reader};
use stillpoint::readers::threads::{Memb, ThreadReaders};
use stillpoint::sync::{AtomicU64, Ordering::*, model::poll, model::reader as interruptible};

/// A published value: 7 at first, 8 from each updater; a freed one is 0, and its memory stays.
struct World {
    engine: Engine<ThreadReaders<Memb, ()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
    done: AtomicU64,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::<Memb, ()>::new(), || "World"),
            published: PublishedPtr::new(boxed(7)),
            done: AtomicU64::new(0),
        })
    }

    fn register(&self) -> &'static Reader {
        self.engine.readers().registry().claim().unwrap()
    }

    fn exit_slow(&self, reader: &'static Reader, exit: ExitPath) {
        if exit == ExitPath::Slow {
            self.engine.readers().exit_slow(reader);
        }
    }

    /// Reads the published value, inside a section.
    fn look(&self) {
        let value = self.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        look_at(value);
    }

    /// One section that reads the published value.
    fn read(&self, reader: &'static Reader) {
        if !reader.try_enter(self.engine.readers().counter()) {
            reader.nest();
        }
        self.look();
        self.exit_slow(reader, reader.leave());
    }

    /// Publishes another value and frees the present one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never given back.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
}

fn look_at(value: *mut UnsafeCell<u32>) {
    // SAFETY: the memory of values is never given back.
    unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}

fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

/// Runs `body` as reader number `index`.
fn spawn(world: &Arc<World>, index: usize, body: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || interruptible(index, || body(&world)))
}

#[test]
fn reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let world = World::new();
        let reader = world.register();
        let t = spawn(&world, 0, move |world| {
            world.read(reader);
            world.read(reader);
        });
        world.update();
        t.join().unwrap();
    });
}

/// Nothing is published and nobody reads: only the second count of grace periods can notice a caller served too early.
#[test]
fn callers_get_a_grace_period_that_began_later() {
    check(0, 3, || {
        let world = World::new();
        let w = world.clone();
        let t = thread::spawn(move || w.engine.synchronize(None));
        world.engine.synchronize(None);
        t.join().unwrap();
    });
}

#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(1, 2, || {
        let world = World::new();
        let w = world.clone();
        let t = thread::spawn(move || w.update());
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn nested_section_lasts_until_the_last_guard_drops() {
    check(1, 3, || {
        let world = World::new();
        let reader = world.register();
        let t = spawn(&world, 0, move |world| {
            assert!(reader.try_enter(world.engine.readers().counter()));
            world.read(reader);
            world.look();
            world.exit_slow(reader, reader.leave());
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let world = World::new();
        let reader = world.register();
        let t = spawn(&world, 0, move |world| {
            world.read(reader);
            world.read(reader);
        });
        world.update();
        t.join().unwrap();
        let stats = world.engine.tally();
        assert!(stats.heavy_fences <= 2, "{stats:?}");
        assert!(stats.wakeups <= 1, "{stats:?}");
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 1, || {
        let world = World::new();
        let readers = [world.register(), world.register()];
        // Both are inside when the grace period begins.
        let threads = [0, 1].map(|i| {
            assert!(readers[i].try_enter(world.engine.readers().counter()));
            spawn(&world, i, move |world| world.exit_slow(readers[i], readers[i].leave()))
        });
        world.engine.synchronize(None);
        for t in threads {
            t.join().unwrap();
        }
        let stats = world.engine.tally();
        assert!(stats.heavy_fences <= 2 && stats.wakeups <= 1, "{stats:?}");
    });
}

#[test]
fn repin_lets_a_grace_period_end() {
    check(0, 2, || {
        let world = World::new();
        let reader = world.register();
        let t = spawn(&world, 0, move |world| {
            assert!(reader.try_enter(world.engine.readers().counter()));
            world.look();
            while world.done.load(Relaxed) == 0 {
                world.exit_slow(reader, reader.repin(world.engine.readers().counter()));
                world.look();
                thread::yield_now();
            }
            world.exit_slow(reader, reader.leave());
        });
        world.update();
        world.done.store(1, Relaxed);
        t.join().unwrap();
    });
}

#[test]
fn reused_reader_is_waited_for() {
    check(1, 1, || {
        let world = World::new();
        let first = world.register();
        // Inside a section that began before the update; the reader then goes to another thread.
        assert!(first.try_enter(world.engine.readers().counter()));
        world.look();
        let threads = [
            spawn(&world, 0, move |world| {
                world.look();
                world.exit_slow(first, first.leave());
                world.engine.readers().registry().release(first);
            }),
            spawn(&world, 1, |world| {
                let reader = world.register();
                assert!(reader.try_enter(world.engine.readers().counter()));
                world.look();
                world.exit_slow(reader, reader.leave());
            }),
        ];
        world.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn late_registration_sees_what_was_published() {
    check(1, 3, || {
        let world = World::new();
        let t = spawn(&world, 0, |world| {
            let reader = world.register();
            world.read(reader);
            world.engine.readers().registry().release(reader);
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn sleeping_leader_returns_after_the_awaited_reader_left() {
    check(0, 3, || {
        let world = World::new();
        let reader = world.register();
        assert!(reader.try_enter(world.engine.readers().counter()));
        let value = world.published.load();
        let t = spawn(&world, 0, move |world| {
            // Fences A and B may both come before the section reads.
            poll();
            poll();
            look_at(value);
            world.exit_slow(reader, reader.leave());
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn stall_report_names_the_blocking_owner() {
    let (first, second) =
        (Owner { thread: 1, site: Location::caller() }, Owner { thread: 2, site: Location::caller() });
    assert_ne!(first.site, second.site);
    check(0, 3, move || {
        let world = World::new();
        let reader = world.register();
        reader.set_owner(first);
        assert!(reader.try_enter(world.engine.readers().counter()));
        reader.request_wake();
        let t = spawn(&world, 0, move |world| {
            assert_eq!(reader.leave(), ExitPath::Slow);
            assert!(reader.take_wake_request());
            world.engine.readers().registry().release(reader);
            world.register().set_owner(second);
        });
        if let Some(owner) = reader.owner_if_still_blocking(|owner| owner) {
            assert_eq!(owner, first, "a report names another owner");
        }
        t.join().unwrap();
    });
}

/// Replaces the value, and frees the old one when somebody's grace period, or one of our own, is over.
fn try_update(world: &World, own: &'static Reader) {
    let old = world.published.swap(boxed(8));
    let due = world.engine.ask();
    let tried = world.engine.try_synchronize(Some(own));
    if world.engine.is_done(due) {
        // SAFETY: the memory of values is never given back.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
    world.done.store(tried.into(), Relaxed);
}

#[test]
fn tried_grace_period_is_full_or_does_not_count() {
    check(0, 3, || {
        let world = World::new();
        let (own, reader) = (world.register(), world.register());
        let t = spawn(&world, 0, move |world| world.read(reader));
        try_update(&world, own);
        t.join().unwrap();
        assert_eq!(world.engine.tally().grace_periods, world.done.load(Relaxed));
    });
}

#[test]
fn trying_does_not_block_a_grace_period() {
    check(0, 1, || {
        let world = World::new();
        let (own, reader) = (world.register(), world.register());
        let threads = [
            spawn(&world, 0, move |world| world.read(reader)),
            spawn(&world, 1, move |world| try_update(world, own)),
        ];
        world.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn scan_finds_readers_of_a_new_chunk() {
    check(1, 2, || {
        let world = World::new();
        // The first chunk is full.
        world.register();
        world.register();
        let t = spawn(&world, 0, |world| {
            let reader = world.register();
            world.read(reader);
            world.engine.readers().registry().release(reader);
        });
        world.update();
        t.join().unwrap();
    });
}
