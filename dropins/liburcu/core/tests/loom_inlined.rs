//! Models of readers whose sections are inlined in C programs, next to sections by functions: the scan, the numbers
//! that are used up, and the sleep.
#![cfg(loom)]

use std::time::Duration;

use loom::sync::Arc;
use stillpoint::fence::light;
use stillpoint::grace_period::engine::ReaderSet as _;
use stillpoint::sync::Ordering::*;
use stillpoint::sync::model::{poll, set_cpus, take_yields};
use stillpoint_urcu_core::inlined::{ARMED, Gp, InlinedProtocol, InlinedReader, InlinedReaders};
use support::domain;
use support::domain::update_beside;
use support::model::{Value, check, look_at, race_reader, race_readers};

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

type Domain<const WEAK: bool = false> = domain::Domain<InlinedReaders<Memb<WEAK>>>;

fn new<const WEAK: bool>(number: u32) -> Arc<Domain<WEAK>> {
    Domain::of(InlinedReaders::new(Memb::<WEAK>(Gp::new(number))))
}

/// Returns a domain whose counter is at its start.
fn first() -> Arc<Domain> {
    new(0)
}

/// Returns a domain whose counter is about to begin again.
fn last() -> Arc<Domain> {
    new(u32::MAX)
}

fn register<const WEAK: bool>(domain: &Domain<WEAK>) -> &'static InlinedReader {
    let reader = Box::leak(Box::new(InlinedReader::unregistered()));
    // SAFETY: it is never freed.
    unsafe { domain.readers().register(reader, || 1) };
    reader
}

/// What a compiler makes of liburcu's inlined `rcu_read_lock`.
fn inlined_enter<const WEAK: bool>(_domain: &Domain<WEAK>, reader: &InlinedReader, gp: u64) {
    let ctr = reader.ctr.load(Relaxed);
    let outermost = ctr as u32 == 0;
    // On x86-64 a plain store is a Release.
    reader.ctr.store(if outermost { gp } else { ctr + 1 }, if WEAK { Relaxed } else { Release });
    if outermost {
        light();
    }
}

/// The same of `rcu_read_unlock`.
fn inlined_leave<const WEAK: bool>(domain: &Domain<WEAK>, reader: &InlinedReader) {
    let ctr = reader.ctr.load(Relaxed);
    light();
    reader.ctr.store(ctr - 1, if WEAK { Relaxed } else { Release });
    if ctr as u32 == 1 {
        light();
        let futex = &domain.readers().protocol().gp().futex;
        if futex.load(Relaxed) == ARMED {
            futex.store(0, Relaxed);
            futex.wake_shared(1);
        }
    }
}

fn inlined_read<const WEAK: bool>(domain: &Domain<WEAK>, reader: &InlinedReader) {
    inlined_enter(domain, reader, domain.readers().protocol().gp().ctr.load(Relaxed));
    domain.look();
    inlined_leave(domain, reader);
}

fn read(domain: &Domain, reader: &InlinedReader) {
    domain.readers().enter(reader);
    domain.look();
    domain.readers().leave(reader);
}

/// Refutes: inlined-no-fence
#[test]
fn inlined_reader_never_sees_a_freed_value() {
    update_beside(1, 3, first, register, |domain, reader| {
        inlined_read(domain, reader);
        inlined_read(domain, reader);
    });
}

/// Refutes: InlinedReaders::enter:Release, InlinedReaders::leave:Release
#[test]
fn reader_by_functions_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = first();
        let reader = register(&domain);
        race_reader(&domain, Domain::update, move |domain| {
            read(domain, reader);
            read(domain, reader);
        });
        domain.assert_costs(2, 1);
    });
}

/// The counter that a reader has loaded may be old when it is stored.
#[test]
fn inlined_reader_with_an_old_counter_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = first();
        let reader = register(&domain);
        let update_twice = |domain: &Domain| {
            domain.update();
            domain.update();
        };
        race_reader(&domain, update_twice, move |domain| inlined_read(domain, reader));
    });
}

#[test]
fn nested_inlined_section_lasts_until_the_outermost_ends() {
    update_beside(1, 2, first, register, |domain, reader| {
        domain.readers().enter(reader);
        inlined_read(domain, reader);
        domain.look();
        inlined_leave(domain, reader);
    });
}

/// Where a plain store is no Release, the closing fence orders the section.
/// Refutes: inlined-no-closing-fence
#[test]
fn inlined_reader_on_a_weak_machine_never_sees_a_freed_value() {
    update_beside(1, 3, || new::<true>(0), register, |domain, reader| inlined_read(domain, reader));
}

/// The reader has loaded number 0 when the process began, 2^32 grace periods ago.
/// Refutes: inlined-wrap-unnoticed, InlinedReaders::blocks:Acquire
#[test]
fn number_that_comes_again_does_not_hide_a_reader() {
    update_beside(1, 3, last, register, |domain, reader| {
        inlined_enter(domain, reader, 1);
        domain.look();
        inlined_leave(domain, reader);
    });
}

/// The same in the second pass, which the leader begins after a sleep: another reader has blocked the first.
/// Refutes: inlined-one-pass-after-wrap
#[test]
fn number_of_the_pass_that_sleeps_does_not_hide_a_reader() {
    check(0, 2, || {
        let domain = last();
        let [blocking, stale] = [(); 2].map(|()| register(&domain));
        domain.readers().enter(blocking);
        // The first number after the wrap.
        inlined_enter(&domain, stale, 1);
        let value = domain.published.load();
        race_reader(&domain, Domain::update, move |domain| {
            domain.readers().leave(blocking);
            // The fences of both passes may come before.
            (0..4).for_each(|_| poll());
            look_at(value);
            inlined_leave(domain, stale);
        });
    });
}

/// Reads a value that was loaded earlier in the section, and ends that by function. The fences of both passes may
/// come before.
fn look_and_leave(domain: &Domain, reader: &InlinedReader, value: *const Value) {
    poll();
    poll();
    look_at(value);
    domain.readers().leave(reader);
}

/// A leader that may not sleep has given up while the reader was inside.
/// Refutes: inlined-abandoned-pass-kept
#[test]
fn reader_that_blocked_an_abandoned_pass_blocks_the_next() {
    check(0, 2, || {
        let domain = first();
        let reader = register(&domain);
        domain.readers().enter(reader);
        let value = domain.published.load();
        assert_ne!(domain.engine.try_synchronize(None, None), Some(true));
        race_reader(&domain, Domain::update, move |domain| look_and_leave(domain, reader, value));
    });
}

/// Refutes: inlined-no-fence-before-rescan, inlined-no-rescan, inlined-share-not-checked
#[test]
fn leader_sleeps_until_inlined_and_own_readers_have_left() {
    check(0, 1, || {
        let domain = first();
        let (inlined, own) = (register(&domain), register(&domain));
        race_readers(&domain, Domain::update, 2, move |domain, index| match index {
            0 => inlined_read(domain, inlined),
            _ => read(domain, own),
        });
    });
}

/// The section has begun, so few switches lead to a leader that sleeps.
/// Refutes: inlined-no-wake-up, InlinedReaders::count_down:Release, InlinedReaders::wait_for_pass:Acquire,
/// InlinedReaders::wait_for_pass:Acquire#2
#[test]
fn sleeping_leader_returns_after_the_reader_left_by_function() {
    check(0, 3, || {
        let domain = first();
        let reader = register(&domain);
        domain.readers().enter(reader);
        let value = domain.published.load();
        race_reader(&domain, Domain::update, move |domain| look_and_leave(domain, reader, value));
        domain.assert_costs(2, 1);
    });
}

/// Of two readers on one CPU, one blocks the grace period, and leaves last.
/// Refutes: inlined-no-yield-requests
#[test]
fn reader_in_a_crowd_yields_for_a_leader_that_sleeps() {
    check(1, 1, || {
        set_cpus(1);
        take_yields();
        let domain = first();
        let [other, awaited] = [(); 2].map(|()| register(&domain));
        domain.readers().enter(awaited);
        let synchronize = |domain: &Domain| domain.engine.synchronize(None);
        race_reader(&domain, synchronize, move |domain| {
            domain.readers().enter(other);
            let sleeps = domain.readers().counters().sleeps.load(Relaxed);
            domain.readers().leave(other);
            assert!(take_yields() != 0 || sleeps == 0, "the leader sleeps");
            domain.readers().leave(awaited);
        });
        take_yields();
        domain.readers().enter(other);
        domain.readers().leave(other);
        assert_eq!((take_yields(), other.requests()), (0, 0));
    });
}

/// One reader, which leaves by a function and by inlined code in turn.
#[test]
fn leader_sleeps_for_a_reader_of_both_kinds() {
    update_beside(0, 2, first, register, |domain, reader| {
        inlined_read(domain, reader);
        read(domain, reader);
    });
}
