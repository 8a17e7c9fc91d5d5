//! Review: leaving the section of one domain inside that of another.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use deadline::deadline;
use stillpoint::rcu::{Domain, Limits};

stillpoint::domain! { struct A; }
stillpoint::domain! { struct B; }

fn nested<Outer: Domain, Inner: Domain>(all: &Barrier) -> Duration {
    let _outer = Outer::enter();
    all.wait();
    let inner = Inner::enter();
    for _ in 0..1024 {
        Inner::retire(Box::new(String::new()));
    }
    let begin = Instant::now();
    // Before the other domain's bound was enforced inside sections, this did not wait.
    drop(inner);
    begin.elapsed()
}

#[test]
fn two_domains_nested_either_way_do_not_hold_each_other_up() {
    let _running = deadline();
    A::set_limits(Limits { count: 256, bytes: 1 << 20 });
    B::set_limits(Limits { count: 256, bytes: 1 << 20 });
    let all = Barrier::new(2);
    let worst = thread::scope(|scope| {
        let other = scope.spawn(|| nested::<A, B>(&all));
        nested::<B, A>(&all).max(other.join().unwrap())
    });
    assert!(worst < Duration::from_secs(1), "waited for {worst:?}");
}
