//! Models of a thread's way through a domain: it enters, is registered by that, reads, ends, and reads once more in a late
//! destructor. All that `rcu::RcuDomain::enter` and the end of a thread do, but for the thread-local variable and the system calls.
#![cfg(loom)]

mod model;

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::rcu::callbacks::Callbacks;
use stillpoint::rcu::engine::{Engine, Readers as _};
use stillpoint::rcu::published::Published;
use stillpoint::rcu::reader::{Exit, Owner, Reader};
use stillpoint::rcu::registration::{self, Registration};
use stillpoint::rcu::threads::{Sections, Threads};
use stillpoint::sync::{Ordering::Relaxed, model::poll, model::reader as interruptible};

/// A domain, and a cell for each reader that only its owner touches.
struct Domain {
    engine: Engine<Threads<Sections>>,
    callbacks: Callbacks,
    published: Published<UnsafeCell<u32>>,
    owned: [UnsafeCell<()>; 4],
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

/// What a thread has of it: its thread-local variable, and whether a light fence is nothing in it.
struct Thread<'a> {
    domain: &'a Domain,
    registration: Registration,
    light_is_free: bool,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(Threads::new(), || "Domain"),
            callbacks: Callbacks::new(),
            published: Published::new(boxed(7)),
            owned: std::array::from_fn(|_| UnsafeCell::new(())),
        })
    }

    fn thread(&self, light_is_free: bool) -> Thread<'_> {
        Thread { domain: self, registration: Registration::new(), light_is_free }
    }

    /// Publishes another value and frees the present one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None).unwrap();
        // SAFETY: the memory of values is never given back.
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
        registration::enter_slow(reader, threads.counter());
        reader
    }

    fn register(&self) -> &'static Reader {
        let owner = Owner { thread: 1, site: Location::caller() };
        let registry = self.domain.engine.readers().registry();
        self.registration.register(registry, owner, self.light_is_free, |_| true).unwrap()
    }

    /// One section that reads the published value.
    fn read(&self) {
        let domain = self.domain;
        let reader = self.enter();
        domain.owned[reader.index.load(Relaxed) as usize].with_mut(|_| ());
        let value = domain.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        // SAFETY: the memory of values is never given back.
        unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
        if reader.leave() == Exit::Attention {
            let _ = domain.engine.readers().attend(reader);
        }
    }

    /// The end of the thread, as far as the domain is told of it.
    fn end(&self) {
        let reader = self.registration.reader().expect("registered");
        let parted = self.registration.part(reader, self.domain.engine.readers(), &self.domain.callbacks);
        assert_eq!(parted, Some(true));
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
fn section_after_the_end_of_a_thread_registers_it_anew() {
    check(0, 2, || {
        let domain = Domain::new();
        let threads = [
            spawn(&domain, 0, |domain| {
                let thread = domain.thread(true);
                thread.read();
                thread.end();
                thread.read();
                thread.end();
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
        assert!(domain.engine.readers().is_alone(None));
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
            thread.end();
        });
        domain.update();
        t.join().unwrap();
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
