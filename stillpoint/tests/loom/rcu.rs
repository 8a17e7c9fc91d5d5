//! Models of the grace period: readers, the scan, the sleep, registration. `sync/model.rs` has the model of the
//! process-wide fence.

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::grace_period::engine::{Engine, ReaderSet as _};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::sections::reader::{ExitPath, Owner, Reader};
use stillpoint::readers::sections::scan::{ReaderProtocol, ThreadReaders};
use stillpoint::sync::{AtomicU64, Ordering::*, model::poll, model::reader as interruptible};
use support::model::{boxed, check, look_at};

/// A domain with a published value: 7 at first, 8 from each updater. A freed value is 0, and keeps its memory.
struct Domain {
    engine: Engine<ThreadReaders<()>>,
    published: PublishedPtr<UnsafeCell<u32>>,
    done: AtomicU64,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(ThreadReaders::<()>::new(ReaderProtocol::Sections), || "Domain"),
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

    /// Reads the published value in one section.
    fn read(&self, reader: &'static Reader) {
        if !reader.try_enter(self.engine.readers().counter()) {
            reader.nest();
        }
        self.look();
        self.exit_slow(reader, reader.leave());
    }

    fn assert_costs(&self, heavy_fences: u64, wakeups: u64) {
        let counters = self.engine.readers().counters();
        assert!(counters.heavy_fences.load(Relaxed) <= heavy_fences, "{counters:?}");
        assert!(counters.wakeups.load(Relaxed) <= wakeups, "{counters:?}");
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
}

/// Runs `body` as reader number `index`.
fn spawn(domain: &Arc<Domain>, index: usize, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || interruptible(index, || body(&domain)))
}

/// Refutes: counter-before-fence, no-fence, no-wait, one-reader-skipped, Reader::begin:Release
#[test]
fn reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.read(reader);
            domain.read(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Nothing is published and no thread reads: only the audit can notice a caller that returns too early.
/// Refutes: snapshot-joins-current-round
#[test]
fn callers_get_a_grace_period_that_began_later() {
    check(0, 3, || {
        let domain = Domain::new();
        let w = domain.clone();
        let t = thread::spawn(move || w.engine.synchronize(None));
        domain.engine.synchronize(None);
        t.join().unwrap();
    });
}

/// Refutes: PublishedPtr::swap:Acquire
#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(1, 2, || {
        let domain = Domain::new();
        let w = domain.clone();
        let t = thread::spawn(move || w.update());
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: PublishedPtr::load:Acquire, PublishedPtr::swap:Release, ReaderProtocol::blocks:Acquire, Reader::leave:Release
#[test]
fn nested_section_lasts_until_the_last_guard_drops() {
    check(1, 3, || {
        let domain = Domain::new();
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            assert!(reader.try_enter(domain.engine.readers().counter()));
            domain.read(reader);
            domain.look();
            domain.exit_slow(reader, reader.leave());
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: no-fence-before-rescan, no-rescan
#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.read(reader);
            domain.read(reader);
        });
        domain.update();
        t.join().unwrap();
        domain.assert_costs(2, 1);
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 1, || {
        let domain = Domain::new();
        let readers = [domain.register(), domain.register()];
        // Both are inside when the grace period begins.
        let threads = [0, 1].map(|i| {
            assert!(readers[i].try_enter(domain.engine.readers().counter()));
            spawn(&domain, i, move |domain| domain.exit_slow(readers[i], readers[i].leave()))
        });
        domain.engine.synchronize(None);
        for t in threads {
            t.join().unwrap();
        }
        domain.assert_costs(2, 1);
    });
}

/// Refutes: repin-does-not-check
#[test]
fn repin_lets_a_grace_period_end() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            assert!(reader.try_enter(domain.engine.readers().counter()));
            domain.look();
            while domain.done.load(Relaxed) == 0 {
                domain.exit_slow(reader, reader.repin(domain.engine.readers().counter()));
                domain.look();
                thread::yield_now();
            }
            domain.exit_slow(reader, reader.leave());
        });
        domain.update();
        domain.done.store(1, Relaxed);
        t.join().unwrap();
    });
}

#[test]
fn reused_reader_is_waited_for() {
    check(1, 1, || {
        let domain = Domain::new();
        let first = domain.register();
        // Inside a section that began before the update; the reader then goes to another thread.
        assert!(first.try_enter(domain.engine.readers().counter()));
        domain.look();
        let threads = [
            spawn(&domain, 0, move |domain| {
                domain.look();
                domain.exit_slow(first, first.leave());
                domain.engine.readers().registry().release(first);
            }),
            spawn(&domain, 1, |domain| {
                let reader = domain.register();
                assert!(reader.try_enter(domain.engine.readers().counter()));
                domain.look();
                domain.exit_slow(reader, reader.leave());
            }),
        ];
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

/// Refutes: len-read-early, registered-read-by-load, Registry::claim:Acquire, Registry::other_readers:Acquire,
/// Registry::other_readers:Release, Registry::release:Release
#[test]
fn late_registration_sees_what_was_published() {
    check(1, 3, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            let reader = domain.register();
            domain.read(reader);
            domain.engine.readers().registry().release(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: no-wake-up, wake-request-taken-twice, ThreadReaders::count_down:Release,
/// ThreadReaders::wait_for_readers:Acquire, ThreadReaders::wait_for_readers:Acquire#2
#[test]
fn sleeping_leader_returns_after_the_awaited_reader_left() {
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.register();
        assert!(reader.try_enter(domain.engine.readers().counter()));
        let value = domain.published.load();
        let t = spawn(&domain, 0, move |domain| {
            // Fences A and B may both come before the section reads.
            poll();
            poll();
            look_at(value);
            domain.exit_slow(reader, reader.leave());
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: owner-not-rechecked, Reader::owner_if_still_blocking:Acquire, Reader::owner_if_still_blocking:Acquire#2,
/// Reader::set_owner:Release, Reader::set_owner:Release#2
#[test]
fn stall_report_names_the_blocking_owner() {
    let (first, second) =
        (Owner { thread: 1, site: Location::caller() }, Owner { thread: 2, site: Location::caller() });
    assert_ne!(first.site, second.site);
    check(0, 3, move || {
        let domain = Domain::new();
        let reader = domain.register();
        reader.set_owner(first);
        assert!(reader.try_enter(domain.engine.readers().counter()));
        reader.request_wake();
        let t = spawn(&domain, 0, move |domain| {
            assert_eq!(reader.leave(), ExitPath::Slow);
            assert!(reader.take_wake_request());
            domain.engine.readers().registry().release(reader);
            domain.register().set_owner(second);
        });
        if let Some(owner) = reader.owner_if_still_blocking(|owner| owner) {
            assert_eq!(owner, first, "a report names another owner");
        }
        t.join().unwrap();
    });
}

/// Replaces the value, and frees the old one if a grace period has ended, this thread's or another's.
fn try_update(domain: &Domain, own: &'static Reader) {
    let old = domain.published.swap(boxed(8));
    let cookie = domain.engine.snapshot();
    let tried = domain.engine.try_synchronize(Some(own)) == Some(true);
    if domain.engine.is_done(cookie) {
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }
    domain.done.store(tried.into(), Relaxed);
}

/// Refutes: failed-try-counts
#[test]
fn tried_grace_period_is_full_or_does_not_count() {
    check(0, 3, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        let t = spawn(&domain, 0, move |domain| domain.read(reader));
        try_update(&domain, own);
        t.join().unwrap();
        assert_eq!(domain.engine.completed(), domain.done.load(Relaxed));
    });
}

#[test]
fn trying_does_not_block_a_grace_period() {
    check(0, 1, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        let threads = [
            spawn(&domain, 0, move |domain| domain.read(reader)),
            spawn(&domain, 1, move |domain| try_update(domain, own)),
        ];
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

/// Refutes: Registry::grow:Release#2, Registry::len:Acquire
#[test]
fn scan_finds_readers_of_a_new_chunk() {
    check(1, 2, || {
        let domain = Domain::new();
        // The first chunk is full.
        domain.register();
        domain.register();
        let t = spawn(&domain, 0, |domain| {
            let reader = domain.register();
            domain.read(reader);
            domain.engine.readers().registry().release(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}
