//! Models of readers that report quiescent states: no process-wide fence anywhere.
#![cfg(loom)]

mod model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::grace_period::engine::{Engine, ReaderSet};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::qsbr::Qsbr;
use stillpoint::readers::reader::Reader;
use stillpoint::readers::threads::ThreadReaders;

/// A published value: 7 at first, 8 from each updater; a freed one is 0, and its memory stays.
struct World {
    engine: Engine<ThreadReaders<Qsbr, ()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// A thread's handle.
struct Handle<'a> {
    world: &'a World,
    reader: &'static Reader,
    seen: u64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(), || "World"),
            published: PublishedPtr::new(boxed(7)),
        })
    }

    fn claim(&self) -> &'static Reader {
        self.engine.readers().registry().claim().unwrap()
    }

    fn online(&self, reader: &'static Reader) -> Handle<'_> {
        Handle { world: self, reader, seen: self.engine.readers().thread_online(reader) }
    }

    /// A handle that is online already, since the counter was `seen`.
    fn resume(&self, reader: &'static Reader, seen: u64) -> Handle<'_> {
        Handle { world: self, reader, seen }
    }

    /// Publishes another value and frees the present one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        free(old);
    }
}

impl Handle<'_> {
    fn load(&self) -> *mut UnsafeCell<u32> {
        self.world.published.load()
    }

    fn look(&self) {
        read(self.load());
    }

    fn quiescent(&mut self) {
        let counter = self.world.engine.readers().current_counter();
        if counter != self.seen {
            self.seen = counter;
            self.world.engine.readers().quiescent_state(self.reader, counter);
        }
    }

    /// As a thread that ends: offline, and not registered any more.
    fn end(self) {
        self.world.engine.readers().thread_offline(self.reader);
        self.world.engine.readers().registry().release(self.reader);
    }

    fn go(self) {
        self.world.engine.readers().thread_offline(self.reader);
    }
}

fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

fn read(value: *mut UnsafeCell<u32>) {
    // SAFETY: the memory of values is never given back.
    unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}

fn free(value: *mut UnsafeCell<u32>) {
    // SAFETY: the memory of values is never given back.
    unsafe { &*value }.with_mut(|cell| unsafe { *cell = 0 });
}

fn spawn(world: &Arc<World>, body: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || body(&world))
}

#[test]
fn qsbr_reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            let mut handle = world.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.quiescent();
            handle.look();
            handle.go();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn reader_coming_online_never_sees_a_freed_value() {
    check(1, 3, || {
        let world = World::new();
        let reader = world.claim();
        let t = spawn(&world, move |world| {
            let handle = world.online(reader);
            handle.look();
            handle.go();
            let handle = world.online(reader);
            handle.look();
            handle.go();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn reader_back_online_sees_what_was_published() {
    check(0, 3, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            let handle = world.resume(reader, seen);
            handle.look();
            handle.go();
            let handle = world.online(reader);
            handle.look();
            handle.go();
        });
        world.update();
        t.join().unwrap();
        let stats = world.engine.tally();
        assert!(stats.wakeups <= 1 && stats.heavy_fences == 0, "{stats:?}");
    });
}

#[test]
fn sleeping_grace_period_costs_one_wakeup() {
    check(0, 3, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            let mut handle = world.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.go();
        });
        world.update();
        t.join().unwrap();
        let stats = world.engine.tally();
        assert!(stats.wakeups <= 1 && stats.heavy_fences == 0, "{stats:?}");
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 2, || {
        let world = World::new();
        let readers = [world.claim(), world.claim()];
        // Both are online when the grace period begins.
        let threads = readers.map(|reader| {
            let seen = world.online(reader).seen;
            spawn(&world, move |world| {
                let mut handle = world.resume(reader, seen);
                handle.look();
                handle.quiescent();
                handle.go();
            })
        });
        world.update();
        for t in threads {
            t.join().unwrap();
        }
        let stats = world.engine.tally();
        assert!(stats.wakeups <= 1, "{stats:?}");
    });
}

#[test]
fn each_grace_period_waits_for_earlier_references() {
    check(0, 2, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            let mut handle = world.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.quiescent();
            handle.look();
            handle.go();
        });
        world.update();
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn counter_advanced_by_another_ends_no_grace_period() {
    check(1, 3, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            world.engine.readers().defer_to_exit(Some(reader), true);
            let mut handle = world.resume(reader, seen);
            handle.quiescent();
            handle.look();
            handle.go();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn late_registration_sees_what_was_published() {
    check(1, 3, || {
        let world = World::new();
        let t = spawn(&world, |world| {
            let handle = world.online(world.claim());
            handle.look();
            handle.end();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn scan_finds_a_newly_registered_thread() {
    check(1, 3, || {
        let world = World::new();
        world.claim();
        let t = spawn(&world, |world| {
            let handle = world.online(world.claim());
            handle.look();
            handle.end();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn reused_reader_is_waited_for() {
    check(1, 2, || {
        let world = World::new();
        let first = world.claim();
        let seen = world.online(first).seen;
        let threads = [
            spawn(&world, move |world| {
                let handle = world.resume(first, seen);
                handle.look();
                handle.end();
            }),
            spawn(&world, |world| {
                let handle = world.online(world.claim());
                handle.look();
                handle.end();
            }),
        ];
        world.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(0, 2, || {
        let world = World::new();
        let reader = world.claim();
        let seen = world.online(reader).seen;
        let t = spawn(&world, move |world| {
            let handle = world.resume(reader, seen);
            handle.look();
            handle.go();
        });
        let updater = spawn(&world, World::update);
        world.update();
        t.join().unwrap();
        updater.join().unwrap();
    });
}
