//! Stall reports of `srcu` domains name the domain and the number of open sections.

use stillpoint::rcu::Stall;
use stillpoint::srcu::Domain;
use support::prelude::*;

use crate::{LIMIT, record_stalls, stalls_of};

#[test]
fn long_srcu_grace_period_is_reported() {
    static DOMAIN: Domain = Domain::new();
    const LINE: u32 = line!() - 1;
    let _running = deadline();
    record_stalls();
    let guards = [DOMAIN.enter(), DOMAIN.enter(), DOMAIN.enter()];
    let stalls = thread::scope(|scope| {
        scope.spawn(|| DOMAIN.synchronize());
        let is_own = |stall: &Stall| stall.made_at().is_some_and(|site| site.line() == LINE);
        let stalls = stalls_of(2, is_own);
        drop(guards);
        stalls
    });
    let (first, second) = (&stalls[0], &stalls[1]);
    assert_eq!((first.domain(), first.sections(), first.grace_period()), ("srcu::Domain", 3, 1));
    assert!(first.readers().is_empty());
    let site = first.made_at().expect("a domain of srcu");
    assert_eq!((site.file(), site.line()), (file!(), LINE));
    assert!(second.waited() > first.waited());
    let text = first.to_string();
    assert!(text.starts_with("grace period 1 of the srcu::Domain that was made at "), "{text}");
    assert!(text.contains(" for sections: 3 are open"), "{text}");
    let stats = DOMAIN.stats();
    assert!(stats.stalls >= 2 && stats.longest_wait >= LIMIT, "{stats:?}");
}
