//! With the feature `section-locations`, stall reports name where the open sections began.

use std::panic::Location;

use stillpoint::rcu::Stall;
use support::prelude::*;

use crate::{record_stalls, stall, stalls_of};

/// Returns the stall of `D` while another thread waits for the guard that `enter` returns.
fn stall_of<D: StaticDomain, G>(enter: impl FnOnce() -> G + Send + 'static) -> Stall {
    record_stalls();
    let is_own = |stall: &Stall| stall.domain() == <D as StaticDomain>::name();
    let before = stalls_of(0, is_own).len();
    let reader = stall("inside", enter);
    let writer = thread::spawn(|| D::INSTANCE.synchronize());
    let stall = stalls_of(before + 1, is_own).remove(before);
    reader.leave();
    writer.join().expect("the grace period ends");
    stall
}

/// Checks that the stall names this line as the section's, in its text too.
fn assert_begun_at(stall: &Stall, line: u32) {
    let [reader] = stall.readers() else { panic!("{stall}") };
    let site = reader.section_at().expect("the place was stored");
    assert_eq!((site.file(), site.line()), (file!(), line), "{stall}");
    assert!(stall.to_string().contains(&format!(" and began its section at {site}")), "{stall}");
}

#[test]
fn stall_report_names_the_open_section() {
    own!(Own);
    let value: &'static _ = Box::leak(Box::new(Rcu::new_in(1, Own)));
    fn earlier() {
        // Neither where the thread registered, nor an earlier section.
        Own::register();
        drop(Own::enter());
    }
    let begin = line!() + 3;
    let stall = stall_of::<Own, _>(|| {
        earlier();
        Own::enter()
    });
    assert_begun_at(&stall, begin);
    let stall = stall_of::<Own, _>(|| {
        earlier();
        value.read()
    });
    assert_begun_at(&stall, begin + 5);
    assert_eq!(stall.readers()[0].registered_at().line(), begin - 6);
}

#[test]
fn stall_report_names_the_outermost_section() {
    own!(Own);
    let begin = line!() + 2;
    let stall = stall_of::<Own, _>(|| {
        let outer = Own::enter();
        let mut inner = Own::enter();
        inner.repin();
        drop(outer);
        (inner, Own::enter())
    });
    assert_begun_at(&stall, begin);
}

#[test]
fn stall_report_names_sections_of_the_slow_path() {
    own!(Own);
    let begin = line!() + 4;
    let stall = stall_of::<Own, _>(|| {
        Own::register();
        Own::hint_idle();
        Own::enter()
    });
    assert_begun_at(&stall, begin);
}

#[test]
fn srcu_stall_report_names_the_open_sections() {
    let _running = deadline();
    record_stalls();
    let domain = srcu::Domain::new();
    let made_at = line!() - 1;
    let value = Rcu::new_in(1, domain.clone());
    drop(domain.enter());
    let twice = || domain.enter();
    let line = line!();
    let guards = (twice(), domain.enter_owned(), twice(), value.read());
    let stall = thread::scope(|scope| {
        scope.spawn(|| domain.synchronize());
        let is_own = |site: &Location<'_>| (site.file(), site.line()) == (file!(), made_at);
        let stall = stalls_of(1, |stall| stall.made_at().is_some_and(is_own)).remove(0);
        drop(guards);
        stall
    });
    let mut begun_at: Vec<_> =
        stall.sections_begun_at().iter().map(|(site, open)| (site.line(), *open, site.column())).collect();
    assert!(begun_at.is_sorted_by_key(|(_, open, _)| u64::MAX - open), "{begun_at:?}");
    begun_at.sort_unstable();
    let begun_at: Vec<_> = begun_at.into_iter().map(|(line, open, _)| (line, open)).collect();
    assert_eq!(begun_at, [(line - 1, 2), (line + 1, 1), (line + 1, 1)]);
    let text = stall.to_string();
    assert!(
        text.contains(&format!(" for sections: 4 are open, begun at {}:{}:", file!(), line - 1)),
        "{text}"
    );
}

#[test]
fn srcu_stall_report_names_eight_places() {
    let _running = deadline();
    record_stalls();
    let domain = srcu::Domain::new();
    let made_at = line!() - 1;
    let four = || [domain.enter(), domain.enter(), domain.enter(), domain.enter()];
    let more =
        || [domain.enter(), domain.enter(), domain.enter(), domain.enter(), domain.enter(), domain.enter()];
    let guards: Vec<_> = four().into_iter().chain(more()).chain(four()).collect();
    let stall = thread::scope(|scope| {
        scope.spawn(|| domain.synchronize());
        let is_own = |stall: &Stall| stall.made_at().is_some_and(|site| site.line() == made_at);
        let stall = stalls_of(1, is_own).remove(0);
        drop(guards);
        stall
    });
    assert_eq!((stall.sections(), stall.sections_begun_at().len()), (14, 10));
    assert!(stall.to_string().ends_with(", and at 2 other places"), "{stall}");
    domain.synchronize();
}
