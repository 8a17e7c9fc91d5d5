//! Models of sleepable domains: sections that are counted on several CPUs, the two phases, the sleep.
#![cfg(loom)]

mod model;

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::grace_period::engine::{Engine, EngineStats};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::srcu::{Phase, SrcuReaders};
use stillpoint::sync::model::{poll, reader as interruptible, run_on};

/// A published value: 7 at first, 8 from each updater; a freed one is 0, and its memory stays.
struct World {
    engine: Engine<SrcuReaders>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(SrcuReaders::new(Location::caller()), || "World"),
            published: PublishedPtr::new(boxed(7)),
        })
    }

    fn phases(&self) -> &SrcuReaders {
        self.engine.readers()
    }

    /// Reads the published value, inside a section.
    fn look(&self) {
        let value = self.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        read(value);
    }

    /// One section that begins on CPU 0 and ends on CPU 1.
    fn read(&self) {
        run_on(0);
        let phase = self.phases().enter();
        self.look();
        run_on(1);
        self.phases().leave(phase);
    }

    /// Publishes another value and frees the present one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never given back.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }

    fn tally(&self) -> EngineStats {
        self.engine.tally()
    }
}

fn read(value: *mut UnsafeCell<u32>) {
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

/// A section that began before the updates, with the value that it reads.
struct Begun {
    phase: Phase,
    value: *mut UnsafeCell<u32>,
}

// SAFETY: as the world.
unsafe impl Send for Begun {}

impl Begun {
    fn new(world: &World) -> Self {
        Self { phase: world.phases().enter(), value: world.published.load() }
    }

    /// Reads the value and ends the section.
    fn end(self, world: &World) {
        read(self.value);
        world.phases().leave(self.phase);
    }
}

#[test]
fn reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let world = World::new();
        let t = spawn(&world, 0, |world| {
            world.read();
            world.read();
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn short_section_does_not_hide_an_open_one() {
    check(0, 2, || {
        let world = World::new();
        let begun = Begun::new(&world);
        let t = spawn(&world, 0, move |world| {
            world.phases().leave(world.phases().enter());
            begun.end(world);
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn section_may_end_in_another_thread() {
    check(1, 3, || {
        let world = World::new();
        let begun = Begun::new(&world);
        let t = spawn(&world, 0, move |world| {
            run_on(1);
            begun.end(world);
        });
        world.update();
        t.join().unwrap();
    });
}

/// As a thread that loaded the phase before a flip, and entered afterwards.
#[test]
fn section_of_the_idle_index_is_waited_for() {
    check(1, 3, || {
        let world = World::new();
        let begun = Begun::new(&world);
        world.phases().flip();
        let t = spawn(&world, 0, move |world| {
            begun.end(world);
        });
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn late_section_of_the_idle_index_is_waited_for() {
    check(1, 2, || {
        let world = World::new();
        let t = spawn(&world, 0, World::read);
        world.phases().flip();
        world.update();
        t.join().unwrap();
    });
}

#[test]
fn sections_of_both_indices_are_waited_for_asleep() {
    check(0, 1, || {
        let world = World::new();
        let first = Begun::new(&world);
        world.phases().flip();
        let second = Begun::new(&world);
        let threads = [(0, first), (1, second)]
            .map(|(index, begun)| spawn(&world, index, move |world| begun.end(world)));
        world.update();
        for t in threads {
            t.join().unwrap();
        }
        let tally = world.tally();
        assert!(tally.heavy_fences <= 3 && tally.wakeups <= 2, "{tally:?}");
    });
}

#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let world = World::new();
        let begun = [Begun::new(&world), Begun::new(&world)];
        let t = spawn(&world, 0, move |world| begun.into_iter().for_each(|begun| begun.end(world)));
        world.update();
        t.join().unwrap();
        let tally = world.tally();
        assert!(tally.heavy_fences <= 2, "{tally:?}");
    });
}

#[test]
fn last_of_two_leaving_readers_wakes_the_leader() {
    check(0, 1, || {
        let world = World::new();
        let threads = [0, 1].map(|index| {
            let begun = Begun::new(&world);
            spawn(&world, index, move |world| {
                run_on(index);
                begun.end(world);
            })
        });
        world.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(0, 1, || {
        let world = World::new();
        let threads = [spawn(&world, 0, World::read), spawn(&world, 1, World::update)];
        world.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn closed_domain_waits_for_no_reader() {
    check(0, 3, || {
        let world = World::new();
        // Its guard was leaked.
        let _ = world.phases().enter();
        let t = spawn(&world, 0, |world| {
            world.look();
            world.phases().close();
        });
        let old = world.published.load();
        world.engine.synchronize(None);
        // SAFETY: the memory of values is never given back.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
        t.join().unwrap();
    });
}
