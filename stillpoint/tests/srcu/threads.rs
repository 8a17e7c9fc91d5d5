//! Workers of many domains where no more threads can be started.

use stillpoint::srcu::Domain;
use support::prelude::*;

/// Whatever threads there are when no more can be started, stalled readers of some domains stop no others.
#[cfg(target_os = "linux")]
#[test]
fn stalled_domains_stop_no_others_when_no_thread_can_be_started() {
    const CASES: [&str; 3] = ["one stalls before", "all stall before", "two are idle"];
    let Some(case) = child::variant() else {
        let run = |case| child::run(stalled_domains_stop_no_others_when_no_thread_can_be_started, case, None);
        return CASES.into_iter().for_each(run);
    };
    let _running = deadline();
    let (calls, call) = counter();
    let [stalled, others] = [3, 6].map(|count| (0..count).map(|_| Domain::new()).collect::<Vec<_>>());
    let before = match CASES.iter().position(|name| *name == case) {
        Some(0) => 1,
        Some(1) => stalled.len(),
        _ => 0,
    };
    let sections: Vec<_> = stalled.iter().map(Domain::enter).collect();
    for domain in &stalled[..before] {
        domain.call(call);
        until(|| domain.stats().waiting != Duration::ZERO);
    }
    if case == "two are idle" {
        others[..2].iter().for_each(|domain| {
            domain.call(call);
            domain.barrier();
        });
    }
    deny_threads();
    for domain in &stalled[before..] {
        domain.call(call);
    }
    let mut expected = calls.load(Acquire);
    for _ in 0..6 {
        others.iter().for_each(|domain| domain.call(call));
        stillpoint::rcu::call(call);
        expected += others.len() + 1;
        until(|| calls.load(Acquire) >= expected);
        let elapsed = stillpoint::rcu::GracePeriod::now().wait_timeout(Duration::from_secs(600));
        assert!(elapsed);
    }
    drop(sections);
    until(|| calls.load(Acquire) == expected + stalled.len());
}
