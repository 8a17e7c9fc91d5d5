//! Models of sleepable domains: sections that are counted on several CPUs, the two indices, the sleep.

use core::panic::Location;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::grace_period::engine::{Engine, ReaderSet as _};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::readers::srcu::{Idx, SrcuReaders};
use stillpoint::sync::model::{poll, reader as interruptible, run_on};
use stillpoint::sync::{AtomicU64, Ordering::Relaxed};
use support::model::{boxed, check, look_at};

/// A domain with a published value: 7 at first, 8 from each updater. A freed value is 0, and keeps its memory.
struct Domain {
    engine: Engine<SrcuReaders>,
    published: PublishedPtr<UnsafeCell<u32>>,
    /// The updates have ended.
    done: AtomicU64,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            engine: Engine::new(SrcuReaders::new(Location::caller()), || "Domain"),
            published: PublishedPtr::new(boxed(7)),
            done: AtomicU64::new(0),
        })
    }

    fn readers(&self) -> &SrcuReaders {
        self.engine.readers()
    }

    /// Reads the published value, inside a section.
    fn look(&self) {
        let value = self.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        look_at(value);
    }

    /// One section that begins on CPU 0 and ends on CPU 1.
    fn read(&self) {
        run_on(0);
        let idx = self.readers().read_lock();
        self.look();
        run_on(1);
        self.readers().read_unlock(idx);
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }

    /// Returns the number of heavy fences and of wake-ups.
    fn costs(&self) -> (u64, u64) {
        let counters = self.readers().counters();
        (counters.heavy_fences.load(Relaxed), counters.wakeups.load(Relaxed))
    }
}

/// Runs `body` as reader number `index`.
fn spawn(domain: &Arc<Domain>, index: usize, body: impl FnOnce(&Domain) + 'static) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || interruptible(index, || body(&domain)))
}

/// A section that began before the updates, with the value that it reads.
struct Begun {
    idx: Idx,
    value: *mut UnsafeCell<u32>,
}

// SAFETY: as above.
unsafe impl Send for Begun {}

impl Begun {
    fn new(domain: &Domain) -> Self {
        Self { idx: domain.readers().read_lock(), value: domain.published.load() }
    }

    /// Reads the value and ends the section.
    fn end(self, domain: &Domain) {
        look_at(self.value);
        domain.readers().read_unlock(self.idx);
    }
}

/// Refutes: grace-period-unfenced
#[test]
fn reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, |domain| {
            domain.read();
            domain.read();
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: locks-summed-first
#[test]
fn short_section_does_not_hide_an_open_one() {
    check(0, 2, || {
        let domain = Domain::new();
        let begun = Begun::new(&domain);
        let t = spawn(&domain, 0, move |domain| {
            domain.readers().read_unlock(domain.readers().read_lock());
            begun.end(domain);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: busy-index-skipped, CpuCounters::add_slow:Release, CpuCounters::sum:Acquire
#[test]
fn section_may_end_in_another_thread() {
    check(1, 3, || {
        let domain = Domain::new();
        let begun = Begun::new(&domain);
        let t = spawn(&domain, 0, move |domain| {
            run_on(1);
            begun.end(domain);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// As for a thread that loaded the index before a flip, and entered afterwards.
/// Refutes: idle-index-skipped
#[test]
fn section_of_the_idle_index_is_waited_for() {
    check(1, 3, || {
        let domain = Domain::new();
        let begun = Begun::new(&domain);
        domain.readers().flip();
        let t = spawn(&domain, 0, move |domain| {
            begun.end(domain);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: idle-index-before-fence
#[test]
fn late_section_of_the_idle_index_is_waited_for() {
    check(1, 2, || {
        let domain = Domain::new();
        let t = spawn(&domain, 0, Domain::read);
        domain.readers().flip();
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn sections_of_both_indices_are_waited_for_asleep() {
    check(0, 1, || {
        let domain = Domain::new();
        let first = Begun::new(&domain);
        domain.readers().flip();
        let second = Begun::new(&domain);
        let threads = [(0, first), (1, second)]
            .map(|(index, begun)| spawn(&domain, index, move |domain| begun.end(domain)));
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
        let (fences, wakeups) = domain.costs();
        assert!(fences <= 3 && wakeups <= 2, "{fences} fences, {wakeups} wake-ups");
    });
}

/// Refutes: leader-not-woken, no-fence-before-sum, sleep-without-comparing, summed-before-armed,
/// wake-request-before-unlock, wake-up-not-published, woken-is-enough, SrcuReaders::count_down:Release,
/// SrcuReaders::sleep_for:Acquire
#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let domain = Domain::new();
        let begun = [Begun::new(&domain), Begun::new(&domain)];
        let t = spawn(&domain, 0, move |domain| begun.into_iter().for_each(|begun| begun.end(domain)));
        domain.update();
        t.join().unwrap();
        let (fences, _) = domain.costs();
        assert!(fences <= 2, "{fences} fences");
    });
}

#[test]
fn last_of_two_leaving_readers_wakes_the_leader() {
    check(0, 1, || {
        let domain = Domain::new();
        let threads = [0, 1].map(|index| {
            let begun = Begun::new(&domain);
            spawn(&domain, index, move |domain| {
                run_on(index);
                begun.end(domain);
            })
        });
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(0, 1, || {
        let domain = Domain::new();
        let threads = [spawn(&domain, 0, Domain::read), spawn(&domain, 1, Domain::update)];
        domain.update();
        for t in threads {
            t.join().unwrap();
        }
    });
}

/// Refutes: repin-does-nothing
#[test]
fn repin_lets_a_grace_period_end() {
    check(0, 2, || {
        let domain = Domain::new();
        let mut idx = domain.readers().read_lock();
        let t = spawn(&domain, 0, move |domain| {
            domain.look();
            while domain.done.load(Relaxed) == 0 {
                idx = domain.readers().repin(idx);
                domain.look();
                thread::yield_now();
            }
            domain.readers().read_unlock(idx);
        });
        domain.update();
        domain.done.store(1, Relaxed);
        t.join().unwrap();
    });
}
