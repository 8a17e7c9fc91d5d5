//! Stall reports of `srcu` domains name the domain and the number of open sections.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::rcu::{Stall, set_stall_hook, set_stall_timeout};
use stillpoint::srcu::Domain;

static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

#[test]
fn long_srcu_grace_period_is_reported() {
    static DOMAIN: Domain = Domain::new();
    const LINE: u32 = line!() - 1;
    let _running = deadline();
    set_stall_timeout(Some(Duration::from_millis(10)));
    set_stall_hook(Box::new(|stall| STALLS.lock().expect("no panic").push(stall.clone())));
    let guards = [DOMAIN.enter(), DOMAIN.enter(), DOMAIN.enter()];
    thread::scope(|scope| {
        scope.spawn(|| DOMAIN.synchronize());
        while STALLS.lock().expect("no panic").len() < 2 {
            thread::yield_now();
        }
        drop(guards);
    });
    let stalls = STALLS.lock().expect("no panic");
    let (first, second) = (&stalls[0], &stalls[1]);
    assert_eq!((first.domain(), first.sections(), first.grace_period()), ("srcu::Domain", 3, 1));
    assert!(first.readers().is_empty());
    let site = first.made_at().expect("a domain of srcu");
    assert_eq!((site.file().ends_with("srcu_stall.rs"), site.line()), (true, LINE));
    assert!(second.waited() > first.waited());
    let text = first.to_string();
    assert!(text.starts_with("grace period 1 of the srcu::Domain that was made at "), "{text}");
    assert!(text.contains(" for sections: 3 are open"), "{text}");
    let stats = DOMAIN.stats();
    assert!(stats.stalls >= 2 && stats.longest_wait >= Duration::from_millis(10), "{stats:?}");
}
