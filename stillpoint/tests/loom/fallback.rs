//! Models of the grace period where light fences are full ones: readers execute no fence when they leave or repin. They
//! have entered before their threads start, which orders the entry as a full fence does.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::grace_period::engine::Engine;
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::reader::{ExitPath, Reader};
use stillpoint::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use stillpoint::sync::model::{poll, set_full_light_fence};
use support::model;
use support::model::{boxed, look_at};

/// A domain with a published value: 7 at first, then 8. A freed value is 0, and keeps its memory.
struct Domain {
    engine: Engine<ThreadReaders<()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

impl Domain {
    fn new() -> Arc<Self> {
        let engine = Engine::new(ThreadReaders::<()>::new(ReaderProtocol::Sections), || "Domain");
        Arc::new(Self { engine, published: PublishedPtr::new(boxed(7)) })
    }

    /// Registers a reader, and begins a section of it.
    fn enter(&self) -> &'static Reader {
        let readers = self.engine.readers();
        let reader = readers.registry().claim().unwrap();
        assert!(reader.try_enter(readers.counter()));
        reader
    }

    /// Reads the published value.
    fn look(&self) {
        let value = self.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        look_at(value);
    }

    fn repin(&self, reader: &'static Reader) {
        let readers = self.engine.readers();
        if reader.repin(readers.counter()) == ExitPath::Slow {
            readers.exit_slow(reader);
        }
    }

    fn leave(&self, reader: &'static Reader) {
        if reader.leave() == ExitPath::Slow {
            self.engine.readers().exit_slow(reader);
        }
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
}

fn check(budget: u32, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    set_full_light_fence();
    model::check(budget, preemptions, model);
}

fn spawn(domain: &Arc<Domain>, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || body(&domain))
}

/// Refutes: no-rescan-after-timeout, sleep-without-timeout
#[test]
fn leader_returns_although_a_wake_up_is_lost() {
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.enter();
        let t = spawn(&domain, move |domain| {
            domain.look();
            domain.leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn leader_waits_for_each_of_two_readers() {
    check(0, 2, || {
        let domain = Domain::new();
        let threads = [domain.enter(), domain.enter()].map(|reader| {
            spawn(&domain, move |domain| {
                domain.look();
                domain.leave(reader);
            })
        });
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

/// The next leader relies on the count that the last one has left.
#[test]
fn second_grace_period_finds_no_request() {
    check(0, 2, || {
        let domain = Domain::new();
        let (first, second) = (domain.enter(), domain.enter());
        let t = spawn(&domain, move |domain| {
            domain.leave(first);
            domain.look();
            domain.leave(second);
        });
        domain.update();
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: Reader::repin:Acquire
#[test]
fn repin_sees_what_was_unpublished() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.enter();
        let t = spawn(&domain, move |domain| {
            domain.repin(reader);
            domain.look();
            domain.leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}
