//! Models of a thread's registration: the thread enters, which registers it, reads, exits, and reads once more in a
//! late destructor. They do what `rcu::RcuDomain::enter` and the exit of a thread do, except for the thread-local
//! variable and the system calls.
#![cfg(loom)]

mod model;

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::grace_period::engine::{Engine, ReaderSet as _};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::reader::{ExitPath, Owner, Reader};
use stillpoint::readers::registration::{self, Registration};
use stillpoint::readers::threads::{Memb, ThreadReaders};
use stillpoint::sync::{AtomicU64, Ordering::Relaxed, model::poll, model::reader as interruptible};

/// A domain, and a cell for each reader that only its owner touches.
struct Domain {
    engine: Engine<ThreadReaders<Memb, ()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
    owned: [UnsafeCell<()>; 4],
    /// A thread has registered, or entered.
    registered: AtomicU64,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

/// A thread's thread-local variable, whether a compiler fence is a light fence, and whether the thread begins by
/// announcing its sections.
struct Thread<'a> {
    domain: &'a Domain,
    registration: Registration,
    light_is_free: bool,
    announces: bool,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(), || "Domain"),
            published: PublishedPtr::new(boxed(7)),
            owned: std::array::from_fn(|_| UnsafeCell::new(())),
            registered: AtomicU64::new(0),
        })
    }

    fn thread(&self, light_is_free: bool) -> Thread<'_> {
        Thread { domain: self, registration: Registration::new(), light_is_free, announces: false }
    }

    fn announcing_thread(&self) -> Thread<'_> {
        Thread { announces: true, ..self.thread(true) }
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
}

impl Thread<'_> {
    /// `Domain::enter`.
    fn enter(&self) -> &'static Reader {
        let threads = self.domain.engine.readers();
        let reader = self.registration.fast();
        if registration::try_enter(reader, threads.counter()) {
            return reader;
        }
        let reader = self.registration.reader().unwrap_or_else(|| self.register());
        self.registration.enter_slow(threads.registry(), reader, threads.counter());
        reader
    }

    fn register(&self) -> &'static Reader {
        let owner = Owner { thread: 1, site: Location::caller() };
        let registry = self.domain.engine.readers().registry();
        let reader = self.registration.register(registry, owner, self.light_is_free, |_| true).unwrap();
        if self.announces {
            self.registration.announce(registry);
        }
        reader
    }

    /// Reads the published value, inside a section of `reader`.
    fn look(&self, reader: &Reader) {
        self.domain.owned[reader.index.load(Relaxed) as usize].with_mut(|_| ());
        let value = self.domain.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        // SAFETY: the memory of values is never freed.
        unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
    }

    /// `Guard::repin` and `Guard::drop`.
    fn exit_slow(&self, reader: &Reader, exit: ExitPath) {
        if exit == ExitPath::Slow {
            let threads = self.domain.engine.readers();
            threads.exit_slow(reader);
            self.registration.end_announced(threads.registry());
            self.leave_if_ended();
        }
    }

    fn leave(&self, reader: &Reader) {
        self.exit_slow(reader, reader.leave());
    }

    /// Reads the published value in one section.
    fn read(&self) {
        let reader = self.enter();
        self.look(reader);
        self.leave(reader);
    }

    /// The destructor of the thread.
    fn end(&self) {
        self.registration.end();
        self.leave_if_ended();
    }

    fn leave_if_ended(&self) {
        self.registration.leave_if_ended(self.domain.engine.readers().registry(), |_| ());
    }
}

fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

/// Runs `body` as reader number `index`.
fn spawn(domain: &Arc<Domain>, index: usize, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || interruptible(index, || body(&domain)))
}

#[test]
fn section_after_thread_exit_registers_anew() {
    check(0, 2, || {
        let domain = Domain::new();
        let threads = [
            spawn(&domain, 0, |domain| {
                let thread = domain.thread(true);
                thread.read();
                thread.end();
                thread.read();
            }),
            spawn(&domain, 1, |domain| {
                let thread = domain.thread(true);
                thread.read();
                thread.end();
            }),
        ];
        for t in threads {
            t.join().unwrap();
        }
        assert!(domain.engine.readers().no_other_readers(None));
        assert!(domain.engine.readers().registry().len() <= 2);
    });
}

#[test]
fn value_outlives_every_section_of_a_thread() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            thread.read();
            thread.read();
            thread.end();
            thread.read();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn late_guard_protects_until_it_is_dropped() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            let reader = thread.enter();
            thread.look(reader);
            thread.end();
            thread.look(reader);
            // A nested section, of another destructor.
            thread.read();
            thread.exit_slow(reader, reader.repin(domain.engine.readers().counter()));
            thread.look(reader);
            thread.leave(reader);
        });
        domain.update();
        t.join().unwrap();
        assert!(domain.engine.readers().no_other_readers(None), "the reader has not been released");
    });
}

#[test]
fn value_outlives_sections_entered_the_slow_way() {
    check(1, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(false);
            thread.read();
            thread.read();
            thread.end();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn announced_section_is_waited_for() {
    check(1, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.announcing_thread();
            thread.read();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn second_announced_section_is_waited_for() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.announcing_thread();
            thread.register();
            thread.read();
            domain.registered.store(1, Relaxed);
            thread.read();
        });
        while domain.registered.load(Relaxed) == 0 {
            thread::yield_now();
        }
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn announced_section_stays_so_after_a_repin() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.announcing_thread();
            let reader = thread.enter();
            domain.registered.store(1, Relaxed);
            thread.look(reader);
            thread.exit_slow(reader, reader.repin(domain.engine.readers().counter()));
            thread.look(reader);
            thread.leave(reader);
        });
        while domain.registered.load(Relaxed) == 0 {
            thread::yield_now();
        }
        domain.engine.synchronize(None);
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn thread_that_announces_no_more_is_waited_for() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.announcing_thread();
            let (reader, counter) = (thread.enter(), domain.engine.readers().counter());
            thread.leave(reader);
            // The last section that is announced.
            thread.leave(thread.enter());
            assert!(!reader.announces());
            assert!(registration::try_enter(thread.registration.fast(), counter));
            thread.look(reader);
            thread.leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn idle_thread_that_reads_again_is_waited_for() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            thread.read();
            thread.registration.announce(domain.engine.readers().registry());
            thread.read();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn request_to_a_reader_that_became_inactive_is_taken_back() {
    check(0, 3, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.announcing_thread();
            let reader = thread.enter();
            domain.registered.store(1, Relaxed);
            thread.leave(reader);
        });
        while domain.registered.load(Relaxed) == 0 {
            thread::yield_now();
        }
        domain.engine.synchronize(None);
        t.join().unwrap();
    });
}
