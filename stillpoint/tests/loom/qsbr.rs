//! Models of readers that report quiescent states: no process-wide fence anywhere.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::grace_period::engine::{Engine, ReaderSet};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::reader::Reader;
use stillpoint::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use stillpoint::sync::Ordering::Relaxed;
use support::model::{boxed, check, look_at};

/// A domain with a published value: 7 at first, 8 from each updater. A freed value is 0, and keeps its memory.
struct Domain {
    engine: Engine<ThreadReaders<()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

/// A thread's handle.
struct Handle<'a> {
    domain: &'a Domain,
    reader: &'static Reader,
    seen: u64,
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::new(ReaderProtocol::Qsbr), || "Domain"),
            published: PublishedPtr::new(boxed(7)),
        })
    }

    fn claim(&self) -> &'static Reader {
        self.engine.readers().registry().claim().unwrap()
    }

    fn online(&self, reader: &'static Reader) -> Handle<'_> {
        Handle { domain: self, reader, seen: self.engine.readers().thread_online(reader) }
    }

    /// Returns the handle of a reader that has been online since the counter was `seen`.
    fn resume(&self, reader: &'static Reader, seen: u64) -> Handle<'_> {
        Handle { domain: self, reader, seen }
    }

    /// At most one wake-up, and no fence.
    fn assert_costs(&self) {
        let counters = self.engine.readers().counters();
        assert!(counters.wakeups.load(Relaxed) <= 1, "{counters:?}");
        assert_eq!(counters.heavy_fences.load(Relaxed), 0, "{counters:?}");
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        free(old);
    }
}

impl Handle<'_> {
    fn load(&self) -> *mut UnsafeCell<u32> {
        self.domain.published.load()
    }

    fn look(&self) {
        look_at(self.load());
    }

    fn quiescent(&mut self) {
        let counter = self.domain.engine.readers().current_counter();
        if counter != self.seen {
            self.seen = counter;
            self.domain.engine.readers().quiescent_state(self.reader, counter);
        }
    }

    /// As when the thread exits: offline, and not registered any more.
    fn end(self) {
        self.domain.engine.readers().thread_offline(self.reader);
        self.domain.engine.readers().registry().release(self.reader);
    }

    fn offline(self) {
        self.domain.engine.readers().thread_offline(self.reader);
    }
}

fn free(value: *mut UnsafeCell<u32>) {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with_mut(|cell| unsafe { *cell = 0 });
}

fn spawn(domain: &Arc<Domain>, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || body(&domain))
}

/// Refutes: no-rescan, quiescent-state-does-not-check, ReaderProtocol::advance_counter:Release,
/// ReaderProtocol::blocks:Acquire, ThreadReaders::current_counter:Acquire, ThreadReaders::quiescent_state:Release
#[test]
fn qsbr_reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            let mut handle = domain.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.quiescent();
            handle.look();
            handle.offline();
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: offline-seen-by-load, online-by-store, ReaderProtocol::blocks:Acquire#2, ReaderProtocol::blocks:Acquire#3,
/// ReaderProtocol::blocks:Release, ReaderProtocol::request_wakeup:Acquire, take_request:Acquire, take_request:Release
#[test]
fn reader_coming_online_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let t = spawn(&domain, move |domain| {
            let handle = domain.online(reader);
            handle.look();
            handle.offline();
            let handle = domain.online(reader);
            handle.look();
            handle.offline();
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: ReaderProtocol::request_wakeup:Release
#[test]
fn reader_back_online_sees_what_was_published() {
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            let handle = domain.resume(reader, seen);
            handle.look();
            handle.offline();
            let handle = domain.online(reader);
            handle.look();
            handle.offline();
        });
        domain.update();
        t.join().unwrap();
        domain.assert_costs();
    });
}

/// Refutes: request-checked-by-load, request-taken-by-load, sleep-without-comparing
#[test]
fn sleeping_grace_period_costs_one_wakeup() {
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            let mut handle = domain.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.offline();
        });
        domain.update();
        t.join().unwrap();
        domain.assert_costs();
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 2, || {
        let domain = Domain::new();
        let readers = [domain.claim(), domain.claim()];
        // Both are online when the grace period begins.
        let threads = readers.map(|reader| {
            let seen = domain.online(reader).seen;
            spawn(&domain, move |domain| {
                let mut handle = domain.resume(reader, seen);
                handle.look();
                handle.quiescent();
                handle.offline();
            })
        });
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
        domain.assert_costs();
    });
}

#[test]
fn each_grace_period_waits_for_earlier_references() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            let mut handle = domain.resume(reader, seen);
            handle.look();
            handle.quiescent();
            handle.look();
            handle.quiescent();
            handle.look();
            handle.offline();
        });
        domain.update();
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: counter-raised-by-store
#[test]
fn counter_advanced_by_another_ends_no_grace_period() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            domain.engine.readers().defer_to_exit(Some(reader), true);
            let mut handle = domain.resume(reader, seen);
            handle.quiescent();
            handle.look();
            handle.offline();
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: Registry::claim:Release
#[test]
fn late_registration_sees_what_was_published() {
    check(1, 3, || {
        let domain = Domain::new();
        let t = spawn(&domain, |domain| {
            let handle = domain.online(domain.claim());
            handle.look();
            handle.end();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn scan_finds_a_newly_registered_thread() {
    check(1, 3, || {
        let domain = Domain::new();
        domain.claim();
        let t = spawn(&domain, |domain| {
            let handle = domain.online(domain.claim());
            handle.look();
            handle.end();
        });
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn reused_reader_is_waited_for() {
    check(1, 2, || {
        let domain = Domain::new();
        let first = domain.claim();
        let seen = domain.online(first).seen;
        let threads = [
            spawn(&domain, move |domain| {
                let handle = domain.resume(first, seen);
                handle.look();
                handle.end();
            }),
            spawn(&domain, |domain| {
                let handle = domain.online(domain.claim());
                handle.look();
                handle.end();
            }),
        ];
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.claim();
        let seen = domain.online(reader).seen;
        let t = spawn(&domain, move |domain| {
            let handle = domain.resume(reader, seen);
            handle.look();
            handle.offline();
        });
        let updater = spawn(&domain, Domain::update);
        domain.update();
        t.join().unwrap();
        updater.join().unwrap();
    });
}
