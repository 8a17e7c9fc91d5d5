//! Models of a thread's registration: the thread enters, which registers it, reads, exits, and reads once more in a
//! late destructor. They do what `rcu::Guard::enter` and the exit of a thread do, except for the thread-local
//! variable and the system calls.

use core::panic::Location;
use std::ops::Deref;

use stillpoint::grace_period::engine::ReaderSet as _;
use stillpoint::readers::sections::reader::{ExitPath, Owner, Reader};
use stillpoint::readers::sections::registration::{self, Registration};
use support::domain;
use support::model::*;

/// A domain, and a cell for each reader that only its owner touches.
struct Domain {
    domain: Arc<domain::Domain>,
    owned: [UnsafeCell<()>; 4],
}

impl Deref for Domain {
    type Target = domain::Domain;

    fn deref(&self) -> &domain::Domain {
        &self.domain
    }
}

/// A thread's thread-local variable, and whether a compiler fence is a light fence.
struct Thread<'a> {
    domain: &'a Domain,
    registration: Registration,
    light_is_free: bool,
}

impl Domain {
    fn new() -> Arc<Self> {
        let owned = std::array::from_fn(|_| UnsafeCell::new(()));
        Arc::new(Self { domain: domain::Domain::new(), owned })
    }

    /// Returns a new thread, of a system where a compiler fence is a light fence.
    fn thread(&self) -> Thread<'_> {
        Thread { domain: self, registration: Registration::new(), light_is_free: true }
    }

    fn update(&self) {
        self.domain.update();
    }

    fn wait_until_ready(&self) {
        while self.ready.load(Relaxed) == 0 {
            thread::yield_now();
        }
    }
}

impl Thread<'_> {
    /// `Domain::enter`.
    fn enter(&self) -> &'static Reader {
        let threads = self.domain.readers();
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
        let registry = self.domain.readers().registry();
        self.registration.register(registry, owner, self.light_is_free, |_| true).unwrap()
    }

    /// Reads the published value, inside a section of `reader`.
    fn look(&self, reader: &Reader) {
        self.domain.owned[reader.index.load(Relaxed) as usize].with_mut(|_| ());
        self.domain.look();
    }

    /// `Guard::repin` and `Guard::drop`.
    fn exit_slow(&self, reader: &Reader, exit: ExitPath) {
        if exit == ExitPath::Slow {
            self.domain.readers().exit_slow(reader);
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

    fn is_ready(&self) {
        self.domain.ready.store(1, Relaxed);
    }

    /// `Domain::hint_idle`.
    fn hint_idle(&self) {
        self.registration.hint_idle(self.domain.readers().registry());
    }

    /// The destructor of the thread.
    fn end(&self) {
        self.registration.end();
        self.leave_if_ended();
    }

    fn leave_if_ended(&self) {
        self.registration.leave_if_ended(self.domain.readers().registry(), |_| ());
    }
}

/// Refutes: reader-kept-at-exit
#[test]
fn section_after_thread_exit_registers_anew() {
    check(0, 2, || {
        let domain = Domain::new();
        race_readers(
            &domain,
            |_| (),
            2,
            |domain, index| {
                let thread = domain.thread();
                thread.read();
                thread.end();
                if index == 0 {
                    thread.read();
                }
            },
        );
        assert!(domain.readers().no_other_readers(None));
        assert!(domain.readers().registry().len() <= 2);
    });
}

/// Explores an update beside a thread.
fn update_beside(budget: u32, thread: fn(&Thread)) {
    check(budget, 2, move || {
        let domain = Domain::new();
        race_reader(&domain, Domain::update, move |domain| thread(&domain.thread()));
    });
}

/// Refutes: reader-kept-at-exit
#[test]
fn value_outlives_every_section_of_a_thread() {
    update_beside(0, |thread| {
        thread.read();
        thread.read();
        thread.end();
        thread.read();
    });
}

/// Refutes: reader-released-inside
#[test]
fn late_guard_protects_until_it_is_dropped() {
    check(0, 2, || {
        let domain = Domain::new();
        race_reader(&domain, Domain::update, |domain| {
            let thread = domain.thread();
            let reader = thread.enter();
            thread.look(reader);
            thread.end();
            thread.look(reader);
            // A nested section, of another destructor.
            thread.read();
            thread.exit_slow(reader, reader.repin(domain.readers().counter()));
            thread.look(reader);
            thread.leave(reader);
        });
        assert!(domain.readers().no_other_readers(None), "the reader has not been released");
    });
}

#[test]
fn value_outlives_sections_entered_the_slow_way() {
    check(1, 2, || {
        let domain = Domain::new();
        race_reader(&domain, Domain::update, |domain| {
            let thread = Thread { light_is_free: false, ..domain.thread() };
            thread.read();
            thread.read();
            thread.end();
        });
    });
}

/// Refutes: Group::active:Acquire, Registry::clear_active:Release
#[test]
fn value_outlives_the_section_before_the_thread_is_idle() {
    update_beside(1, |thread| {
        thread.read();
        thread.hint_idle();
    });
}

/// Explores an update beside a thread, once that is ready.
fn update_when_ready(thread: fn(&Thread), light_is_free: bool) {
    check(0, 2, move || {
        let domain = Domain::new();
        let update = |domain: &Domain| {
            domain.wait_until_ready();
            domain.update();
        };
        race_reader(&domain, update, move |domain| thread(&Thread { light_is_free, ..domain.thread() }));
    });
}

/// Hints that it is idle, and then reads.
fn end_idleness(thread: &Thread) {
    thread.register();
    thread.hint_idle();
    thread.is_ready();
    thread.read();
}

/// Refutes: idle-reader-stays-inactive
#[test]
fn value_outlives_the_section_that_ends_idleness() {
    update_when_ready(end_idleness, true);
}

/// Refutes: fenced-while-idle
#[test]
fn value_outlives_the_slow_section_that_ends_idleness() {
    update_when_ready(end_idleness, false);
}

#[test]
fn value_outlives_sections_after_the_one_that_ends_idleness() {
    update_beside(0, |thread| {
        thread.register();
        thread.hint_idle();
        thread.read();
        let reader = thread.registration.fast();
        let counter = thread.domain.readers().counter();
        assert!(registration::enter_or_nest(reader, counter), "the thread is idle");
        thread.look(reader);
        thread.leave(reader);
    });
}

/// Refutes: idle-inside-section
#[test]
fn thread_inside_a_section_does_not_become_idle() {
    let thread = |thread: &Thread| {
        let reader = thread.enter();
        thread.is_ready();
        thread.hint_idle();
        thread.look(reader);
        thread.leave(reader);
    };
    update_when_ready(thread, true);
}

/// Refutes: rescan-of-active-readers
#[test]
fn request_to_a_thread_that_became_idle_is_taken_back() {
    check(0, 3, || {
        let domain = Domain::new();
        let synchronize = |domain: &Domain| {
            domain.wait_until_ready();
            domain.engine.synchronize(None);
        };
        race_reader(&domain, synchronize, |domain| {
            let thread = domain.thread();
            let reader = thread.enter();
            thread.is_ready();
            thread.leave(reader);
            thread.hint_idle();
        });
    });
}
