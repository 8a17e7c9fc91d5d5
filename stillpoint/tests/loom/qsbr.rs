//! Models of readers that report quiescent states: no process-wide fence anywhere.

use stillpoint::grace_period::engine::ReaderSet;
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::readers::sections::reader::Reader;
use stillpoint::readers::sections::scan::ThreadReaders;
use stillpoint::sync::model::set_cpus;
use support::domain::Domain;
use support::model::*;

fn new() -> Arc<Domain> {
    Domain::of(ThreadReaders::new(ReaderProtocol::Qsbr))
}

/// What a thread's handle knows: its reader, which has been online since the counter was `seen`.
#[derive(Clone, Copy)]
struct Online {
    reader: &'static Reader,
    seen: u64,
}

impl Online {
    fn new(domain: &Domain, reader: &'static Reader) -> Self {
        Self { reader, seen: domain.readers().thread_online(reader) }
    }

    fn registered(domain: &Domain) -> Self {
        Self::new(domain, domain.register())
    }

    fn quiescent(&mut self, domain: &Domain) {
        let counter = domain.readers().current_counter();
        if counter != self.seen {
            self.seen = counter;
            domain.readers().quiescent_state(self.reader, counter);
        }
    }

    fn offline(self, domain: &Domain) {
        domain.readers().thread_offline(self.reader);
    }
}

/// Explores `updates` beside a reader that has been online before them.
fn updates_beside(budget: u32, preemptions: usize, updates: usize, reader: fn(&Domain, Online)) {
    check(budget, preemptions, move || {
        let domain = new();
        let online = Online::registered(&domain);
        let update = |domain: &Domain| (0..updates).for_each(|_| domain.update());
        race(&domain, update, move |domain| reader(domain, online));
        if updates == 1 {
            domain.assert_costs(0, 1);
        }
    });
}

/// Looks before, between and after two quiescent states.
fn look_thrice(domain: &Domain, mut online: Online) {
    domain.look();
    for _ in 0..2 {
        online.quiescent(domain);
        domain.look();
    }
    online.offline(domain);
}

/// Refutes: no-rescan, quiescent-state-does-not-check, ReaderProtocol::advance_counter:Release,
/// ReaderProtocol::blocks:Acquire, ThreadReaders::current_counter:Acquire, ThreadReaders::quiescent_state:Release
#[test]
fn qsbr_reader_never_sees_a_freed_value() {
    updates_beside(1, 3, 1, look_thrice);
}

/// Comes online, looks, and goes offline.
fn look_online(domain: &Domain, reader: &'static Reader) {
    let online = Online::new(domain, reader);
    domain.look();
    online.offline(domain);
}

/// Refutes: offline-seen-by-load, online-by-store, ReaderProtocol::blocks:Acquire#2,
/// ReaderProtocol::blocks:Acquire#3, ReaderProtocol::blocks:Release, ReaderProtocol::request_wakeup:Acquire,
/// take_requests:Acquire, take_requests:Release
#[test]
fn reader_coming_online_never_sees_a_freed_value() {
    check(1, 3, || {
        let domain = new();
        let reader = domain.register();
        race(&domain, Domain::update, move |domain| {
            look_online(domain, reader);
            look_online(domain, reader);
        });
    });
}

/// Refutes: ReaderProtocol::request_wakeup:Release
#[test]
fn reader_back_online_sees_what_was_published() {
    updates_beside(0, 3, 1, |domain, online| {
        domain.look();
        online.offline(domain);
        look_online(domain, online.reader);
    });
}

/// Refutes: yield-request-kept-by-report
#[test]
fn report_in_a_crowd_takes_the_request_to_yield() {
    check(0, 3, || {
        set_cpus(1);
        let domain = new();
        let online = [(); 2].map(|()| Online::registered(&domain));
        race(&domain, Domain::update, move |domain| online.iter().for_each(|online| online.offline(domain)));
        for Online { reader, .. } in online {
            domain.readers().thread_offline(reader);
            assert!(!reader.take_yield_request());
        }
    });
}

/// Refutes: request-checked-by-load, request-taken-by-load, sleep-without-comparing
#[test]
fn sleeping_grace_period_costs_one_wakeup() {
    updates_beside(0, 3, 1, |domain, mut online| {
        domain.look();
        online.quiescent(domain);
        domain.look();
        online.offline(domain);
    });
}

#[test]
fn last_of_two_awaited_readers_wakes_the_leader() {
    check(0, 2, || {
        let domain = new();
        // Both are online when the grace period begins.
        let readers = [domain.register(), domain.register()].map(|reader| Online::new(&domain, reader));
        race_all(&domain, Domain::update, 2, move |domain, index| {
            let mut online = readers[index];
            domain.look();
            online.quiescent(domain);
            online.offline(domain);
        });
        domain.assert_costs(0, 1);
    });
}

#[test]
fn each_grace_period_waits_for_earlier_references() {
    updates_beside(0, 2, 2, look_thrice);
}

/// Refutes: counter-raised-by-store
#[test]
fn counter_advanced_by_another_ends_no_grace_period() {
    updates_beside(1, 3, 1, |domain, mut online| {
        domain.readers().defer_to_exit(Some(online.reader), true);
        online.quiescent(domain);
        domain.look();
        online.offline(domain);
    });
}

/// Refutes: Registry::claim:Release
#[test]
fn late_registration_sees_what_was_published() {
    check(1, 3, || {
        let domain = new();
        race(&domain, Domain::update, |domain| {
            let online = Online::registered(domain);
            domain.look();
            online.offline(domain);
            domain.release(online.reader);
        });
    });
}
