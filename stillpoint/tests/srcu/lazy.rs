//! Domains of which only lazy callbacks wait share their threads.

use std::fs;
use std::sync::atomic::Ordering::*;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::srcu::Domain;
use support::callbacks::{LAZY, counter};
use support::child;
use support::deadline::deadline;
#[cfg(target_os = "linux")]
use support::threads::deny_threads;
use support::until::{until, until_quick};

const DOMAINS: usize = 500;
/// How long lazy callbacks wait at most.
const LAZY_DELAY: Duration = Duration::from_secs(10);

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("the process has threads").count()
}

/// Runs `test` alone in a process.
fn alone<T: Fn()>(name: T, test: impl FnOnce()) {
    if !child::is_alone(name) {
        return;
    }
    let _running = deadline();
    test();
}

#[test]
fn lazy_callbacks_of_many_domains_need_few_threads() {
    alone(lazy_callbacks_of_many_domains_need_few_threads, || {
        let mut domains: Vec<_> = (0..DOMAINS).map(|_| Domain::new()).collect();
        let (calls, call) = counter();
        let (stay, stays) = channel::<()>();
        let (before, begin) = (threads(), Instant::now());
        domains[0].call_with(move || _ = stays.recv(), LAZY);
        let mut most = 0;
        for domain in &domains {
            domain.call_with(call, LAZY);
            most = most.max(threads());
        }
        // Those without a handle run theirs, too.
        domains.truncate(DOMAINS / 2);
        // The first domain's worker blocks; all others get to run their callbacks.
        until(|| {
            most = most.max(threads());
            calls.load(Acquire) == DOMAINS - 1
        });
        assert!(begin.elapsed() >= LAZY_DELAY / 2, "they were lazy");
        drop(stay);
        until(|| calls.load(Acquire) == DOMAINS);
        // Two, and one for each that blocks. On a busy machine threads that wait for a CPU block as well.
        assert!(most <= before + DOMAINS / 4, "{most} threads, {before} before");
    });
}

#[test]
fn waiting_lazy_callbacks_run_when_others_are_urgent() {
    alone(waiting_lazy_callbacks_run_when_others_are_urgent, || {
        let (calls, call) = counter();
        let domains: Vec<_> = (0..20).map(|_| Domain::new()).collect();
        let mut expected = 0;
        // Urgent callers do not wait for lazy callbacks.
        for round in 0..20 {
            until_quick(LAZY_DELAY, || {
                for domain in &domains {
                    domain.call_with(call, LAZY);
                }
                match round % 4 {
                    0 => domains.iter().for_each(|domain| domain.call(call)),
                    1 => domains.iter().for_each(Domain::synchronize),
                    2 => domains.iter().for_each(|domain| _ = domain.flush()),
                    _ => domains.iter().for_each(|domain| domain.barrier()),
                }
                expected += if round % 4 == 0 { 40 } else { 20 };
            });
        }
        until_quick(LAZY_DELAY, || domains.iter().for_each(|domain| domain.barrier()));
        assert_eq!(calls.load(Acquire), expected);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn waiting_lazy_callbacks_run_when_no_thread_can_be_started_any_more() {
    alone(waiting_lazy_callbacks_run_when_no_thread_can_be_started_any_more, || {
        let (calls, call) = counter();
        let domains: Vec<_> = (0..20).map(|_| Domain::new()).collect();
        domains.iter().for_each(|domain| domain.call_with(call, LAZY));
        deny_threads();
        domains[0].call(call);
        until(|| calls.load(Acquire) == 21);
    });
}

/// Whatever threads there are when no more can be started, stalled readers of some domains stop no others.
#[cfg(target_os = "linux")]
#[test]
fn stalled_domains_stop_no_others_when_no_thread_can_be_started() {
    const CASES: [&str; 4] = ["one stalls before", "all stall before", "two are idle", "one is parked"];
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
    let lazy = Domain::new();
    match &*case {
        "two are idle" => others[..2].iter().for_each(|domain| {
            domain.call(call);
            domain.barrier();
        }),
        "one is parked" => {
            lazy.call_with(call, LAZY);
            until(|| lazy.stats().oldest != Duration::ZERO);
        }
        _ => {}
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
    let all = expected + stalled.len() + usize::from(case == "one is parked");
    until(|| calls.load(Acquire) == all);
}
