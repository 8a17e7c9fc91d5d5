//! Models of the registry: a reader belongs to one thread at a time, and is there before anybody looks at it.
#![cfg(loom)]

mod model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::readers::reader::Reader;
use stillpoint::readers::registry::Registry;
use stillpoint::sync::Ordering::Relaxed;

/// A registry, and a cell for each reader that only its owner touches.
struct World {
    registry: Registry<()>,
    owned: [UnsafeCell<bool>; 4],
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { registry: Registry::new(), owned: std::array::from_fn(|_| UnsafeCell::new(false)) })
    }

    fn mark(&self, reader: &Reader, owned: bool) {
        self.owned[reader.index.load(Relaxed) as usize].with_mut(|cell| unsafe {
            assert_ne!(*cell, owned, "a reader with two owners");
            *cell = owned;
        });
    }

    fn claim(&self) -> &'static Reader {
        let reader = self.registry.claim().unwrap();
        self.mark(reader, true);
        reader
    }

    fn release(&self, reader: &'static Reader) {
        self.mark(reader, false);
        self.registry.release(reader);
    }
}

#[test]
fn reader_belongs_to_one_thread_at_a_time() {
    check(0, 3, || {
        let world = World::new();
        let (a, b) = (world.claim(), world.claim());
        world.release(b);
        world.release(a);
        let w = world.clone();
        // The stack's top comes back above another next: the tag must tell.
        let t = thread::spawn(move || {
            let first = w.claim();
            let _second = w.claim();
            w.release(first);
        });
        world.claim();
        world.claim();
        t.join().unwrap();
        assert!(world.registry.len() <= 4);
    });
}

#[test]
fn registry_reuses_a_free_reader_before_growing() {
    check(0, 3, || {
        let world = World::new();
        let threads = [0, 1].map(|_| {
            let w = world.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let reader = w.claim();
                    w.release(reader);
                }
            })
        });
        for t in threads {
            t.join().unwrap();
        }
        assert!(world.registry.len() <= 2);
    });
}

#[test]
fn scan_finds_the_chunk_of_every_reader() {
    check(0, 3, || {
        let world = World::new();
        let w = world.clone();
        let t = thread::spawn(move || {
            w.claim();
        });
        for reader in world.registry.readers(0, world.registry.len()) {
            assert!(!reader.in_read_section());
        }
        world.claim();
        t.join().unwrap();
    });
}
