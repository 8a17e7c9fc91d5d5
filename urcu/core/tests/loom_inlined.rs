//! Models of readers whose sections are inlined in C programs, next to sections by functions: the scan, the numbers
//! that are used up, and the sleep.
#![cfg(loom)]

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use stillpoint::fence::light;
use stillpoint::grace_period::engine::{Engine, ReaderSet as _};
use stillpoint::rcu::published_ptr::PublishedPtr;
use stillpoint::sync::{Ordering::*, model::poll, model::reader as interruptible};
use stillpoint_urcu_core::inlined::{ARMED, Gp, InlinedProtocol, InlinedReader, InlinedReaders};
use support::model::{boxed, check, look_at};

/// The protocol of memb. `WEAK`: the machine may delay a plain store beyond earlier loads of the section.
struct Memb<const WEAK: bool>(Gp);

impl<const WEAK: bool> InlinedProtocol for Memb<WEAK> {
    const FENCED: bool = true;
    const QSBR: bool = false;
    const TIMED: bool = false;
    const CLOSING_FENCE: bool = WEAK;

    fn gp(&self) -> &Gp {
        &self.0
    }

    fn report_stall(&self, _thread: u32, _waited: Duration) {}
}

/// A domain with a published value: 7 at first, 8 from each update. A freed value is 0, and keeps its memory.
struct Domain<const WEAK: bool> {
    engine: Engine<InlinedReaders<Memb<WEAK>>>,
    published: PublishedPtr<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access of the cells.
unsafe impl<const WEAK: bool> Sync for Domain<WEAK> {}
// SAFETY: as above.
unsafe impl<const WEAK: bool> Send for Domain<WEAK> {}

impl<const WEAK: bool> Domain<WEAK> {
    fn new(number: u32) -> Arc<Self> {
        let readers = InlinedReaders::new(Memb::<WEAK>(Gp::new(number)));
        Arc::new(Self { engine: Engine::new(readers, || "Domain"), published: PublishedPtr::new(boxed(7)) })
    }

    fn readers(&self) -> &InlinedReaders<Memb<WEAK>> {
        self.engine.readers()
    }

    fn register(&self) -> &'static InlinedReader {
        let reader = Box::leak(Box::new(InlinedReader::unregistered()));
        // SAFETY: it is never freed.
        unsafe { self.readers().register(reader, 0) };
        reader
    }

    /// What a compiler makes of liburcu's inlined `rcu_read_lock`.
    fn inlined_enter(&self, reader: &InlinedReader, gp: u64) {
        let ctr = reader.ctr.load(Relaxed);
        let outermost = ctr as u32 == 0;
        // On x86-64 a plain store is a Release.
        reader.ctr.store(if outermost { gp } else { ctr + 1 }, if WEAK { Relaxed } else { Release });
        if outermost {
            light();
        }
    }

    /// The same of `rcu_read_unlock`.
    fn inlined_leave(&self, reader: &InlinedReader) {
        let ctr = reader.ctr.load(Relaxed);
        light();
        reader.ctr.store(ctr - 1, if WEAK { Relaxed } else { Release });
        if ctr as u32 == 1 {
            light();
            let futex = &self.readers().protocol().gp().futex;
            if futex.load(Relaxed) == ARMED {
                futex.store(0, Relaxed);
                futex.wake_shared(1);
            }
        }
    }

    fn inlined_read(&self, reader: &InlinedReader) {
        self.inlined_enter(reader, self.readers().protocol().gp().ctr.load(Relaxed));
        self.look();
        self.inlined_leave(reader);
    }

    fn read(&self, reader: &InlinedReader) {
        self.readers().enter(reader);
        self.look();
        self.readers().leave(reader);
    }

    /// Reads the published value, inside a section.
    fn look(&self) {
        let value = self.published.load();
        // Time may pass between loading the pointer and reading through it.
        poll();
        look_at(value);
    }

    /// Publishes another value and frees the old one after a grace period.
    fn update(&self) {
        let old = self.published.swap(boxed(8));
        self.engine.synchronize(None);
        // SAFETY: the memory of values is never freed.
        unsafe { &*old }.with_mut(|cell| unsafe { *cell = 0 });
    }

    fn assert_costs(&self, heavy_fences: u64, wakeups: u64) {
        let counters = self.readers().counters();
        assert!(counters.heavy_fences.load(Relaxed) <= heavy_fences, "{counters:?}");
        assert!(counters.wakeups.load(Relaxed) <= wakeups, "{counters:?}");
    }
}

/// Runs `body` as reader number `index`.
fn spawn<const WEAK: bool>(
    domain: &Arc<Domain<WEAK>>,
    index: usize,
    body: impl FnOnce(&Domain<WEAK>) + 'static,
) -> thread::JoinHandle<()> {
    let domain = domain.clone();
    thread::spawn(move || interruptible(index, || body(&domain)))
}

/// Refutes: inlined-no-fence
#[test]
fn inlined_reader_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.inlined_read(reader);
            domain.inlined_read(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: InlinedReaders::enter:Release, InlinedReaders::leave:Release
#[test]
fn reader_by_functions_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::<false>::new(0);
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

/// The counter that a reader has loaded may be old when it is stored.
#[test]
fn inlined_reader_with_an_old_counter_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| domain.inlined_read(reader));
        domain.update();
        domain.update();
        t.join().unwrap();
    });
}

#[test]
fn nested_inlined_section_lasts_until_the_outermost_ends() {
    check(1, 2, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.readers().enter(reader);
            domain.inlined_read(reader);
            domain.look();
            domain.inlined_leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Where a plain store is no Release, the closing fence orders the section.
/// Refutes: inlined-no-closing-fence
#[test]
fn inlined_reader_on_a_weak_machine_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = Domain::<true>::new(0);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| domain.inlined_read(reader));
        domain.update();
        t.join().unwrap();
    });
}

/// The reader has loaded number 0 when the process began, 2^32 grace periods ago.
/// Refutes: inlined-wrap-unnoticed, InlinedReaders::blocks:Acquire
#[test]
fn number_that_comes_again_does_not_hide_a_reader() {
    check(1, 3, || {
        let domain = Domain::<false>::new(u32::MAX);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.inlined_enter(reader, 1);
            domain.look();
            domain.inlined_leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// The same in the second pass, which the leader begins after a sleep: another reader has blocked the first.
/// Refutes: inlined-one-pass-after-wrap
#[test]
fn number_of_the_pass_that_sleeps_does_not_hide_a_reader() {
    check(0, 2, || {
        let domain = Domain::<false>::new(u32::MAX);
        let [blocking, stale] = [(); 2].map(|()| domain.register());
        domain.readers().enter(blocking);
        // The first number after the wrap.
        domain.inlined_enter(stale, 1);
        let value = domain.published.load();
        let t = spawn(&domain, 0, move |domain| {
            domain.readers().leave(blocking);
            // The fences of both passes may come before.
            (0..4).for_each(|_| poll());
            look_at(value);
            domain.inlined_leave(stale);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// A leader that may not sleep has given up while the reader was inside.
/// Refutes: inlined-abandoned-pass-kept
#[test]
fn reader_that_blocked_an_abandoned_pass_blocks_the_next() {
    check(0, 2, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        domain.readers().enter(reader);
        let value = domain.published.load();
        assert_ne!(domain.engine.try_synchronize(None), Some(true));
        let t = spawn(&domain, 0, move |domain| {
            poll();
            poll();
            look_at(value);
            domain.readers().leave(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}

/// Refutes: inlined-no-fence-before-rescan, inlined-no-rescan, inlined-share-not-checked
#[test]
fn leader_sleeps_until_inlined_and_own_readers_have_left() {
    check(0, 1, || {
        let domain = Domain::<false>::new(0);
        let (inlined, own) = (domain.register(), domain.register());
        let t = spawn(&domain, 0, move |domain| domain.inlined_read(inlined));
        let u = spawn(&domain, 1, move |domain| domain.read(own));
        domain.update();
        t.join().unwrap();
        u.join().unwrap();
    });
}

/// The section has begun, so few switches lead to a leader that sleeps.
/// Refutes: inlined-no-wake-up, InlinedReaders::count_down:Release, InlinedReaders::wait_for_pass:Acquire,
/// InlinedReaders::wait_for_pass:Acquire#2
#[test]
fn sleeping_leader_returns_after_the_reader_left_by_function() {
    check(0, 3, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        domain.readers().enter(reader);
        let value = domain.published.load();
        let t = spawn(&domain, 0, move |domain| {
            // Fences A and B may both come before the section reads.
            poll();
            poll();
            look_at(value);
            domain.readers().leave(reader);
        });
        domain.update();
        t.join().unwrap();
        domain.assert_costs(2, 1);
    });
}

/// One reader, which leaves by a function and by inlined code in turn.
#[test]
fn leader_sleeps_for_a_reader_of_both_kinds() {
    check(0, 2, || {
        let domain = Domain::<false>::new(0);
        let reader = domain.register();
        let t = spawn(&domain, 0, move |domain| {
            domain.inlined_read(reader);
            domain.read(reader);
        });
        domain.update();
        t.join().unwrap();
    });
}
