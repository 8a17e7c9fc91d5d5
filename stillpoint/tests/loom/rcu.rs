//! Models of the grace period: readers, the scan, the sleep, registration. `sync/model.rs` has the model of the
//! process-wide fence.

use core::panic::Location;

use stillpoint::grace_period::engine::ReaderSet as _;
use stillpoint::readers::sections::reader::{ExitPath, Owner, Reader};
use stillpoint::sync::model::{set_cpus, take_yields};
use support::domain::{Domain, update_beside};
use support::model::*;

/// Refutes: counter-before-fence, no-fence, no-wait, one-reader-skipped, Reader::begin:Release
#[test]
fn reader_never_sees_a_freed_value() {
    update_beside(1, 3, Domain::new, Domain::register, |domain, reader| {
        domain.read(reader);
        domain.read(reader);
    });
}

fn synchronize(domain: &Domain) {
    domain.engine.synchronize(None);
}

/// Nothing is published and no thread reads: only the audit can notice a caller that returns too early.
/// Refutes: snapshot-joins-current-round
#[test]
fn callers_get_a_grace_period_that_began_later() {
    check(0, 3, || {
        let domain = Domain::new();
        race(&domain, synchronize, synchronize);
    });
}

/// Refutes: PublishedPtr::swap:Acquire
#[test]
fn updaters_sharing_a_grace_period_free_safely() {
    check(1, 2, || {
        let domain = Domain::new();
        race(&domain, Domain::update, Domain::update);
    });
}

/// Refutes: PublishedPtr::load:Acquire, PublishedPtr::swap:Release, ReaderProtocol::blocks:Acquire,
/// Reader::leave:Release
#[test]
fn nested_section_lasts_until_the_last_guard_drops() {
    update_beside(1, 3, Domain::new, Domain::register, |domain, reader| {
        domain.enter(reader);
        domain.read(reader);
        domain.look();
        domain.leave(reader);
    });
}

/// Refutes: no-fence-before-rescan, no-rescan
#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.register();
        race_reader(&domain, Domain::update, move |domain| {
            domain.read(reader);
            domain.read(reader);
        });
        domain.assert_costs(2, 1);
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 1, || {
        let domain = Domain::new();
        // Both are inside when the grace period begins.
        let readers = [domain.entered(), domain.entered()];
        race_readers(&domain, synchronize, 2, move |domain, index| domain.leave(readers[index]));
        domain.assert_costs(2, 1);
    });
}

/// Refutes: repin-does-not-check
#[test]
fn repin_lets_a_grace_period_end() {
    check(0, 2, || {
        let domain = Domain::new();
        let reader = domain.register();
        let update = |domain: &Domain| {
            domain.update();
            domain.ready.store(1, Relaxed);
        };
        race_reader(&domain, update, move |domain| {
            domain.enter(reader);
            domain.look();
            while domain.ready.load(Relaxed) == 0 {
                domain.repin(reader);
                domain.look();
                thread::yield_now();
            }
            domain.leave(reader);
        });
    });
}

#[test]
fn reused_reader_is_waited_for() {
    check(1, 1, || {
        let domain = Domain::new();
        // Inside a section that began before the update; the reader then goes to another thread.
        let first = domain.entered();
        domain.look();
        race_readers(&domain, Domain::update, 2, move |domain, index| {
            if index == 0 {
                domain.look();
                domain.leave(first);
                domain.release(first);
            } else {
                let reader = domain.entered();
                domain.look();
                domain.leave(reader);
            }
        });
    });
}

/// Registers a reader for one section.
fn read_once(domain: &Domain, (): ()) {
    let reader = domain.register();
    domain.read(reader);
    domain.release(reader);
}

/// Refutes: len-read-early, registered-read-by-load, Registry::claim:Acquire, Registry::other_readers:Acquire,
/// Registry::other_readers:Release, Registry::release:Release
#[test]
fn late_registration_sees_what_was_published() {
    update_beside(1, 3, Domain::new, |_| (), read_once);
}

/// Refutes: Registry::grow:Release#2, Registry::len:Acquire
#[test]
fn scan_finds_readers_of_a_new_chunk() {
    let fill_first_chunk = |domain: &Domain| [(); 2].iter().for_each(|()| _ = domain.register());
    update_beside(1, 2, Domain::new, fill_first_chunk, read_once);
}

/// Refutes: no-wake-up, wake-request-taken-twice, ThreadReaders::count_down:Release,
/// ThreadReaders::wait_for_readers:Acquire, ThreadReaders::wait_for_readers:Acquire#2
#[test]
fn sleeping_leader_returns_after_the_awaited_reader_left() {
    check(0, 3, || {
        let domain = Domain::new();
        let reader = domain.entered();
        let value = domain.published.load();
        race_reader(&domain, Domain::update, move |domain| {
            // Fences A and B may both come before the section reads.
            poll();
            poll();
            look_at(value);
            domain.leave(reader);
        });
    });
}

/// Of two readers on one CPU, one blocks the grace period, and leaves last.
/// Refutes: no-yield-requests, yield-request-kept, yields-requested-before-count, Reader::request_yield:Release,
/// Reader::take_yield_request:Acquire
#[test]
fn reader_in_a_crowd_yields_once_for_a_leader_that_sleeps() {
    check(1, 1, || {
        set_cpus(1);
        take_yields();
        let domain = Domain::new();
        let (other, awaited) = (domain.register(), domain.entered());
        race_reader(&domain, synchronize, move |domain| {
            domain.enter(other);
            let sleeps = domain.readers().counters().sleeps.load(Relaxed);
            let exit = other.leave();
            let is_asked = exit == ExitPath::Slow;
            domain.exit_slow(other, exit);
            assert!(is_asked || sleeps == 0, "the leader sleeps, and has not asked");
            assert_eq!(take_yields(), is_asked.into());
            domain.leave(awaited);
        });
        take_yields();
        domain.read(other);
        domain.enter(other);
        assert_eq!((other.leave(), take_yields()), (ExitPath::Fast, 0));
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
        domain.enter(reader);
        reader.request_wake();
        let report = |_: &Domain| reader.owner_if_still_blocking(|owner| owner);
        let (reported, ()) = race_reader(&domain, report, move |domain| {
            assert_eq!(reader.leave(), ExitPath::Slow);
            assert!(reader.take_wake_request());
            domain.release(reader);
            domain.register().set_owner(second);
        });
        assert!(reported.is_none_or(|owner| owner == first), "a report names another owner");
    });
}

/// Replaces the value, and frees the old one if a grace period has ended, this thread's or another's.
fn try_update(domain: &Domain, own: &'static Reader) {
    let old = domain.published.swap(boxed(8));
    let cookie = domain.engine.snapshot();
    let tried = domain.engine.try_synchronize(Some(own), None) == Some(true);
    if domain.engine.is_done(cookie) {
        free(old);
    }
    domain.ready.store(tried.into(), Relaxed);
}

/// Refutes: failed-try-counts
#[test]
fn tried_grace_period_is_full_or_does_not_count() {
    check(0, 3, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        race_reader(&domain, move |domain| try_update(domain, own), move |domain| domain.read(reader));
        assert_eq!(domain.engine.completed(), domain.ready.load(Relaxed));
    });
}

#[test]
fn trying_does_not_block_a_grace_period() {
    check(0, 1, || {
        let domain = Domain::new();
        let (own, reader) = (domain.register(), domain.register());
        race_readers(&domain, Domain::update, 2, move |domain, index| match index {
            0 => domain.read(reader),
            _ => try_update(domain, own),
        });
    });
}
