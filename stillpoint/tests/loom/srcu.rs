//! Models of sleepable domains: sections that are counted on several CPUs, the two indices, the sleep.

use core::panic::Location;

use stillpoint::readers::srcu::{Idx, SrcuReaders};
use support::domain;
use support::domain::update_beside;
use support::model::*;

type Domain = domain::Domain<SrcuReaders>;

fn new() -> Arc<Domain> {
    Domain::of(SrcuReaders::new(Location::caller()))
}

/// One section that begins on CPU 0 and ends on CPU 1.
fn read(domain: &Domain) {
    run_on(0);
    let idx = domain.readers().read_lock();
    domain.look();
    run_on(1);
    domain.readers().read_unlock(idx);
}

#[derive(Clone, Copy)]
/// A section that began before the updates, with the value that it reads.
struct Begun {
    idx: Idx,
    value: *mut Value,
}

impl Begun {
    fn new(domain: &Domain) -> Self {
        Self { idx: domain.readers().read_lock(), value: domain.published.load() }
    }

    /// Reads the value and ends the section.
    fn end(&self, domain: &Domain) {
        look_at(self.value);
        domain.readers().read_unlock(self.idx);
    }
}

/// Refutes: grace-period-unfenced
#[test]
fn reader_never_sees_a_freed_value() {
    update_beside(
        1,
        3,
        new,
        |_| (),
        |domain, ()| {
            read(domain);
            read(domain);
        },
    );
}

/// Refutes: locks-summed-first
#[test]
fn short_section_does_not_hide_an_open_one() {
    update_beside(0, 2, new, Begun::new, |domain, begun| {
        domain.readers().read_unlock(domain.readers().read_lock());
        begun.end(domain);
    });
}

/// Refutes: busy-index-skipped, CpuCounters::add_slow:Release, CpuCounters::sum:Acquire
#[test]
fn section_may_end_in_another_thread() {
    update_beside(1, 3, new, Begun::new, |domain, begun| {
        run_on(1);
        begun.end(domain);
    });
}

/// As for a thread that loaded the index before a flip, and entered afterwards.
/// Refutes: idle-index-skipped
#[test]
fn section_of_the_idle_index_is_waited_for() {
    let begin = |domain: &Domain| {
        let begun = Begun::new(domain);
        domain.readers().flip();
        begun
    };
    update_beside(1, 3, new, begin, |domain, begun| begun.end(domain));
}

/// Refutes: idle-index-before-fence
#[test]
fn late_section_of_the_idle_index_is_waited_for() {
    check(1, 2, || {
        let domain = new();
        let update = |domain: &Domain| {
            domain.readers().flip();
            domain.update();
        };
        race_reader(&domain, update, read);
    });
}

#[test]
fn sections_of_both_indices_are_waited_for_asleep() {
    check(0, 1, || {
        let domain = new();
        let first = Begun::new(&domain);
        domain.readers().flip();
        let begun = [first, Begun::new(&domain)];
        race_readers(&domain, Domain::update, 2, move |domain, index| begun[index].end(domain));
        domain.assert_costs(3, 2);
    });
}

/// Refutes: leader-not-woken, no-fence-before-sum, sleep-without-comparing, summed-before-armed,
/// wake-request-before-unlock, wake-up-not-published, woken-is-enough, SrcuReaders::count_down:Release,
/// SrcuReaders::sleep_for:Acquire
#[test]
fn sleeping_grace_period_costs_two_fences_one_wakeup() {
    check(0, 2, || {
        let domain = new();
        let begun = [Begun::new(&domain), Begun::new(&domain)];
        race_reader(&domain, Domain::update, move |domain| begun.map(|begun| begun.end(domain)));
        domain.assert_costs(2, u64::MAX);
    });
}

#[test]
fn last_of_two_leaving_readers_wakes_the_leader() {
    check(0, 1, || {
        let domain = new();
        let begun = [Begun::new(&domain), Begun::new(&domain)];
        race_readers(&domain, Domain::update, 2, move |domain, index| {
            run_on(index);
            begun[index].end(domain);
        });
    });
}
