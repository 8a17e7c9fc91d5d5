//! Models of a thread's registration: the thread enters, which registers it, reads, exits, and reads once more in a
//! late destructor. They do what `rcu::RcuDomain::enter` and the exit of a thread do, except for the thread-local
//! variable and the system calls.

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::grace_period::engine::{Engine, ReaderSet as _};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::reader::{ExitPath, Owner, Reader};
use stillpoint::readers::sections::registration::{self, Registration};
use stillpoint::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use stillpoint::sync::{AtomicU64, Ordering::Relaxed, model::poll, model::reader as interruptible};
use support::model::{boxed, check, look_at};

/// A domain, and a cell for each reader that only its owner touches.
struct Domain {
    engine: Engine<ThreadReaders<()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
    owned: [UnsafeCell<()>; 4],
    /// A thread has come to the point at which the other one begins.
    ready: AtomicU64,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

/// A thread's thread-local variable, and whether a compiler fence is a light fence.
struct Thread<'a> {
    domain: &'a Domain,
    registration: Registration,
    light_is_free: bool,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(ReaderProtocol::Sections), || "Domain"),
            published: PublishedPtr::new(boxed(7)),
            owned: std::array::from_fn(|_| UnsafeCell::new(())),
            ready: AtomicU64::new(0),
        })
    }

    fn thread(&self, light_is_free: bool) -> Thread<'_> {
        Thread { domain: self, registration: Registration::new(), light_is_free }
    }

    fn wait_until_ready(&self) {
        while self.ready.load(Relaxed) == 0 {
            thread::yield_now();
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

impl Thread<'_> {
    /// `Domain::enter`.
    fn enter(&self) -> &'static Reader {
        let threads = self.domain.engine.readers();
        let reader = self.registration.fast();
        if registration::enter_or_nest(reader, threads.counter()) {
            return reader;
        }
        if let Some(reader) = self.registration.enter_with_full_fence(threads.counter()) {
            return reader;
        }
        let reader = self.registration.reader().unwrap_or_else(|| self.register());
        self.registration.enter_registered(threads.registry(), reader, threads.counter());
        reader
    }

    fn register(&self) -> &'static Reader {
        let owner = Owner { thread: 1, site: Location::caller() };
        let registry = self.domain.engine.readers().registry();
        self.registration.register(registry, owner, self.light_is_free, |_| true).unwrap()
    }

    /// Reads the published value, inside a section of `reader`.
    fn look(&self, reader: &Reader) {
        self.domain.owned[reader.index.load(Relaxed) as usize].with_mut(|_| ());
        let value = self.domain.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        look_at(value);
    }

    /// `Guard::repin` and `Guard::drop`.
    fn exit_slow(&self, reader: &Reader, exit: ExitPath) {
        if exit == ExitPath::Slow {
            self.domain.engine.readers().exit_slow(reader);
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

    /// `Domain::hint_idle`.
    fn hint_idle(&self) {
        self.registration.hint_idle(self.domain.engine.readers().registry());
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

/// Runs `body` as reader number `index`.
fn spawn(domain: &Arc<Domain>, index: usize, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || interruptible(index, || body(&domain)))
}

/// Refutes: reader-kept-at-exit
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

/// Refutes: reader-kept-at-exit
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

/// Refutes: reader-released-inside
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

/// Refutes: Group::active:Acquire, Registry::clear_active:Release
#[test]
fn value_outlives_the_section_before_the_thread_is_idle() {
    check(1, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            thread.read();
            thread.hint_idle();
        });
        domain.update();
        t.join().unwrap();
    });
}

/// A thread hints that it is idle, and then reads, beside an update.
fn check_section_that_ends_idleness(light_is_free: bool) {
    check(0, 2, move || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, move |domain| {
            let thread = domain.thread(light_is_free);
            thread.register();
            thread.hint_idle();
            domain.ready.store(1, Relaxed);
            thread.read();
        });
        domain.wait_until_ready();
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: idle-reader-stays-inactive
#[test]
fn value_outlives_the_section_that_ends_idleness() {
    check_section_that_ends_idleness(true);
}

/// Refutes: fenced-while-idle
#[test]
fn value_outlives_the_section_that_ends_idleness_by_the_slow_way() {
    check_section_that_ends_idleness(false);
}

#[test]
fn value_outlives_sections_after_the_one_that_ends_idleness() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            thread.register();
            thread.hint_idle();
            thread.read();
            let reader = thread.registration.fast();
            assert!(
                registration::enter_or_nest(reader, domain.engine.readers().counter()),
                "the thread is idle"
            );
            thread.look(reader);
            thread.leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: idle-inside-section
#[test]
fn thread_inside_a_section_does_not_become_idle() {
    check(0, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            let reader = thread.enter();
            domain.ready.store(1, Relaxed);
            thread.hint_idle();
            thread.look(reader);
            thread.leave(reader);
        });
        domain.wait_until_ready();
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: rescan-of-active-readers
#[test]
fn request_to_a_thread_that_became_idle_is_taken_back() {
    check(0, 3, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let thread = domain.thread(true);
            let reader = thread.enter();
            domain.ready.store(1, Relaxed);
            thread.leave(reader);
            thread.hint_idle();
        });
        domain.wait_until_ready();
        domain.engine.synchronize(None);
        t.join().unwrap();
    });
}
